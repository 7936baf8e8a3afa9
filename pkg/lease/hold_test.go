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

// Case 14, rule 7.
func TestALateReleaseLeavesTheNewHolderAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lock(lease.Config{}), w.lock(lease.Config{})
		old := w.try(a, "P1")
		w.release(a, old)
		next := w.try(b, "P2")
		r, err := a.Release(w.Context(), old.Owner, old.Token, "again")
		if err != nil || r.Held || len(r.Holders) != 1 || r.Holders[0].Owner != "P2" {
			w.Errorf("%+v, %v", r, err)
		}
		if _, err := b.Renew(w.Context(), next); err != nil {
			w.Error(err)
		}
		w.release(b, next)
		redriven := w.try(b, "P1")
		if r, err := a.Release(w.Context(), old.Owner, old.Token, "again"); err != nil || r.Held {
			w.Errorf("the same owner's next grant was freed: %+v, %v", r, err)
		}
		w.release(b, redriven)
	})
}

// Case 14 at the register: the delayed request itself, not a repeated call.
func TestADelayedReleaseRequestLeavesTheNewHolderAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		a, line := w.client(lease.Config{})
		g := w.try(a, "P1")
		late, land := leasetest.Late()
		line.OnSwap(late)
		w.release(a, g)
		w.try(w.lock(lease.Config{}), "P2")
		if err := land(); !errors.Is(err, lease.ErrConflict) {
			w.Errorf("the delayed request: %v", err)
		}
		w.holder("P2")
	})
}

// Case 18, the library's part: an owner that was stopped gets nothing any more,
// and what it holds ends by itself; another life of it is another owner.
func TestAStoppedOwnerGetsNothingAndItsLeaseEndsByItself(t *testing.T) {
	inWorld(t, func(w *world) {
		cleaner := w.lock(lease.Config{})
		l := w.lock(lease.Config{TTL: time.Minute, Grace: 10 * time.Second, Once: true})
		g := w.try(l, "P1")
		w.ask(l, "P2", lease.Wait)
		time.Sleep(30 * time.Second)
		for range 2 { // the message may come twice
			r, err := cleaner.Stop(w.Context(), "P1", "aborted")
			if err != nil || r.Held || r.Token != g.Token || !r.Ends.Equal(g.Expires) || r.Waiters != 1 {
				w.Fatalf("%+v, %v", r, err)
			}
		}
		if _, err := l.Renew(w.Context(), g); !errors.Is(err, lease.ErrLost) {
			w.Errorf("a stopped owner renews: %v", err)
		}
		if _, err := l.Resume(w.Context(), "P1", g.Token); !errors.Is(err, lease.ErrLost) {
			w.Errorf("a stopped owner resumes: %v", err)
		}
		w.ask(l, "P2", lease.Wait)
		var over *lease.EndedError
		if _, err := l.Ask(w.Context(), "P1"); !errors.As(err, &over) || over.Kind != lease.Stopped || over.Reason != "aborted" {
			w.Errorf("a stopped owner asks: %v", err)
		}
		w.ask(l, "P1#1", lease.Wait)
		r, err := cleaner.Stop(w.Context(), "P1#1", "aborted again")
		if err != nil || !r.Withdrawn || !r.Ends.IsZero() {
			w.Errorf("a waiter is stopped: %+v, %v", r, err)
		}
		time.Sleep(time.Until(g.Expires) + time.Second)
		w.ask(l, "P2", lease.Held)
		if _, err := l.Ask(w.Context(), "P1#1"); !errors.Is(err, lease.ErrEnded) {
			w.Errorf("a stopped waiter asks: %v", err)
		}
	})
}

// Whatever ends a life leaves a mark, in the same write.
func TestALifeThatEndedNeverAcquiresAgain(t *testing.T) {
	for name, end := range map[string]func(w *world, l *lease.Lock){
		"released": func(w *world, l *lease.Lock) { w.release(l, w.try(l, "P1")) },
		"released without holding": func(w *world, l *lease.Lock) {
			_, err := l.Release(w.Context(), "P1", 0, "failed before it got the lock")
			w.ok(err)
		},
		"broken": func(w *world, l *lease.Lock) {
			g := w.try(l, "P1")
			w.ok(w.lock(lease.Config{}).Break(w.Context(), lease.BreakRequest{Token: g.Token, By: "ana", Reason: "dead"}))
		},
		"withdrawn": func(w *world, l *lease.Lock) {
			g := w.try(l, "P0")
			w.ask(l, "P1", lease.Wait)
			w.ok(l.Withdraw(w.Context(), "P1"))
			w.release(l, g)
		},
		"superseded": func(w *world, l *lease.Lock) {
			g := w.try(l, "P0")
			w.ask(l, "P2", lease.Wait)
			w.ask(l, "P1", lease.Superseded)
			w.release(l, g)
			w.ok(l.Withdraw(w.Context(), "P2"))
		},
		"stopped": func(w *world, l *lease.Lock) {
			_, err := w.lock(lease.Config{}).Stop(w.Context(), "P1", "aborted")
			w.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				l := w.lock(lease.Config{Once: true, MaxWaiters: 1})
				end(w, l)
				for _, minutes := range []int{0, 1, 18} {
					time.Sleep(time.Duration(minutes) * time.Minute)
					if _, err := l.Ask(w.Context(), "P1"); !errors.Is(err, lease.ErrEnded) {
						w.Errorf("after %d minutes: %v", minutes, err)
					}
					if _, err := l.TryAcquire(w.Context(), "P1"); !errors.Is(err, lease.ErrEnded) {
						w.Errorf("after %d minutes: %v", minutes, err)
					}
				}
				if status := w.status(); len(status.Ended) == 0 || status.Ended[len(status.Ended)-1].Owner != "P1" && status.Ended[0].Owner != "P1" {
					w.Errorf("status %+v", status.Ended)
				}
				time.Sleep(5 * time.Minute) // no call lives as long
				w.release(l, w.try(l, "P3"))
				if status := w.status(); len(status.Ended) != 1 {
					w.Errorf("old marks stay: %+v", status.Ended)
				}
			})
		})
	}
}

func TestAnOwnerOfALibraryUserMayComeBack(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		for range 3 {
			w.release(l, w.try(l, "nightly"))
		}
		if status := w.status(); len(status.Ended) != 0 {
			w.Errorf("%+v", status.Ended)
		}
	})
}

func TestNobodyGetsALockThatIsHeldBack(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		g := w.try(l, "P1")
		w.ok(l.SetHold(w.Context(), "ana", "the bucket moves"))
		if _, err := l.Renew(w.Context(), g); err != nil {
			w.Errorf("the holder does not go on: %v", err)
		}
		w.release(l, g)
		if a := w.ask(l, "P2", lease.Wait); a.Hold == nil || a.Hold.By != "ana" {
			w.Errorf("%+v", a)
		}
		_, err := l.TryAcquire(w.Context(), "P3")
		w.says(err, "held back", "ana", "the bucket moves")
		if status := w.status(); status.Hold == nil || status.Hold.Reason != "the bucket moves" {
			w.Errorf("%+v", status)
		}
		w.ok(l.ClearHold(w.Context(), "ana"))
		w.ask(l, "P2", lease.Held)
	})
}

// Case 15, rule 9.
func TestAnOperatorFindsAndBreaksAHolderByName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "arn:aborted")
		operator := w.lock(lease.Config{})
		s, err := operator.Inspect(w.Context())
		if err != nil || len(s.Holders) != 1 {
			w.Fatalf("%+v, %v", s, err)
		}
		for _, incomplete := range []lease.BreakRequest{
			{Holder: "arn:aborted", By: "ana"},
			{Holder: "arn:aborted", Reason: "dead"},
			{Holder: "arn:aborted", By: " ", Reason: "dead"},
			{By: "ana", Reason: "dead"},
		} {
			if err := operator.Break(w.Context(), incomplete); err == nil {
				w.Errorf("%+v is taken", incomplete)
			}
		}
		err = operator.Break(w.Context(), lease.BreakRequest{Holder: "arn:other", By: "ana", Reason: "dead"})
		w.is(err, lease.ErrNotHeld)
		w.says(err, `"arn:aborted" (token 946684800001)`)
		w.holder("arn:aborted")
		if err := operator.Break(w.Context(), lease.BreakRequest{Holder: s.Holders[0].Owner, By: "ana", Reason: "dead"}); err != nil {
			w.Fatal(err)
		}
		w.holder("")
		e := w.status().Events
		if last := e[len(e)-1]; last.Kind != lease.Broken || last.By != "ana" || last.Reason != "dead" || last.Owner != "arn:aborted" {
			w.Errorf("event %+v", last)
		}
	})
}

// A break whose reply is lost is not reported as having found nobody.
func TestABreakThatLandedIsRecognised(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "P1")
		operator, line := w.client(lease.Config{})
		line.OnSwap(leasetest.LostReply)
		if err := operator.Break(w.Context(), lease.BreakRequest{Token: firstToken, By: "ana", Reason: "dead"}); err != nil {
			w.Error(err)
		}
	})
}

func TestDoReleasesWhateverHappens(t *testing.T) {
	failed := errors.New("the work failed")
	for name, c := range map[string]struct {
		work func(context.Context, lease.Grant) error
		want error
	}{
		"success": {func(context.Context, lease.Grant) error { return nil }, nil},
		"failure": {func(context.Context, lease.Grant) error { return failed }, failed},
		"long":    {func(context.Context, lease.Grant) error { time.Sleep(time.Hour); return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				l := w.lock(lease.Config{})
				err := l.Do(w.Context(), "P1", func(ctx context.Context, g lease.Grant) error {
					w.holder("P1")
					return c.work(ctx, g)
				})
				if !errors.Is(err, c.want) {
					w.Errorf("error %v, want %v", err, c.want)
				}
				w.holder("")
			})
		})
	}
}

// Rule 11.
func TestDoReleasesAfterItsContextEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		l, line := w.client(lease.Config{})
		err := l.Do(ctx, "P1", func(ctx context.Context, _ lease.Grant) error {
			line.OnSwap(leasetest.Unavailable, leasetest.LostReply)
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		w.is(err, context.Canceled)
		if errors.Is(err, lease.ErrLost) {
			w.Error("a cancelled context looks like a loss")
		}
		w.holder("")

		began := time.Now()
		ctx, cancel = context.WithCancel(w.Context())
		err = l.Do(ctx, "P2", func(context.Context, lease.Grant) error {
			line.Always(leasetest.Hung)
			cancel()
			return nil
		})
		w.is(err, context.DeadlineExceeded)
		if took := time.Since(began); took > 6*time.Second {
			w.Errorf("cleanup took %v", took)
		}
	})
}

func TestDoReleasesWhenTheWorkPanics(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		func() {
			defer func() {
				if p := recover(); p != "bug" {
					w.Errorf("recovered %v", p)
				}
			}()
			l.Do(w.Context(), "P1", func(context.Context, lease.Grant) error { panic("bug") })
		}()
		w.holder("")
	})
}

func TestDoDoesNotCallTheWorkWithoutTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "P1")
		err := w.lock(lease.Config{}).Do(w.within(time.Minute), "P2", func(context.Context, lease.Grant) error {
			w.Error("called")
			return nil
		})
		w.is(err, context.DeadlineExceeded)
	})
}

// The requests that each call costs; prices and limits are built on them.
func TestRequestsPerCall(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		costs := func(what string, want leasetest.Requests) {
			w.Helper()
			if got := line.Count(); got != want {
				w.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		g := w.try(l, "P1")
		costs("acquire, cold", leasetest.Requests{Loads: 1, Swaps: 1})
		time.Sleep(20 * time.Second)
		g, err := l.Renew(w.Context(), g)
		if err != nil {
			w.Fatal(err)
		}
		costs("renew", leasetest.Requests{Swaps: 1})
		w.release(l, g)
		costs("release", leasetest.Requests{Swaps: 1})
		time.Sleep(15 * time.Minute)
		g = w.try(l, "P2")
		costs("acquire, warm", leasetest.Requests{Swaps: 1})
		if g.Remaining() != time.Minute {
			w.Errorf("a warm grant has %v", g.Remaining())
		}

		other := w.lock(lease.Config{})
		w.release(l, g)
		line.Count()
		h := w.try(other, "P3")
		w.refused(l, "P2")
		costs("try that fails, with an outdated memory", leasetest.Requests{Loads: 1, Swaps: 1})
		w.refused(l, "P2")
		costs("try that fails", leasetest.Requests{Loads: 1, Unchanged: 1})
		w.ask(l, "P2", lease.Wait)
		costs("ask: queue", leasetest.Requests{Loads: 1, Unchanged: 1, Swaps: 1})
		w.ask(l, "P2", lease.Wait)
		costs("ask: poll", leasetest.Requests{Loads: 1, Unchanged: 1})
		if _, err := l.Release(w.Context(), "P9", 0, "nothing"); err != nil {
			w.Fatal(err)
		}
		costs("release of nothing", leasetest.Requests{Loads: 1, Unchanged: 1})
		w.release(other, h)
		w.ask(l, "P2", lease.Held)
		costs("ask: take over", leasetest.Requests{Loads: 1, Swaps: 1})

		cold, line2 := w.client(lease.Config{})
		line = line2
		if r, err := cold.Release(w.Context(), "P2", 0, "aborted"); err != nil || !r.Held {
			w.Fatalf("%+v, %v", r, err)
		}
		costs("release from another process", leasetest.Requests{Loads: 1, Swaps: 1})
	})
}

func TestAWaitCostsOneConditionalReadAPoll(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "P1")
		l, line := w.client(lease.Config{Poll: 10 * time.Second})
		l.Acquire(w.within(10*time.Minute), "P2")
		c := line.Count()
		// Reads: one to come, one to leave, the rest polls. Writes: queue, leave,
		// and the mark at most once in 20 s.
		if c.Loads < 61 || c.Loads > 122 || c.Unchanged < c.Loads-c.Swaps-2 || c.Swaps > 2+30 {
			w.Errorf("requests %+v in 10 minutes", c)
		}
	})
}

// Rule 2, all in one life.
func TestTokensOnlyGrow(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		var last int64
		grown := func(g lease.Grant) lease.Grant {
			w.Helper()
			if g.Token <= last {
				w.Errorf("token %d after %d", g.Token, last)
			}
			last = g.Token
			return g
		}
		w.release(l, grown(w.try(l, "P1")))
		grown(w.try(l, "expires"))
		time.Sleep(71 * time.Second)
		g := grown(w.try(l, "broken"))
		if err := l.Break(w.Context(), lease.BreakRequest{Token: g.Token, By: "ana", Reason: "test"}); err != nil {
			w.Fatal(err)
		}
		grown(w.try(l, "damaged"))
		w.memory.Put([]byte("{"))
		if err := w.lock(lease.Config{}).Break(w.Context(), lease.BreakRequest{By: "ana", Reason: "test"}); err != nil {
			w.Fatal(err)
		}
		grown(w.try(l, "repaired"))
		w.memory.Put(nil)
		time.Sleep(time.Second)
		if err := w.lock(lease.Config{}).Break(w.Context(), lease.BreakRequest{By: "ana", Reason: "test"}); err != nil {
			w.Fatal(err)
		}
		grown(w.try(l, "repaired again"))
	})
}

// Case 11.
func TestConfigInAnotherUnitIsRefused(t *testing.T) {
	for _, c := range []struct {
		cfg   lease.Config
		names string
	}{
		{lease.Config{TTL: 60000 * time.Second}, "TTL"},
		{lease.Config{TTL: 60}, "TTL"},
		{lease.Config{TTL: -time.Minute}, "TTL"},
		{lease.Config{Grace: time.Millisecond}, "Grace"},
		{lease.Config{Grace: 2 * time.Hour}, "Grace"},
		{lease.Config{Poll: 20000 * time.Second}, "Poll"},
		{lease.Config{Poll: -1}, "Poll"},
		{lease.Config{Limit: -1}, "Limit"},
		{lease.Config{Limit: 5000}, "Limit"},
		{lease.Config{MaxWaiters: -1}, "MaxWaiters"},
		{lease.Config{MaxWaiters: 5000}, "MaxWaiters"},
		{lease.Config{Patience: -1}, "Patience"},
		{lease.Config{Cleanup: 2 * time.Hour}, "Cleanup"},
	} {
		_, err := lease.New(leasetest.NewMemory(nil), c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: error %v, want one about %s", c.cfg, err, c.names)
		}
	}
	if _, err := lease.New(nil, lease.Config{}); err == nil {
		t.Error("no register is taken")
	}
}

func TestOwnersAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, memory: leasetest.NewMemory(nil), rand: leasetest.Seeded(seed)}
		l := w.lock(lease.Config{})
		for name, err := range map[string]error{
			"try":      second(l.TryAcquire(t.Context(), "")),
			"ask":      second(l.Ask(t.Context(), "a\nb")),
			"acquire":  second(l.Acquire(t.Context(), "\xff")),
			"release":  second(l.Release(t.Context(), "", 1, "")),
			"stopped":  second(l.Stop(t.Context(), "", "")),
			"withdraw": l.Withdraw(t.Context(), ""),
			"resume":   second(l.Resume(t.Context(), "", 1)),
			"renew":    second(l.Renew(t.Context(), lease.Grant{Owner: "P1"})),
		} {
			if err == nil {
				t.Errorf("%s takes it", name)
			}
		}
	})
}
