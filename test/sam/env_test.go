package sam_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ofTheSDK are the variables of env.json that the AWS SDK reads and not we.
var ofTheSDK = []string{
	"AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_SFN",
	"AWS_RESPONSE_CHECKSUM_VALIDATION", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
}

func variables(t *testing.T) map[string]string {
	t.Helper()
	var file struct{ Parameters map[string]string }
	if err := json.Unmarshal(read(t, "test/sam/env.json"), &file); err != nil {
		t.Fatal(err)
	}
	return file.Parameters
}

// A variable that is missing here cannot be set in a container at all.
func TestTheEnvVarsFileNamesWhatTheFunctionsRead(t *testing.T) {
	want := slices.Concat(ofTheSDK, variablesRead(t))
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(variables(t))); !slices.Equal(got, want) {
		t.Errorf("env.json has %v\nthe functions read %v", got, want)
	}
}

// variablesRead are the strings in functions/ that look like a variable's name.
func variablesRead(t *testing.T) []string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(root, "functions", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "LOCKSTEP_") && !strings.Contains(text, " ") {
					found[text] = true
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatal("found none")
	}
	return slices.Collect(maps.Keys(found))
}

func TestTheManualExplainsEveryVariable(t *testing.T) {
	manual := string(read(t, "docs/sam.md"))
	for name := range variables(t) {
		if !strings.Contains(manual, "| `"+name+"` |") {
			t.Errorf("docs/sam.md has no row for %s", name)
		}
	}
}
