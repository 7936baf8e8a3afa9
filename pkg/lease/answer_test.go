package lease_test

import (
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

func TestAGrantTellsHowLongItWasWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		holder, waiter := w.lock(lease.Config{}), w.lock(lease.Config{Poll: time.Minute})
		first := w.ask(holder, "P1", lease.Held)
		if !first.Fresh || first.Waiting != 0 {
			t.Errorf("a free lock: %+v", first)
		}
		if queued := w.ask(waiter, "P2", lease.Wait); !queued.Fresh || queued.Waiting != 0 {
			t.Errorf("a new place: %+v", queued)
		}
		time.Sleep(40 * time.Second)
		if kept := w.ask(waiter, "P2", lease.Wait); kept.Fresh || kept.Waiting != 40*time.Second {
			t.Errorf("a kept place: %+v", kept)
		}
		w.release(holder, first.Grant)
		time.Sleep(5 * time.Second)
		if had := w.ask(waiter, "P2", lease.Held); !had.Fresh || had.Waiting != 45*time.Second || len(had.TookFrom) != 0 {
			t.Errorf("the grant: %+v", had)
		}
		if again := w.ask(waiter, "P2", lease.Held); again.Fresh || again.Waiting != 0 {
			t.Errorf("the same grant: %+v", again)
		}
	})
}

// Whoever comes first finds the holder's time over; somebody else may be next.
func TestAVanishedHolderIsInOneAnswerOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		gone := w.ask(w.lock(lease.Config{}), "P1", lease.Held)
		next, other := w.lock(lease.Config{Poll: 10 * time.Minute}), w.lock(lease.Config{})
		w.ask(next, "P2", lease.Wait)
		if early := w.ask(other, "P3", lease.Wait); len(early.TookFrom) != 0 {
			t.Errorf("%+v", early.TookFrom)
		}
		time.Sleep(gone.Grant.Expires.Sub(gone.Now) + time.Second)
		found := w.ask(other, "P3", lease.Wait) // its mark is old, so that it writes
		if len(found.TookFrom) != 1 || found.TookFrom[0].Owner != "P1" || found.TookFrom[0].Token != gone.Grant.Token || !found.TookFrom[0].Expired {
			t.Errorf("the first to come: %+v", found)
		}
		if had := w.ask(next, "P2", lease.Held); len(had.TookFrom) != 0 {
			t.Errorf("the next in line: %+v", had)
		}
	})
}

// What was not written down is found again by the next who asks.
func TestAnAskerThatIsTurnedAwayFreesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		gone := w.ask(w.lock(lease.Config{}), "P1", lease.Held)
		full := lease.Config{MaxWaiters: 1, Poll: 10 * time.Minute}
		next := w.lock(full)
		w.ask(next, "P2", lease.Wait)
		time.Sleep(gone.Grant.Expires.Sub(gone.Now) + time.Second)
		if away := w.ask(w.lock(full), "P3", lease.Superseded); len(away.TookFrom) != 0 || away.Fresh {
			t.Errorf("%+v", away)
		}
		if had := w.ask(next, "P2", lease.Held); len(had.TookFrom) != 1 {
			t.Errorf("%+v", had)
		}
	})
}

func TestAReleaseTellsSinceWhenTheLockWasHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		g := w.try(l, "P1")
		time.Sleep(30 * time.Second)
		g, err := l.Renew(w.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		r, err := l.Release(w.Context(), g.Owner, g.Token, "done")
		if err != nil || r.Now.Sub(r.Acquired) != time.Minute {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := l.Release(w.Context(), g.Owner, g.Token, "done"); err != nil || r.Held || !r.Acquired.IsZero() {
			t.Errorf("a second time: %+v, %v", r, err)
		}
	})
}
