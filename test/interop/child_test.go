package interop

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket/buckettest"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// A test that fails cannot be made to pass. So a suite that a server is known
// to fail runs in a process of its own, and its output is judged.

// urlVariable makes this test binary hold one server to a suite.
const urlVariable = "LOCKSTEP_INTEROP_URL"

func TestBucketOf(t *testing.T) {
	s := asChild(t)
	buckettest.Run(t, func(t *testing.T) buckettest.Store { return s.bucket(t) })
}

func TestLeaseOf(t *testing.T) {
	s := asChild(t)
	t.Run("Register", func(t *testing.T) { leasetest.TestRegister(t, s.register) })
	t.Run("Lock", func(t *testing.T) { leasetest.TestLock(t, s.register) })
}

func asChild(t *testing.T) server {
	url := os.Getenv(urlVariable)
	if url == "" {
		t.Skip("is run by TestServers")
	}
	return server{url}
}

// inChild returns the rules of a suite that a server breaks.
func inChild(t *testing.T, s server, suite string) (broken []string, output string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^"+suite+"$")
	child.Env = append(os.Environ(), urlVariable+"="+s.url)
	text, err := child.CombinedOutput()
	broken = failures(string(text), suite)
	if err != nil && len(broken) == 0 || !strings.Contains(string(text), "=== RUN   "+suite+"/") {
		t.Fatalf("%s did not run: %v\n%s", suite, err, text)
	}
	return broken, string(text)
}

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\w+)/(.*) \([0-9.]+s\)$`)

// failures are the rules that failed, without the groups that they fail with.
func failures(output, suite string) (rules []string) {
	var all []string
	for _, match := range failure.FindAllStringSubmatch(output, -1) {
		if match[1] == suite {
			all = append(all, match[2])
		}
	}
	for _, rule := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, rule+"/") }) {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return rules
}

// tell runs the lease's suites over a server that may break any rule.
func tell(t *testing.T, s server) {
	broken, output := inChild(t, s, "TestLeaseOf")
	if len(broken) == 0 {
		t.Log("broke no rule this time")
		return
	}
	t.Logf("broke %q this time:\n%s", broken, output)
}
