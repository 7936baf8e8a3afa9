package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// Case 12, rule 11.
func TestACancelledWaiterReturnsAtOnceAndLeavesTheQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "P1")
		ctx, cancel := context.WithCancelCause(w.Context())
		reason := errors.New("the user pressed Ctrl-C")
		time.AfterFunc(12345*time.Millisecond, func() { cancel(reason) })
		began := time.Now()
		l, line := w.client(lease.Config{Poll: time.Minute})
		_, err := l.Acquire(ctx, "P2")
		w.is(err, reason)
		w.says(err, `"P1"`)
		if took := time.Since(began); took != 12345*time.Millisecond {
			w.Errorf("returned after %v", took)
		}
		if s := w.status(); len(s.Waiters) != 0 {
			w.Errorf("still queued: %+v", s.Waiters)
		}
		_ = line
	})
}

// Rule 11: the cleanup has a deadline of its own.
func TestACancelledWaiterDoesNotHangOnADeadRegister(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{TTL: time.Hour}), "P1")
		l, line := w.client(lease.Config{})
		ctx, cancel := context.WithCancel(w.Context())
		time.AfterFunc(10*time.Second, func() { line.Always(leasetest.Hung); cancel() })
		began := time.Now()
		_, err := l.Acquire(ctx, "P2")
		w.is(err, context.Canceled)
		if took := time.Since(began); took > 16*time.Second {
			w.Errorf("returned after %v", took)
		}
	})
}

func TestAnEndedContextCostsNoRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := l.Acquire(ctx, "P1")
		w.is(err, context.Canceled)
		_, err = l.TryAcquire(ctx, "P1")
		w.is(err, context.Canceled)
		if c := line.Count(); c != (leasetest.Requests{}) {
			w.Errorf("requests %+v", c)
		}
	})
}

// Case 17.
func TestAnAcquireThatTimesOutNamesTheHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.try(w.lock(lease.Config{TTL: time.Hour}), "arn:P1")
		_, err := w.lock(lease.Config{}).Acquire(w.within(30*time.Second), "P2")
		var timeout *lease.TimeoutError
		if !errors.As(err, &timeout) {
			w.Fatalf("error %v", err)
		}
		w.is(err, context.DeadlineExceeded)
		if h := timeout.Holders; len(h) != 1 || h[0].Owner != "arn:P1" || h[0].Token != g.Token || timeout.Position != 1 || timeout.Waited != 30*time.Second {
			w.Errorf("%+v", timeout)
		}
		w.says(err, "acquire lock memory", "30s", `"arn:P1" (token 946684800001)`, "since", "until", "number 1", "break")
		if s := w.status(); len(s.Waiters) != 0 {
			w.Errorf("still queued: %+v", s.Waiters)
		}
	})
}

func TestAnAcquireThatGetsNoAnswerInTimeSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.Always(leasetest.Unavailable)
		_, err := l.Acquire(w.within(2*time.Minute), "P1")
		var timeout *lease.TimeoutError
		if !errors.As(err, &timeout) {
			w.Errorf("error %v", err)
		}
		w.is(err, context.DeadlineExceeded)
		w.is(err, leasetest.ErrInjected)
		w.says(err, "no holder is known")
	})
}

// An answer that never became certain names nobody, least of all the asker.
func TestATimeoutInTheMiddleOfTheWriteDoesNotNameTheAsker(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		line.OnSwap(leasetest.Hung, leasetest.Hung)
		_, err := l.Acquire(w.within(5*time.Second), "P1")
		var timeout *lease.TimeoutError
		if !errors.As(err, &timeout) || len(timeout.Holders) != 0 {
			w.Errorf("error %v", err)
		}
		w.holder("")
	})
}

func TestAWaiterOutlivesAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.lock(lease.Config{TTL: time.Hour})
		g := w.try(holder, "P1")
		l, line := w.client(lease.Config{})
		time.AfterFunc(5*time.Second, func() { line.Always(leasetest.Unavailable) })
		time.AfterFunc(10*time.Minute, func() { line.Always(nil); w.release(holder, g) })
		if _, err := l.Acquire(w.Context(), "P2"); err != nil {
			w.Error(err)
		}
	})
}

// Rules 1 and 8, case 40: order of arrival within a priority.
func TestWaitersAreServedInOrderOneAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.lock(lease.Config{})
		g := w.try(holder, "holder")
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		priorities := []int{0, 1, 0, 2, 1, 0, 2, 0, 1, 0}
		for i, p := range priorities {
			time.Sleep(2 * time.Second)
			l := w.lock(lease.Config{Priority: p})
			all.Go(func() {
				err := l.Do(w.Context(), fmt.Sprint("P", i), func(context.Context, lease.Grant) error {
					if !mu.TryLock() {
						return errors.New("met another holder")
					}
					defer mu.Unlock()
					order = append(order, i)
					time.Sleep(3 * time.Second)
					return nil
				})
				if err != nil {
					w.Error(err)
				}
			})
		}
		time.Sleep(2 * time.Second)
		w.release(holder, g)
		all.Wait()
		if want := []int{3, 6, 1, 4, 8, 0, 2, 5, 7, 9}; !slices.Equal(order, want) {
			w.Errorf("served %v, want %v", order, want)
		}
	})
}

func TestFiftyAtOnceAreServedOneAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex
		last, turns := int64(0), 0
		var all sync.WaitGroup
		for i := range 50 {
			l := w.lock(lease.Config{Poll: 10 * time.Second})
			all.Go(func() {
				err := l.Do(w.Context(), fmt.Sprint("P", i), func(_ context.Context, g lease.Grant) error {
					if !mu.TryLock() {
						return errors.New("met another holder")
					}
					defer mu.Unlock()
					if g.Token <= last {
						return fmt.Errorf("token %d after %d", g.Token, last)
					}
					last, turns = g.Token, turns+1
					return nil
				})
				if err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
		if turns != 50 {
			w.Errorf("%d turns", turns)
		}
	})
}

// Case 40: with maxWaiters 1 the rest are superseded.
func TestOfTwoHundredOneRunsOneWaitsTheRestAreSuperseded(t *testing.T) {
	inWorld(t, func(w *world) {
		decisions := map[lease.Decision]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 200 {
			l := w.lock(lease.Config{MaxWaiters: 1})
			all.Go(func() {
				a, err := l.Ask(w.Context(), fmt.Sprint("P", i))
				if err != nil {
					w.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				decisions[a.Decision]++
			})
		}
		all.Wait()
		if decisions[lease.Held] != 1 || decisions[lease.Wait] != 1 || decisions[lease.Superseded] != 198 {
			w.Errorf("decisions %v", decisions)
		}
		_, err := w.lock(lease.Config{MaxWaiters: 1}).Acquire(w.Context(), "late")
		var superseded *lease.SupersededError
		if !errors.As(err, &superseded) || len(superseded.Waiters) != 1 || len(superseded.Holders) != 1 {
			w.Errorf("error %v", err)
		}
	})
}

// A state machine polls every waitSeconds and is told so once; it keeps its
// place for hours, at the price of few writes.
func TestAPollerKeepsItsPlaceForHours(t *testing.T) {
	for _, poll := range []time.Duration{time.Second, 20 * time.Second, time.Minute} {
		t.Run(poll.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				holder := w.lock(lease.Config{})
				g := w.try(holder, "P1")
				_, stop := holder.Keep(w.Context(), g)
				defer stop()
				var writes int
				var a lease.Answer
				const hours = 2
				for began := time.Now(); time.Since(began) < hours*time.Hour; {
					// Each turn is another process that remembers nothing.
					l, line := w.client(lease.Config{Poll: poll})
					a = w.ask(l, "P2", lease.Wait)
					writes += line.Count().Swaps
					if a.Position != 1 || a.RetryAfter < time.Second || a.RetryAfter > poll || a.RetryAfter%time.Second != 0 {
						w.Fatalf("answer %+v", a)
					}
					time.Sleep(a.RetryAfter)
				}
				if a.Waiting < hours*time.Hour-poll {
					w.Errorf("waiting for %v only", a.Waiting)
				}
				if third := poll + 10*time.Second; writes > int(hours*time.Hour/third)+2 {
					w.Errorf("%d writes", writes)
				}
			})
		})
	}
}

func TestTheNextInLineAsksAgainWhenTheHoldersTimeIsOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.try(w.lock(lease.Config{}), "dead")
		l := w.lock(lease.Config{Poll: time.Minute})
		w.ask(l, "P2", lease.Wait)
		time.Sleep(time.Minute)
		a := w.ask(l, "P2", lease.Wait)
		if a.RetryAfter != 11*time.Second {
			w.Errorf("ask again after %v, want 11s", a.RetryAfter)
		}
		time.Sleep(a.RetryAfter)
		w.ask(l, "P2", lease.Held)
	})
}

// TryAcquire starves nobody who queues.
func TestTryDoesNotOvertakeTheQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.lock(lease.Config{})
		g := w.try(l, "P1")
		w.ask(l, "P2", lease.Wait)
		w.release(l, g)
		held := w.refused(w.lock(lease.Config{}), "P3")
		if len(held.Holders) != 0 || len(held.Waiters) != 1 || held.Waiters[0].Owner != "P2" {
			w.Errorf("%+v", held)
		}
		w.says(held, "free, but promised to the 1 waiting")
		if s := w.status(); len(s.Waiters) != 1 {
			w.Errorf("try queued: %+v", s.Waiters)
		}
		w.try(w.lock(lease.Config{Priority: 1}), "urgent")
	})
}

func TestWithdrawLeavesTheQueueOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		l, line := w.client(lease.Config{})
		w.try(l, "P1")
		w.ask(l, "P2", lease.Wait)
		for range 2 {
			if err := l.Withdraw(w.Context(), "P2"); err != nil {
				w.Fatal(err)
			}
		}
		if err := l.Withdraw(w.Context(), "P1"); err != nil {
			w.Fatal(err)
		}
		w.holder("P1")
		if c := line.Count(); c.Swaps != 3 {
			w.Errorf("requests %+v: withdrawing from nothing costs no write", c)
		}
	})
}
