package stack_test

import (
	"debug/elf"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/infra/stack"
)

// task is what these tests read of a state.
type task struct {
	Type           string
	TimeoutSeconds float64
	Parameters     struct{ FunctionName string }
	Retry          []struct{ IntervalSeconds, BackoffRate, MaxDelaySeconds, MaxAttempts float64 }
	ItemProcessor  struct{ States map[string]task }
}

func tasks(t *testing.T) map[string]task {
	t.Helper()
	var machine struct{ States map[string]task }
	if err := json.Unmarshal(lockstep.Definition, &machine); err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(machine.States)
	for _, s := range machine.States {
		maps.Copy(all, s.ItemProcessor.States)
	}
	maps.DeleteFunc(all, func(_ string, s task) bool { return s.Type != "Task" })
	return all
}

// Otherwise the next attempt begins while the last one is still at work.
func TestACallEndsBeforeTheStateMachineGivesUpOnIt(t *testing.T) {
	for name, text := range map[string]string{"shipped": shipped(t), "rich": rich} {
		tpl := synth(t, text)
		for stateName, s := range tasks(t) {
			id := strings.TrimSuffix(strings.TrimPrefix(s.Parameters.FunctionName, "${"), "Arn}")
			timeout, is := at(tpl.Resources[id].Properties, "Timeout").(float64)
			if !is || timeout > s.TimeoutSeconds-10 || timeout > 900 {
				t.Errorf("%s: %s waits %v seconds, and %s may take %v", name, stateName, s.TimeoutSeconds, id, timeout)
			}
		}
	}
}

// Between two attempts at a step nothing renews the lease, and it may be a third
// of its time old when the first one fails.
func TestALeaseOutlastsThePausesBetweenAttempts(t *testing.T) {
	machine, err := settings.ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	longest := 0.0
	for name, s := range tasks(t) {
		if name == "AcquireLock" || strings.HasPrefix(name, "Release") {
			continue // asking again takes the lock again, and giving it back needs none
		}
		sum := 0.0
		for _, r := range s.Retry {
			pause := r.IntervalSeconds
			for range int(r.MaxAttempts) {
				sum += min(pause, r.MaxDelaySeconds)
				pause *= r.BackoffRate
			}
		}
		longest = max(longest, sum)
	}
	if float64(machine.LongestPauseSeconds) != longest || longest < 1 {
		t.Errorf("the longest pauses are %v s, and %d s were read", longest, machine.LongestPauseSeconds)
	}
	const shortestTTL = 60
	if longest > shortestTTL*2/3 {
		t.Errorf("a lease of %d s may end within pauses of %v s", shortestTTL, longest)
	}
}

func TestFunctionsAreStaticBinariesOnTheirOwnArchitecture(t *testing.T) {
	tpl := synth(t, shipped(t))
	functions := tpl.ofType("AWS::Lambda::Function")
	if got := slices.Sorted(maps.Keys(functions)); !slices.Equal(got, []string{"AcquireFunction", "CommitFunction", "DiscoverFunction", "ProcessFunction", "ReleaseFunction"}) {
		t.Errorf("functions are %v", got)
	}
	for id, f := range functions {
		if at(f.Properties, "Runtime") != "provided.al2023" || texts(at(f.Properties, "Architectures"))[0] != "arm64" {
			t.Errorf("%s runs on %v %v", id, at(f.Properties, "Runtime"), at(f.Properties, "Architectures"))
		}
		if at(f.Properties, "TracingConfig", "Mode") != "Active" || at(f.Properties, "LoggingConfig", "LogFormat") != "JSON" {
			t.Errorf("%s has no traces, or logs that are no JSON", id)
		}
		// What sam local invoke finds the code by.
		if path, _ := at(f.Metadata, "aws:asset:path").(string); !strings.HasPrefix(path, "asset.") || at(f.Metadata, "aws:asset:property") != "Code" || at(f.Metadata, "aws:cdk:path") == nil {
			t.Errorf("%s does not tell where its code is: %v", id, f.Metadata)
		}
	}
	// Releases get through when processing has used up the account.
	if n := at(functions["ReleaseFunction"].Properties, "ReservedConcurrentExecutions"); n != 5.0 {
		t.Errorf("%v calls are set aside for release", n)
	}
	if n := at(synth(t, rich).Resources["ReleaseFunction"].Properties, "ReservedConcurrentExecutions"); n != nil {
		t.Errorf("%v calls are set aside, against the settings", n)
	}
}

func TestBinariesOfAnotherKindAreRefused(t *testing.T) {
	set, err := settings.Parse([]byte(rich)) // wants arm64
	if err != nil {
		t.Fatal(err)
	}
	build := func(dist string) string {
		_, err := stack.New(newApp(t), set, stack.Files{Dist: dist})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	mixed := dist(t, elf.EM_AARCH64)
	writeBinary(t, mixed, "commit", elf.EM_X86_64)
	for name, c := range map[string]struct{ dist, wanted string }{
		"other":   {dist(t, elf.EM_X86_64), "make build ARCH=arm64"},
		"mixed":   {mixed, "commit/bootstrap is built for x86_64"},
		"missing": {t.TempDir(), "run make build"},
		"strange": {dist(t, elf.EM_RISCV), "which Lambda does not have"},
	} {
		if got := build(c.dist); !strings.Contains(got, c.wanted) {
			t.Errorf("%s: %q does not say %q", name, got, c.wanted)
		}
	}
}

func TestEveryLogGroupForgets(t *testing.T) {
	for text, days := range map[string]float64{shipped(t): 30, rich: 365} {
		tpl := synth(t, text)
		groups := tpl.ofType("AWS::Logs::LogGroup")
		for id, g := range groups {
			if got := at(g.Properties, "RetentionInDays"); got != days {
				t.Errorf("%s keeps logs for %v days", id, got)
			}
		}
		for id, f := range tpl.ofType("AWS::Lambda::Function") {
			group := strings.Trim(at(f.Properties, "LoggingConfig", "LogGroup").(string), "${}")
			if groups[group].Type == "" {
				t.Errorf("%s logs to %s, which is none of the stack's", id, group)
			}
		}
	}
}

func TestFunctionsInAVPC(t *testing.T) {
	tpl := synth(t, rich)
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		if got := texts(at(f.Properties, "VpcConfig", "SubnetIds")); !slices.Equal(got, []string{"subnet-0a1b2c3d"}) {
			t.Errorf("%s is in %v", id, got)
		}
		if !permits(tpl.grants(t, tpl.roleOf(t, id, "Role")), request{action: "ec2:CreateNetworkInterface", resource: "*"}) {
			t.Errorf("%s may have no interface", id)
		}
	}
	if vpc := at(synth(t, shipped(t)).Resources["AcquireFunction"].Properties, "VpcConfig"); vpc != nil {
		t.Errorf("without the setting it is in %v", vpc)
	}
}

func TestTheOwnerOfBucketsIsChecked(t *testing.T) {
	owner := func(text string) any {
		return at(synth(t, text).Resources["AcquireFunction"].Properties, "Environment", "Variables", "LOCKSTEP_S3_EXPECTED_OWNER")
	}
	if got := owner(shipped(t)); got != "${AWS::AccountId}" {
		t.Errorf("buckets of the stack: %v", got)
	}
	if got := owner(rich); got != nil {
		t.Errorf("existing buckets, of whichever account: %v", got)
	}
	if got := owner(strings.Replace(rich, `"stackName"`, `"expectedBucketOwner": "210987654321", "stackName"`, 1)); got != "210987654321" {
		t.Errorf("an owner that is given: %v", got)
	}
}

// A warning at synthesis, and not an error, for what may be meant.
func TestWarningsAreShown(t *testing.T) {
	app := newApp(t)
	made := add(t, app, strings.Replace(shipped(t), `"stackName"`, `"functions": {"process": {"reservedConcurrency": 1}}, "stackName"`, 1))
	var texts []string
	for _, entry := range *made.Node().Metadata() {
		texts = append(texts, *entry.Type)
	}
	if !slices.Contains(texts, "aws:cdk:warning") {
		t.Errorf("the stack has %v", texts)
	}
}
