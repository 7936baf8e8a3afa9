package step

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestARunGivesItsLockBack(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		equal(t, "answer", w.release("P1", token), ReleaseOutput{Released: true, Reason: "run finished"})
		equal(t, "a second time", w.release("P1", token), ReleaseOutput{Reason: "run finished; this execution held no lock"})
		w.begin("P2")
	})
}

// After a failure the token may be unknown: whatever the execution has is given
// back, its place in the queue too.
func TestAFailedRunGivesBackWhatItHas(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		w.begin("P1")
		w.ask("P2")
		failed := func(run string) ReleaseOutput {
			out, err := w.steps.Release(w.Context(), ReleaseInput{
				Execution: execution(run), Config: w.config(), Failure: &Failure{Error: "States.Timeout"},
			})
			w.ok(err)
			return out
		}
		failed("P2")
		equal(t, "decision for the next", w.ask("P3").Decision, DecisionWait) // the queue was empty
		equal(t, "answer", failed("P1"), ReleaseOutput{Released: true, Reason: "run failed: States.Timeout"})
		equal(t, "decision for the next", w.ask("P3").Decision, DecisionHeld)
	})
}

// CASES 14.
func TestALateReleaseLeavesTheNewHolderAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		old := w.begin("P1")
		w.release("P1", old)
		w.begin("P2")
		equal(t, "released", w.release("P1", old).Released, false)
		equal(t, "decision for a third", w.ask("P3").Decision, DecisionWait)
	})
}

// CASES 14, 39: nor does it free the same execution's next grant.
func TestALateReleaseLeavesTheRedrivenRunAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		old := w.begin("P1")
		w.release("P1", old)
		w.begin("P1")
		equal(t, "released", w.release("P1", old).Released, false)
		equal(t, "decision for another", w.ask("P2").Decision, DecisionWait)
	})
}

// ended is EventBridge's event of a run that ended now.
func (w *world) ended(run, status string) ReleaseInput {
	w.Helper()
	input := string(w.config())
	stopped := time.Now().UnixMilli()
	event, err := json.Marshal(map[string]any{
		"version": "0", "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
		"detail": map[string]any{
			"executionArn": execution(run).ID, "name": run, "status": status, "stopDate": stopped, "input": input,
			"output": nil, "error": nil, "cause": nil,
		},
	})
	w.ok(err)
	var in ReleaseInput
	w.ok(json.Unmarshal(event, &in))
	return in
}

// CASES 18.
func TestAnExecutionThatEndedBadlyLosesItsLock(t *testing.T) {
	for status, freed := range map[string]bool{"ABORTED": true, "TIMED_OUT": true, "FAILED": true, "RUNNING": false, "SUCCEEDED": false, "PENDING_REDRIVE": false} {
		inWorld(t, func(w *world) {
			w.begin("P1")
			time.Sleep(time.Second)
			out, err := w.steps.Release(w.Context(), w.ended("P1", status))
			w.ok(err)
			equal(t, status+": released", out.Released, freed)
			want := map[bool]string{true: DecisionHeld, false: DecisionWait}[freed]
			equal(t, status+": decision for the next", w.ask("P2").Decision, want)
			equal(t, status+": asked for Map Runs", slices.Contains(w.mapRuns.asked, execution("P1").ID), freed)
		})
	}
}

// One that waited leaves the queue.
func TestAnAbortedWaiterLeavesTheQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		w.begin("P1")
		w.ask("P2")
		time.Sleep(time.Second)
		_, err := w.steps.Release(w.Context(), w.ended("P2", "ABORTED"))
		w.ok(err)
		equal(t, "decision for the next", w.ask("P3").Decision, DecisionWait)
	})
}

// CASES 18: children of a Map Run that is still running keep the lease.
func TestARunningMapRunKeepsTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		time.Sleep(time.Second)
		w.mapRuns.running = true
		out, err := w.steps.Release(w.Context(), w.ended("P1", "ABORTED"))
		w.ok(err)
		if out.Released || !strings.Contains(out.Reason, "Map Run") {
			t.Errorf("%+v", out)
		}
		equal(t, "decision for the next", w.ask("P2").Decision, DecisionWait)
	})
}

func TestMapRunsThatCannotBeSeenKeepTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		time.Sleep(time.Second)
		w.mapRuns.err = errors.New("access denied")
		_, err := w.steps.Release(w.Context(), w.ended("P1", "ABORTED"))
		if !errors.Is(err, w.mapRuns.err) {
			t.Errorf("%v", err)
		}
		equal(t, "decision for the next", w.ask("P2").Decision, DecisionWait)
	})
}

// CASES 39: the event of the first end comes after the execution was redriven.
func TestALateEventDoesNotFreeARedrivenRun(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		time.Sleep(time.Second)
		late := w.ended("P1", "FAILED")
		w.release("P1", token)
		time.Sleep(time.Second)
		w.begin("P1")
		out, err := w.steps.Release(w.Context(), late)
		w.ok(err)
		equal(t, "released", out.Released, false)
		equal(t, "decision for another", w.ask("P2").Decision, DecisionWait)
	})
}

// Nor does an event about one execution free another's lock.
func TestTheEventOfOneRunLeavesAnotherAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		time.Sleep(time.Second)
		out, err := w.steps.Release(w.Context(), w.ended("P2", "ABORTED"))
		w.ok(err)
		equal(t, "released", out.Released, false)
		equal(t, "decision for another", w.ask("P3").Decision, DecisionWait)
	})
}

// A refused run failed as it should; its event must raise no second alarm.
func TestTheEventOfARefusedRunIsNoError(t *testing.T) {
	inWorld(t, func(w *world) {
		event := w.ended("P1", "FAILED")
		wrong := `{"pipeline": 7}`
		event.Detail.Input = &wrong
		out, err := w.steps.Release(w.Context(), event)
		w.ok(err)
		if out.Released || !strings.Contains(out.Reason, "pipeline is 7") {
			t.Errorf("%+v", out)
		}
	})
}

// EventBridge tells when an execution stopped in milliseconds, LocalStack as text.
func TestAnEventMayTellItsTimeAsText(t *testing.T) {
	for _, text := range []string{`1769850600123`, `"2026-01-31T09:10:00.123Z"`, `"2026-01-31T09:10:00.123+00:00"`} {
		var in ReleaseInput
		if err := json.Unmarshal([]byte(`{"detail": {"stopDate": `+text+`}}`), &in); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := time.Time(*in.Detail.StopDate); !got.Equal(time.Date(2026, 1, 31, 9, 10, 0, 123e6, time.UTC)) {
			t.Errorf("%s is %v", text, got)
		}
	}
	for _, text := range []string{`"soon"`, `true`, `{}`} {
		var in ReleaseInput
		if err := json.Unmarshal([]byte(`{"detail": {"stopDate": `+text+`}}`), &in); err == nil {
			t.Errorf("%s is %v", text, time.Time(*in.Detail.StopDate))
		}
	}
}

func TestEventsThatSayTooLittleAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*ReleaseInput)
		says  string
	}{
		"another event": {func(in *ReleaseInput) { in.DetailType = "Scheduled Event" }, "correct the EventBridge rule"},
		"no input":      {func(in *ReleaseInput) { in.Detail.Input = nil }, "detail.input is null"},
		"no end":        {func(in *ReleaseInput) { in.Detail.StopDate = nil }, "detail.stopDate is null"},
	} {
		inWorld(t, func(w *world) {
			w.begin("P1")
			event := w.ended("P1", "ABORTED")
			c.spoil(&event)
			_, err := w.steps.Release(w.Context(), event)
			var refused *InvalidInputError
			if !errors.As(Translate(err), &refused) || !strings.Contains(refused.Problem, c.says) {
				t.Errorf("%s: %v", name, err)
			}
			equal(t, name+": decision for the next", w.ask("P2").Decision, DecisionWait)
		})
	}
}

func TestAFunctionThatCannotSeeMapRunsRefusesEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		steps, err := New(Config{Open: func(string) (Store, error) { return w.state, nil }})
		w.ok(err)
		_, err = steps.Release(w.Context(), w.ended("P1", "ABORTED"))
		var refused *InvalidInputError
		if !errors.As(err, &refused) {
			t.Errorf("%v", err)
		}
	})
}

// CASES 3: throttling does not leave the lock behind.
func TestAThrottledReleaseIsRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		refusals := 3
		w.state.Fault(func(op, _ string) error {
			if op == "put" && refusals > 0 {
				refusals--
				return bucket.ErrConflict
			}
			return nil
		}, nil)
		equal(t, "released", w.release("P1", token).Released, true)
		w.begin("P2")
	})
}
