package ledger

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced: a run with a newer token was here; this one lost its lease and
	// must stop. Nothing was written. The error is a *FencedError.
	ErrFenced = errors.New("a newer run has taken over")
	// ErrDamaged: a head or a segment is not what was written. The error is a
	// *DamagedError that names the object.
	ErrDamaged = errors.New("the ledger is damaged")
)

// FencedError says which token was refused, and which one the ledger had seen.
type FencedError struct {
	Token, Seen int64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("token %d: %v with token %d; this run no longer holds the lease and must not commit", e.Token, ErrFenced, e.Seen)
}

func (e *FencedError) Unwrap() error { return ErrFenced }

// DamagedError names an object of the ledger that cannot be trusted.
type DamagedError struct {
	Object string // its key, or its name where the key is not known
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: %s: %s; restore the object from a version or a backup, or write the ledger anew (lockstep ledger rebuild); do not delete it", ErrDamaged, e.Object, e.Reason)
}

func (e *DamagedError) Unwrap() error { return ErrDamaged }

// SelectionError names the field of a Selection that makes no sense.
type SelectionError struct {
	Field   string // the Go name, such as "Include[1]"
	Problem string
}

func (e *SelectionError) Error() string {
	return fmt.Sprintf("selection: %s: %s", e.Field, e.Problem)
}
