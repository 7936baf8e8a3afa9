package step

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// holder is the owner of the lock now; "" if nobody has it.
func (w *world) holder() string {
	w.Helper()
	r, err := w.steps.begin(w.execution("looking"))
	w.ok(err)
	status, err := r.lock.Inspect(w.Context())
	w.ok(err)
	for _, h := range status.Holders {
		if !h.Expired {
			return h.Owner
		}
	}
	return ""
}

// wantEnded has a life ask for the lock, which must be over.
func (w *world) wantEnded(what string, life Execution) {
	w.Helper()
	_, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: life})
	if _, ended := Translate(err).(*RunEndedError); !ended {
		w.Errorf("%s: a life that ended asks and gets %T %v", what, Translate(err), err)
	}
}

// deliver gives Release the event of an execution that ended.
func (w *world) deliver(event ReleaseInput) {
	w.Helper()
	_, err := w.steps.Release(w.Context(), event)
	w.ok(err)
}

// A lap may find its own grant: the lease was only thought lost. Calls of the
// lap before then work under the same token.
func TestALapThatFindsItsOwnGrantSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.turn("P1", RunState{})
		second := w.turn("P1", RunState{Acquired: &first, Lost: &Failure{Error: "LeaseLostError"}})
		equal(t, "token", second.Token, first.Token)
		equal(t, "regained", second.Regained, true)
		time.Sleep(126 * time.Second)
		third := w.turn("P1", RunState{Acquired: &second, Lost: &Failure{Error: "LeaseLostError"}})
		equal(t, "regained", third.Regained, false)
	})
}

// The wait is bounded over all laps and lives, and each second counts once.
func TestWaitingIsCountedOverLapsAndLives(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaitSeconds", 100)
		w.set("lock.ttlSeconds", 3600)
		w.begin("P0")
		first := w.turn("P1", RunState{})
		time.Sleep(20 * time.Second)
		second := w.turn("P1", RunState{Acquired: &first})
		repeated := w.turn("P1", RunState{Acquired: &first})
		equal(t, "waited", second.WaitedSeconds, 20)
		equal(t, "waited by a repeated call", repeated.WaitedSeconds, 20)
		time.Sleep(20 * time.Second)
		third := w.turn("P1", RunState{Acquired: &second})
		equal(t, "waited", third.WaitedSeconds, 40)

		w.deliver(w.ended("P1", "ABORTED"))
		fourth := w.turn("P1#1", RunState{Acquired: &third})
		equal(t, "waited in another place", fourth.WaitedSeconds, 40)
		time.Sleep(50 * time.Second)
		fifth := w.turn("P1#1", RunState{Acquired: &fourth})
		equal(t, "waited", fifth.WaitedSeconds, 90)
		equal(t, "decision", fifth.Decision, DecisionWait)
		time.Sleep(10 * time.Second)
		last := w.turn("P1#1", RunState{Acquired: &fifth})
		equal(t, "decision", last.Decision, DecisionTimedOut)
		equal(t, "waited", last.WaitedSeconds, 100)
		equal(t, "turns", last.Turns, 6)
	})
}

// However soon the lock would like to be asked again: the history has room for
// so many turns only.
func TestTurnsAreBoundedOverTheRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P0")
		before := w.turn("P1", RunState{})
		before.Turns = maxTurns - 2
		out := w.turn("P1", RunState{Acquired: &before})
		equal(t, "decision", out.Decision, DecisionWait)
		out = w.turn("P1", RunState{Acquired: &out})
		equal(t, "decision", out.Decision, DecisionTimedOut)
	})
}

// CASES 18, 39: an abort during the Map, and a redrive that begins behind
// AcquireLock, as Step Functions does. The successor waits no longer than
// ttl and grace; the redriven run queues and does the work.
func TestARedriveAfterAnAbortDoesTheWork(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 1)
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		first := w.turn("P1", RunState{})
		d := w.discover("P1", first.Token)
		batches := w.batches(d)
		_, err := w.process("P1", first.Token, batches[0])
		w.ok(err)
		w.deliver(w.ended("P1", "ABORTED"))

		redriven := w.execution("P1#1")
		// The Map is redriven with the inputs that its children had.
		_, err = w.process("P1", first.Token, batches[1])
		if _, lost := Translate(err).(*LeaseLostError); err != nil && !lost {
			t.Errorf("a child of the first life: %v", err)
		}
		_, err = w.steps.Commit(w.Context(), CommitInput{Execution: redriven, Token: first.Token, Discovered: d})
		if _, lost := Translate(err).(*LeaseLostError); !lost {
			t.Fatalf("the commit of the redriven life under the token of the first: %v", err)
		}
		loss := &Failure{Error: "LeaseLostError"}
		out := w.turn("P1#1", RunState{Acquired: &first, Lost: loss})
		equal(t, "decision", out.Decision, DecisionWait)
		for out.Decision == DecisionWait {
			time.Sleep(time.Duration(out.WaitSeconds) * time.Second)
			out = w.turn("P1#1", RunState{Acquired: &out, Lost: loss})
		}
		equal(t, "decision", out.Decision, DecisionHeld)
		if out.WaitedSeconds > 126 {
			t.Errorf("waited %d s for a lease of 120 s and 5 s of grace", out.WaitedSeconds)
		}
		d, err = w.steps.Discover(w.Context(), DiscoverInput{Execution: redriven, Token: out.Token})
		w.ok(err)
		for _, batch := range w.batches(d) {
			_, err := w.steps.Process(w.Context(), ProcessInput{Execution: redriven, Token: out.Token, Batch: batch})
			w.ok(err)
		}
		_, err = w.steps.Commit(w.Context(), CommitInput{Execution: redriven, Token: out.Token, Discovered: d})
		w.ok(err)
		w.wantOutputs(map[string]string{"in/a": "a", "in/b": "b"})
		equal(t, "rows in the ledger", len(w.rows()), 2)
	})
}

func TestAnEndedLifeSaysHowItEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		w.deliver(w.ended("P1", "ABORTED"))
		_, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution("P1")})
		for _, part := range []string{w.execution("P1").ID, "stopped at 2000-01-01T00:00:00Z", "execution ABORTED", "start another run"} {
			if err := Translate(err); !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	})
}

// An operator's break is the end of the run: it does not take the lock back.
func TestABrokenRunDoesNotTakeTheLockBack(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		r, err := w.steps.begin(w.execution("P1"))
		w.ok(err)
		if err := r.lock.Break(w.Context(), lease.BreakRequest{Token: token, By: "ada", Reason: "it hangs"}); err != nil {
			t.Fatal(err)
		}
		_, err = w.tryDiscover("P1", token)
		if _, lost := Translate(err).(*LeaseLostError); !lost {
			t.Errorf("the work of a broken run: %v", err)
		}
		w.wantEnded("broken", w.execution("P1"))
	})
}

// Whoever was superseded, or gave up, asks no more.
func TestARunThatDidNotGetTheLockIsOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		w.set("lock.maxWaitSeconds", 60)
		w.begin("P1")
		equal(t, "first", w.ask("P2").Decision, DecisionWait)
		equal(t, "second", w.ask("P3").Decision, DecisionSuperseded)
		time.Sleep(60 * time.Second)
		equal(t, "first", w.ask("P2").Decision, DecisionTimedOut)
		time.Sleep(66 * time.Second)
		w.wantEnded("superseded", w.execution("P3"))
		w.wantEnded("timed out", w.execution("P2"))
		equal(t, "holder", w.holder(), "")
	})
}

// A processing call of a life that was stopped publishes nothing any more once
// the lease has ended, and does not keep it alive until then.
func TestALeaseThatIsLeftToEndIsNotRenewed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.releaseAfter("P1", RunState{Discovered: &d, Failure: &Failure{Error: "States.Timeout"}})
		equal(t, "decision for the next", w.ask("P2").Decision, DecisionWait)
		time.Sleep(60 * time.Second)
		_, err := w.process("P1", token, w.batches(d)[0])
		if _, lost := Translate(err).(*LeaseLostError); !lost {
			t.Errorf("a call that needs the lease renewed: %v", err)
		}
		equal(t, "outputs", len(w.keys(w.lake, "")), 0)
		time.Sleep(66 * time.Second) // TTL 120 s and grace 5 s since the grant
		w.begin("P2")
	})
}

// The configuration has a section "failure" too, which a Catch replaces.
func TestTheStateIsReadApartFromTheConfigurationInIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"pipeline": "p", "failure": {"maxAttempts": 3}}`:    "",
		`{"failure": {"Error": "StepError", "Cause": "why"}}`: "StepError",
		`{"failure": 7}`: "",
		`{"lock": {"ttlSeconds": 60}, "processed": {"a": [1]}}`:      "",
		`{"lost": {"Error": "LeaseLostError"}, "failure": {"x": 1}}`: "",
	} {
		var in ReleaseInput
		if err := json.Unmarshal([]byte(`{"state": `+text+`}`), &in); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := ""
		if in.State.Failure != nil {
			got = in.State.Failure.Error
		}
		equal(t, text, got, want)
		if err := in.State.check(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A wrong configuration is refused as one, also where it looks like a state.
func TestAStateThatCannotBeReadIsRefusedAfterTheConfiguration(t *testing.T) {
	inWorld(t, func(w *world) {
		var in AcquireInput
		w.ok(json.Unmarshal([]byte(`{"state": {"acquired": "soon"}}`), &in))
		in.Execution = w.execution("P1")
		in.Execution.Input = json.RawMessage(`{"acquired": "soon"}`)
		_, err := w.steps.Acquire(w.Context(), in)
		var config *InvalidConfigError
		if !errors.As(err, &config) {
			t.Errorf("with a wrong configuration: %v", err)
		}
		in.Execution = w.execution("P1")
		_, err = w.steps.Acquire(w.Context(), in)
		var input *InvalidInputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), "acquired") {
			t.Errorf("with a wrong state: %v", err)
		}
		equal(t, "holder", w.holder(), "")
	})
}
