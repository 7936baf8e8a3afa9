package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lockstep-pipeline/lockstep/samples"
)

func TestRejectedRowsArePublishedBeforeTheOutput(t *testing.T) {
	outcome, out, err := run(t, "a.csv", "a,b\n1,2\n3\n", Config{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{RejectedName, OutputName}; !slices.Equal(out.names, want) || !slices.Equal(outcome.Outputs, want) {
		t.Errorf("published %q, outcome %q, want %q", out.names, outcome.Outputs, want)
	}
	if want := []string{"application/x-ndjson", "application/vnd.apache.parquet"}; !slices.Equal(out.types, want) {
		t.Errorf("content types %q, want %q", out.types, want)
	}
}

func TestTheOutputIsNotPublishedWhenTheRejectedRowsCouldNotBe(t *testing.T) {
	lost := errors.New("lease lost")
	dir := t.TempDir()
	p, err := NewParquet(Config{ScratchDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	out := &shelf{fail: map[string]error{RejectedName: lost}}
	_, err = p.Process(t.Context(), File{Key: "a.csv", Body: strings.NewReader("a,b\n1,2\n3\n")}, out)
	wantError(t, err, lost, `process "a.csv": publish _rejected.ndjson: lease lost`)
	if len(out.names) > 0 {
		t.Errorf("published %q", out.names)
	}
	assertEmpty(t, dir)
}

func TestARetryWritesTheSameBytes(t *testing.T) {
	text := mixedCSV(5_000)
	cfg := Config{RowGroupBytes: 128 << 10}
	_, first, err := run(t, "a.csv", text, cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := run(t, "a.csv", text, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range first.names {
		if !bytes.Equal(first.content[name], again.content[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// mixedCSV has numbers, short repeated texts, unique texts (which outgrow a
// dictionary), documents, nulls, and every 1000th row ragged.
func mixedCSV(rows int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("id,price,species,name,note\n")
	for i := range rows {
		if i%1000 == 999 {
			fmt.Fprintf(&text, "%d,ragged\n", i)
			continue
		}
		note := ""
		if i%7 == 0 {
			note = strings.Repeat("n", random.IntN(2000))
		}
		fmt.Fprintf(&text, "%d,%d.%02d,species-%d,%032x%064x,%s\n", i, random.IntN(100), random.IntN(100), random.IntN(5), i, random.Uint64(), note)
	}
	return text.String()
}

func TestRowGroupsAreBounded(t *testing.T) {
	const rows = 8_000
	text := mixedCSV(rows)
	outcome, out, err := run(t, "a.csv", text, Config{RowGroupBytes: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Rows != rows-rows/1000 || outcome.Rejected != rows/1000 {
		t.Errorf("outcome %+v", outcome)
	}
	content := out.content[OutputName]
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	groups := file.Metadata().RowGroups
	if len(groups) < 10 {
		t.Errorf("%d row groups for %d bytes", len(groups), len(text))
	}
	for i, group := range groups {
		if group.TotalByteSize > 1<<20 {
			t.Errorf("row group %d has %d bytes", i, group.TotalByteSize)
		}
	}
	if got, want := content, text; strings.Count(show(t, got), "\n") != strings.Count(want, "\n")-rows/1000 {
		t.Error("rows are missing when the file is read back")
	}
}

func TestTheOutputNamesItsSource(t *testing.T) {
	_, out, err := run(t, "in/a.csv", "a\n1\n", Config{})
	if err != nil {
		t.Fatal(err)
	}
	content := out.content[OutputName]
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"lockstep.source.key": "in/a.csv", "lockstep.source.etag": `"e1"`} {
		if got, _ := file.Lookup(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// The page index of a column of documents must not tell a reader to skip the
// pages that hold what it looks for.
func TestDocumentsStayOutOfTheStatistics(t *testing.T) {
	text := "doc\n" + strings.Repeat(strings.Repeat("m", 100_000)+"\n", 10)
	_, out, err := run(t, "a.csv", text, Config{})
	if err != nil {
		t.Fatal(err)
	}
	content := out.content[OutputName]
	if len(content) > 10_000 {
		t.Errorf("the output has %d bytes", len(content))
	}
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	statistics := file.Metadata().RowGroups[0].Columns[0].MetaData.Statistics
	if len(statistics.MinValue) > 0 || len(statistics.MaxValue) > 0 {
		t.Errorf("statistics %q to %q", statistics.MinValue, statistics.MaxValue)
	}
	index, err := file.RowGroups()[0].ColumnChunks()[0].ColumnIndex()
	if err != nil {
		t.Fatal(err)
	}
	for page := range index.NumPages() {
		least, greatest := index.MinValue(page).ByteArray(), index.MaxValue(page).ByteArray()
		if bytes.Compare(least, []byte("m")) > 0 || bytes.Compare(greatest, []byte("n")) < 0 {
			t.Errorf("page %d claims %q to %q", page, least, greatest)
		}
	}
}

func TestACancelledCallStopsWithTheCause(t *testing.T) {
	lost := errors.New("lease lost")
	const whole = "a,b\n1,2\n"
	stages := map[string]func(cancel func()) (io.Reader, Publisher){
		"before reading": func(cancel func()) (io.Reader, Publisher) {
			cancel()
			return strings.NewReader(whole), &shelf{}
		},
		"while reading": func(cancel func()) (io.Reader, Publisher) {
			return io.MultiReader(strings.NewReader(whole), readerFunc(func([]byte) (int, error) { cancel(); return 0, nil })), &shelf{}
		},
		"after the last byte": func(cancel func()) (io.Reader, Publisher) {
			return io.MultiReader(strings.NewReader(whole), readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF })), &shelf{}
		},
	}
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			dir := t.TempDir()
			p, err := NewParquet(Config{ScratchDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			body, out := stage(func() { cancel(lost) })
			_, err = p.Process(ctx, File{Key: "a.csv", Body: body}, out)
			if !errors.Is(err, lost) || errors.Is(err, ErrMalformed) {
				t.Errorf("error is %v", err)
			}
			if names := out.(*shelf).names; len(names) > 0 {
				t.Errorf("published %q", names)
			}
			assertEmpty(t, dir)
		})
	}
}

// Between rejected rows and output the lease may go; then the output must not come.
func TestNoOutputAfterACancelBetweenPublishes(t *testing.T) {
	lost := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := NewParquet(Config{ScratchDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	out := publisherFunc(func(name string) { names = append(names, name); cancel(lost) })
	_, err = p.Process(ctx, File{Key: "a.csv", Body: strings.NewReader("a,b\n1,2\n3\n")}, out)
	if !errors.Is(err, lost) || !slices.Equal(names, []string{RejectedName}) {
		t.Errorf("error is %v after %q", err, names)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type publisherFunc func(name string)

func (f publisherFunc) Publish(_ context.Context, out Output) error {
	f(out.Name)
	return nil
}

func TestAMissingScratchFolderIsNotTheFilesFault(t *testing.T) {
	p, err := NewParquet(Config{ScratchDir: path.Join(t.TempDir(), "gone")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Process(t.Context(), File{Key: "a.csv", Body: strings.NewReader("a\n1\n")}, &shelf{})
	if !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrMalformed) {
		t.Errorf("error is %v", err)
	}
}

func TestSampleFiles(t *testing.T) {
	sums := map[string]int64{}
	schemas := map[string]string{}
	err := fs.WalkDir(samples.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(samples.FS(), name)
		if err != nil {
			return err
		}
		outcome, out, err := run(t, name, string(text), Config{})
		if err != nil {
			return err
		}
		if outcome.Rejected > 0 {
			t.Errorf("%s: %d rows rejected: %s", name, outcome.Rejected, out.content[RejectedName])
		}
		schema, rows, _ := strings.Cut(show(t, out.content[OutputName]), "\n")
		if n := int64(strings.Count(rows, "\n")); n != outcome.Rows {
			t.Errorf("%s: outcome has %d rows, the output %d", name, outcome.Rows, n)
		}
		set := path.Dir(name)
		if schemas[set] == "" {
			schemas[set] = schema
		}
		if schemas[set] != schema {
			t.Errorf("%s: schema %s differs from its neighbours' %s", name, schema, schemas[set])
		}
		sums[set] += outcome.Rows
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]int64{"birdstrikes": 10000, "penguins": 344, "seattle-weather": 1461, "us-employment": 120} {
		if sums[set] != want {
			t.Errorf("%s: %d rows, want %d", set, sums[set], want)
		}
	}
	for set, want := range map[string]string{
		"seattle-weather": "date DATE, precipitation DOUBLE, temp_max DOUBLE, temp_min DOUBLE, wind DOUBLE, weather STRING",
		"penguins": "Species STRING, Island STRING, Beak Length (mm) DOUBLE, Beak Depth (mm) DOUBLE, " +
			"Flipper Length (mm) INT64, Body Mass (g) INT64, Sex STRING",
		"birdstrikes": "Airport Name STRING, Aircraft Make Model STRING, Effect Amount of damage STRING, Flight Date DATE, " +
			"Aircraft Airline Operator STRING, Origin State STRING, Phase of flight STRING, Wildlife Size STRING, " +
			"Wildlife Species STRING, Time of day STRING, Cost Other INT64, Cost Repair INT64, Cost Total $ INT64, Speed IAS in knots INT64",
	} {
		if schemas[set] != want {
			t.Errorf("%s: schema %s, want %s", set, schemas[set], want)
		}
	}
}

func TestOneSampleInFull(t *testing.T) {
	text, err := fs.ReadFile(samples.FS(), "seattle-weather/2012-01.csv")
	if err != nil {
		t.Fatal(err)
	}
	_, out, err := run(t, "2012-01.csv", string(text), Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(show(t, out.content[OutputName]), "\n")
	if !strings.HasPrefix(rows, lines(
		`2012-01-01, 0, 12.8, 5, 4.7, "drizzle"`,
		`2012-01-02, 10.9, 10.6, 2.8, 4.5, "rain"`)) || strings.Count(rows, "\n") != 31 {
		t.Errorf("rows\n%s", rows)
	}
}
