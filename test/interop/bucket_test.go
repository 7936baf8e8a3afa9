package interop

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket/buckettest"
)

var update = flag.Bool("update", false, "rewrite the known deviations in testdata; read the difference before you commit it")

// urlVariable makes this test binary hold one server to the bucket's rules.
const urlVariable = "LOCKSTEP_INTEROP_URL"

func TestBucketOf(t *testing.T) {
	url := os.Getenv(urlVariable)
	if url == "" {
		t.Skip("is run by TestServers")
	}
	buckettest.Run(t, func(t *testing.T) buckettest.Store { return server{url}.bucket(t) })
}

// deviations compares the rules that a server breaks with those that it is
// known to break. Most are about keys that no file has; they would make a
// source prefix go wrong and do not concern a lock. The suite runs in a process
// of its own, as a test that fails cannot be made to pass.
func deviations(t *testing.T, s server, name string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	suite := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^TestBucketOf$")
	suite.Env = append(os.Environ(), urlVariable+"="+s.url)
	output, err := suite.CombinedOutput()
	broken := failures(string(output))
	if err != nil && len(broken) == 0 || !strings.Contains(string(output), "TestBucketOf/objects") {
		t.Fatalf("the suite did not run: %v\n%s", err, output)
	}

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

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: TestBucketOf/(.*) \([0-9.]+s\)$`)

// failures are the rules that failed, without the groups that they fail with.
func failures(output string) (rules []string) {
	var all []string
	for _, match := range failure.FindAllStringSubmatch(output, -1) {
		all = append(all, match[1])
	}
	for _, rule := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, rule+"/") }) {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return rules
}
