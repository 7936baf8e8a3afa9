package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Which thing happened; see also the typed errors below for who and until when.
var (
	// ErrLost: the grant is over, or can no longer be proven. Stop at once and
	// write nothing more under its token.
	ErrLost = errors.New("the lease is lost")
	// ErrNotHeld: there is no such holder to break.
	ErrNotHeld = errors.New("nobody holds the lock under this name and token")
	// ErrEnded: the owner lives once, and its life is over. The error is an
	// *EndedError.
	ErrEnded = errors.New("the owner's life at this lock is over")
	// errNoAnswer: the register did not answer for as long as the call was
	// ready to wait.
	errNoAnswer = errors.New("the server does not answer")
)

// HeldError says that the lock cannot be had now, and who is in the way.
type HeldError struct {
	Holders []Holder
	Waiters []Waiter // those queued; with room left they are what is in the way
	Hold    *Hold    // nobody gets the lock for now; nil as a rule
	Now     time.Time
}

func (e *HeldError) Error() string {
	if e.Hold != nil {
		return fmt.Sprintf("held back from everybody since %s by %s: %s", clockTime(e.Hold.Since), e.Hold.By, e.Hold.Reason)
	}
	return inTheWay(e.Holders, len(e.Waiters)) +
		"; wait for it, or break the lock if its owner is known to be dead"
}

// SupersededError says that the queue is full, so that a waiter which is
// already in it will do the work.
type SupersededError struct {
	Holders []Holder
	Waiters []Waiter
}

func (e *SupersededError) Error() string {
	next := ""
	if len(e.Waiters) > 0 {
		next = fmt.Sprintf("; next is %q", e.Waiters[0].Owner)
	}
	return inTheWay(e.Holders, len(e.Waiters)) + ", which is as many as may wait" + next +
		"; nothing to do: a waiter will do this work"
}

// TimeoutError says that the lock was not had in time, and who has it.
type TimeoutError struct {
	Holders  []Holder
	Waiters  int
	Position int           // in the queue; 0 when no place was had
	Waited   time.Duration // by the local clock
	Err      error         // what ended the wait; wraps context.DeadlineExceeded
}

func (e *TimeoutError) Error() string {
	place := ""
	if e.Position > 0 {
		place = fmt.Sprintf(" as number %d in the queue", e.Position)
	}
	return fmt.Sprintf("gave up after waiting %v%s: %s; wait longer, or break the lock if its owner is known to be dead: %v",
		e.Waited.Round(time.Millisecond), place, inTheWay(e.Holders, e.Waiters), e.Err)
}

func (e *TimeoutError) Unwrap() error { return e.Err }

// EndedError says how the life of an owner ended that asks for the lock again.
type EndedError struct {
	Owner      string
	At         time.Time // the server's clock
	Kind       EventKind
	By, Reason string
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%v: %q was %s", ErrEnded, e.Owner, how(e.Kind, e.At, e.By, e.Reason))
}

func (e *EndedError) Unwrap() error { return ErrEnded }

// how says what happened, when, by whom and why.
func how(kind EventKind, at time.Time, by, reason string) string {
	text := fmt.Sprintf("%s at %s", kind, clockTime(at))
	if by != "" {
		text += " by " + by
	}
	if reason != "" {
		text += fmt.Sprintf(" (%s)", reason)
	}
	return text
}

// NewerError says that a newer program wrote the document. It counts as held, and
// this program leaves it as it is.
type NewerError struct {
	Schema int // of the document
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("a newer lockstep wrote the lock (schema %d, this program knows %d): update lockstep", e.Schema, schemaVersion)
}

// DeletedError says that the lock's object was deleted in a bucket that keeps
// versions, and that this store creates none over a delete marker.
type DeletedError struct{ Err error }

func (e *DeletedError) Error() string {
	return "the lock's object was deleted, and the store refuses to create one over its delete marker; make sure that nobody works under the lock, then remove the marker and write a new lock with `lockstep lock break --recreate`"
}

func (e *DeletedError) Unwrap() error { return e.Err }

// CorruptError says that the document cannot be read. It counts as held.
type CorruptError struct {
	Version string // of the register
	Size    int    // bytes
	Problem string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the lock document (%d bytes, version %s) is unreadable and counts as held: %s; make sure that nobody works under the lock, then repair it with a break (lockstep lock break)",
		e.Size, e.Version, e.Problem)
}

// inTheWay names the holders, since when and until when.
func inTheWay(holders []Holder, waiters int) string {
	var b strings.Builder
	for i, h := range holders {
		if i > 0 {
			b.WriteString(" and ")
		} else {
			b.WriteString("held by ")
		}
		unless := " unless renewed"
		if h.Stopped {
			unless = ", not renewed any more"
		}
		fmt.Fprintf(&b, "%q (token %d) since %s until %s%s",
			h.Owner, h.Token, clockTime(h.Acquired), clockTime(h.Expires), unless)
	}
	switch {
	case len(holders) == 0 && waiters == 0:
		b.WriteString("no holder is known")
	case len(holders) == 0:
		fmt.Fprintf(&b, "free, but promised to the %d waiting", waiters)
	case waiters > 0:
		fmt.Fprintf(&b, "; %d waiting", waiters)
	}
	return b.String()
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// fail names the operation and the lock.
func (l *Lock) fail(op string, err error) error {
	return fmt.Errorf("%s %s: %w", op, l.name, err)
}

// fate tells what a document knows about a grant that is not in it any more.
func (d document) fate(owner string, token int64) string {
	for i := len(d.Events) - 1; i >= 0; i-- {
		e := d.Events[i]
		if e.Owner != owner || e.Token != token || e.Kind == Granted {
			continue
		}
		return how(e.Kind, e.At, e.By, e.Reason)
	}
	if m, over := d.mark(owner); over {
		return how(m.Kind, m.At, m.By, m.Reason)
	}
	if h, i := d.held(owner, token); i >= 0 {
		return "expired at " + clockTime(h.expires())
	}
	if len(d.Holders) > 0 {
		h := d.Holders[0]
		return fmt.Sprintf("the lock is held by %q under token %d now", h.Owner, h.Token)
	}
	return "the lock is free now"
}
