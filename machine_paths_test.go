package lockstep_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/mock"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// standIn gives the machine's placeholders values.
func standIn(name string) string {
	if function, ok := strings.CutSuffix(name, "FunctionArn"); ok {
		return "arn:aws:lambda:us-east-1:123456789012:function:" + strings.ToLower(function)
	}
	return strings.ToLower(name)
}

// world is what the functions answer, by function; see internal/asl/mock.
type world map[string]any

func gives(output any) map[string]any { return map[string]any{"return": output} }
func fails(name string) map[string]any {
	return map[string]any{"error": name, "cause": "the cause of " + name}
}

// working is a world in which a run finds two batches and does them.
func working() world {
	return world{
		"acquire":  gives(step.AcquireOutput{Decision: step.DecisionHeld, Token: 7}),
		"discover": gives(found(2)),
		"process":  gives(step.ProcessOutput{}),
		"commit":   gives(step.CommitOutput{}),
		"release":  gives(step.ReleaseOutput{}),
		"s3":       map[string]any{"lockstep-state/manifest": []step.Batch{{Number: 0}, {Number: 1}}},
	}
}

func found(batches int) step.DiscoverOutput {
	return step.DiscoverOutput{
		Batches: batches, Manifest: step.ObjectRef{Bucket: "lockstep-state", Key: "manifest"},
		MaxConcurrency: 1, ToleratedFailurePercentage: 100,
	}
}

func (w world) with(function string, answers ...any) world {
	w[function] = answers
	return w
}

// play runs the machine in simulated time and returns how it ended and the
// states it visited.
func play(t *testing.T, w world) (*asl.Execution, []string) {
	t.Helper()
	mocks, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := mock.Load(mocks)
	if err != nil {
		t.Fatal(err)
	}
	definition, err := asl.Load(lockstep.Definition, asl.Derive(standIn))
	if err != nil {
		t.Fatal(err)
	}
	scale, err := asl.ScaleWaits(0)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := asl.NewMachine(definition, asl.Config{
		Lambda: answers, Objects: answers, Simulated: true, WaitScale: scale, Random: rand.NewPCG(1, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	execution, err := machine.Start(t.Context(), asl.Input{JSON: string(lockstep.ScheduleEvent)})
	if err != nil {
		t.Fatal(err)
	}
	execution.Wait()
	var visited []string
	for _, event := range execution.History() {
		if strings.HasSuffix(string(event.Type), "StateEntered") {
			visited = append(visited, event.State())
		}
	}
	return execution, visited
}

func ending(e *asl.Execution) string {
	end := e.Describe()
	if end.Error == nil {
		return string(end.Status)
	}
	return fmt.Sprintf("%s %s", end.Status, *end.Error)
}

func TestTheJourneysOfARun(t *testing.T) {
	waits := gives(step.AcquireOutput{Decision: step.DecisionWait, WaitSeconds: 15})
	held := gives(step.AcquireOutput{Decision: step.DecisionHeld, Token: 7})
	for _, journey := range []struct {
		name   string
		world  world
		states string
		end    string
	}{
		{"something is new", working(),
			"AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded", "SUCCEEDED"},
		{"nothing is new, so no Map is started", working().with("discover", gives(found(0))), // case 36
			"AcquireLock LockDecision DiscoverFiles AnythingNew ReleaseLock RunSucceeded", "SUCCEEDED"},
		{"waits twice, then takes over", working().with("acquire", waits, waits, held).with("discover", gives(found(0))),
			"AcquireLock LockDecision WaitForLock AcquireLock LockDecision WaitForLock AcquireLock LockDecision DiscoverFiles AnythingNew ReleaseLock RunSucceeded", "SUCCEEDED"},
		{"superseded", working().with("acquire", gives(step.AcquireOutput{Decision: step.DecisionSuperseded})),
			"AcquireLock LockDecision RunSkipped", "SUCCEEDED"},
		{"waited too long", working().with("acquire", gives(step.AcquireOutput{Decision: step.DecisionTimedOut, Reason: "held by P0"})), // case 17
			"AcquireLock LockDecision LockWaitTimedOut", "FAILED LockWaitTimedOut"},
		{"a decision that only a newer function knows", working().with("acquire", gives(step.AcquireOutput{Decision: "delegated"})),
			"AcquireLock LockDecision UnknownDecision ReleaseAfterFailure FirstError RunFailed", "FAILED UnknownDecision"},
		{"wrong configuration never touches the lock", working().with("acquire", fails("InvalidConfigError")),
			"AcquireLock RunRefused", "FAILED InvalidConfigError"},
		{"loses its lock while it looks, and begins again", working().with("discover", fails("LeaseLostError"), gives(found(2))),
			"AcquireLock LockDecision DiscoverFiles AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded", "SUCCEEDED"},
		{"finds at its commit that another run went ahead, and begins again", working().with("commit", fails("LedgerFencedError"), gives(step.CommitOutput{})),
			"AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded", "SUCCEEDED"},
		{"is overtaken in each of its laps, and fails with its first loss",
			working().with("discover", fails("LeaseLostError")).with("acquire", held, gives(step.AcquireOutput{
				Decision: step.DecisionOvertaken, Loss: &step.Failure{Error: "LeaseLostError", Cause: "the first"}})),
			"AcquireLock LockDecision DiscoverFiles AcquireLock LockDecision RunOvertaken ReleaseAfterFailure FirstError RunFailed", "FAILED LeaseLostError"},
		{"a call that outlived its life", working().with("acquire", fails("RunEndedError")),
			"AcquireLock ReleaseAfterFailure FirstError RunFailed", "FAILED RunEndedError"},
		{"a crashed batch does not hide the other", working().with("process", fails("Runtime.ExitError"), gives(step.ProcessOutput{})), // case 37
			"AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded", "SUCCEEDED"},
		{"the manifest is gone", func() world { w := working(); w["s3"] = map[string]any{}; return w }(),
			"AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles ReleaseAfterFailure FirstError StepFunctionsFailed", "FAILED StepFunctionsError"},
		{"the release fails and fails", working().with("release", fails("StepError")), // case 38
			"AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock ReleaseAfterFailure FirstError RunFailed", "FAILED StepError"},
		{"the release works at its third try", working().with("release", fails("StepError"), fails("Lambda.Unknown"), gives(step.ReleaseOutput{})),
			"AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded", "SUCCEEDED"},
	} {
		t.Run(journey.name, func(t *testing.T) {
			execution, visited := play(t, journey.world)
			if got := strings.Join(visited, " "); got != journey.states {
				t.Errorf("visited\n%s, want\n%s", got, journey.states)
			}
			if got := ending(execution); got != journey.end {
				t.Errorf("ended %s, want %s", got, journey.end)
			}
		})
	}
}

// Whatever a function's call ends with, wherever: the lock is given back, and
// the run fails with that first error, also when giving back fails as well.
func TestEveryErrorAtEveryStepGivesTheLockBackAndIsKept(t *testing.T) {
	errorNames := append(slices.Clone(step.ErrorNames),
		"Lambda.Unknown", "Lambda.TooManyRequestsException", "Lambda.ResourceNotFoundException", "Sandbox.Timedout",
		"Runtime.ExitError", "States.DataLimitExceeded", "string")
	for _, function := range []string{"acquire", "discover", "commit", "release"} {
		for _, errorName := range errorNames {
			if function == "acquire" && errorName == "InvalidConfigError" {
				continue // RunRefused, above
			}
			if (function == "discover" || function == "commit") && (errorName == "LeaseLostError" || errorName == "LedgerFencedError") {
				continue // another lap, above
			}
			for _, releases := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s gives %s, release works: %t", function, errorName, releases), func(t *testing.T) {
					w := working().with(function, fails(errorName))
					switch {
					case function == "release" && releases:
						// ReleaseLock's six tries fail, ReleaseAfterFailure works.
						failing := slices.Repeat([]any{fails(errorName)}, 6)
						w.with("release", append(failing, gives(step.ReleaseOutput{}))...)
					case !releases && function != "release":
						w.with("release", fails("SecondError"))
					}
					execution, visited := play(t, w)
					last, wantError, wantCause := "RunFailed", errorName, "the cause of "+errorName
					if strings.HasPrefix(errorName, "States.") {
						last, wantError, wantCause = "StepFunctionsFailed", "StepFunctionsError", errorName+": the cause of "+errorName
					}
					if got, want := strings.Join(visited, " "), " ReleaseAfterFailure FirstError "+last; !strings.HasSuffix(got, want) {
						t.Errorf("the journey is %s, want it to end%s", got, want)
					}
					end := execution.Describe()
					if end.Error == nil || *end.Error != wantError || end.Cause == nil || *end.Cause != wantCause {
						t.Errorf("ended %s, want %s: %s", ending(execution), wantError, wantCause)
					}
				})
			}
		}
	}
}

func TestAStepThatTakesTooLongGivesTheLockBack(t *testing.T) {
	for _, function := range []string{"acquire", "discover", "commit"} {
		t.Run(function, func(t *testing.T) {
			w := working()
			answer := w[function].(map[string]any)
			answer["seconds"] = 2000
			execution, visited := play(t, w)
			end, journey := execution.Describe(), strings.Join(visited, " ")
			if ending(execution) != "FAILED StepFunctionsError" || *end.Cause != "States.Timeout: " || !strings.HasSuffix(journey, " ReleaseAfterFailure FirstError StepFunctionsFailed") {
				t.Errorf("%s ended %s: %s", journey, ending(execution), *end.Cause)
			}
		})
	}
}

func TestTrafficTroubleIsTriedAgainAndLeavesNoMark(t *testing.T) {
	for _, function := range []string{"acquire", "discover", "process", "commit", "release"} {
		for _, errorName := range []string{"TransientError", "Lambda.TooManyRequestsException", "Lambda.ServiceException", "States.TaskFailed"} { // case 32
			t.Run(function+" "+errorName, func(t *testing.T) {
				w := working()
				execution, _ := play(t, w.with(function, fails(errorName), fails(errorName), w[function]))
				if got := ending(execution); got != "SUCCEEDED" {
					t.Errorf("ended %s", got)
				}
			})
		}
	}
}

// A call that answered, or that died, is not made again: it would only take its
// time once more.
func TestAnAnswerIsNotAskedForTwice(t *testing.T) {
	for _, errorName := range append(slices.Clone(crashes), "StepError", "TooManyFilesFailedError", "RunEndedError") {
		for _, function := range []string{"acquire", "discover", "commit"} {
			w := working()
			execution, _ := play(t, w.with(function, fails(errorName), w[function]))
			if got := ending(execution); got != "FAILED "+errorName {
				t.Errorf("%s at %s ended %s", errorName, function, got)
			}
		}
	}
}

// A run waits for 2,000 turns at most, in however many laps, and the history
// has room for 25,000 events.
func TestTheLongestWaitFitsTheHistory(t *testing.T) {
	waits := func(n int) []any {
		return slices.Repeat([]any{gives(step.AcquireOutput{Decision: step.DecisionWait, WaitSeconds: 22})}, n)
	}
	held := gives(step.AcquireOutput{Decision: step.DecisionHeld, Token: 7})
	turns := slices.Concat(waits(600), []any{held}, waits(700), []any{held}, waits(700), []any{held})
	execution, visited := play(t, working().with("acquire", turns...).with("commit", fails("LeaseLostError"), fails("LeaseLostError"), gives(step.CommitOutput{})))
	if got := ending(execution); got != "SUCCEEDED" {
		t.Errorf("ended %s after %d events", got, len(execution.History()))
	}
	waited := len(slices.DeleteFunc(slices.Clone(visited), func(name string) bool { return name != "WaitForLock" }))
	if n := len(execution.History()); n > 25000 || waited != 2000 {
		t.Errorf("%d events, %d waits", n, waited)
	}
}

// Inside a child of the Map the context object names the child.
func TestChildrenWorkForTheRunThatStartedThem(t *testing.T) {
	execution, _ := play(t, working())
	for _, mapRun := range execution.MapRuns() {
		for _, child := range mapRun.Children() {
			var input step.ProcessInput
			if err := json.Unmarshal([]byte(child.Describe().Input), &input); err != nil {
				t.Fatal(err)
			}
			if input.Execution.ID != execution.ARN() || input.Token != 7 {
				t.Errorf("a child works for %s with token %d, want %s with 7", input.Execution.ID, input.Token, execution.ARN())
			}
		}
	}
}
