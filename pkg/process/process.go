// Package process turns one source file into finished outputs.
//
// It promises, of every processor in it:
//
//   - Nothing is visible unless whole: an output reaches the [Publisher] only
//     when its last byte exists, and the main output comes last, so whoever
//     sees it also sees what was rejected on the way.
//   - Nothing is lost in silence: every record of the file is a row of the
//     output, or a rejected row that is kept, with the reason, and counted; or
//     the file fails as a whole and nothing is published.
//   - The same file gives the same bytes under the same names, so a retry, or a
//     run that was thought dead, rewrites the same objects.
//   - Memory does not grow with the file, and no temporary file is left behind.
//
// It does not know S3, locks or runs: the caller opens the file at the version
// it wants, maps output names to keys, and checks its lease in Publish.
//
// To swap in your own processing, implement [Processor]; [Parquet] is the
// built-in one.
package process

import (
	"context"
	"errors"
	"io"
	"time"
)

// File is one source object at one version.
type File struct {
	Key  string
	ETag string
	// Size is the object's length in bytes. When positive, a Body that ends
	// earlier or later is a read error, not a fault of the file.
	Size         int64
	LastModified time.Time
	// Body is read once, from start to end. The caller closes it.
	Body io.Reader
}

// A Processor turns a file into published outputs.
//
// An error that matches [ErrUnsupported] or [ErrMalformed] is the file's own
// fault and will come again with the same version. Any other error (ctx, the
// body's or the publisher's own error, a full disk) says nothing about the file.
// Implementations are safe for concurrent use.
type Processor interface {
	Process(ctx context.Context, in File, out Publisher) (Outcome, error)
}

// A Publisher makes one finished output visible, whole or not at all.
//
// The name is a fixed suffix such as [OutputName], safe in any key; the body is
// at its start and stays valid until Publish returns. Publishing a name again
// replaces what was there.
type Publisher interface {
	Publish(ctx context.Context, name, contentType string, body io.ReadSeeker) error
}

// Outcome says what became of a file.
type Outcome struct {
	// Rows is the number of rows in the output.
	Rows int64
	// Rejected is the number of records that are kept in [RejectedName] instead.
	Rejected int64
	// Bytes is the total length of all outputs.
	Bytes int64
	// Outputs are the names given to Publish, in that order; none for an empty file.
	Outputs []string
}

var (
	// ErrUnsupported: the file may be fine, but this processor does not take it
	// (its name, its encoding, or a size above a limit). The message says what is taken.
	ErrUnsupported = errors.New("unsupported file")
	// ErrMalformed: the file is not what its name says, or is damaged.
	ErrMalformed = errors.New("malformed file")
)
