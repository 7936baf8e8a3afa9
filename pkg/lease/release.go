package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Released says what a release found.
type Released struct {
	Held      bool      // this call gave the lock back
	Token     int64     // of the grant given back
	Acquired  time.Time // when that was granted, by the server's clock
	Withdrawn bool      // the owner's place in the queue was given up
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

// ReleaseStopped is Release for a message that says when owner stopped: it
// spares what was acquired or queued after stoppedAt, so that a message that
// arrives late does not free a run that was started again.
func (l *Lock) ReleaseStopped(ctx context.Context, owner string, stoppedAt time.Time, reason string) (Released, error) {
	if stoppedAt.IsZero() {
		return Released{}, l.fail("release", errors.New("no time given at which the owner stopped"))
	}
	return l.leave(ctx, leaving{owner: owner, until: stoppedAt, reason: reason})
}

func (l *Lock) leave(ctx context.Context, r leaving) (Released, error) {
	if err := checkOwner(r.owner); err != nil {
		return Released{}, l.fail("release", err)
	}
	end := l.cfg.TTL + l.cfg.Grace
	ctx, cancel := context.WithTimeoutCause(ctx, end, fmt.Errorf("the lease ended by itself meanwhile: %w", context.DeadlineExceeded))
	defer cancel()
	var start *view
	if v, ok := l.recall(); ok {
		start = &v
	}
	var gone left
	var after document
	v, err := l.apply(ctx, start, l.newPace(end), sound(func(d document, now time.Time) (document, bool) {
		after, gone = release(d, r, now)
		return after, gone.held || gone.withdrawn
	}))
	if err != nil {
		l.log.Warn("release failed; the lease ends by itself", "owner", r.owner, "token", r.token, "error", err)
		return Released{}, l.fail("release", err)
	}
	l.log.Info("lock released", "owner", r.owner, "token", gone.token, "held", gone.held,
		"withdrawn", gone.withdrawn, "reason", r.reason)
	live := expire(after, v.now)
	return Released{
		Held: gone.held, Token: gone.token, Acquired: gone.acquired, Withdrawn: gone.withdrawn,
		Holders: live.holders(v.now), Waiters: len(live.Waiters), Now: v.now,
	}, nil
}

// Withdraw gives up owner's place in the queue. Having none is no error.
func (l *Lock) Withdraw(ctx context.Context, owner string) error {
	if err := checkOwner(owner); err != nil {
		return l.fail("withdraw from", err)
	}
	_, err := l.apply(ctx, nil, l.newPace(l.cfg.Patience), sound(func(d document, _ time.Time) (document, bool) {
		return withdraw(d, owner)
	}))
	if err != nil {
		return l.fail("withdraw from", err)
	}
	return nil
}
