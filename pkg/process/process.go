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
//   - The same file under the same fencing token gives the same bytes under the
//     same names. Another token gives other bytes, so that a condition on what is
//     there is never met by what another run wrote.
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
	// Token is the fencing token of the run, 0 outside of one. An output that has
	// it in its bytes differs from what any other run writes.
	Token int64
	// Body is read once, from start to end. The caller closes it.
	Body io.Reader
}

// A Processor turns a file into published outputs. Its error says what is to
// become of the file:
//
//   - [ErrUnsupported] or [ErrMalformed]: it is the file's own fault, and will come
//     again with the same version. It counts as a failed attempt.
//   - [ErrNotFile], or the error of ctx, of the body or of the publisher: it says
//     nothing about the file. The file is processed again, and not blamed.
//   - Any other error may be either. It counts as a failed attempt only if another
//     file of the same run got through.
//
// Implementations are safe for concurrent use.
type Processor interface {
	Process(ctx context.Context, in File, out Publisher) (Outcome, error)
}

// An Emptier is a [Processor] that can show that a file has no content any more.
// It is asked where the file had an output, and the processor made none of its
// new version: previous is the output that is there, of size bytes. It publishes
// an output without rows, and with the same columns, under [OutputName].
type Emptier interface {
	Empty(ctx context.Context, in File, previous io.ReaderAt, size int64, out Publisher) error
}

// Output is one finished output of a file.
type Output struct {
	// Name is a fixed suffix such as [OutputName], safe in any key. One that begins
	// with an underscore is an aside, which readers of the folder skip. All others
	// are visible: a destination that shows the latest version of each file takes
	// one of them, published last.
	Name        string
	ContentType string
	Rows        int64 // in this output
	Rejected    int64 // records that are kept in an aside instead
	// Body is at its start, and stays valid until Publish returns. It may be read
	// more than once.
	Body io.ReadSeeker
}

// A Publisher makes one finished output visible, whole or not at all. Publishing
// a name again replaces what was there.
type Publisher interface {
	Publish(ctx context.Context, out Output) error
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
	// ErrNotFile: the error says nothing about the file: a disk is full, a database
	// is down. The message says what, and what to do.
	ErrNotFile = errors.New("not the file's fault")
	// ErrMalformed: the file is not what its name says, or is damaged.
	ErrMalformed = errors.New("malformed file")
)
