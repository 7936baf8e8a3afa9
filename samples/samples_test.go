package samples_test

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lockstep-pipeline/lockstep/samples"
)

// The sums are those of the sources (SOURCES.md): a row that a cut lost or
// doubled shows here.
func TestEveryRowOfTheSourcesIsThereOnce(t *testing.T) {
	want := map[string]struct{ files, rows int }{
		"birdstrikes":     {51, 10000},
		"penguins":        {5, 344},
		"seattle-weather": {48, 1461},
		"us-employment":   {10, 120},
	}
	folders, err := fs.ReadDir(samples.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != len(want) {
		t.Errorf("%d folders, want %d", len(folders), len(want))
	}
	for _, folder := range folders {
		names, err := fs.Glob(samples.FS(), folder.Name()+"/*")
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, name := range names {
			n := countRows(t, name)
			if n == 0 {
				t.Errorf("%s has no rows", name)
			}
			rows += n
		}
		if w := want[folder.Name()]; len(names) != w.files || rows != w.rows {
			t.Errorf("%s: %d files with %d rows, want %d with %d", folder.Name(), len(names), rows, w.files, w.rows)
		}
	}
}

// countRows reads with the standard library's own parsers.
func countRows(t *testing.T, name string) int {
	t.Helper()
	file, err := samples.FS().Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text := io.Reader(file)
	plain := name
	switch path.Ext(name) {
	case ".gz":
		if text, err = gzip.NewReader(file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plain = strings.TrimSuffix(name, ".gz")
	case ".zst":
		decoder, err := zstd.NewReader(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer decoder.Close()
		text, plain = decoder, strings.TrimSuffix(name, ".zst")
	}
	switch path.Ext(plain) {
	case ".csv":
		records, err := csv.NewReader(text).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return len(records) - 1
	case ".json":
		var objects []map[string]any
		if err := json.NewDecoder(text).Decode(&objects); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return len(objects)
	}
	n := 0
	for decoder := json.NewDecoder(text); ; n++ {
		var object map[string]any
		err := decoder.Decode(&object)
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
