package lockstep_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// state is what these tests read of a state's definition.
type state struct {
	Type, Comment, Next, Default string
	TimeoutSeconds               int
	ResultSelector, Parameters   map[string]any
	Retry                        []retrier
	Catch                        []handler
	Choices                      []map[string]any
	ItemProcessor                *struct{ States map[string]state }

	ToleratedFailurePercentagePath, MaxConcurrencyPath string
}

type handler struct {
	ErrorEquals []string
	Next        string
	ResultPath  string
}

type retrier struct {
	ErrorEquals     []string
	IntervalSeconds float64
	BackoffRate     float64
	MaxAttempts     int
	MaxDelaySeconds float64
	JitterStrategy  string
}

// pauses is the longest that the retries of one error may wait, in seconds.
func (r retrier) pauses() (sum float64) {
	pause := r.IntervalSeconds
	for range r.MaxAttempts {
		sum += min(pause, r.MaxDelaySeconds)
		pause *= r.BackoffRate
	}
	return sum
}

func states(t *testing.T) map[string]state {
	t.Helper()
	var machine struct{ States map[string]state }
	if err := json.Unmarshal(lockstep.Definition, &machine); err != nil {
		t.Fatal(err)
	}
	return machine.States
}

// everyState yields the states of the run and those inside the Map.
func everyState(t *testing.T) map[string]state {
	all := states(t)
	for _, s := range states(t) {
		if s.ItemProcessor != nil {
			maps.Copy(all, s.ItemProcessor.States)
		}
	}
	return all
}

func TestTheMachineLoadsWhenItsPlaceholdersAreFilled(t *testing.T) {
	if _, err := asl.Load(lockstep.Definition, asl.Derive(standIn)); err != nil {
		t.Fatal(err)
	}
}

func TestEveryStateSaysWhyAndNoTaskRunsForEver(t *testing.T) {
	for name, s := range everyState(t) {
		if s.Comment == "" {
			t.Errorf("%s has no Comment that says why it is there", name)
		}
		if s.Type == "Task" && s.TimeoutSeconds == 0 {
			t.Errorf("%s has no TimeoutSeconds", name)
		}
		if s.Type == "Choice" && s.Default == "" {
			t.Errorf("%s has no Default: an unknown value would leave the lock held", name)
		}
	}
}

func TestEveryFailureAfterTheLockLeadsToItsRelease(t *testing.T) {
	for name, s := range states(t) {
		if s.Type != "Task" && s.Type != "Map" || name == "ReleaseAfterFailure" {
			continue
		}
		last := handler{}
		if len(s.Catch) > 0 {
			last = s.Catch[len(s.Catch)-1]
		}
		want := handler{ErrorEquals: []string{"States.ALL"}, Next: "ReleaseAfterFailure", ResultPath: "$.failure"}
		if !reflect.DeepEqual(last, want) {
			t.Errorf("the last Catch of %s is %+v, want %+v", name, last, want)
		}
	}
	after := states(t)["ReleaseAfterFailure"]
	if len(after.Catch) != 1 || after.Next != "FirstError" || after.Catch[0].Next != "FirstError" || after.Catch[0].ResultPath == "$.failure" {
		t.Errorf("ReleaseAfterFailure must lead to the first error and keep it; its Catch is %+v", after.Catch)
	}
}

func TestErrorNamesInTheMachineAreThoseTheFunctionsGive(t *testing.T) {
	for name, s := range everyState(t) {
		var handled [][]string
		for _, r := range s.Retry {
			handled = append(handled, r.ErrorEquals)
		}
		for _, c := range s.Catch {
			handled = append(handled, c.ErrorEquals)
		}
		for _, errorNames := range handled {
			for _, errorName := range errorNames {
				prefix, _, service := strings.Cut(errorName, ".")
				service = service && slices.Contains([]string{"Lambda", "States", "Runtime", "Sandbox"}, prefix)
				if !service && !slices.Contains(step.ErrorNames, errorName) {
					t.Errorf("%s handles %q, which no function gives; they give %v", name, errorName, step.ErrorNames)
				}
			}
		}
	}
}

// transient is trouble of the moment: the service's, and a function's own.
var transient = []string{
	"Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException",
	"Lambda.TooManyRequestsException", "Lambda.ClientExecutionTimeoutException", "TransientError",
}

// crashes are the names of a call that died.
var crashes = []string{"Runtime.ExitError", "Sandbox.Timedout", "Lambda.Unknown", "Lambda.ResourceNotFoundException"}

// States.TaskFailed stands for every name but States.Timeout, and the first
// retrier that has a name decides. So what is not worth another try has to be
// named ahead of it.
func TestOnlyTroubleOfTheMomentIsTriedAgain(t *testing.T) {
	settled := slices.DeleteFunc(slices.Concat(step.ErrorNames, crashes), func(name string) bool { return name == "TransientError" })
	for name, s := range everyState(t) {
		switch {
		case s.Type != "Task":
			continue
		case strings.HasPrefix(name, "Release"):
			if len(s.Retry) != 1 || !slices.Equal(s.Retry[0].ErrorEquals, []string{"States.ALL"}) {
				t.Errorf("%s does not try again after every error: %+v", name, s.Retry)
			}
			continue
		case len(s.Retry) != 3:
			t.Errorf("%s has %d retriers", name, len(s.Retry))
			continue
		}
		if first := s.Retry[0]; first.MaxAttempts != 0 || !sameNames(first.ErrorEquals, settled) {
			t.Errorf("%s tries again after one of %v, or its list is not %v", name, first.ErrorEquals, settled)
		}
		if second := s.Retry[1]; !sameNames(second.ErrorEquals, transient) || second.MaxAttempts == 0 {
			t.Errorf("%s does not try again after %v", name, transient)
		}
		if third := s.Retry[2]; !slices.Equal(third.ErrorEquals, []string{"States.TaskFailed"}) || third.MaxAttempts == 0 {
			t.Errorf("%s does not try again after States.TaskFailed, which may be a lost call", name)
		}
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// A missing field is States.Runtime, which nothing catches. So each path into
// a function's reply must name a field that the function always returns.
func TestEveryFieldReadFromAReplyIsAFieldOfTheReply(t *testing.T) {
	replies := map[string]any{
		"AcquireLock": step.AcquireOutput{}, "DiscoverFiles": step.DiscoverOutput{}, "ProcessBatch": step.ProcessOutput{},
		"CommitLedger": step.CommitOutput{}, "ReleaseLock": step.ReleaseOutput{}, "ReleaseAfterFailure": step.ReleaseOutput{},
	}
	for name, s := range everyState(t) {
		if s.Type != "Task" {
			continue
		}
		fields := map[string]any{}
		encoded, err := json.Marshal(replies[name])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(encoded, &fields); err != nil {
			t.Fatalf("%s has no reply in this test: %v", name, err)
		}
		for key, path := range s.ResultSelector {
			field, inReply := strings.CutPrefix(path.(string), "$.Payload.")
			if _, known := fields[field]; !inReply || !known {
				t.Errorf("%s reads %s into %s; the reply has %v", name, path, key, slices.Sorted(maps.Keys(fields)))
			}
			if key != field+".$" {
				t.Errorf("%s renames %s to %s; one word for one idea", name, field, key)
			}
		}
	}
}

func TestTheMapToleratesEveryFailureByAPath(t *testing.T) {
	m := states(t)["ProcessFiles"]
	if m.ToleratedFailurePercentagePath == "" || strings.HasPrefix(m.ToleratedFailurePercentagePath, "$$") {
		t.Errorf("ToleratedFailurePercentagePath is %q", m.ToleratedFailurePercentagePath)
	}
	if strings.HasPrefix(m.MaxConcurrencyPath, "$$") {
		t.Error("AWS takes no $$ in MaxConcurrencyPath")
	}
}

// A call leaves a lease that is a third of its time old at most, and nothing
// renews it between the tries: all pauses together have to fit into the rest of
// the shortest lease that a configuration may ask for.
func TestTheShortestLeaseOutlivesTheRetries(t *testing.T) {
	var shortest int
	for ttl := 1; shortest == 0 && ttl < 1000; ttl++ {
		if _, err := step.ParseConfig(withTTL(t, ttl)); err == nil {
			shortest = ttl
		}
	}
	for _, name := range []string{"DiscoverFiles", "ProcessBatch", "CommitLedger"} {
		sum := 0.0 // one error may follow the other
		for _, r := range everyState(t)[name].Retry {
			sum += r.pauses()
		}
		if sum == 0 || sum > float64(shortest)*2/3 {
			t.Errorf("%s pauses up to %v seconds between its tries, and a lease may last %d", name, sum, shortest)
		}
	}
}

// All calls of a run that met the same trouble would come back at once.
func TestEveryPauseIsBoundedAndHasJitter(t *testing.T) {
	for name, s := range everyState(t) {
		for _, r := range s.Retry {
			if r.MaxAttempts > 0 && (r.JitterStrategy != "FULL" || r.MaxDelaySeconds == 0 || r.BackoffRate <= 1) {
				t.Errorf("%s pauses as %+v", name, r)
			}
		}
	}
}

func withTTL(t *testing.T, seconds int) []byte {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal(lockstep.ScheduleEvent, &config); err != nil {
		t.Fatal(err)
	}
	config["lock"].(map[string]any)["ttlSeconds"] = seconds
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The context object is passed whole, so that an engine that has no redrives,
// and so no RedriveCount in it, plays the machine too.
func TestTheExecutionIsPassedWhole(t *testing.T) {
	if text := string(lockstep.Definition); strings.Contains(text, "$$.Execution.RedriveCount") || strings.Contains(text, "$$.Execution.Input") {
		t.Error("the definition reads a field of $$.Execution that an engine may lack, or that the whole has")
	}
	for name, s := range everyState(t) {
		if s.Type != "Task" || name == "ProcessBatch" {
			continue
		}
		if payload, _ := s.Parameters["Payload"].(map[string]any); payload["execution.$"] != "$$.Execution" {
			t.Errorf("%s sends %v for the execution", name, payload["execution.$"])
		}
	}
}

// Losing the lock leads back to it from wherever the run works outside the Map.
func TestALostLockLeadsBackToAcquireLock(t *testing.T) {
	want := handler{ErrorEquals: []string{"LeaseLostError", "LedgerFencedError"}, Next: "AcquireLock", ResultPath: "$.lost"}
	for _, name := range []string{"DiscoverFiles", "CommitLedger"} {
		if first := states(t)[name].Catch[0]; !reflect.DeepEqual(first, want) {
			t.Errorf("the first Catch of %s is %+v, want %+v", name, first, want)
		}
	}
}
