package lease_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// Case 10: a keeper and a waiter whose clocks are an hour off, or are set by an
// hour meanwhile: the keeper keeps, the waiter waits and then takes over.
func TestHolderAndWaiterWithClocksAnHourOff(t *testing.T) {
	for _, c := range []struct {
		name           string
		holder, waiter time.Duration // off
		set            time.Duration // the waiter's clock, while it waits
	}{
		{"both ahead", time.Hour, time.Hour, 0},
		{"both behind", -time.Hour, -time.Hour, 0},
		{"apart", -time.Hour, time.Hour, 0},
		{"apart the other way", time.Hour, -time.Hour, 0},
		{"set ahead", 0, 0, time.Hour},
		{"set back", 0, 0, -time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				holder := w.lock(lease.Config{Clock: leasetest.NewClock(c.holder)})
				clock := leasetest.NewClock(c.waiter)
				waiter := w.lock(lease.Config{Clock: clock})
				g := w.try(holder, "P1")
				kept, stop := holder.Keep(w.Context(), g)
				released := make(chan time.Time, 1)
				go func() {
					time.Sleep(10 * time.Minute)
					clock.StepWall(c.set)
					time.Sleep(10 * time.Minute)
					if kept.Err() != nil {
						w.Errorf("lost: %v", context.Cause(kept))
					}
					stop()
					w.release(holder, g)
					released <- time.Now()
				}()
				h, err := waiter.Acquire(w.Context(), "P2")
				if err != nil {
					w.Fatal(err)
				}
				if waited := time.Since(<-released); waited < 0 || waited > 2*time.Second {
					w.Errorf("got it %v after the release", waited)
				}
				if h.Remaining() != time.Minute {
					w.Errorf("remaining %v", h.Remaining())
				}
			})
		})
	}
}

// Rule 5: a holder whose clock is set ahead cannot tell that from a freeze, and
// stops; set back, its monotonic clock keeps it honest.
func TestAHolderWhoseClockIsSet(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := leasetest.NewClock(0)
		l := w.lock(lease.Config{Clock: clock})
		g := w.try(l, "P1")
		clock.StepWall(-time.Hour)
		if left := g.Remaining(); left != time.Minute {
			w.Errorf("remaining %v after the clock was set back", left)
		}
		time.Sleep(time.Minute)
		w.is(g.Check(), lease.ErrLost)
		g, err := l.Renew(w.Context(), g) // nobody came meanwhile
		if err != nil {
			w.Fatal(err)
		}
		clock.StepWall(time.Hour)
		w.is(g.Check(), lease.ErrLost)
		w.refused(w.lock(lease.Config{}), "P2")
	})
}

// A machine freezes in the middle of the work, another takes over, and the
// first thaws: it is told at once, and neither its renewal nor its release
// touches the new holder.
func TestAHolderThatThawsAfterTheTakeover(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := leasetest.NewClock(0)
		l, line := w.client(lease.Config{Clock: clock})
		other := w.lock(lease.Config{})
		var second lease.Grant
		err := l.Do(w.Context(), "P1", func(ctx context.Context, g lease.Grant) error {
			// Frozen: the monotonic clock stops, no request leaves, no timer of
			// the process's own would fire.
			frozen := make(chan struct{})
			line.Always(func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
				<-frozen
				return do()
			})
			time.Sleep(71 * time.Second)
			clock.StepMono(-71 * time.Second)
			second = w.try(other, "P2")
			line.Always(nil)
			close(frozen)
			if ctx.Err() == nil {
				w.Error("the work goes on after the thaw")
			}
			w.is(g.Check(), lease.ErrLost)
			_, err := l.Renew(w.Context(), g)
			w.is(err, lease.ErrLost)
			if second.Token <= g.Token {
				w.Errorf("token %d after %d", second.Token, g.Token)
			}
			return nil
		})
		w.is(err, lease.ErrLost)
		w.holder("P2")
		if _, err := other.Renew(w.Context(), second); err != nil {
			w.Error(err)
		}
	})
}

// unsteady is a server whose Date is by up to step wrong, either way, and by
// another amount in each answer.
func unsteady(step time.Duration) func() time.Time {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 0))
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(time.Duration(dice.Int64N(int64(2*step+1))) - step)
	}
}

// overlap lets holders die one after the other and returns by how much, at
// worst, the next got in before the last one's own deadline; negative is the
// least gap.
func overlap(t *testing.T, step, grace time.Duration) time.Duration {
	worst := -time.Hour
	synctest.Test(t, func(t *testing.T) {
		t.Logf("seed %d", seed)
		w := &world{T: t, rand: leasetest.Seeded(seed), memory: leasetest.NewMemory(unsteady(step))}
		cfg := lease.Config{TTL: 3 * time.Second, Grace: grace, Poll: 10 * time.Millisecond}
		dice := rand.New(rand.NewPCG(seed, 1))
		last := w.try(w.lock(cfg), "P0")
		for range 40 {
			time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
			renewing := w.lock(cfg)
			if g, err := renewing.Resume(t.Context(), "P0", last.Token); err == nil {
				if g, err = renewing.Renew(t.Context(), g); err == nil && g.Remaining() > last.Remaining() {
					last = g
				}
			}
			l := w.lock(cfg)
			for {
				g, err := l.TryAcquire(t.Context(), "P1")
				if err == nil {
					worst = max(worst, last.Remaining())
					w.release(l, g)
					break
				}
				time.Sleep(23 * time.Millisecond)
			}
			last = w.try(w.lock(cfg), "P0")
		}
	})
	return worst
}

// What Config.Grace has to cover: the resolution of the clock, a second, and
// what it may be wrong by, twice, as one answer may be early and another late.
func TestGraceCoversAServerClockThatSteps(t *testing.T) {
	for _, c := range []struct{ step, grace time.Duration }{
		{0, time.Second},
		{500 * time.Millisecond, 2 * time.Second},
		{time.Second, 3 * time.Second},
		{5 * time.Second, 11 * time.Second},
	} {
		if by := overlap(t, c.step, c.grace); by > 0 {
			t.Errorf("a clock wrong by %v with a grace of %v: two held for %v", c.step, c.grace, by)
		}
	}
	// The check itself: with less grace than that, two do hold at a time.
	if by := overlap(t, 2*time.Second, time.Second); by <= 0 {
		t.Errorf("a clock wrong by 2 s with a grace of 1 s: a gap of %v", -by)
	}
}

// A clock that steps by a second takes the lock from no live holder and the
// place from no live waiter.
func TestAServerClockThatStepsDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Logf("seed %d", seed)
		w := &world{T: t, rand: leasetest.Seeded(seed), memory: leasetest.NewMemory(unsteady(time.Second))}
		cfg := lease.Config{TTL: 6 * time.Second, Grace: 3 * time.Second}
		l := w.lock(cfg)
		g := w.try(l, "P1")
		kept, stop := l.Keep(t.Context(), g)
		poller := w.lock(lease.Config{Poll: 20 * time.Second})
		w.ask(poller, "P2", lease.Wait)
		for range 180 {
			time.Sleep(20 * time.Second)
			w.ask(w.lock(cfg), "P3", lease.Wait)
			if a := w.ask(poller, "P2", lease.Wait); a.Position != 1 {
				t.Fatalf("position %d", a.Position)
			}
			if kept.Err() != nil {
				t.Fatal(context.Cause(kept))
			}
		}
		stop()
		w.release(l, g)
		w.ask(poller, "P2", lease.Held)
	})
}
