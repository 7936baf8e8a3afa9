// Package ledger remembers which versions of which files were processed, so
// that each run finds exactly the new and the modified ones.
//
// It promises that
//   - a version that was committed as done is not handed out again, and a
//     version that was listed and not committed is handed out by the next run:
//     identity is (key, ETag, size), never a time;
//   - a commit is atomic, happens once for the same (run, token) however often
//     it is sent, and is refused (ErrFenced) once a newer token was seen;
//   - a listing that broke off, repeated itself or lost its order ends in an
//     error, and nothing may be concluded from it;
//   - a row leaves the ledger only after a complete listing showed that its key
//     is gone;
//   - a damaged head or segment is an error that names the object (ErrDamaged),
//     never fewer rows;
//   - a commit writes in proportion to what is new; discovery holds one page
//     and one block per overlapping segment in memory.
//
// It knows no lock: it orders writers by their fencing token alone, and so is
// meant for one run at a time. It reads no file, counts no rows of data, and
// does not know why a file failed. LastModified is used only where a selection
// asks for an age or a window; it is never compared for equality.
//
// On the bucket a ledger is head.json, swapped conditionally, and immutable
// sorted segments that the head names (see segment.go for their format).
package ledger

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Store holds the ledger's own objects. Its conditional PUT must be atomic and
// must not be retried underneath; bucket.Bucket is such a store.
type Store interface {
	Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error)
	GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error)
	Delete(ctx context.Context, key string) error
	Lister
}

// Lister lists objects in key order (UTF-8 bytes), page by page; the page that
// completes the listing says so.
type Lister interface {
	List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error]
}

// Ledger is one ledger on a store. It keeps no state between calls and may be
// used from many goroutines.
type Ledger struct {
	store  Store
	prefix string
	limits limits
	*unpackers
	// wait pauses between two attempts at the head.
	wait func(ctx context.Context, attempt int) error
}

// limits are the sizes that tests make small. Their defaults are what the
// package documents.
type limits struct {
	blockRows    int   // rows a block
	mergeCount   int   // segments that make a merge worth its requests
	mergeBytes   int64 // bytes a merge reads at most, unless most of them are dead
	segmentBytes int64 // bytes after which a merge begins its next segment
	gone         int   // vanished keys one discovery reports at most
	commits      int   // commits the head remembers
	attempts     int   // tries at swapping the head, and at a listing that is told to slow down
	marks        int   // watermarks the head remembers

	wholeBytes int64 // a segment up to this is read whole
	tailBytes  int64 // read of a larger one to find its index
	fetchBytes int64 // of blocks read at a time, unless one block has more
	readBytes  int64 // of blocks that all listings together read at a time, unless single blocks have more
	listings   int   // listed at a time
	spanRows   int64 // rows of the ledger that make a span of its own
	splitFrom  int   // pages that a span of unknown length has had before it is split
	splitAfter int   // pages of a span between two tries to split it
	heldFiles  int   // files that a bounded choice keeps in memory; a larger one sorts on disk
}

func defaultLimits() limits {
	return limits{
		blockRows:    4096,
		mergeCount:   8,
		mergeBytes:   32 << 20,
		segmentBytes: 32 << 20,
		gone:         10_000,
		commits:      100,
		attempts:     10,
		marks:        200,
		wholeBytes:   256 << 10,
		tailBytes:    64 << 10,
		fetchBytes:   256 << 10,
		readBytes:    32 << 20,
		listings:     16,
		spanRows:     50_000,
		splitFrom:    8,
		splitAfter:   2,
		heldFiles:    100_000,
	}
}

// Open returns the ledger kept under prefix, a folder: "state/ledger" and
// "state/ledger/" are the same. It does not dial; a ledger that was never
// written to is empty.
func Open(store Store, prefix string) (*Ledger, error) {
	if store == nil {
		return nil, errors.New("open ledger: no store given")
	}
	if strings.Trim(prefix, "/") == "" {
		return nil, errors.New("open ledger: the prefix is empty; give the ledger a folder of its own, such as \"state/ledger\"")
	}
	return &Ledger{store: store, prefix: folder(prefix), limits: defaultLimits(), unpackers: newUnpackers(), wait: backoff}, nil
}

// backoff waits 50 ms, doubling up to 3 s, half of it at random.
func backoff(ctx context.Context, attempt int) error {
	d := min(50*time.Millisecond<<min(attempt, 10), 3*time.Second)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// folder turns a prefix into a path prefix: "files" takes "files/a" and leaves
// "files2/a" alone. The empty prefix stays the whole bucket.
func folder(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix
	}
	return prefix + "/"
}
