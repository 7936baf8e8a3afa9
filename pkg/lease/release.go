package lease

import (
	"context"
	"fmt"
	"time"
)

// Released says what a release found.
type Released struct {
	Held      bool      // this call gave the lock back
	Token     int64     // of the grant given back
	Acquired  time.Time // when that was granted, by the server's clock
	Withdrawn bool      // the owner's place in the queue was given up
	// Ends is when a lease that was stopped ends by itself; zero for none.
	Ends time.Time
	// Holders and Waiters are who has the lock, and how many queue, afterwards.
	Holders []Holder
	Waiters int
	Now     time.Time // the server's clock
}

// Release gives back the grant of (owner, token); token 0 stands for whatever
// the owner holds, and its place in the queue too. Not to hold the lock (any
// more) is no error, and leaves everybody else alone. It is retried until ctx
// ends, or the lease would have ended by itself.
func (l *Lock) Release(ctx context.Context, owner string, token int64, reason string) (Released, error) {
	return l.leave(ctx, leaving{owner: owner, token: token, reason: reason})
}

// Stop ends an owner that may still be at work somewhere: a process that cannot
// be asked, or an execution that was aborted while its functions run on. It gets
// neither the lock nor a renewal any more, whatever Config.Once says, and loses
// its place in the queue. A lease that it holds is not freed: it ends by itself,
// see Released.Ends. Stop may be repeated.
func (l *Lock) Stop(ctx context.Context, owner, reason string) (Released, error) {
	return l.leaving(ctx, owner, func(d document, now time.Time) (document, left) { return stop(d, owner, reason, now) })
}

func (l *Lock) leave(ctx context.Context, r leaving) (Released, error) {
	r.once = l.cfg.Once
	return l.leaving(ctx, r.owner, func(d document, now time.Time) (document, left) { return release(d, r, now) })
}

func (l *Lock) leaving(ctx context.Context, owner string, end func(document, time.Time) (document, left)) (Released, error) {
	if err := checkOwner(owner); err != nil {
		return Released{}, l.fail("release", err)
	}
	longest := l.cfg.TTL + l.cfg.Grace
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("the lease ended by itself meanwhile: %w", context.DeadlineExceeded))
	defer cancel()
	var start *view
	if v, ok := l.recall(); ok {
		start = &v
	}
	var gone left
	var after document
	v, err := l.apply(ctx, start, l.newPace(longest), sound(func(d document, now time.Time) (document, bool) {
		after, gone = end(d, now)
		return after, gone.held || gone.withdrawn || gone.marked
	}))
	if err != nil {
		l.log.Warn("release failed; the lease ends by itself", "owner", owner, "error", err)
		return Released{}, l.fail("release", err)
	}
	l.log.Info("lock left", "owner", owner, "token", gone.token, "held", gone.held, "withdrawn", gone.withdrawn, "ends", gone.ends)
	live := expire(after, v.now)
	return Released{
		Held: gone.held && gone.ends.IsZero(), Token: gone.token, Acquired: gone.acquired, Withdrawn: gone.withdrawn, Ends: gone.ends,
		Holders: live.holders(v.now), Waiters: len(live.Waiters), Now: v.now,
	}, nil
}

// Withdraw gives up owner's place in the queue. Having none is no error.
func (l *Lock) Withdraw(ctx context.Context, owner string) error {
	if err := checkOwner(owner); err != nil {
		return l.fail("withdraw from", err)
	}
	_, err := l.apply(ctx, nil, l.newPace(l.cfg.Patience), sound(func(d document, now time.Time) (document, bool) {
		return withdraw(d, owner, l.cfg.Once, now)
	}))
	if err != nil {
		return l.fail("withdraw from", err)
	}
	return nil
}
