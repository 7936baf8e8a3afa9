package demo

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

var csvOnly = step.SelectionSettings{Include: []string{"**/*.csv"}, Exclude: []string{"**/_*"}}

func folder(paths ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, path := range paths {
		files[path] = &fstest.MapFile{}
	}
	return files
}

func TestEveryThirdFileThatIsTakenArrivesLate(t *testing.T) {
	c, err := newCast(folder("1.csv", "2.csv", "_.csv", "a/3.csv", "a/4.csv", "a/note.txt", "b/5.csv", "b/6.csv", "b/7.csv"), csvOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		what      string
		got, want []string
	}{
		{"first", c.first, []string{"1.csv", "2.csv", "a/4.csv", "b/5.csv", "b/7.csv"}},
		{"late", c.late, []string{"a/3.csv", "b/6.csv"}},
		{"others", c.others, []string{"_.csv", "a/note.txt"}},
	} {
		if !slices.Equal(check.got, check.want) {
			t.Errorf("%s: got %q, want %q", check.what, check.got, check.want)
		}
	}
}

func TestTooFewFilesAreRefusedWithWhatWasNotTaken(t *testing.T) {
	_, err := newCast(folder("1.csv", "2.csv", "note.txt", "x.pdf"), csvOnly)
	if !errors.Is(err, errTooFewFiles) {
		t.Fatalf("error is %v", err)
	}
	for _, say := range []string{"2 to process", "needs three", "note.txt (2 in all)", "**/*.csv", "not **/_*"} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("%q does not say %q", err, say)
		}
	}
}
