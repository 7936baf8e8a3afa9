package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errDeadline ends the attempts to renew when the holder has to stop anyway.
var errDeadline = errors.New("the deadline passed before the renewal was confirmed")

// Renew prolongs g by its full TTL, in one request where nobody else wrote
// since. Its outcomes are: kept (nil), ErrLost, or unknown (any other error:
// the grant holds until its deadline, try again until then). It goes on trying
// until g's deadline and then says ErrLost, because the caller has to stop.
func (l *Lock) Renew(ctx context.Context, g Grant) (Grant, error) {
	var start *view
	if v, ok := l.recall(); ok {
		start = &v
	}
	return l.prolong(ctx, g, start, func(holder, time.Time) bool { return true }, "renew")
}

// RenewIfOlder is Renew for the many processes of one run: it reads first, and
// writes only if the last renewal by any of them is older than age. Either
// way the Grant it returns has the latest deadline.
func (l *Lock) RenewIfOlder(ctx context.Context, g Grant, age time.Duration) (Grant, error) {
	return l.prolong(ctx, g, nil, func(h holder, now time.Time) bool { return now.Sub(h.Renewed) > age }, "renew")
}

// Resume picks up, by reading, a grant that another process of the same run
// acquired. ErrLost when it is over.
func (l *Lock) Resume(ctx context.Context, owner string, token int64) (Grant, error) {
	if err := checkOwner(owner); err != nil {
		return Grant{}, l.fail("resume", err)
	}
	return l.prolong(ctx, Grant{Owner: owner, Token: token}, nil, func(holder, time.Time) bool { return false }, "resume")
}

func (l *Lock) prolong(ctx context.Context, g Grant, start *view, due func(holder, time.Time) bool, op string) (Grant, error) {
	if g.Token <= 0 {
		return Grant{}, l.fail(op, fmt.Errorf("token %d is not the token of a grant", g.Token))
	}
	patience := l.cfg.Patience
	if left := g.Remaining(); left > 0 {
		patience = left
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, left, errDeadline)
		defer cancel()
	}
	var mine holder
	v, err := l.apply(ctx, start, l.newPace(patience), func(v view) (document, bool, error) {
		if err := v.unreadable(); err != nil {
			return document{}, false, err
		}
		next, h, ok := renew(v.doc, g.Owner, g.Token, v.now)
		if !ok {
			return document{}, false, fmt.Errorf("%w: token %d of %q: %s", ErrLost, g.Token, g.Owner, v.doc.fate(g.Owner, g.Token))
		}
		before, _ := v.doc.held(g.Owner, g.Token)
		if !due(before, v.now) {
			mine = before
			return document{}, false, nil
		}
		mine = h
		return next, true, nil
	})
	if errors.Is(err, errDeadline) {
		err = fmt.Errorf("%w: token %d of %q: %w", ErrLost, g.Token, g.Owner, err)
	}
	if errors.Is(err, ErrLost) {
		l.log.Warn("lease lost", "owner", g.Owner, "token", g.Token, "error", err)
	}
	if err != nil {
		return Grant{}, l.fail(op, err)
	}
	return l.grant(mine, v), nil
}
