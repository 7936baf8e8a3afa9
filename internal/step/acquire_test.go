package step

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestAFreeLockIsHeldAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		out := w.ask("P1")
		equal(t, "decision", out.Decision, DecisionHeld)
		equal(t, "token", out.Token, 1)
		equal(t, "wait", out.WaitSeconds, 0)
		if expires, err := time.Parse(time.RFC3339, out.Expires); err != nil || !expires.After(w.state.Now()) {
			t.Errorf("expires %q: %v", out.Expires, err)
		}
	})
}

func TestAskingAgainWhileHoldingGivesTheSameToken(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.ask("P1")
		time.Sleep(30 * time.Second)
		again := w.ask("P1")
		equal(t, "decision", again.Decision, DecisionHeld)
		equal(t, "token", again.Token, first.Token)
	})
}

func TestAWaitingRunIsToldWhoHoldsTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		out := w.ask("P2")
		equal(t, "decision", out.Decision, DecisionWait)
		equal(t, "token", out.Token, 0)
		equal(t, "expires", out.Expires, "")
		equal(t, "wait", out.WaitSeconds, 15)
		for _, part := range []string{w.execution("P1").ID, "token 1", "since 2000-01-01T00:00:00Z", "until 2000-01-01T00:02:05Z"} {
			if !strings.Contains(out.Reason, part) {
				t.Errorf("%q does not say %q", out.Reason, part)
			}
		}
	})
}

func TestTheNextInLineGetsTheLockWhenItIsReleased(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		w.ask("P2")
		time.Sleep(10 * time.Second)
		w.ask("P3")
		w.release("P1", token)
		out := w.ask("P3")
		equal(t, "decision for the later", out.Decision, DecisionWait)
		equal(t, "reason", out.Reason, "the lock is free and waits for runs that came earlier")
		equal(t, "decision for the earlier", w.ask("P2").Decision, DecisionHeld)
	})
}

// CASES 40.
func TestWithEnoughWaitersANewcomerIsSuperseded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		token := w.begin("P1")
		equal(t, "decision for the first waiter", w.ask("P2").Decision, DecisionWait)
		out := w.ask("P3")
		equal(t, "decision for the second", out.Decision, DecisionSuperseded)
		if !strings.Contains(out.Reason, w.execution("P1").ID) || !strings.Contains(out.Reason, "lock.maxWaiters 1") {
			t.Errorf("reason %q", out.Reason)
		}
		w.release("P1", token)
		equal(t, "decision for the first waiter", w.ask("P2").Decision, DecisionHeld)
	})
}

// CASES 17.
func TestARunThatWaitedTooLongNamesTheHolderAndLeavesTheQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		w.set("lock.maxWaitSeconds", 60)
		w.set("lock.ttlSeconds", 600)
		token := w.begin("P1")
		var out AcquireOutput
		for turn := range 10 {
			out = w.ask("P2")
			if out.Decision != DecisionWait {
				equal(t, "turns before giving up", turn, 4)
				break
			}
			time.Sleep(time.Duration(out.WaitSeconds) * time.Second)
		}
		equal(t, "decision", out.Decision, DecisionTimedOut)
		equal(t, "waited", out.WaitedSeconds, 60)
		equal(t, "wait", out.WaitSeconds, 0)
		for _, part := range []string{w.execution("P1").ID, "lock.maxWaitSeconds 60", "s3://state/lockstep/lock.json"} {
			if !strings.Contains(out.Reason, part) {
				t.Errorf("%q does not say %q", out.Reason, part)
			}
		}
		equal(t, "decision for the next, which finds the queue empty", w.ask("P3").Decision, DecisionWait)
		w.release("P1", token)
		equal(t, "decision for the next", w.ask("P3").Decision, DecisionHeld)
		if _, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution("P2")}); !errors.As(Translate(err), new(*RunEndedError)) {
			t.Errorf("a late call of the run that gave up: %v", err)
		}
	})
}

func TestARunThatMayNotWaitGivesUpAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaitSeconds", 0)
		token := w.begin("P1")
		equal(t, "decision", w.ask("P2").Decision, DecisionTimedOut)
		w.release("P1", token)
		equal(t, "decision", w.ask("P3").Decision, DecisionHeld)
	})
}

// The lock would like to be asked as soon as the holder's time is over, which
// comes round again and again while the holder renews it.
func TestANextInLineAsksNoMoreOftenThanTheHistoryBears(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.ttlSeconds", 60)
		w.set("lock.graceSeconds", 2)
		w.set("lock.maxWaitSeconds", 43200)
		w.set("lock.pollSeconds", 1)
		w.begin("P1")
		time.Sleep(61 * time.Second)
		out := w.ask("P2")
		equal(t, "decision", out.Decision, DecisionWait)
		equal(t, "wait", out.WaitSeconds, 22) // 43,200 s in 2,000 turns
		w.set("lock.maxWaitSeconds", 2000)
		equal(t, "wait", w.ask("P3").WaitSeconds, 1)
	})
}

func TestAVanishedHolderIsSucceeded(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.begin("P1")
		time.Sleep(126 * time.Second) // TTL 120 s, grace 5 s
		if second := w.begin("P2"); second <= first {
			t.Errorf("token %d after %d", second, first)
		}
	})
}

// CASES 8.
func TestACorruptLockCountsAsHeldAndSaysSo(t *testing.T) {
	for name, body := range map[string]string{"empty": "", "cut": `{"schema": 1, "lim`, "another's": `{"hello": "world"}`} {
		inWorld(t, func(w *world) {
			_, err := w.state.Put(w.Context(), LockKey(w.parsed()), strings.NewReader(body), "", bucket.Condition{})
			w.ok(err)
			_, err = w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution("P1")})
			var corrupt *LockCorruptError
			if !errors.As(Translate(err), &corrupt) || !strings.Contains(err.Error(), "s3://state/lockstep/lock.json") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// CASES 1: the reply of the PUT is lost, the repeated call finds its own grant.
func TestALostReplyIsFoundByAskingAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		lost := 0
		w.state.Fault(nil, func(op, _ string) error {
			if op == "put" && lost == 0 {
				lost++
				return errors.New("connection reset")
			}
			return nil
		})
		out := w.ask("P1")
		equal(t, "lost replies", lost, 1)
		equal(t, "decision", out.Decision, DecisionHeld)
		equal(t, "token", out.Token, 1)
	})
}

func TestALockThatDoesNotAnswerIsTransient(t *testing.T) {
	inWorld(t, func(w *world) {
		w.state.Fault(func(string, string) error { return errors.New("no route to host") }, nil)
		_, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution("P1")})
		var transient *TransientError
		if !errors.As(Translate(err), &transient) {
			t.Errorf("%T: %v", Translate(err), err)
		}
	})
}

// turn is one turn of a run whose state machine kept this state.
func (w *world) turn(run string, state RunState) AcquireOutput {
	w.Helper()
	out, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution(run), State: state})
	w.ok(err)
	return out
}

// A run that lost its lock queues again, three times at most, and fails with its
// first loss; waits and turns are those of the run.
func TestARunThatLostItsLockBeginsALap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.ttlSeconds", 60)
		held := w.turn("P1", RunState{})
		for lap := 1; lap <= 3; lap++ {
			equal(t, "lap", held.Lap, int64(lap))
			time.Sleep(70 * time.Second)
			other := fmt.Sprint("Q", lap)
			token := w.begin(other)
			state := RunState{Acquired: &held, Lost: &Failure{Error: "LeaseLostError", Cause: fmt.Sprint("loss ", lap)}}
			waits := w.turn("P1", state)
			if lap == 3 {
				equal(t, "decision", waits.Decision, DecisionOvertaken)
				equal(t, "loss", *waits.Loss, Failure{Error: "LeaseLostError", Cause: "loss 1"})
				return
			}
			equal(t, "decision", waits.Decision, DecisionWait)
			time.Sleep(20 * time.Second)
			w.release(other, token)
			state.Acquired = &waits
			held = w.turn("P1", state)
			equal(t, "decision", held.Decision, DecisionHeld)
			equal(t, "waited", held.WaitedSeconds, int64(20*lap))
			equal(t, "turns", held.Turns, int64(1+2*lap))
		}
	})
}
