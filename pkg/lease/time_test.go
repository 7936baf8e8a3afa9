package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// Case 9, rule 4: no watching of a whole lease first.
func TestANewcomerTakesOverADeadHoldersLockAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		dead := w.try(w.lock(lease.Config{}), "dead")
		time.Sleep(70 * time.Second)
		w.refused(w.lock(lease.Config{}), "P2")
		time.Sleep(time.Second)
		g := w.try(w.lock(lease.Config{}), "P2")
		if g.Token != dead.Token+1 {
			w.Errorf("token %d after %d", g.Token, dead.Token)
		}
		w.is(dead.Check(), lease.ErrLost)
	})
}

// Case 10, rule 4.
func TestAClientsWallClockHasNoEffect(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				right := w.lock(lease.Config{})
				wrong := w.lock(lease.Config{Clock: leasetest.NewClock(off)})
				g := w.try(right, "P1")
				w.refused(wrong, "P2")
				w.release(right, g)
				h := w.try(wrong, "P2")
				if left := h.Remaining(); left != time.Minute {
					w.Errorf("remaining %v", left)
				}
				if !h.Acquired.Equal(time.Now()) {
					w.Errorf("acquired %v, the server's clock says %v", h.Acquired, time.Now())
				}
				w.refused(right, "P3")
				w.ask(right, "P3", lease.Wait)
				time.Sleep(72 * time.Second)
				w.is(h.Check(), lease.ErrLost)
				w.ask(wrong, "P4", lease.Held) // P3 went silent, P2 expired
			})
		})
	}
}

// Rule 5: the lease began before the request left, not when the reply came.
func TestASlowReplyComesOutOfTheHoldersTime(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.OnSwap(leasetest.Slow(2 * time.Second))
		g := w.try(l, "P1")
		// Renewed is what the server's clock said before the write.
		if left, certain := g.Remaining(), time.Until(g.Expires)-10*time.Second; left != certain {
			w.Errorf("remaining %v, others may come in %v", left, certain+10*time.Second)
		}
		line.OnSwap(func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
			r, err := do()
			time.Sleep(2 * time.Second) // the reply, not the request, is slow
			return r, err
		})
		g, err := l.Renew(w.Context(), g)
		if err != nil {
			w.Fatal(err)
		}
		if left := g.Remaining(); left != 58*time.Second {
			w.Errorf("remaining %v after a renewal whose reply took 2 s", left)
		}
	})
}

// Rule 5: a frozen machine stops the monotonic clock, and somebody who sets
// the time moves the wall clock; either is enough to stop.
func TestADeadlineCountsOnBothClocks(t *testing.T) {
	for name, thaw := range map[string]func(*leasetest.Clock){
		"frozen": func(c *leasetest.Clock) { c.StepMono(-61 * time.Second) },
		"set":    func(c *leasetest.Clock) { c.StepWall(-61 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				clock := leasetest.NewClock(0)
				l := w.lock(lease.Config{Clock: clock})
				g := w.try(l, "P1")
				time.Sleep(59 * time.Second)
				if err := g.Check(); err != nil {
					w.Error(err)
				}
				time.Sleep(2 * time.Second)
				thaw(clock)
				w.is(g.Check(), lease.ErrLost)
			})
		})
	}
}

// A machine that was frozen between two invocations stamps its warm acquire
// with an old time; it notices, and renews before it says that it holds.
func TestAThawedMachineDoesNotAcquireAnOldLease(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := leasetest.NewClock(0)
		l, line := w.client(lease.Config{Clock: clock})
		w.release(l, w.try(l, "P1"))
		time.Sleep(15 * time.Minute)
		clock.StepMono(-15 * time.Minute)
		line.Count()
		g := w.try(l, "P2")
		if left := g.Remaining(); left < 50*time.Second {
			w.Errorf("remaining %v", left)
		}
		w.refused(w.lock(lease.Config{}), "P3")
	})
}

// Rule 5 and case 13: the line is cut; the work is told, with the cause,
// before anybody else can get in, and a late commit is known to be late.
func TestWorkIsCutShortBeforeAnotherCanHold(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		var stopped, entered time.Time
		next := make(chan lease.Grant, 1)
		go func() {
			time.Sleep(time.Second)
			g, err := w.lock(lease.Config{Poll: 100 * time.Millisecond}).Acquire(w.Context(), "P2")
			if err != nil {
				w.Error(err)
			}
			entered = time.Now()
			next <- g
		}()
		var first lease.Grant
		err := l.Do(w.Context(), "P1", func(ctx context.Context, g lease.Grant) error {
			first = g
			time.Sleep(5 * time.Minute) // well alive, by renewals
			if ctx.Err() != nil {
				w.Error("lost while the line was sound")
			}
			line.Always(leasetest.Hung)
			<-ctx.Done()
			stopped = time.Now()
			w.is(context.Cause(ctx), lease.ErrLost)
			return ctx.Err()
		})
		w.is(err, lease.ErrLost)
		second := <-next
		if !stopped.Before(entered) {
			w.Errorf("stopped at %v, the next came in at %v", stopped, entered)
		}
		if entered.Sub(stopped) > 15*time.Second {
			w.Errorf("the next waited %v after the stop", entered.Sub(stopped))
		}
		if second.Token <= first.Token {
			w.Errorf("token %d after %d", second.Token, first.Token)
		}
		_, err = l.Renew(w.within(time.Second), first)
		if err == nil {
			w.Error("the first was renewed")
		}
		line.Always(nil)
		_, err = l.Renew(w.Context(), first)
		w.is(err, lease.ErrLost)
		w.says(err, "expired at")
	})
}

func TestAFrozenHolderLearnsItAsSoonAsItAsks(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := leasetest.NewClock(0)
		l := w.lock(lease.Config{Clock: clock})
		kept, stop := l.Keep(w.Context(), w.try(l, "P1"))
		defer stop()
		clock.StepWall(61 * time.Second) // thawed: no timer has fired yet
		if !errors.Is(kept.Err(), context.Canceled) {
			w.Errorf("Err is %v", kept.Err())
		}
		w.is(context.Cause(kept), lease.ErrLost)
		child, cancel := context.WithCancel(kept)
		defer cancel()
		w.is(context.Cause(child), lease.ErrLost)
	})
}

func TestAFrozenHolderThatOnlyWaitsIsToldSoon(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := leasetest.NewClock(0)
		l := w.lock(lease.Config{Clock: clock})
		kept, stop := l.Keep(w.Context(), w.try(l, "P1"))
		defer stop()
		clock.StepWall(61 * time.Second)
		began := time.Now()
		<-kept.Done()
		if took := time.Since(began); took > time.Second {
			w.Errorf("told after %v", took)
		}
	})
}

func TestKeepRenewsForAsLongAsItIsWanted(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		g := w.try(l, "P1")
		kept, stop := l.Keep(w.Context(), g)
		line.Count()
		for range 60 {
			time.Sleep(time.Minute)
			w.refused(w.lock(lease.Config{}), "P2")
		}
		if kept.Err() != nil {
			w.Error(context.Cause(kept))
		}
		if c := line.Count(); c.Swaps < 180 || c.Swaps > 206 || c.Loads != c.Swaps {
			w.Errorf("an hour took %+v, want about three renewals a minute", c)
		}
		stop()
		stop()
		if kept.Err() == nil {
			w.Error("the context outlives stop")
		}
		if errors.Is(context.Cause(kept), lease.ErrLost) {
			w.Error("stop looks like a loss")
		}
	})
}

// Many processes of one run keep the same grant with the writes of little more
// than one.
func TestManyKeepersOfOneGrantShareTheWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.try(w.lock(lease.Config{}), "P1")
		var lines []*leasetest.Faulty
		for range 20 {
			l, line := w.client(lease.Config{})
			mine, err := l.Resume(w.Context(), "P1", g.Token)
			if err != nil {
				w.Fatal(err)
			}
			_, stop := l.Keep(w.Context(), mine)
			defer stop()
			lines = append(lines, line)
		}
		time.Sleep(10 * time.Minute)
		writes := 0
		for _, line := range lines {
			writes += line.Count().Swaps
		}
		if writes > 60 {
			w.Errorf("%d writes in 10 minutes by 20 keepers", writes)
		}
		w.holder("P1")
	})
}

func TestKeepSurvivesWhatPasses(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		kept, stop := l.Keep(w.Context(), w.try(l, "P1"))
		defer stop()
		for range 10 {
			line.OnLoad(leasetest.Unavailable, leasetest.Hung)
			line.OnSwap(leasetest.LostReply, leasetest.Conflict, leasetest.LostRequest)
			time.Sleep(30 * time.Second)
		}
		line.Always(leasetest.Refused) // a permission taken away for a while
		time.Sleep(30 * time.Second)
		line.Always(nil)
		time.Sleep(5 * time.Minute)
		if kept.Err() != nil {
			w.Error(context.Cause(kept))
		}
	})
}

func TestABrokenHolderIsToldAtItsNextRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		kept, stop := l.Keep(w.Context(), w.try(l, "P1"))
		defer stop()
		if err := w.lock(lease.Config{}).Break(w.Context(), lease.BreakRequest{Holder: "P1", By: "ana", Reason: "stuck"}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(21 * time.Second)
		cause := context.Cause(kept)
		w.is(cause, lease.ErrLost)
		w.says(cause, "broken", "by ana", "stuck")
	})
}

// Rule 7: a renewal is kept, lost or unknown.
func TestRenewSaysKeptLostOrUnknown(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		g := w.try(l, "P1")
		time.Sleep(10 * time.Second)
		kept, err := l.Renew(w.Context(), g)
		if err != nil || kept.Token != g.Token || kept.Remaining() != time.Minute {
			w.Fatalf("kept: %+v, %v", kept, err)
		}
		line.Always(leasetest.Unavailable)
		_, err = l.Renew(w.within(5*time.Second), kept)
		if err == nil || errors.Is(err, lease.ErrLost) {
			w.Errorf("unknown: %v", err)
		}
		began := time.Now()
		_, err = l.Renew(w.Context(), kept)
		w.is(err, lease.ErrLost) // its deadline passed, so the caller has to stop
		if took := time.Since(began); took != 55*time.Second {
			w.Errorf("tried for %v", took)
		}
		line.Always(nil)
		w.release(l, kept)
		other := w.try(w.lock(lease.Config{}), "P2")
		_, err = l.Renew(w.Context(), kept)
		w.is(err, lease.ErrLost)
		w.says(err, "released")
		if other.Check() != nil {
			w.Error(other.Check())
		}
	})
}

func TestAGrantFromAnotherProcessMustBeResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{TTL: 10 * time.Minute})
		b, err := json.Marshal(w.try(l, "P1"))
		if err != nil {
			w.Fatal(err)
		}
		var sent lease.Grant
		if err := json.Unmarshal(b, &sent); err != nil {
			w.Fatal(err)
		}
		w.is(sent.Check(), lease.ErrLost)
		_, stop := l.Keep(w.Context(), sent)
		stop()
		time.Sleep(time.Minute)
		// The TTL is the grant's, whatever the other process is configured with.
		other := w.lock(lease.Config{TTL: 10 * time.Second})
		g, err := other.Resume(w.Context(), sent.Owner, sent.Token)
		if err != nil || g.Remaining() != 9*time.Minute {
			w.Errorf("resumed with %v left, %v", g.Remaining(), err)
		}
		g, err = other.Renew(w.Context(), g)
		if err != nil || g.Remaining() != 10*time.Minute {
			w.Errorf("renewed with %v left, %v", g.Remaining(), err)
		}
		_, err = other.Resume(w.Context(), sent.Owner, sent.Token+1)
		w.is(err, lease.ErrLost)
		_, err = other.Resume(w.Context(), "P2", sent.Token)
		w.is(err, lease.ErrLost)
		w.says(err, "P1")
	})
}

func TestRenewIfOlderWritesOnlyWhenNobodyJustDid(t *testing.T) {
	inWorld(t, func(w *world) {
		a, lineA := w.client(lease.Config{})
		b, lineB := w.client(lease.Config{})
		g := w.try(a, "P1")
		h, err := b.Resume(w.Context(), "P1", g.Token)
		if err != nil {
			w.Fatal(err)
		}
		lineA.Count()
		lineB.Count()
		time.Sleep(21 * time.Second)
		if _, err = a.RenewIfOlder(w.Context(), g, 20*time.Second); err != nil {
			w.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		h, err = b.RenewIfOlder(w.Context(), h, 20*time.Second)
		if err != nil || h.Remaining() != 55*time.Second {
			w.Errorf("remaining %v, %v", h.Remaining(), err)
		}
		if c := lineA.Count(); c.Swaps != 1 {
			w.Errorf("the first made %+v", c)
		}
		if c := lineB.Count(); c.Swaps != 0 || c.Loads != 1 {
			w.Errorf("the second made %+v", c)
		}
	})
}

// A server's clock of whole seconds, read at the worst moment, and stepping by
// a second on top: the holder still stops first.
func TestTheHolderStopsFirstUnderACoarseAndSteppingServerClock(t *testing.T) {
	for offset := time.Duration(0); offset < time.Second; offset += 99 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			var step time.Duration
			w := &world{T: t, rand: leasetest.Seeded(seed),
				memory: leasetest.NewMemory(func() time.Time { return time.Now().Add(step) })}
			cfg := lease.Config{TTL: 2500 * time.Millisecond} // grace: the default of 2 s
			time.Sleep(offset)
			g := w.try(w.lock(cfg), "P1")
			for step = time.Second; ; time.Sleep(10 * time.Millisecond) {
				if _, err := w.lock(cfg).TryAcquire(t.Context(), "P2"); err == nil {
					break
				}
			}
			if left := g.Remaining(); left > 0 {
				t.Errorf("offset %v: another got in %v before the holder stops", offset, left)
			}
		})
	}
}

// A process that comes late picks up a grant with little left of it, and must
// not sleep through its end.
func TestKeepRenewsAGrantWithLittleLeftAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.try(w.lock(lease.Config{}), "P1")
		time.Sleep(55 * time.Second)
		other := w.lock(lease.Config{})
		late, err := other.Resume(w.Context(), "P1", g.Token)
		if err != nil {
			w.Fatal(err)
		}
		kept, stop := other.Keep(w.Context(), late)
		defer stop()
		time.Sleep(10 * time.Minute)
		if kept.Err() != nil {
			w.Error(context.Cause(kept))
		}
	})
}
