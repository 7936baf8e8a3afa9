package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// shelf is a Publisher that keeps what it is given, in order.
type shelf struct {
	names   []string
	types   []string
	content map[string][]byte
	fail    map[string]error // by name
}

func (s *shelf) Publish(_ context.Context, out Output) error {
	name, contentType, body := out.Name, out.ContentType, out.Body
	if err := s.fail[name]; err != nil {
		return err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	// An uploader computes a checksum first and then sends.
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	again, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(text, again) {
		return fmt.Errorf("the body differs when it is read again: %v", err)
	}
	if s.content == nil {
		s.content = map[string][]byte{}
	}
	s.names = append(s.names, name)
	s.types = append(s.types, contentType)
	s.content[name] = text
	return nil
}

// run processes text under the given key, in a scratch folder that must be
// empty afterwards.
func run(t testing.TB, key, text string, cfg Config) (Outcome, *shelf, error) {
	t.Helper()
	cfg.ScratchDir = t.TempDir()
	p, err := NewParquet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := &shelf{}
	in := File{Key: key, ETag: `"e1"`, Size: int64(len(text)), Body: strings.NewReader(text)}
	outcome, err := p.Process(t.Context(), in, out)
	assertEmpty(t, cfg.ScratchDir)
	if err != nil {
		if len(out.names) > 0 || outcome.Outputs != nil {
			t.Errorf("%s failed (%v), yet published %q", key, err, out.names)
		}
		return outcome, out, err
	}
	size := 0
	for _, content := range out.content {
		size += len(content)
	}
	if int(outcome.Bytes) != size || strings.Join(outcome.Outputs, " ") != strings.Join(out.names, " ") {
		t.Errorf("%s: outcome %+v, but %q of %d bytes were published", key, outcome, out.names, size)
	}
	return outcome, out, nil
}

func assertEmpty(t testing.TB, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("temporary file left behind: %s", left[0].Name())
	}
}

// show renders a Parquet file: a line of "name type", then a line for each row.
func show(t testing.TB, content []byte) string {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fields := file.Schema().Fields()
	types := make([]string, len(fields))
	for i, field := range fields {
		types[i] = typeName(field.Type())
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "%s %s", field.Name(), types[i])
	}
	out.WriteByte('\n')
	for _, row := range readRows(t, file) {
		for i, value := range row {
			if i > 0 {
				out.WriteString(", ")
			}
			out.WriteString(showValue(value, types[i]))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func readRows(t testing.TB, file *parquet.File) []parquet.Row {
	t.Helper()
	var all []parquet.Row
	for _, group := range file.RowGroups() {
		rows := group.Rows()
		buffer := make([]parquet.Row, 1)
		for {
			n, err := rows.ReadRows(buffer)
			if n == 1 {
				all = append(all, buffer[0].Clone())
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func typeName(typ parquet.Type) string {
	if logical := typ.LogicalType(); logical != nil {
		name := fmt.Sprint(logical.Value)
		if name == "INT(64,true)" {
			return "INT64"
		}
		return strings.ReplaceAll(name, "isAdjustedToUTC", "utc")
	}
	return typ.Kind().String()
}

func showValue(v parquet.Value, typ string) string {
	switch {
	case v.IsNull():
		return "null"
	case typ == "DATE":
		return time.Unix(int64(v.Int32())*secondsPerDay, 0).UTC().Format("2006-01-02")
	case strings.HasPrefix(typ, "TIMESTAMP"):
		layout := "2006-01-02T15:04:05.999999"
		if strings.Contains(typ, "utc=true") {
			layout += "Z"
		}
		return time.UnixMicro(v.Int64()).UTC().Format(layout)
	case typ == "JSON":
		return string(v.ByteArray())
	case v.Kind() == parquet.ByteArray:
		return strconv.Quote(string(v.ByteArray()))
	}
	return v.String()
}

// lines joins its arguments with line ends, for golden text.
func lines(line ...string) string { return strings.Join(line, "\n") + "\n" }

func wantError(t testing.TB, err, sentinel error, says string) {
	t.Helper()
	if !errors.Is(err, sentinel) || !strings.Contains(err.Error(), says) {
		t.Errorf("error is %v\nwant one that is %q and says %q", err, sentinel, says)
	}
}
