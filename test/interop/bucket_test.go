package interop

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the known deviations in testdata; read the difference before you commit it")

// deviations compares the rules that a server breaks with those that it is
// known to break. Most are about keys that no file has; they would make a
// source prefix go wrong and do not concern a lock.
func deviations(t *testing.T, s server, name string) {
	broken, output := inChild(t, s, "TestBucketOf")
	golden := filepath.Join("testdata", name+".txt")
	if *update {
		err := os.MkdirAll("testdata", 0o755)
		if err == nil {
			err = os.WriteFile(golden, []byte(strings.Join(append(broken, ""), "\n")), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, rule := range broken {
		if !slices.Contains(known, rule) {
			t.Errorf("breaks %s", rule)
		}
	}
	for _, rule := range known {
		if rule != "" && !slices.Contains(broken, rule) {
			t.Errorf("keeps %s by now; -update takes it from %s", rule, golden)
		}
	}
	if t.Failed() {
		t.Logf("%s", output)
	}
}
