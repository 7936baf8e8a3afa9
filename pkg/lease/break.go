package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// BreakRequest is an operator's order to take the lock from a holder.
type BreakRequest struct {
	// Holder and Token name whom; one is enough, both must match if given.
	// Neither is needed where the document cannot be read, and neither may be
	// given to replace one that was deleted.
	Holder string
	Token  int64
	// By and Reason are required and go into the events.
	By, Reason string
}

// Break takes the lock from a holder that is known to be dead. A holder that
// is alive after all learns at its next renewal that it lost the lock, but
// until then both work: only fencing tokens keep them apart.
//
// Break also repairs a document that cannot be read, and one that somebody
// deleted: it leaves a free lock whose tokens start above the server's clock
// in milliseconds, and so above every token that was ever granted.
//
// Errors: ErrNotHeld when no holder matches, ErrRefused, ctx.
func (l *Lock) Break(ctx context.Context, r BreakRequest) error {
	if strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Reason) == "" {
		return l.fail("break", errors.New("it needs the name of who breaks it, and a reason"))
	}
	var gone holder
	_, err := l.apply(ctx, nil, l.newPace(l.cfg.Patience), func(v view) (document, bool, error) {
		deleted := v.version == "" && r.Holder == "" && r.Token == 0
		if v.bad != nil || deleted {
			return repair(v.raw, r, l.cfg.Limit, l.highest(), v.now), true, nil
		}
		if r.Holder == "" && r.Token == 0 {
			return document{}, false, fmt.Errorf("name the holder or its token: %s", inTheWay(v.doc.holders(v.now), len(v.doc.Waiters)))
		}
		next, h, ok := breakHolder(v.doc, r, v.now)
		if !ok {
			return document{}, false, fmt.Errorf("%w (holder %q, token %d): %s", ErrNotHeld, r.Holder, r.Token,
				inTheWay(v.doc.holders(v.now), len(v.doc.Waiters)))
		}
		gone = h
		return next, true, nil
	})
	if err != nil {
		return l.fail("break", err)
	}
	l.log.Warn("lock broken", "owner", gone.Owner, "token", gone.Token, "by", r.By, "reason", clip(r.Reason))
	return nil
}

// Status is all there is to know about a lock.
type Status struct {
	Exists    bool      `json:"exists"`
	Corrupt   string    `json:"corrupt,omitempty"` // why the document cannot be read
	Limit     int       `json:"limit,omitempty"`
	LastToken int64     `json:"lastToken"`
	Holders   []Holder  `json:"holders"`
	Waiters   []Waiter  `json:"waiters"`
	Events    []Event   `json:"events"` // oldest first
	Version   string    `json:"version,omitempty"`
	Now       time.Time `json:"now"` // the server's clock
}

// Inspect reads the lock without changing it. A document that cannot be read
// is no error here: Status says what is wrong with it.
func (l *Lock) Inspect(ctx context.Context) (Status, error) {
	v, err := l.load(ctx, l.newPace(l.cfg.Patience))
	if err != nil {
		return Status{}, l.fail("inspect", err)
	}
	s := Status{Exists: v.version != "", Version: v.version, Now: v.now, Holders: []Holder{}, Waiters: []Waiter{}, Events: []Event{}}
	if v.bad != nil {
		s.Corrupt = v.bad.Problem
		s.LastToken = legibleToken(v.raw)
		return s, nil
	}
	s.Limit, s.LastToken, s.Events = v.doc.Limit, v.doc.LastToken, v.doc.Events
	s.Holders, s.Waiters = v.doc.holders(v.now), v.doc.waiters(v.now)
	return s, nil
}
