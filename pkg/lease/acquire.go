package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TryAcquire takes the lock for owner now or not at all: a *HeldError names
// who is in the way. It does not queue, and it does not overtake: while others
// of the same or a higher priority are queued for the room there is, the lock
// counts as held. An owner that holds the lock gets its grant again.
//
// Errors: *HeldError, *EndedError, *CorruptError, *NewerError, ErrRefused, ctx.
func (l *Lock) TryAcquire(ctx context.Context, owner string) (Grant, error) {
	t, err := l.newTurn(ctx, owner, false)
	if err != nil {
		return Grant{}, l.fail("try", err)
	}
	g, err := t.take(ctx, true)
	if err != nil {
		t.abandon(ctx)
		return Grant{}, l.fail("try", err)
	}
	if t.said.decision != Held {
		l.log.Info("lock not had", "owner", owner, "queued", len(t.said.after.Waiters))
		return Grant{}, l.fail("try", &HeldError{Holders: t.holders(), Waiters: t.waiters(), Hold: t.said.after.Hold, Now: t.view.now})
	}
	return g, nil
}

// Ask is one turn of a poller that is not this process, such as a state
// machine: it takes the lock, or a place in the queue, or says that the caller
// is superseded. The place is kept by asking again within RetryAfter; asking
// costs no write unless the place's mark is getting old. It is safe to repeat:
// an owner that holds the lock gets its grant again.
//
// Errors: *EndedError, *CorruptError, *NewerError, ErrRefused, ctx.
func (l *Lock) Ask(ctx context.Context, owner string) (Answer, error) {
	t, err := l.newTurn(ctx, owner, true)
	if err != nil {
		return Answer{}, l.fail("ask for", err)
	}
	g, err := t.take(ctx, true)
	if err != nil {
		// What may have landed is not given back: the caller asks again under
		// the same name, and finds it.
		return Answer{}, l.fail("ask for", err)
	}
	a := Answer{
		Decision: t.said.decision, Grant: g, Holders: t.holders(), Waiters: len(t.said.after.Waiters),
		Position: t.said.position, Hold: t.said.after.Hold, Now: t.view.now, Fresh: t.said.fresh, TookFrom: shown(t.said.ended, t.view.now),
	}
	if !t.said.arrived.IsZero() {
		a.Waiting = max(0, t.view.now.Sub(t.said.arrived))
	}
	if a.Decision == Wait {
		a.RetryAfter = max(time.Second, (t.pause() + time.Second - 1).Truncate(time.Second))
	}
	return a, nil
}

// turn is one owner's attempts to get the lock.
type turn struct {
	lock  *Lock
	asks  asking
	said  asked    // the last answer that is certain
	view  view     // in which it was said
	maybe []string // nonces of the writes since whose fate is not known
}

func (l *Lock) newTurn(ctx context.Context, owner string, queue bool) (*turn, error) {
	if err := checkOwner(owner); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &turn{lock: l, asks: asking{
		owner: owner, priority: l.cfg.Priority, limit: l.cfg.Limit, maxWaiters: l.cfg.MaxWaiters,
		ttl: toMillis(l.cfg.TTL), grace: toMillis(l.cfg.Grace), poll: toMillis(l.cfg.Poll), once: l.cfg.Once, queue: queue,
	}}, nil
}

// take asks once. It may start from memory where that shows a free lock: there
// nobody's time has to be judged.
func (t *turn) take(ctx context.Context, fromMemory bool) (Grant, error) {
	l := t.lock
	var start *view
	if v, ok := l.recall(); ok && fromMemory && v.free() {
		start = &v
	}
	for {
		var said asked
		v, err := l.apply(ctx, start, l.newPace(l.cfg.Patience), sound(func(d document, now time.Time) (next document, write bool) {
			next, said, write = ask(d, t.asks, now)
			return next, write
		}))
		if errors.Is(err, ErrUncertain) {
			t.maybe = append(t.maybe, v.doc.Nonce)
		}
		if err != nil {
			return Grant{}, err
		}
		t.said, t.view, t.maybe = said, v, nil
		if m := said.mark; said.decision == ended {
			return Grant{}, &EndedError{Owner: m.Owner, At: m.At, Kind: m.Kind, By: m.By, Reason: m.Reason}
		}
		if t.said.decision != Held {
			if t.said.fresh && t.said.decision == Wait {
				l.log.Info("queued for the lock", "owner", t.asks.owner, "position", t.said.position)
			}
			return Grant{}, nil
		}
		g := l.grant(t.said.mine, v)
		if g.Remaining() > g.ttl/2 {
			l.log.Info("lock had", "owner", g.Owner, "token", g.Token, "expires", g.Expires)
			return g, nil
		}
		// The write took long to land, or its stamp came from a memory that a
		// frozen machine had let grow old: make the grant worth having.
		g, err = l.Renew(ctx, g)
		if !errors.Is(err, ErrLost) {
			return g, err
		}
		start = nil
	}
}

func (t *turn) holders() []Holder { return t.said.after.holders(t.view.now) }
func (t *turn) waiters() []Waiter { return t.said.after.waiters(t.view.now) }

// pause is how long to wait before asking again: as promised, or until the
// holder's time is over when that is sooner and the asker is next.
func (t *turn) pause() time.Duration {
	pause := t.lock.cfg.Poll
	if t.said.position != 1 {
		return pause
	}
	for _, h := range t.said.after.Holders {
		// The server's clock shows whole seconds; just after the end is enough.
		pause = min(pause, h.expires().Sub(t.view.now)+time.Second)
	}
	return pause
}

// abandon gives back what a failed attempt took or may have taken: the grant,
// and the place in the queue.
func (t *turn) abandon(ctx context.Context) {
	l := t.lock
	had := t.said.decision == Held && t.said.fresh
	if !had && len(t.maybe) == 0 && t.said.decision != Wait {
		return
	}
	ctx, cancel := outlive(ctx, l.cfg.Cleanup)
	defer cancel()
	r := abandoning{owner: t.asks.owner, maybe: t.maybe, queue: t.asks.queue}
	if had {
		r.token = t.said.mine.Token
	}
	_, err := l.apply(ctx, nil, l.newPace(l.cfg.Cleanup), sound(func(d document, now time.Time) (document, bool) {
		return abandon(d, r, now)
	}))
	if err != nil {
		l.log.Warn("could not clean up after a given-up acquire; what it took will expire",
			"owner", t.asks.owner, "error", err)
	}
}

// Acquire waits for the lock. It queues, polls with jitter, honours ctx at once
// and leaves the queue when it gives up, which may take up to Config.Cleanup
// where the register is slow. A register that does not answer for a while is
// waited out.
//
// Errors: *TimeoutError when ctx's deadline passed (it wraps
// context.DeadlineExceeded), the cause of ctx when it was cancelled,
// *SupersededError, *EndedError, *CorruptError, *NewerError, ErrRefused.
func (l *Lock) Acquire(ctx context.Context, owner string) (Grant, error) {
	t, err := l.newTurn(ctx, owner, true)
	if err != nil {
		return Grant{}, l.fail("acquire", err)
	}
	began := l.cfg.Clock.Read()
	for first := true; ; first = false {
		g, err := t.take(ctx, first)
		switch {
		case err == nil && t.said.decision == Held:
			return g, nil
		case err == nil && t.said.decision == Superseded:
			l.log.Info("superseded by those who wait", "owner", owner)
			return Grant{}, l.fail("acquire", &SupersededError{Holders: t.holders(), Waiters: t.waiters()})
		case err != nil && ctx.Err() == nil && errors.Is(err, errNoAnswer):
			l.log.Warn("still waiting for the lock", "owner", owner, "error", err)
		case err != nil:
			return Grant{}, l.fail("acquire", t.giveUp(ctx, err, began))
		}
		pause := t.pause()
		if err := sleep(ctx, l.dice.between(pause/2, pause)); err != nil {
			return Grant{}, l.fail("acquire", t.giveUp(ctx, err, began))
		}
	}
}

func (t *turn) giveUp(ctx context.Context, err error, began Instant) error {
	waited := t.lock.cfg.Clock.Read().Mono - began.Mono
	t.abandon(ctx)
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if !errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		t.lock.log.Info("gave up waiting for the lock", "owner", t.asks.owner, "waited", waited)
		return &TimeoutError{
			Holders: t.holders(), Waiters: len(t.said.after.Waiters), Position: t.said.position, Waited: waited, Err: err,
		}
	default:
		return fmt.Errorf("%w; at that time %s", err, inTheWay(t.holders(), len(t.said.after.Waiters)))
	}
}
