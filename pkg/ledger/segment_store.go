package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// segmentBuilder writes one segment in memory: a PUT needs it whole, to send
// it again and to name it by its content.
type segmentBuilder struct {
	*segmentWriter
	body bytes.Buffer
}

func (l *Ledger) newSegment() (*segmentBuilder, error) {
	b := &segmentBuilder{}
	w, err := newSegmentWriter(&b.body, l.limits.blockRows)
	b.segmentWriter = w
	return b, err
}

// segmentsWriter writes rows, in key order, into as many segments as they fill.
type segmentsWriter struct {
	ledger     *Ledger
	generation int64
	token      int64
	current    *segmentBuilder
	written    []Segment
}

func (w *segmentsWriter) add(ctx context.Context, r *record) (err error) {
	if w.current == nil {
		if w.current, err = w.ledger.newSegment(); err != nil {
			return fmt.Errorf("write segment: %w", err)
		}
	}
	if err := w.current.add(r); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	if w.current.stats.bytes < w.ledger.limits.segmentBytes {
		return nil
	}
	return w.finish(ctx)
}

func (w *segmentsWriter) finish(ctx context.Context) error {
	s, err := w.ledger.putSegment(ctx, w.current, w.generation, w.token)
	w.written, w.current = append(w.written, s), nil
	return err
}

// close uploads the last segment and returns all of them.
func (w *segmentsWriter) close(ctx context.Context) ([]Segment, error) {
	if w.current != nil {
		if err := w.finish(ctx); err != nil {
			return nil, err
		}
	}
	return w.written, nil
}

// putSegment uploads what b holds, named after the generation that will name
// it first and the token of its writer. Nobody sees it before a head does.
func (l *Ledger) putSegment(ctx context.Context, b *segmentBuilder, generation, token int64) (Segment, error) {
	stats, err := b.close()
	if err != nil {
		return Segment{}, fmt.Errorf("write segment: %w", err)
	}
	name := fmt.Sprintf("segments/%012d-%016d-%s.seg", generation, token, contentName(b.body.Bytes()))
	if _, err := l.store.Put(ctx, l.prefix+name, bytes.NewReader(b.body.Bytes()), "application/octet-stream", bucket.Condition{}); err != nil {
		return Segment{}, fmt.Errorf("write segment: %w", err)
	}
	return Segment{Name: name, Rows: stats.rows, Gone: stats.gone, Bytes: stats.bytes, First: stats.first, Last: stats.last}, nil
}

func contentName(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// getSegment opens the object of a segment that the head describes.
func (l *Ledger) getSegment(ctx context.Context, s Segment) (*bucket.Object, error) {
	key := l.prefix + s.Name
	object, err := l.store.Get(ctx, key, bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, missingSegment(key)
	}
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	if object.Size != s.Bytes {
		object.Body.Close()
		return nil, &DamagedError{Object: key, Reason: fmt.Sprintf("it has %d bytes, the head says %d", object.Size, s.Bytes)}
	}
	return object, nil
}

func missingSegment(key string) error {
	return &DamagedError{Object: key, Reason: "the head names it and it is not there (a reader that took longer than " +
		readerGrace.String() + " may see this: start it again)"}
}

// openSegment begins to read a segment from its beginning.
func (l *Ledger) openSegment(ctx context.Context, s Segment) (*openSegment, error) {
	object, err := l.getSegment(ctx, s)
	if err != nil {
		return nil, err
	}
	reader := newSegmentReader(cutReader{object.Body}, l.prefix+s.Name, l.unpackers)
	return &openSegment{segmentReader: reader, described: s, body: object.Body}, nil
}

// cutReader keeps a connection that broke apart from an object that ends
// early: the size of the object was compared before.
type cutReader struct{ io.Reader }

func (c cutReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("the connection was cut: %w", err)
	}
	return n, err
}

// openSegment reads a segment and holds it against what the head says.
type openSegment struct {
	*segmentReader
	described Segment
	body      io.Closer
}

func (o *openSegment) next(r *record) (bool, error) {
	begun := o.stats.rows > 0
	more, err := o.segmentReader.next(r)
	if err != nil {
		return false, err
	}
	if !begun && o.stats.first != o.described.First {
		return false, o.damaged("it begins with key %q, the head says %q", o.stats.first, o.described.First)
	}
	if !more {
		found := Segment{Name: o.described.Name, Rows: o.stats.rows, Gone: o.stats.gone, Bytes: o.stats.bytes, First: o.stats.first, Last: o.stats.last}
		if found != o.described {
			return false, o.damaged("it holds %+v, the head says %+v", found, o.described)
		}
	}
	return more, nil
}

func (o *openSegment) close() { o.body.Close() }
