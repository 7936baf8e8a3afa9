package step

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
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
		failed := RunState{Failure: &Failure{Error: "States.Timeout"}}
		w.releaseAfter("P2", failed)
		equal(t, "decision for the next", w.ask("P3").Decision, DecisionWait) // the queue was empty
		equal(t, "answer", w.releaseAfter("P1", failed), ReleaseOutput{Released: true, Reason: "run failed: States.Timeout"})
		equal(t, "decision for the next", w.ask("P3").Decision, DecisionHeld)
	})
}

// A lock passes at once only where every processing call has answered.
func TestALockPassesAtOnceOnlyWhereEveryCallHasAnswered(t *testing.T) {
	files := &DiscoverOutput{Batches: 2}
	for name, c := range map[string]struct {
		state RunState
		freed bool
	}{
		"nothing was found":             {RunState{Discovered: &DiscoverOutput{}}, true},
		"the discovery failed":          {RunState{Failure: &Failure{Error: "StepError"}}, true},
		"all answered":                  {RunState{Discovered: files, Committed: &CommitOutput{}}, true},
		"a call is not heard of":        {RunState{Discovered: files, Committed: &CommitOutput{Unanswered: 1}}, false},
		"the Map failed":                {RunState{Discovered: files, Failure: &Failure{Error: "States.Timeout"}}, false},
		"the commit failed":             {RunState{Discovered: files, Failure: &Failure{Error: "StepError"}}, false},
		"a lap under the same grant":    {RunState{Acquired: &AcquireOutput{Regained: true}, Discovered: &DiscoverOutput{}}, false},
		"the state of a machine so far": {RunState{}, true},
	} {
		inWorld(t, func(w *world) {
			w.begin("P1")
			equal(t, name+": released", w.releaseAfter("P1", c.state).Released, c.freed)
			want := map[bool]string{true: DecisionHeld, false: DecisionWait}[c.freed]
			equal(t, name+": decision for the next", w.ask("P2").Decision, want)
			time.Sleep(126 * time.Second)
			equal(t, name+": decision for the next, later", w.ask("P2").Decision, DecisionHeld)
		})
	}
}

// A call that outlives its execution takes nothing: not a lock that is free, and
// no place for which others would be superseded.
func TestAnAcquireThatOutlivesItsExecutionTakesNothing(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"released": func(w *world) { w.release("P1", 0) },
		"aborted": func(w *world) {
			_, err := w.steps.Release(w.Context(), w.ended("P1", "ABORTED"))
			w.ok(err)
		},
	} {
		inWorld(t, func(w *world) {
			var slowed atomic.Bool
			w.state.Fault(func(op, key string) error {
				if op == "put" && strings.HasSuffix(key, "lock.json") && slowed.CompareAndSwap(false, true) {
					time.Sleep(2 * time.Second)
				}
				return nil
			}, nil)
			late := make(chan error)
			go func() {
				_, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution("P1")})
				late <- err
			}()
			time.Sleep(time.Second)
			end(w)
			if err := <-late; !errors.As(Translate(err), new(*RunEndedError)) {
				t.Errorf("%s: the late call: %T %v", name, Translate(err), err)
			}
			equal(t, name+": decision for another", w.ask("P2").Decision, DecisionHeld)
		})
	}
}

// A redrive is another life: it takes the lock although the one before has ended,
// within the same second too, and a late event about that one leaves it alone.
func TestARedriveIsAnotherLife(t *testing.T) {
	inWorld(t, func(w *world) {
		time.Sleep(500 * time.Millisecond)
		w.begin("P1")
		event := w.ended("P1", "ABORTED")
		out, err := w.steps.Release(w.Context(), event)
		w.ok(err)
		equal(t, "released", out.Released, false)
		time.Sleep(300 * time.Millisecond)
		equal(t, "decision for the redrive", w.ask("P1#1").Decision, DecisionWait)
		time.Sleep(126 * time.Second)
		second := w.begin("P1#1")
		for range 2 {
			out, err = w.steps.Release(w.Context(), event)
			w.ok(err)
			equal(t, "released by a late event", out.Released, false)
		}
		again := w.ask("P1#1")
		equal(t, "token", again.Token, second)
		equal(t, "decision for another", w.ask("P2").Decision, DecisionWait)
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

// ended is EventBridge's event of a run that ended now.
func (w *world) ended(run, status string) ReleaseInput {
	w.Helper()
	input := string(w.config())
	stopped := time.Now().UnixMilli()
	event, err := json.Marshal(map[string]any{
		"version": "0", "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
		"detail": map[string]any{
			"executionArn": w.execution(run).ID, "name": w.execution(run).Name, "status": status, "stopDate": stopped, "input": input,
			"redriveCount": w.execution(run).RedriveCount,
			"output":       nil, "error": nil, "cause": nil,
		},
	})
	w.ok(err)
	var in ReleaseInput
	w.ok(json.Unmarshal(event, &in))
	return in
}

// CASES 18: its calls may be at work, so that the lease ends by itself.
func TestTheLeaseOfAnExecutionThatEndedBadlyEndsByItself(t *testing.T) {
	for status, ends := range map[string]bool{"ABORTED": true, "TIMED_OUT": true, "FAILED": true, "RUNNING": false, "SUCCEEDED": false, "PENDING_REDRIVE": false} {
		inWorld(t, func(w *world) {
			token := w.begin("P1")
			time.Sleep(time.Second)
			out, err := w.steps.Release(w.Context(), w.ended("P1", status))
			w.ok(err)
			equal(t, status+": released", out.Released, false)
			equal(t, status+": decision for the next", w.ask("P2").Decision, DecisionWait)
			_, err = w.tryDiscover("P1", token)
			equal(t, status+": its calls are cut off", errors.Is(err, lease.ErrLost), ends)
			if ends {
				time.Sleep(126 * time.Second)
				equal(t, status+": decision for the next", w.ask("P2").Decision, DecisionHeld)
			}
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
