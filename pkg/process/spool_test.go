package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func gz(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func zst(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func TestCompressedFiles(t *testing.T) {
	const text = "a,b\n1,x\n2,y\n"
	want := lines("a INT64, b STRING", `1, "x"`, `2, "y"`)
	for name, file := range map[string]struct{ key, body string }{
		"gzip":                 {"a.csv.gz", gz(t, text)},
		"gzip, name in caps":   {"A.CSV.GZ", gz(t, text)},
		"gzip of many members": {"a.csv.gz", gz(t, text[:3]) + gz(t, "") + gz(t, text[3:])},
		"zstd":                 {"a.csv.zst", zst(t, text)},
		"zstd of many frames":  {"a.csv.zst", zst(t, text[:5]) + zst(t, text[5:])},
		"a byte order mark":    {"a.csv.gz", gz(t, "\xef\xbb\xbf"+text)},
	} {
		t.Run(name, func(t *testing.T) {
			_, out, err := run(t, file.key, file.body, Config{})
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, out.content[OutputName]); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestDamagedCompressionFailsTheFile(t *testing.T) {
	text := "a,b\n" + strings.Repeat("1,x\n2,y\n", 1000)
	zipped, standard := gz(t, text), zst(t, text)
	flipped := []byte(zipped)
	flipped[len(flipped)/2] ^= 0x55
	for name, file := range map[string]struct{ key, body, says string }{
		"gzip cut in the data":          {"a.csv.gz", zipped[:len(zipped)/2], "cut off"},
		"gzip cut in the checksum":      {"a.csv.gz", zipped[:len(zipped)-3], "cut off"},
		"gzip cut in the header":        {"a.csv.gz", zipped[:5], "cut off"},
		"gzip cut in its second member": {"a.csv.gz", zipped + zipped[:len(zipped)-3], "cut off"},
		"gzip with garbage behind":      {"a.csv.gz", zipped + "garbage behind it", "damaged, or followed by something else"},
		"gzip with zeros behind":        {"a.csv.gz", zipped + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "damaged, or followed by something else"},
		"gzip with a flipped bit":       {"a.csv.gz", string(flipped), "its compressed data is"},
		"no gzip":                       {"a.csv.gz", text, "damaged"},
		"zstd cut":                      {"a.csv.zst", standard[:len(standard)-2], "cut off"},
		"zstd with garbage behind":      {"a.csv.zst", standard + "garbage behind it", "damaged, or followed by something else"},
		"no zstd":                       {"a.csv.zst", text, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, file.key, file.body, Config{})
			wantError(t, err, ErrMalformed, file.says)
		})
	}
}

func TestEmptyFilesSucceedWithoutOutput(t *testing.T) {
	for key, text := range map[string]string{
		"a.csv": "", "a.csv.gz": "", "a.csv.zst": "", "a.json": "", "a.ndjson": "",
		"b.csv": "\n\r\n", "b.json": "[]", "c.json": " \n", "b.ndjson": "\n\n", "c.csv": "\xef\xbb\xbf",
		"d.csv.gz": gz(t, ""), "d.json": "[ ]\n",
	} {
		outcome, out, err := run(t, key, text, Config{})
		if err != nil || outcome.Rows != 0 || outcome.Rejected != 0 || len(out.names) != 0 {
			t.Errorf("%s %q: outcome %+v, outputs %q, error %v", key, text, outcome, out.names, err)
		}
	}
}

func TestUnsupportedNamesSayWhatIsTaken(t *testing.T) {
	for _, key := range []string{"a.txt", "a", "csv", "a.csv.bz2", "a.gz", "a.csv.gz.gz", "dir.csv/a", "a.xlsx", "a.csv ", ""} {
		_, _, err := run(t, key, "a,b\n1,2\n", Config{})
		wantError(t, err, ErrUnsupported, "taken are .csv, .tsv, .json, .ndjson and .jsonl, each plain or with .gz or .zst")
	}
}

func TestLimits(t *testing.T) {
	bomb := gz(t, "a\n"+strings.Repeat("0\n", 1<<20))
	if len(bomb) > 1<<14 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	_, _, err := run(t, "a.csv.gz", bomb, Config{MaxBytes: 1 << 16})
	wantError(t, err, ErrUnsupported, "longer than 65536 bytes")

	if _, _, err := run(t, "a.csv", "a\n12\n", Config{MaxBytes: 5}); err != nil {
		t.Errorf("a file of exactly MaxBytes: %v", err)
	}

	long := strings.Repeat("x", 1000)
	for key, text := range map[string]string{
		"a.csv":    "a\n" + long + "\n",
		"b.csv":    "a\n\"" + strings.Repeat(long[:50]+"\n", 20) + "\"\n",
		"a.ndjson": "\n{\"a\":\"" + long + "\"}\n",
		"a.json":   "[\n{\"a\":\"" + long + "\"}]",
	} {
		_, _, err := run(t, key, text, Config{MaxRecordBytes: 500})
		wantError(t, err, ErrUnsupported, "line 2 begins a record longer than 500 bytes")
		if outcome, _, err := run(t, key, text, Config{}); err != nil || outcome.Rows != 1 {
			t.Errorf("%s without the limit: %+v, %v", key, outcome, err)
		}
	}

	for _, cfg := range []Config{{MaxBytes: -1}, {MaxRecordBytes: -1}, {RowGroupBytes: -1}} {
		if _, err := NewParquet(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// A body that fails, or ends early, says nothing about the object: the file
// must not be counted as malformed.
func TestAFailedReadIsNotTheFilesFault(t *testing.T) {
	cut := errors.New("connection reset")
	zipped := gz(t, "a,b\n"+strings.Repeat("1,x\n2,y\n", 1000))
	half := zipped[:len(zipped)/2]
	for name, test := range map[string]struct {
		in   File
		want error
	}{
		"plain, error":     {File{Key: "a.csv", Body: io.MultiReader(strings.NewReader("a,b\n1"), iotest.ErrReader(cut))}, cut},
		"plain, short":     {File{Key: "a.csv", Size: 100, Body: strings.NewReader("a,b\n1,2\n")}, io.ErrUnexpectedEOF},
		"plain, long":      {File{Key: "a.csv", Size: 5, Body: strings.NewReader("a,b\n1,2\n")}, io.ErrUnexpectedEOF},
		"plain, no bytes":  {File{Key: "a.csv", Size: 5, Body: strings.NewReader("")}, io.ErrUnexpectedEOF},
		"gzip, error":      {File{Key: "a.csv.gz", Body: io.MultiReader(strings.NewReader(half), iotest.ErrReader(cut))}, cut},
		"gzip, first byte": {File{Key: "a.csv.gz", Body: iotest.ErrReader(cut)}, cut},
		"gzip, short":      {File{Key: "a.csv.gz", Size: int64(len(zipped)), Body: strings.NewReader(half)}, io.ErrUnexpectedEOF},
		"gzip, no bytes":   {File{Key: "a.csv.gz", Size: int64(len(zipped)), Body: strings.NewReader("")}, io.ErrUnexpectedEOF},
		"http cut":         {File{Key: "a.csv.gz", Body: io.MultiReader(strings.NewReader(half), iotest.ErrReader(io.ErrUnexpectedEOF))}, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewParquet(Config{ScratchDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			out := &shelf{}
			_, err = p.Process(context.Background(), test.in, out)
			if !errors.Is(err, test.want) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnsupported) {
				t.Errorf("error is %v", err)
			}
			if len(out.names) > 0 {
				t.Errorf("published %q", out.names)
			}
		})
	}
}
