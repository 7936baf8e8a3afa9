package lease

import (
	"context"
	"errors"
	"time"
)

// Register is a place for one value that is replaced only by compare and swap.
// Implementations may be called concurrently and must return when ctx ends.
type Register interface {
	// Load reads the value. Where known is the register's current version, the
	// Reading may say Unchanged and leave Value out. An absent value has
	// Version "". An error that is not ErrRefused is taken as passing.
	Load(ctx context.Context, known string) (Reading, error)

	// Swap replaces the value if it is still at version; version "" creates it
	// if it is absent. The Reading has the new Version and Now; Value is left
	// out. The error is ErrConflict, ErrUncertain or ErrRefused; any other is
	// taken as ErrUncertain, which is the safe reading.
	Swap(ctx context.Context, version string, value []byte) (Reading, error)
}

// Reading is one answer of a Register.
type Reading struct {
	Value   []byte
	Version string    // opaque; "" is an absent value
	Now     time.Time // the server's clock when it answered; never zero
	// Deleted says that an absent value was deleted and that the store keeps a mark
	// of it, over which it may refuse to create another one.
	Deleted bool
	// Unchanged says that the value is still the one at the known version.
	Unchanged bool
}

// How a request to a Register can fail.
var (
	// ErrConflict: the value is at another version, or another write was under
	// way. This request wrote nothing and never will.
	ErrConflict = errors.New("the register is at another version")
	// ErrUncertain: no answer came, or one that does not tell. The write may
	// have landed, may still land, or may never.
	ErrUncertain = errors.New("the write may or may not have landed")
	// ErrRefused: the request was refused and would be again (no permission,
	// no such bucket). Nothing was written; it is not retried.
	ErrRefused = errors.New("the register refused the request")
)
