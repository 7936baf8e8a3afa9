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
// Errors: ErrNotHeld when no holder matches, *NewerError, ErrRefused, ctx.
func (l *Lock) Break(ctx context.Context, r BreakRequest) error {
	if strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Reason) == "" {
		return l.fail("break", errors.New("it needs the name of who breaks it, and a reason"))
	}
	gone, err := l.breakOnce(ctx, r, false)
	if remover, can := l.reg.(MarkRemover); can && errors.As(err, new(*DeletedError)) {
		if err := remover.RemoveDeleteMark(ctx); err != nil {
			return l.fail("break", err)
		}
		gone, err = l.breakOnce(ctx, r, true) // what was deleted is back, and is replaced
	}
	if err != nil {
		return l.fail("break", err)
	}
	l.log.Warn("lock broken", "owner", gone.Owner, "token", gone.Token, "by", r.By, "reason", clip(r.Reason))
	return nil
}

// MarkRemover is a Register whose store keeps a mark of a deleted value, and that
// can remove it. The value that was deleted may be back then.
type MarkRemover interface {
	RemoveDeleteMark(ctx context.Context) error
}

func (l *Lock) breakOnce(ctx context.Context, r BreakRequest, replace bool) (gone holder, err error) {
	_, err = l.apply(ctx, nil, l.newPace(l.cfg.Patience), func(v view) (document, bool, error) {
		absent := (v.version == "" || replace) && r.Holder == "" && r.Token == 0
		switch {
		case v.newer != nil:
			return document{}, false, v.newer
		case v.bad != nil:
			return repair(v.raw, r, l.cfg.Limit, l.highest(), v.now), true, nil
		case absent:
			return repair(nil, r, l.cfg.Limit, max(l.highest(), v.doc.LastToken), v.now), true, nil
		case r.Holder == "" && r.Token == 0:
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
	return gone, err
}

// SetHold grants the lock to nobody until ClearHold. Who holds it goes on, and
// renews; who waits keeps its place.
func (l *Lock) SetHold(ctx context.Context, by, reason string) error {
	if strings.TrimSpace(by) == "" || strings.TrimSpace(reason) == "" {
		return l.fail("hold back", errors.New("it needs the name of who holds it back, and a reason"))
	}
	return l.changeHold(ctx, "hold back", func(d document, now time.Time) (document, bool) {
		if d.Hold != nil && d.Hold.By == clip(by) && d.Hold.Reason == clip(reason) {
			return d, false
		}
		d.Hold = &Hold{By: clip(by), Reason: clip(reason), Since: now}
		return d.record(Event{At: now, Kind: OnHold, By: by, Reason: reason}), true
	})
}

// ClearHold ends a hold. None to end is no error.
func (l *Lock) ClearHold(ctx context.Context, by string) error {
	return l.changeHold(ctx, "let go of", func(d document, now time.Time) (document, bool) {
		if d.Hold == nil {
			return d, false
		}
		d.Hold = nil
		return d.record(Event{At: now, Kind: Resumed, By: by}), true
	})
}

func (l *Lock) changeHold(ctx context.Context, op string, change func(document, time.Time) (document, bool)) error {
	if _, err := l.apply(ctx, nil, l.newPace(l.cfg.Patience), sound(change)); err != nil {
		return l.fail(op, err)
	}
	return nil
}

// Status is all there is to know about a lock.
type Status struct {
	Exists    bool      `json:"exists"`
	Deleted   bool      `json:"deleted,omitempty"` // the object was deleted, and its bucket keeps a delete marker
	Newer     int       `json:"newer,omitempty"`   // schema of a document that a newer program wrote
	Corrupt   string    `json:"corrupt,omitempty"` // why the document cannot be read
	Limit     int       `json:"limit,omitempty"`
	LastToken int64     `json:"lastToken"`
	Holders   []Holder  `json:"holders"`
	Waiters   []Waiter  `json:"waiters"`
	Ended     []Mark    `json:"ended"` // lives that ended lately, oldest first
	Hold      *Hold     `json:"hold,omitempty"`
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
	s := Status{
		Exists: v.version != "", Deleted: v.deleted, Version: v.version, Now: v.now,
		Holders: []Holder{}, Waiters: []Waiter{}, Events: []Event{}, Ended: []Mark{},
	}
	if v.newer != nil {
		s.Newer = v.newer.Schema
		return s, nil
	}
	if v.bad != nil {
		s.Corrupt = v.bad.Problem
		s.LastToken = legibleToken(v.raw)
		return s, nil
	}
	s.Limit, s.LastToken, s.Events = v.doc.Limit, v.doc.LastToken, v.doc.Events
	s.Holders, s.Waiters = v.doc.holders(v.now), v.doc.waiters(v.now)
	s.Ended, s.Hold = v.doc.Ended, v.doc.Hold
	if !s.Exists {
		s.LastToken = 0 // where its tokens would begin is not one that was granted
	}
	return s, nil
}
