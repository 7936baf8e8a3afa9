package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// An output says by its metadata what it is of. A run replaces an output only
// by one of the same source file and the same pipeline, under a higher fencing
// token, and on condition that it is still the one that was looked at; it creates
// an output only where there is none. So a call of a run that lost its lock
// meets 412 wherever a later run has published, however late its request lands.
//
// An ETag may be the MD5 of the content, so that equal bytes have equal ETags.
// Parquet files carry the token in their footer: no two grants write equal bytes,
// and a condition on an ETag is not met by content that comes back. A processor
// whose outputs do not differ by token (copies) has that gap: a late write may
// replace an output that a later run replaced by the same bytes.

// Names of an output's metadata.
const (
	metaPipeline = "lockstep-pipeline"
	metaSource   = "lockstep-source"   // hash of source bucket and key
	metaVersion  = "lockstep-etag"     // of the source version, escaped as in a URL
	metaToken    = "lockstep-token"    // fencing token of the run that published it
	metaRows     = "lockstep-rows"     // in the output
	metaRejected = "lockstep-rejected" // records kept in the file's aside
)

// origin is what an output's metadata says.
type origin struct {
	pipeline, source, etag string
	token, rows, rejected  int64
}

func (r *run) originOf(f ledger.File, token int64, out process.Output) origin {
	return origin{
		pipeline: r.config.Pipeline, source: sourceName(r.config.Source.Bucket, f.Key), etag: f.ETag,
		token: token, rows: out.Rows, rejected: out.Rejected,
	}
}

// sourceName stands for a source file in metadata, which takes no Unicode.
func sourceName(bucket, key string) string {
	sum := sha256.Sum256([]byte(bucket + "/" + key))
	return hex.EncodeToString(sum[:16])
}

// maxEscapedETag leaves room for the other metadata within S3's 2 KiB.
const maxEscapedETag = 1000

// escapedETag makes an opaque ETag fit into a header.
func escapedETag(etag string) string {
	escaped := url.QueryEscape(etag)
	if len(escaped) <= maxEscapedETag {
		return escaped
	}
	sum := sha256.Sum256([]byte(etag))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (o origin) metadata() map[string]string {
	return map[string]string{
		metaPipeline: url.QueryEscape(o.pipeline), metaSource: o.source, metaVersion: escapedETag(o.etag),
		metaToken: strconv.FormatInt(o.token, 10), metaRows: strconv.FormatInt(o.rows, 10), metaRejected: strconv.FormatInt(o.rejected, 10),
	}
}

// published is what the metadata of an object says.
type published struct {
	pipeline, source, version string // as in the metadata
	token, rows, rejected     int64
}

// readMetadata returns false for an object that no pipeline published.
func readMetadata(metadata map[string]string) (p published, ok bool) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(metadata[name], 10, 64)
		ok = ok && err == nil && n >= 0
		return n
	}
	ok = metadata[metaPipeline] != "" && metadata[metaSource] != "" && metadata[metaVersion] != ""
	p = published{pipeline: metadata[metaPipeline], source: metadata[metaSource], version: metadata[metaVersion]}
	p.token, p.rows, p.rejected = number(metaToken), number(metaRows), number(metaRejected)
	return p, ok
}

// etag is the source version, as far as the metadata has it word for word.
func (p published) etag() string {
	etag, err := url.QueryUnescape(p.version)
	if err != nil {
		return p.version
	}
	return etag
}

func (p published) isOfPipeline(name string) bool { return p.pipeline == url.QueryEscape(name) }

// takenError: an object that the pipeline did not publish is where an output
// belongs. Nothing was written.
type takenError struct{ url string }

func (e *takenError) Error() string {
	return fmt.Sprintf("%q was not published by this pipeline and is left as it is; give the pipeline a destination of its own, or move the object away", e.url)
}

// nameTakenError: an output of another source file is where the output of this
// one belongs.
type nameTakenError struct{ url, source string }

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("its output would be %q, which is the output of another source file (lockstep-source %s); rename one of the two files", e.url, e.source)
}

// publishRuleError: the processor published what the destination cannot take.
type publishRuleError struct{ problem string }

func (e *publishRuleError) Error() string { return e.problem }

// publisher puts whole outputs of one file in their place, under the run's lease.
type publisher struct {
	run     *run
	token   int64
	file    ledger.File
	holding func() error // why the run may not publish any more, or nil

	keys    []string // what was published or, if a reply got lost, may have been
	visible string   // name of the visible output; "" before it is published
	found   *published
	err     error // the first error
}

// Publish implements process.Publisher. It asks for the lease itself: the
// processor's context may be its own, and the lease may have ended while the
// output was made.
func (p *publisher) Publish(ctx context.Context, out process.Output) error {
	err := p.publish(ctx, out)
	if err != nil && p.err == nil {
		p.err = err
	}
	return err
}

func (p *publisher) publish(ctx context.Context, out process.Output) error {
	if out.Name == "" {
		return &publishRuleError{"the processor published an output without a name"}
	}
	if !isAside(out.Name) {
		if p.visible != "" && p.visible != out.Name && p.run.config.Destination.Versions == VersionsLatest {
			return &publishRuleError{fmt.Sprintf("the processor published %q and %q, and destination.versions %q shows one output for each file; name all but one with a leading underscore, or use %q", p.visible, out.Name, VersionsLatest, VersionsAll)}
		}
		p.visible = out.Name
	}
	key, err := outputKey(p.run.config, p.file, out.Name)
	if err != nil {
		return err
	}
	p.keys = append(p.keys, key)
	w := &outputWrite{publisher: p, key: key, out: out, mine: p.run.originOf(p.file, p.token, out)}
	if err := w.write(ctx); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// outputWrite is one output on its way to its key.
type outputWrite struct {
	*publisher
	key  string
	out  process.Output
	mine origin
}

const (
	publishTries      = 12
	publishFirstPause = 50 * time.Millisecond
)

// write creates the output, or replaces an older one of the same file. After
// each answer that leaves a doubt it looks at what is there.
func (w *outputWrite) write(ctx context.Context) error {
	condition := bucket.Condition{IfNoneMatch: "*"}
	for try := 0; ; try++ {
		cause := w.put(ctx, condition)
		if cause == nil {
			return nil
		}
		if isCertainRefusal(cause) || try == publishTries {
			return cause
		}
		if !errors.Is(cause, bucket.ErrPrecondition) && !errors.Is(cause, bucket.ErrNotFound) {
			if err := sleep(ctx, publishFirstPause<<min(try, 6)); err != nil {
				return errors.Join(err, cause)
			}
		}
		there, err := w.run.destination.Head(ctx, w.key)
		switch {
		case errors.Is(err, bucket.ErrNotFound):
			condition = bucket.Condition{IfNoneMatch: "*"}
			continue
		case err != nil:
			return fmt.Errorf("look at the output there: %w", err)
		}
		done, err := w.compare(there)
		if done || err != nil {
			return err
		}
		condition = bucket.Condition{IfMatch: there.ETag}
	}
}

func (w *outputWrite) put(ctx context.Context, c bucket.Condition) error {
	if err := w.holding(); err != nil {
		return err
	}
	if _, err := w.out.Body.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", process.ErrNotFile, err)
	}
	_, err := w.run.destination.PutWith(ctx, w.key, w.out.Body, bucket.PutOptions{
		ContentType: w.out.ContentType, Metadata: w.mine.metadata(), Condition: c,
	})
	return err
}

// isCertainRefusal reports an answer after which nothing was written, and
// nothing would be if it was sent again.
func isCertainRefusal(err error) bool {
	var call *bucket.CallError
	return errors.Is(err, lease.ErrLost) || !errors.As(err, &call) ||
		!bucket.Transient(err) && !errors.Is(err, bucket.ErrPrecondition) && !errors.Is(err, bucket.ErrNotFound)
}

// compare decides by the object that is there: whether it is this output
// already, and whether it may be replaced.
func (w *outputWrite) compare(there *bucket.Object) (done bool, err error) {
	url := "s3://" + w.run.destination.Name() + "/" + w.key
	p, ours := readMetadata(there.Metadata)
	switch {
	case !ours || !p.isOfPipeline(w.mine.pipeline):
		return false, &takenError{url}
	case p.source != w.mine.source:
		return false, &nameTakenError{url, p.source}
	case p.token > w.token:
		return false, fmt.Errorf("%w: output %s was published under token %d, and this run has %d", lease.ErrLost, url, p.token, w.token)
	case p.token == w.token && p.version == escapedETag(w.mine.etag):
		if !isAside(w.out.Name) {
			w.found = &p // another attempt of this run was first; what is seen are its rows
		}
		return true, nil
	}
	return false, nil
}

// sleep waits, or returns the cause that ended ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// row is what the ledger records of the visible output.
func (p *publisher) row() ledger.Published {
	if p.visible == "" {
		return ledger.Published{}
	}
	return ledger.Published{ETag: p.file.ETag, Token: p.token, Name: p.visible}
}

// showEmpty replaces an earlier output of a file that has no content any more,
// and from which the processor made nothing, by an empty one with the same
// columns: readers must not see rows of a version that was overwritten.
func (p *publisher) showEmpty(ctx context.Context, processor process.Processor, in process.File) error {
	emptier, can := processor.(process.Emptier)
	if !can || p.visible != "" || p.run.config.Destination.Versions != VersionsLatest {
		return nil
	}
	key, err := outputKey(p.run.config, p.file, process.OutputName)
	if err != nil {
		return nil // then there cannot be one
	}
	there, err := p.run.destination.Head(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil
	}
	if err == nil {
		w := &outputWrite{publisher: p, key: key, mine: p.run.originOf(p.file, p.token, process.Output{})}
		if _, err = w.compare(there); err == nil {
			previous := &rangeReader{ctx: ctx, store: p.run.destination, key: key, etag: there.ETag, size: there.Size}
			if err = emptier.Empty(ctx, in, previous, there.Size, p); err != nil && p.err == nil && previous.err != nil {
				err = previous.err
			}
		}
	}
	if err != nil && p.err == nil {
		p.err = err
	}
	return err
}

// rangeReader reads parts of one version of an object.
type rangeReader struct {
	ctx   context.Context // of the call that reads
	store Store
	key   string
	etag  string
	size  int64
	err   error
}

// ReadAt implements io.ReaderAt.
func (r *rangeReader) ReadAt(b []byte, offset int64) (int, error) {
	length := min(int64(len(b)), r.size-offset)
	if length <= 0 {
		return 0, io.EOF
	}
	object, err := r.store.GetRange(r.ctx, r.key, bucket.Condition{IfMatch: r.etag}, offset, length)
	if err != nil {
		r.err = err
		return 0, err
	}
	defer object.Body.Close()
	n, err := io.ReadFull(newWireBody(object.Body, object.Size), b[:length])
	if err == nil && n < len(b) {
		err = io.EOF
	} else if err != nil {
		r.err = err
	}
	return n, err
}
