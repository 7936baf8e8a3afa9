package lockstep_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/cases.md says which test shows what. A renamed or removed test must not
// leave a claim behind.
func TestEveryTestThatTheCasesNameExists(t *testing.T) {
	page, err := os.ReadFile("docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Fatalf("found only %d tests in docs/cases.md", len(named))
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err = fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
			there[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range named {
		if !there[match[1]] {
			t.Errorf("docs/cases.md names %s, which is not a test", match[1])
		}
	}
}
