package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// OutdatedError: an older program wrote the head. Its segments cannot be read, and
// the outputs of its runs have other names.
type OutdatedError struct {
	Object string
	Schema int

	generation, token int64
}

func (e *OutdatedError) Error() string {
	return fmt.Sprintf("ledger head %s has schema %d: an older lockstep wrote it, which named its outputs otherwise; give the pipeline a new destination.prefix or an empty one, then convert the ledger with `lockstep ledger reset` (see docs/upgrade.md)", e.Object, e.Schema)
}

// outdated is the error of a head that an older program wrote.
func outdated(body []byte, object string) error {
	var old struct {
		Schema     int   `json:"schema"`
		Generation int64 `json:"generation"`
		Token      int64 `json:"token"`
	}
	if err := json.Unmarshal(body, &old); err != nil {
		return &DamagedError{Object: object, Reason: "it is not the JSON of a head: " + err.Error()}
	}
	return &OutdatedError{Object: object, Schema: old.Schema, generation: old.Generation, token: old.Token}
}

// NewerError: a newer program wrote the head. Nothing was changed.
type NewerError struct {
	Object string
	Schema int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("ledger head %s has schema %d, and this program knows %d: a newer lockstep wrote it; update lockstep", e.Object, e.Schema, schemaVersion)
}

// ErrIdentity: the pipeline reads from, or writes to, another place than the runs
// before. The error is an *IdentityError.
var ErrIdentity = errors.New("the pipeline has changed its place")

// IdentityError says in what a run differs from those before it.
type IdentityError struct {
	Have, Want Identity // of the ledger, and of the run
}

func (e *IdentityError) Error() string {
	var differ []string
	for _, f := range e.Have.compare(e.Want) {
		differ = append(differ, fmt.Sprintf("%s was %q and is %q", f.name, f.have, f.want))
	}
	return fmt.Sprintf("%v: %s; outputs of both would be mixed up: set back what changed, or adopt the change with `lockstep ledger adopt`", ErrIdentity, strings.Join(differ, ", "))
}

func (e *IdentityError) Unwrap() error { return ErrIdentity }
