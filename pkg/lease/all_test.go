package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// town is a world of several locks, each with a name and a register.
type town struct {
	*world
	registers map[string]*leasetest.Memory
}

func inTown(t *testing.T, f func(w *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Logf("seed %d", seed)
		f(&town{world: &world{T: t, rand: leasetest.Seeded(seed)}, registers: map[string]*leasetest.Memory{}})
	})
}

type named struct {
	lease.Register
	name string
}

func (n named) String() string { return n.name }

// client is another process's lock of this name.
func (w *town) client(name string, cfg lease.Config) (*lease.Lock, *leasetest.Faulty) {
	w.Helper()
	if w.registers[name] == nil {
		w.registers[name] = leasetest.NewMemory(nil)
	}
	w.memory = w.registers[name]
	line := leasetest.NewFaulty(w.memory)
	cfg.Rand = w.source()
	l, err := lease.New(named{line, name}, cfg)
	if err != nil {
		w.Fatal(err)
	}
	return l, line
}

func (w *town) locks(names string, cfg lease.Config) []*lease.Lock {
	var locks []*lease.Lock
	for name := range strings.SplitSeq(names, " ") {
		l, _ := w.client(name, cfg)
		locks = append(locks, l)
	}
	return locks
}

// held checks who alone holds each lock: "a:P1 b:".
func (w *town) held(want string) {
	w.Helper()
	var got []string
	for field := range strings.SplitSeq(want, " ") {
		name, _, _ := strings.Cut(field, ":")
		l, _ := w.client(name, lease.Config{})
		s, err := l.Inspect(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if len(s.Waiters) > 0 {
			w.Errorf("%s has waiters %+v", name, s.Waiters)
		}
		owner := ""
		for _, h := range s.Holders {
			owner += h.Owner
		}
		got = append(got, name+":"+owner)
	}
	if g := strings.Join(got, " "); g != want {
		w.Errorf("held are %q, want %q", g, want)
	}
}

func TestAllLocksAreTakenOrNone(t *testing.T) {
	inTown(t, func(w *town) {
		locks := w.locks("c a b", lease.Config{})
		b, err := lease.AcquireAll(w.Context(), "P1", locks...)
		if err != nil {
			w.Fatal(err)
		}
		w.held("a:P1 b:P1 c:P1")
		for i, g := range b.Grants() {
			if err := g.Check(); err != nil {
				w.Error(err)
			}
			if _, err := locks[i].Renew(w.Context(), g); err != nil {
				w.Errorf("grant %d is not of lock %d: %v", i, i, err)
			}
		}
		var held *lease.HeldError
		_, err = lease.TryAcquireAll(w.Context(), "P2", w.locks("a0 d b", lease.Config{})...)
		if !errors.As(err, &held) || held.Holders[0].Owner != "P1" {
			w.Errorf("error %v, want a HeldError", err)
		}
		w.says(err, "acquire 3 locks", "lock b", `"P1"`)
		w.held("a0: d: b:P1")
		if err := b.Release(w.Context(), "done"); err != nil {
			w.Error(err)
		}
		w.held("a: b: c:")
	})
}

// Rule 12: one order, whatever order the caller names; and back in reverse.
func TestLocksAreTakenInOneOrderAndGivenBackInReverse(t *testing.T) {
	for _, names := range []string{"a b c", "c b a", "b c a"} {
		t.Run(names, func(t *testing.T) {
			inTown(t, func(w *town) {
				var order []string
				var locks []*lease.Lock
				for name := range strings.SplitSeq(names, " ") {
					l, line := w.client(name, lease.Config{})
					line.OnSwap(leasetest.Then(func() { order = append(order, "+"+name) }),
						leasetest.Then(func() { order = append(order, "-"+name) }))
					locks = append(locks, l)
				}
				err := lease.DoAll(w.Context(), "P1", locks, func(context.Context, []lease.Grant) error { return nil })
				if got := strings.Join(order, ""); err != nil || got != "+a+b+c-c-b-a" {
					w.Errorf("order %s, error %v", got, err)
				}
			})
		})
	}
}

func TestLocksWithoutAnOrderAreRefused(t *testing.T) {
	inTown(t, func(w *town) {
		a, line := w.client("a", lease.Config{})
		again, _ := w.client("a", lease.Config{})
		nameless, err := lease.New(struct{ lease.Register }{w.memory}, lease.Config{})
		if err != nil {
			w.Fatal(err)
		}
		for _, c := range []struct {
			locks []*lease.Lock
			says  string
		}{
			{nil, "no locks"},
			{[]*lease.Lock{a, nil}, "number 2 is nil"},
			{[]*lease.Lock{a, a}, "lock a is named twice"},
			{[]*lease.Lock{a, again}, "lock a is named twice"},
			{[]*lease.Lock{nameless}, "no name"},
		} {
			_, err := lease.AcquireAll(w.Context(), "P1", c.locks...)
			w.says(err, c.says)
		}
		if c := line.Count(); c.Loads+c.Swaps > 0 {
			w.Errorf("%+v requests were made", c)
		}
	})
}

// Rule 12: without the one order, each would wait for what the other has.
func TestTwoThatCrossDoNotBlockEachOther(t *testing.T) {
	inTown(t, func(w *town) {
		ctx := w.within(time.Hour)
		done := make(chan error, 2)
		inside := 0
		for i, names := range []string{"a b", "b a"} {
			owner, locks := fmt.Sprint("P", i+1), w.locks(names, lease.Config{})
			go func() {
				var err error
				for range 20 {
					err = errors.Join(err, lease.DoAll(ctx, owner, locks, func(context.Context, []lease.Grant) error {
						if inside++; inside > 1 {
							w.Error("two inside")
						}
						time.Sleep(3 * time.Second)
						inside--
						return nil
					}))
				}
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
		w.held("a: b:")
	})
}

func TestPhilosophersDine(t *testing.T) {
	inTown(t, func(w *town) {
		const seats, meals = 5, 10
		ctx := w.within(time.Hour)
		var eating [seats]bool
		done := make(chan error, seats)
		for seat := range seats {
			left, right := seat, (seat+1)%seats
			// Each reaches for the left fork first.
			locks := w.locks(fmt.Sprintf("fork%d fork%d", left, right), lease.Config{})
			go func() {
				var err error
				for range meals {
					err = errors.Join(err, lease.DoAll(ctx, fmt.Sprint("philosopher ", seat), locks, func(context.Context, []lease.Grant) error {
						if eating[(seat+1)%seats] || eating[(seat+seats-1)%seats] {
							w.Error("neighbours eat at a time")
						}
						eating[seat] = true
						time.Sleep(time.Second)
						eating[seat] = false
						return nil
					}))
				}
				done <- err
			}()
		}
		for range seats {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
		w.held("fork0: fork1: fork2: fork3: fork4:")
	})
}

func TestALockRefusedInTheMiddleGivesBackTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *town, line *leasetest.Faulty)
		is      func(error) bool
	}{
		"no permission": {
			func(_ *town, line *leasetest.Faulty) { line.OnLoad(leasetest.Refused) },
			func(err error) bool { return errors.Is(err, lease.ErrRefused) },
		},
		"damaged": {
			func(w *town, _ *leasetest.Faulty) { w.registers["b"].Put([]byte("{")) },
			func(err error) bool { var bad *lease.CorruptError; return errors.As(err, &bad) },
		},
		"superseded": {
			func(w *town, _ *leasetest.Faulty) {
				other, _ := w.client("b", lease.Config{TTL: time.Hour})
				w.try(other, "P8")
				w.ask(other, "P9", lease.Wait)
			},
			func(err error) bool { var s *lease.SupersededError; return errors.As(err, &s) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(w *town) {
				a, _ := w.client("a", lease.Config{})
				b, line := w.client("b", lease.Config{MaxWaiters: 1})
				d, untouched := w.client("d", lease.Config{})
				c.prepare(w, line)
				_, err := lease.AcquireAll(w.Context(), "P1", d, b, a)
				if !c.is(err) {
					w.Errorf("error %v", err)
				}
				w.says(err, "lock b")
				w.held("a: d:")
				if c := untouched.Count(); c.Loads+c.Swaps > 0 {
					w.Errorf("a lock after the refused one was asked: %+v", c)
				}
			})
		})
	}
}

// Rules 11 and 12: the waits of earlier locks' keepers do not outlive the call.
func TestAContextThatEndsInTheMiddleGivesBackTheRest(t *testing.T) {
	inTown(t, func(w *town) {
		other, _ := w.client("b", lease.Config{TTL: time.Hour})
		w.try(other, "P9")
		locks := w.locks("a b", lease.Config{})

		_, err := lease.AcquireAll(w.within(10*time.Minute), "P1", locks...)
		var late *lease.TimeoutError
		if !errors.As(err, &late) || late.Holders[0].Owner != "P9" {
			w.Errorf("error %v, want a TimeoutError", err)
		}
		w.held("a: b:P9")

		ctx, cancel := context.WithCancelCause(w.Context())
		enough := errors.New("enough")
		time.AfterFunc(10*time.Minute, func() { cancel(enough) })
		_, err = lease.AcquireAll(ctx, "P1", locks...)
		w.is(err, enough)
		w.held("a: b:P9")
	})
}

// Rule 12: what is held is kept alive while the rest is waited for.
func TestTheFirstLockIsKeptWhileTheSecondIsWaitedFor(t *testing.T) {
	inTown(t, func(w *town) {
		other, _ := w.client("b", lease.Config{TTL: time.Hour})
		g := w.try(other, "P9")
		time.AfterFunc(30*time.Minute, func() { w.release(other, g) })
		b, err := lease.AcquireAll(w.Context(), "P1", w.locks("a b", lease.Config{})...)
		if err != nil {
			w.Fatal(err)
		}
		for _, g := range b.Grants() {
			if g.Token != firstToken && g.Token != firstToken+1 || g.Remaining() < 35*time.Second {
				w.Errorf("token %d has %v left", g.Token, g.Remaining())
			}
		}
		kept, stop := b.Keep(w.Context())
		time.Sleep(30 * time.Minute)
		if kept.Err() != nil {
			w.Error(context.Cause(kept))
		}
		stop()
		w.held("a:P1 b:P1")
	})
}

func TestALockLostWhileWaitingForAnotherEndsTheWait(t *testing.T) {
	inTown(t, func(w *town) {
		other, _ := w.client("c", lease.Config{TTL: time.Hour})
		w.try(other, "P9")
		locks := w.locks("a b c", lease.Config{})
		operator, _ := w.client("a", lease.Config{})
		time.AfterFunc(5*time.Minute, func() {
			if err := operator.Break(w.Context(), lease.BreakRequest{Holder: "P1", By: "ana", Reason: "test"}); err != nil {
				w.Error(err)
			}
		})
		began := time.Now()
		_, err := lease.AcquireAll(w.Context(), "P1", locks...)
		w.is(err, lease.ErrLost)
		w.says(err, "lock a", "broken", "ana")
		if took := time.Since(began); took > 5*time.Minute+21*time.Second {
			w.Errorf("noticed after %v", took)
		}
		w.held("a: b: c:P9")
	})
}

func TestTheWorkUnderAllEndsWhenAnyIsLost(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			inTown(t, func(w *town) {
				var locks []*lease.Lock
				lines := map[string]*leasetest.Faulty{}
				for _, name := range []string{"a", "b", "c"} {
					l, line := w.client(name, lease.Config{})
					locks, lines[name] = append(locks, l), line
				}
				err := lease.DoAll(w.Context(), "P1", locks, func(ctx context.Context, _ []lease.Grant) error {
					time.Sleep(5 * time.Minute)
					if ctx.Err() != nil {
						w.Error(context.Cause(ctx))
					}
					lines[lost].Always(leasetest.Hung)
					<-ctx.Done()
					w.is(context.Cause(ctx), lease.ErrLost)
					return nil
				})
				w.is(err, lease.ErrLost)
				w.says(err, "cut short")
				for _, name := range []string{"a", "b", "c"} {
					if name != lost {
						w.held(name + ":")
					}
				}
			})
		})
	}
}

// A machine that thaws finds the context dead, whichever lock is over.
func TestTheContextOfAllLooksAtEachDeadline(t *testing.T) {
	for _, short := range []string{"a", "b"} {
		t.Run(short, func(t *testing.T) {
			inTown(t, func(w *town) {
				clock := leasetest.NewClock(0)
				ttl := map[string]time.Duration{"a": time.Hour, "b": time.Hour}
				ttl[short] = time.Minute
				a, _ := w.client("a", lease.Config{TTL: ttl["a"], Clock: clock})
				b, _ := w.client("b", lease.Config{TTL: ttl["b"], Clock: clock})
				both, err := lease.AcquireAll(w.Context(), "P1", a, b)
				if err != nil {
					w.Fatal(err)
				}
				kept, stop := both.Keep(w.Context())
				defer stop()
				if kept.Err() != nil {
					w.Error(context.Cause(kept))
				}
				clock.StepWall(2 * time.Minute)
				if kept.Err() == nil {
					w.Error("alive after the thaw")
				}
				w.is(context.Cause(kept), lease.ErrLost)
			})
		})
	}
}

// Faults in the middle: replies that get lost on the way up and down.
func TestAllSurvivesWhatPasses(t *testing.T) {
	inTown(t, func(w *town) {
		var locks []*lease.Lock
		for _, name := range []string{"b", "c", "a"} {
			l, line := w.client(name, lease.Config{})
			line.OnLoad(leasetest.Unavailable, leasetest.Hung)
			line.OnSwap(leasetest.LostReply, leasetest.Conflict, leasetest.LostRequest, leasetest.LostReply, leasetest.Unavailable)
			locks = append(locks, l)
		}
		err := lease.DoAll(w.Context(), "P1", locks, func(ctx context.Context, grants []lease.Grant) error {
			time.Sleep(10 * time.Minute)
			if slices.ContainsFunc(grants, func(g lease.Grant) bool { return g.Token < firstToken }) {
				w.Errorf("grants %+v", grants)
			}
			return ctx.Err()
		})
		if err != nil {
			w.Error(err)
		}
		w.held("a: b: c:")
	})
}

// A lock that cannot be given back is said, and the others are given back.
func TestOneLockThatCannotBeGivenBackDoesNotKeepTheOthers(t *testing.T) {
	inTown(t, func(w *town) {
		a, _ := w.client("a", lease.Config{})
		b, line := w.client("b", lease.Config{})
		c, _ := w.client("c", lease.Config{})
		ctx, cancel := context.WithCancel(w.Context())
		began := time.Now()
		err := lease.DoAll(ctx, "P1", []*lease.Lock{a, b, c}, func(context.Context, []lease.Grant) error {
			line.Always(leasetest.Hung)
			cancel()
			return nil
		})
		w.is(err, context.DeadlineExceeded)
		w.says(err, "release lock b")
		if took := time.Since(began); took > 6*time.Second {
			w.Errorf("cleanup took %v", took)
		}
		w.held("a: c:")
	})
}

func TestDoAllGivesBackWhenTheWorkPanics(t *testing.T) {
	inTown(t, func(w *town) {
		func() {
			defer func() {
				if p := recover(); p != "bug" {
					w.Errorf("recovered %v", p)
				}
			}()
			lease.DoAll(w.Context(), "P1", w.locks("a b", lease.Config{}), func(context.Context, []lease.Grant) error { panic("bug") })
		}()
		w.held("a: b:")
	})
}
