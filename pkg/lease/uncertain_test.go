package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// Case 1, rule 6: the PUT landed, its reply was lost, and the retry meets it.
func TestALostReplyIsRecognisedAsOwnGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.OnSwap(leasetest.LostReply)
		g := w.try(l, "P1")
		if g.Token != firstToken || g.Check() != nil {
			w.Errorf("grant %+v: %v", g, g.Check())
		}
		if c := line.Count(); c.Swaps != 1 {
			w.Errorf("%d swaps, want the one that landed", c.Swaps)
		}
		w.refused(w.lock(lease.Config{}), "P2")
	})
}

// Rule 6: what is uncertain is sent again as it was, so that it does not
// matter which of the two lands.
func TestALateFirstAttemptAndItsRepeatAreOneWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		late, land := leasetest.Late()
		// The first attempt lands while the second is on its way.
		line.OnSwap(late, func(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			if err := land(); err != nil {
				w.Errorf("the late attempt: %v", err)
			}
			return do()
		})
		g := w.try(l, "P1")
		if g.Token != firstToken {
			w.Errorf("token %d", g.Token)
		}
		s := w.status()
		if len(s.Events) != 1 || s.LastToken != firstToken {
			w.Errorf("last token %d, events %+v, want one grant", s.LastToken, s.Events)
		}
		w.release(l, g)
	})
}

// Rule 6: the same for a write that cannot be made twice. Were the repeat
// another body, it would find nobody to break.
func TestALateBreakAndItsRepeatAreOneBreak(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "P1")
		operator, line := w.client(lease.Config{})
		late, land := leasetest.Late()
		line.OnSwap(late, func(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			if err := land(); err != nil {
				w.Errorf("the late attempt: %v", err)
			}
			return do()
		})
		if err := operator.Break(w.Context(), lease.BreakRequest{Holder: "P1", By: "ana", Reason: "dead"}); err != nil {
			w.Error(err)
		}
		w.holder("")
	})
}

// Rule 6: an attempt that lands after its repeat meets another version.
func TestAnAttemptThatLandsAfterItsRepeatDoesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		late, land := leasetest.Late()
		line.OnSwap(late)
		w.release(l, w.try(l, "P1"))
		if err := land(); !errors.Is(err, lease.ErrConflict) {
			w.Errorf("the late attempt: %v", err)
		}
		w.holder("")
	})
}

// Rule 6: somebody else moved on, so the lost request never took effect.
func TestALostRequestOvertakenByAnotherIsNotTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		other := w.lock(lease.Config{})
		line.OnSwap(func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			w.try(other, "P2")
			return leasetest.LostRequest(ctx, do)
		})
		w.refused(l, "P1")
		w.holder("P2")
	})
}

// Rule 6: the write landed, its reply was lost, and others wrote on top before
// it could be read back.
func TestALostReplyIsRecognisedUnderLaterWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		other := w.lock(lease.Config{})
		g := w.try(l, "P1")
		w.ask(other, "P2", lease.Wait)
		line.OnSwap(func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			r, err := leasetest.LostReply(ctx, do)
			w.ask(other, "P2", lease.Held)
			return r, err
		})
		l.Inspect(w.Context())
		r, err := l.Release(w.Context(), "P1", g.Token, "done")
		if err != nil || !r.Held {
			w.Errorf("release that landed: %+v, %v", r, err)
		}
		w.holder("P2")
	})
}

// Case 2: a 409 is about another write that was under way, not an answer.
func TestAConflictOverNothingIsRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.OnSwap(leasetest.Conflict, leasetest.Conflict, leasetest.Conflict)
		if g := w.try(l, "P1"); g.Token != firstToken {
			w.Errorf("token %d", g.Token)
		}
	})
}

func TestARegisterThatDoesNotKnowItsOwnVersionsIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		stuck := make([]leasetest.Fault, 40)
		for i := range stuck {
			stuck[i] = leasetest.Conflict
		}
		line.OnSwap(stuck...)
		_, err := l.TryAcquire(w.Context(), "P1")
		w.is(err, lease.ErrRefused)
		w.says(err, "does not recognise its own versions")
	})
}

// Case 3: the release meets a busy store, and is repeated until it is through.
func TestAReleaseIsRetriedWhileTheLeaseLasts(t *testing.T) {
	for name, fault := range map[string]leasetest.Fault{
		"unavailable": leasetest.Unavailable, "lost request": leasetest.LostRequest,
		"lost reply": leasetest.LostReply, "conflict": leasetest.Conflict, "hung": leasetest.Hung,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				l, line := w.client(lease.Config{})
				g := w.try(l, "P1")
				line.OnSwap(fault, fault)
				line.OnLoad(leasetest.Unavailable)
				w.release(l, g)
				w.holder("")
			})
		})
	}
}

func TestAReleaseGivesUpWhenTheLeaseIsOverAnyway(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		g := w.try(l, "P1")
		line.Always(leasetest.Unavailable)
		began := time.Now()
		_, err := l.Release(w.Context(), g.Owner, g.Token, "done")
		w.is(err, context.DeadlineExceeded)
		if took := time.Since(began); took != 70*time.Second {
			w.Errorf("gave up after %v, want TTL + grace", took)
		}
	})
}

func TestAFailedRequestIsRepeatedWithinPatience(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.OnLoad(leasetest.Unavailable, leasetest.Hung)
		line.OnSwap(leasetest.Unavailable, leasetest.Hung, leasetest.LostRequest)
		w.try(l, "P1")
		line.Always(leasetest.Unavailable)
		began := time.Now()
		_, err := l.TryAcquire(w.Context(), "P1")
		w.is(err, leasetest.ErrInjected)
		w.says(err, "does not answer")
		if took := time.Since(began); took < 20*time.Second || took > 23*time.Second {
			w.Errorf("patience lasted %v", took)
		}
	})
}

func TestARefusalIsNotRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.OnLoad(leasetest.Refused)
		_, err := l.Acquire(w.Context(), "P1")
		w.is(err, lease.ErrRefused)
		line.OnSwap(leasetest.Refused)
		_, err = l.Acquire(w.Context(), "P1")
		w.is(err, lease.ErrRefused)
		if c := line.Count(); c.Loads != 2 || c.Swaps != 1 {
			w.Errorf("requests %+v", c)
		}
	})
}

// Rule 11: a given-up acquire whose write is still under way must not hold the
// lock later, when nobody remembers it.
func TestAGivenUpAcquireCannotLandLater(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		late, land := leasetest.Late()
		ctx, cancel := context.WithCancel(w.Context())
		line.OnSwap(func(c context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			defer cancel()
			return late(c, do)
		})
		_, err := l.TryAcquire(ctx, "P1")
		w.is(err, context.Canceled)
		w.is(err, lease.ErrUncertain)
		if err := land(); !errors.Is(err, lease.ErrConflict) {
			w.Errorf("the late write: %v", err)
		}
		w.holder("")
	})
}

func TestAGivenUpAcquireGivesBackWhatLanded(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		ctx, cancel := context.WithCancel(w.Context())
		line.OnSwap(func(c context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			defer cancel()
			return leasetest.LostReply(c, do)
		})
		_, err := l.Acquire(ctx, "P1")
		w.is(err, context.Canceled)
		w.holder("")
		if s := w.status(); s.LastToken != firstToken {
			w.Errorf("last token %d", s.LastToken)
		}
	})
}

// The write landed in an outage which the acquire did not outlive.
func TestAnAcquireGivenUpAfterAnOutageGivesBackWhatLanded(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		ctx := w.within(time.Minute)
		line.OnSwap(func(c context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			line.Always(leasetest.Hung)
			return leasetest.LostReply(c, do)
		})
		time.AfterFunc(time.Minute+time.Second, func() { line.Always(nil) }) // in time for the cleanup
		_, err := l.Acquire(ctx, "P1")
		w.is(err, context.DeadlineExceeded)
		w.holder("")
	})
}

// A repeated acquire that is given up leaves alone what the owner had before.
func TestAGivenUpRepeatLeavesTheEarlierGrantAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		w.try(l, "P1")
		time.Sleep(30 * time.Second)
		ctx, cancel := context.WithCancel(w.Context())
		line.OnSwap(func(c context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			defer cancel()
			return leasetest.LostReply(c, do)
		})
		_, err := l.TryAcquire(ctx, "P1")
		w.is(err, context.Canceled)
		w.holder("P1")
	})
}

// A release that was given up may still be under way when its owner asks
// again: the grant that it gets then must not be taken from under it.
func TestAGivenUpReleaseCannotFreeTheGrantAskedForAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		g := w.try(l, "P1")
		late, land := leasetest.Late()
		ctx, cancel := context.WithCancel(w.Context())
		line.OnSwap(func(c context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			defer cancel()
			return late(c, do)
		})
		_, err := l.Release(ctx, "P1", g.Token, "done")
		w.is(err, lease.ErrUncertain)
		again := w.try(w.lock(lease.Config{}), "P1") // a retry, in this process or another
		if err := land(); !errors.Is(err, lease.ErrConflict) {
			w.Errorf("the late release: %v", err)
		}
		w.holder("P1")
		if err := again.Check(); err != nil {
			w.Error(err)
		}
		w.refused(l, "P2")
	})
}

// Two processes ask for the same owner; the one that gives up must not take
// what the other got, although it bears the name and the token it asked for.
func TestAGivenUpAcquireLeavesItsTwinsGrantAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		ctx, cancel := context.WithCancel(w.Context())
		line.OnSwap(func(c context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			defer cancel()
			w.try(w.lock(lease.Config{}), "P1")
			return leasetest.LostRequest(c, do)
		})
		_, err := l.TryAcquire(ctx, "P1")
		w.is(err, context.Canceled)
		w.holder("P1")
	})
}

// The grant landed, but so late that it had to be renewed, and that failed.
func TestAGrantThatCannotBeMadeGoodIsGivenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := leasetest.NewClock(0)
		l, line := w.client(lease.Config{Clock: clock})
		w.release(l, w.try(l, "P1"))
		time.Sleep(40 * time.Second)
		clock.StepMono(-40 * time.Second)
		line.OnSwap(leasetest.Slow(0), leasetest.Refused)
		_, err := l.TryAcquire(w.Context(), "P2")
		w.is(err, lease.ErrRefused)
		w.holder("")
	})
}

// Case 8, rule 10: only break repairs, and the status says what is wrong.
func TestAnEmptyOrCutDocumentIsHeldUntilItIsBroken(t *testing.T) {
	for _, body := range []string{"", `{"schema":1,"limit":1,"lastToken":12,"hol`, `{"schema":2}`, "\xff\xfe"} {
		t.Run(body, func(t *testing.T) {
			inWorld(t, func(w *world) {
				l := w.lock(lease.Config{})
				g := w.try(l, "P1")
				w.memory.Put([]byte(body))
				other := w.lock(lease.Config{})
				var bad *lease.CorruptError
				for name, err := range map[string]error{
					"try":     second(other.TryAcquire(w.Context(), "P2")),
					"ask":     second(other.Ask(w.Context(), "P2")),
					"acquire": second(other.Acquire(w.Context(), "P2")),
					"renew":   second(l.Renew(w.Context(), g)),
					"resume":  second(l.Resume(w.Context(), "P1", g.Token)),
					"release": second(l.Release(w.Context(), "P1", g.Token, "done")),
					"leave":   other.Withdraw(w.Context(), "P2"),
				} {
					if !errors.As(err, &bad) || errors.Is(err, lease.ErrLost) {
						w.Errorf("%s: %v, want a CorruptError", name, err)
					}
				}
				w.says(bad, "counts as held", "break")
				if s := w.status(); s.Corrupt == "" || !s.Exists {
					w.Errorf("status %+v", s)
				}
				time.Sleep(24 * time.Hour)
				if _, err := other.TryAcquire(w.Context(), "P2"); !errors.As(err, &bad) {
					w.Errorf("a day later: %v", err)
				}
				if err := other.Break(w.Context(), lease.BreakRequest{By: "ana", Reason: "cut by a copy"}); err != nil {
					w.Fatal(err)
				}
				if next := w.try(other, "P2"); next.Token <= 12 {
					w.Errorf("token %d after repair", next.Token)
				}
				_, err := l.Renew(w.Context(), g)
				w.is(err, lease.ErrLost)
				e := w.status().Events
				if e[0].Kind != lease.Repaired || e[0].By != "ana" || e[0].Reason != "cut by a copy" {
					w.Errorf("events %+v", e)
				}
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

// Rule 2: an operator deletes the object under a client that knows better.
func TestTokensGrowWhenTheDocumentIsDeletedUnderAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, memory: leasetest.NewMemory(nil), rand: leasetest.Seeded(seed)}
		l, line := w.client(lease.Config{})
		for range 3 {
			w.release(l, w.try(l, "P1"))
		}
		w.memory = leasetest.NewMemory(nil)
		line.Register = w.memory
		if g := w.try(l, "P1"); g.Token != firstToken+3 {
			t.Errorf("token %d, want %d", g.Token, firstToken+3)
		}
	})
}

// Rule 2: one that knows nothing can be told, by a break.
func TestBreakOfADeletedDocumentStartsAboveAllTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		w.is(l.Break(w.Context(), lease.BreakRequest{Holder: "P1", By: "ana", Reason: "typo"}), lease.ErrNotHeld)
		if w.status().Exists {
			w.Fatal("a break that found nobody made a lock")
		}
		floor := time.Now().UnixMilli()
		if err := l.Break(w.Context(), lease.BreakRequest{By: "ana", Reason: "deleted by mistake"}); err != nil {
			w.Fatal(err)
		}
		if g := w.try(l, "P1"); g.Token <= floor {
			w.Errorf("token %d", g.Token)
		}
	})
}

func TestNoServerTimeIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.Always(func(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			r, err := do()
			r.Now = time.Time{}
			return r, err
		})
		_, err := l.TryAcquire(w.Context(), "P1")
		w.is(err, lease.ErrRefused)
		if !strings.Contains(err.Error(), "server time") {
			w.Error(err)
		}
	})
}
