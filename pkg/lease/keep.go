package lease

import (
	"context"
	"errors"
	"sync"
	"time"
)

// watchEvery bounds how long a process that was frozen may go on after it
// thaws before its context ends: the timer of the deadline itself stood still
// as well. Whoever asks the context's Err learns it at once.
const watchEvery = time.Second

// Keep renews g until stop is called. The context it returns ends with a cause
// that wraps ErrLost as soon as the lease is lost, or can no longer be proven,
// and always before anybody else can get the lock. stop waits until nothing is
// left running; it does not release.
//
// Many processes of one run may keep the same grant: each reads every third of
// the TTL, and only the first to find the renewal old writes.
func (l *Lock) Keep(ctx context.Context, g Grant) (kept context.Context, stop func()) {
	k, kept := l.keep(ctx, g)
	return kept, k.stop
}

type keeper struct {
	lock    *Lock
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu    sync.Mutex
	grant Grant
}

func (l *Lock) keep(ctx context.Context, g Grant) (*keeper, context.Context) {
	inner, cancel := context.WithCancelCause(ctx)
	k := &keeper{lock: l, grant: g, cancel: cancel}
	k.check()
	k.running.Go(func() { k.renew(inner) })
	k.running.Go(func() { k.watch(inner) })
	return k, keptContext{Context: inner, parent: ctx, keeper: k}
}

func (k *keeper) stop() {
	k.cancel(context.Canceled)
	k.running.Wait()
}

func (k *keeper) current() Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grant
}

// check ends the context if the deadline has passed on either clock.
func (k *keeper) check() {
	if err := k.current().Check(); err != nil {
		k.cancel(k.lock.fail("keep", err))
	}
}

func (k *keeper) renew(ctx context.Context) {
	g := k.current()
	third := g.ttl / 3
	// A grant that was resumed may be old already: a whole pause could be more
	// than is left of it.
	longest := max(0, g.Remaining()-2*third)
	for {
		if sleep(ctx, min(longest, k.lock.dice.between(third-third/8, third))) != nil {
			return
		}
		// Frozen past the deadline: the work was told that the lease is lost, or
		// is about to be, and that does not become untrue.
		if k.check(); ctx.Err() != nil {
			return
		}
		longest = g.ttl
		g = k.current()
		// Slightly less than the pause: a renewal of one's own, one pause ago,
		// is old enough even though the server's clock shows whole seconds.
		next, err := k.lock.RenewIfOlder(ctx, g, third-third/4-time.Second)
		switch {
		case err == nil:
			k.mu.Lock()
			k.grant = next
			k.mu.Unlock()
		case errors.Is(err, ErrLost):
			k.cancel(err)
			return
		case ctx.Err() != nil:
			return
		default:
			k.lock.log.Warn("renewal failed; trying again", "owner", g.Owner, "token", g.Token,
				"remaining", g.Remaining(), "error", err)
			third = max(third/2, time.Second/4)
			continue
		}
		third = g.ttl / 3
	}
}

func (k *keeper) watch(ctx context.Context) {
	for {
		left := k.current().Remaining()
		if sleep(ctx, min(max(left, 0), watchEvery)) != nil {
			return
		}
		k.check()
	}
}

// keptContext looks at the clocks when it is asked: a process that thaws must
// not find its context alive until some timer fires. Its parent may be another
// lock's, and is asked as well.
type keptContext struct {
	context.Context
	parent context.Context
	keeper *keeper
}

func (c keptContext) Err() error {
	c.keeper.check()
	if c.parent.Err() != nil {
		<-c.Context.Done()
	}
	return c.Context.Err()
}
