package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// TestLock runs locks of several clients over a register. It needs real time
// only where a lease has to end by itself.
func TestLock(t *testing.T, open Open) {
	for _, rule := range []struct {
		name string
		test func(t *testing.T, client func() lease.Register)
	}{
		{"one holds and the other is told who", heldByOne},
		{"limit two lets two in and the third not", semaphore},
		{"the same owner gets the same grant", sameOwner},
		{"tokens grow over release and takeover", tokensGrow},
		{"waiters are served in order", servedInOrder},
		{"with the queue full a newcomer is superseded", superseded},
		{"a dead holder is succeeded by a client that just came", takeover},
		{"a late release leaves the new holder alone", lateRelease},
		{"what is no lock counts as held until it is broken", corrupt},
		{"many workers never meet", neverMeet},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			rule.test(t, open(t))
		})
	}
}

func newLock(t *testing.T, r lease.Register, cfg lease.Config) *lease.Lock {
	t.Helper()
	l, err := lease.New(r, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func try(t *testing.T, l *lease.Lock, owner string) lease.Grant {
	t.Helper()
	g, err := l.TryAcquire(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Fatalf("a fresh grant: %v", err)
	}
	return g
}

func refuses(t *testing.T, l *lease.Lock, owner string) *lease.HeldError {
	t.Helper()
	g, err := l.TryAcquire(t.Context(), owner)
	var held *lease.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("try %s: got token %d, error %v, want a HeldError", owner, g.Token, err)
	}
	return held
}

func ask(t *testing.T, l *lease.Lock, owner string, want lease.Decision) lease.Answer {
	t.Helper()
	a, err := l.Ask(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if a.Decision != want {
		t.Fatalf("ask %s: %s, want %s", owner, a.Decision, want)
	}
	return a
}

func release(t *testing.T, l *lease.Lock, g lease.Grant) {
	t.Helper()
	if r, err := l.Release(t.Context(), g.Owner, g.Token, "done"); err != nil || !r.Held {
		t.Fatalf("release of token %d: held %v, error %v", g.Token, r.Held, err)
	}
}

func heldByOne(t *testing.T, client func() lease.Register) {
	a, b := newLock(t, client(), lease.Config{}), newLock(t, client(), lease.Config{})
	g := try(t, a, "P1")
	held := refuses(t, b, "P2")
	if len(held.Holders) != 1 || held.Holders[0].Owner != "P1" || held.Holders[0].Token != g.Token || !held.Holders[0].Expires.Equal(g.Expires) {
		t.Errorf("holders are %+v, want P1 under %+v", held.Holders, g)
	}
	release(t, a, g)
	release(t, b, try(t, b, "P2"))
}

func semaphore(t *testing.T, client func() lease.Register) {
	cfg := lease.Config{Limit: 2}
	a, b, c := newLock(t, client(), cfg), newLock(t, client(), cfg), newLock(t, client(), cfg)
	first := try(t, a, "P1")
	try(t, b, "P2")
	if held := refuses(t, c, "P3"); len(held.Holders) != 2 {
		t.Errorf("holders are %+v", held.Holders)
	}
	release(t, a, first)
	try(t, c, "P3")
}

func sameOwner(t *testing.T, client func() lease.Register) {
	a, b := newLock(t, client(), lease.Config{}), newLock(t, client(), lease.Config{})
	g := try(t, a, "P1")
	again := try(t, b, "P1")
	if again.Token != g.Token || !again.Acquired.Equal(g.Acquired) {
		t.Errorf("second grant %+v, want %+v", again, g)
	}
	resumed, err := b.Resume(t.Context(), "P1", g.Token)
	if err != nil || resumed.Check() != nil {
		t.Errorf("resume: %v, %v", err, resumed.Check())
	}
}

func tokensGrow(t *testing.T, client func() lease.Register) {
	locks := []*lease.Lock{newLock(t, client(), lease.Config{}), newLock(t, client(), lease.Config{})}
	var last int64
	for i := range 6 {
		l := locks[i%2]
		g := try(t, l, fmt.Sprintf("P%d", i))
		if g.Token <= last {
			t.Fatalf("token %d after %d", g.Token, last)
		}
		last = g.Token
		if i%3 == 2 {
			if err := l.Break(t.Context(), lease.BreakRequest{Token: g.Token, By: "ana", Reason: "test"}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		release(t, l, g)
	}
}

func servedInOrder(t *testing.T, client func() lease.Register) {
	low, high := newLock(t, client(), lease.Config{}), newLock(t, client(), lease.Config{Priority: 1})
	g := try(t, low, "P1")
	ask(t, low, "P2", lease.Wait)
	ask(t, low, "P3", lease.Wait)
	if a := ask(t, high, "urgent", lease.Wait); a.Position != 1 {
		t.Errorf("position of the urgent one is %d", a.Position)
	}
	release(t, low, g)
	refuses(t, low, "P4")
	ask(t, low, "P2", lease.Wait)
	g = ask(t, high, "urgent", lease.Held).Grant
	release(t, high, g)
	ask(t, low, "P3", lease.Wait)
	release(t, low, ask(t, low, "P2", lease.Held).Grant)
	ask(t, low, "P3", lease.Held)
}

func superseded(t *testing.T, client func() lease.Register) {
	cfg := lease.Config{MaxWaiters: 1}
	a, b := newLock(t, client(), cfg), newLock(t, client(), cfg)
	try(t, a, "P1")
	ask(t, b, "P2", lease.Wait)
	ask(t, a, "P3", lease.Superseded)
	ask(t, b, "P2", lease.Wait)
	if err := b.Withdraw(t.Context(), "P2"); err != nil {
		t.Fatal(err)
	}
	ask(t, a, "P3", lease.Wait)
}

func takeover(t *testing.T, client func() lease.Register) {
	cfg := lease.Config{TTL: 2 * time.Second, Grace: time.Second, Poll: 100 * time.Millisecond}
	dead := try(t, newLock(t, client(), cfg), "dead")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := newLock(t, client(), cfg).Acquire(ctx, "new")
	if err != nil {
		t.Fatal(err)
	}
	if g.Token <= dead.Token || !g.Acquired.After(dead.Expires) {
		t.Errorf("token %d at %v after token %d until %v", g.Token, g.Acquired, dead.Token, dead.Expires)
	}
	if err := dead.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the dead holder's grant: %v", err)
	}
}

func lateRelease(t *testing.T, client func() lease.Register) {
	a, b := newLock(t, client(), lease.Config{}), newLock(t, client(), lease.Config{})
	old := try(t, a, "P1")
	release(t, a, old)
	g := try(t, b, "P2")
	r, err := a.Release(t.Context(), old.Owner, old.Token, "late")
	if err != nil || r.Held || len(r.Holders) != 1 || r.Holders[0].Owner != "P2" {
		t.Errorf("late release: %+v, %v", r, err)
	}
	if _, err := b.Renew(t.Context(), g); err != nil {
		t.Errorf("the new holder: %v", err)
	}
}

func corrupt(t *testing.T, client func() lease.Register) {
	swap(t, client(), "", `{"schema":1,"limit":1,"lastToken":41,"hold`)
	l := newLock(t, client(), lease.Config{})
	var bad *lease.CorruptError
	if _, err := l.TryAcquire(t.Context(), "P1"); !errors.As(err, &bad) {
		t.Fatalf("try: %v, want a CorruptError", err)
	}
	if s, err := l.Inspect(t.Context()); err != nil || s.Corrupt == "" {
		t.Errorf("inspect: %+v, %v", s, err)
	}
	if err := l.Break(t.Context(), lease.BreakRequest{By: "ana", Reason: "cut"}); err != nil {
		t.Fatal(err)
	}
	if g := try(t, l, "P1"); g.Token <= 41 {
		t.Errorf("token %d after 41", g.Token)
	}
}

func neverMeet(t *testing.T, client func() lease.Register) {
	const workers, each = 6, 2
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex // held by whoever holds the lease; never contended
	var tokens []int64
	var all sync.WaitGroup
	for i := range workers {
		l := newLock(t, client(), lease.Config{Poll: 10 * time.Millisecond})
		all.Go(func() {
			for range each {
				err := l.Do(ctx, fmt.Sprintf("worker %d", i), func(_ context.Context, g lease.Grant) error {
					if !mu.TryLock() {
						return errors.New("met another holder")
					}
					defer mu.Unlock()
					tokens = append(tokens, g.Token)
					return nil
				})
				if err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	if len(tokens) != workers*each {
		t.Errorf("%d of %d turns taken", len(tokens), workers*each)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("token %d after %d", tokens[i], tokens[i-1])
		}
	}
}
