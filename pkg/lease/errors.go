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
	// errNoAnswer: the register did not answer for as long as the call was
	// ready to wait.
	errNoAnswer = errors.New("the register does not answer")
)

// HeldError says that the lock cannot be had now, and who is in the way.
type HeldError struct {
	Holders []Holder
	Waiters []Waiter // those queued; with room left they are what is in the way
	Now     time.Time
}

func (e *HeldError) Error() string {
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
		fmt.Fprintf(&b, "%q (token %d) since %s until %s unless renewed",
			h.Owner, h.Token, clockTime(h.Acquired), clockTime(h.Expires))
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
		what := fmt.Sprintf("%s at %s", e.Kind, clockTime(e.At))
		if e.By != "" {
			what += fmt.Sprintf(" by %s", e.By)
		}
		if e.Reason != "" {
			what += fmt.Sprintf(" (%s)", e.Reason)
		}
		return what
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
