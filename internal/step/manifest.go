package step

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// maxBatchBytes bounds a batch as JSON: with the configuration and the rest of
// a child's input it must stay under 256 KiB.
// Source: Step Functions quotas, "Maximum input or output size".
const maxBatchBytes = 192 << 10

// manifestWriter uploads batches as one JSON array, an element a line, while
// they are added, so that a manifest of any length is whole neither in memory
// nor on disk. The object appears when publish has ended it, and not otherwise.
type manifestWriter struct {
	limits BatchSettings
	pipe   *io.PipeWriter // to the upload
	out    *bufio.Writer

	batch      []ledger.Candidate // not written yet
	batchBytes int64              // source bytes in batch
	batchJSON  int                // its size as JSON

	batches int
	files   int64
	bytes   int64

	uploaded chan struct{} // closed when the upload has ended; then:
	written  bucket.Written
	err      error
}

// startManifest begins a manifest at key. The caller ends it with abandon,
// also after publish.
func startManifest(ctx context.Context, store Store, key string, limits BatchSettings) *manifestWriter {
	reader, writer := io.Pipe()
	w := &manifestWriter{
		limits: limits, pipe: writer, out: bufio.NewWriterSize(writer, 64<<10), uploaded: make(chan struct{}),
	}
	go func() {
		defer close(w.uploaded)
		w.written, w.err = store.Upload(ctx, key, reader, "application/json")
		_ = reader.CloseWithError(w.err) // what add says when the upload has failed
	}()
	return w
}

// abandon ends an upload that was not published, so that nothing of it is
// left. It returns when the upload has.
func (w *manifestWriter) abandon() {
	_ = w.pipe.CloseWithError(errAbandoned)
	<-w.uploaded
}

var errAbandoned = errors.New("the discovery has failed")

// add appends a file. One that is suspect of bringing a call down gets a batch
// of its own, so that it takes no other file with it.
func (w *manifestWriter) add(f ledger.Candidate) error {
	w.files++
	w.bytes += f.Size
	if f.Suspect {
		return w.write([]ledger.Candidate{f})
	}
	encoded, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	full := len(w.batch) >= w.limits.MaxFiles ||
		w.batchBytes+f.Size > w.limits.MaxBytes ||
		w.batchJSON+len(encoded) > maxBatchBytes
	if full {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.batch = append(w.batch, f)
	w.batchBytes += f.Size
	w.batchJSON += len(encoded) + 1
	return nil
}

func (w *manifestWriter) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	err := w.write(w.batch)
	w.batch, w.batchBytes, w.batchJSON = w.batch[:0], 0, 0
	return err
}

func (w *manifestWriter) write(files []ledger.Candidate) error {
	separator := ",\n"
	if w.batches == 0 {
		separator = "[\n"
	}
	encoded, err := json.Marshal(Batch{Number: w.batches, Files: files})
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	w.batches++
	if _, err := w.out.WriteString(separator); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if _, err := w.out.Write(encoded); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// publish ends the array and its upload. It returns the object's ETag.
func (w *manifestWriter) publish() (etag string, err error) {
	if err := w.flush(); err != nil {
		return "", err
	}
	end := "\n]\n"
	if w.batches == 0 {
		end = "[]\n"
	}
	if _, err := w.out.WriteString(end); err != nil {
		return "", fmt.Errorf("write manifest: %w", err)
	}
	if err := w.out.Flush(); err != nil {
		return "", fmt.Errorf("write manifest: %w", err)
	}
	_ = w.pipe.Close() // never fails
	<-w.uploaded
	if w.err != nil {
		return "", fmt.Errorf("write manifest: %w", w.err)
	}
	return w.written.ETag, nil
}

// readManifest calls each for every batch of the manifest that Discover wrote.
// A manifest at another version is refused: its batches are not those that were
// processed.
func readManifest(ctx context.Context, store Store, ref ObjectRef, each func(Batch) error) error {
	object, err := store.Get(ctx, ref.Key, bucket.Condition{IfMatch: ref.ETag})
	if errors.Is(err, bucket.ErrPrecondition) {
		return fmt.Errorf("manifest s3://%s/%s is not the one that was processed (ETag %s): somebody overwrote it; the next run repeats the work: %w", ref.Bucket, ref.Key, ref.ETag, err)
	}
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	defer object.Body.Close()
	// It was written whole: what cannot be read was cut on its way here.
	unreadable := func(err error) error {
		return &TransientError{fmt.Errorf("manifest s3://%s/%s cannot be read: %w", ref.Bucket, ref.Key, err)}
	}
	decoder := json.NewDecoder(bufio.NewReader(object.Body))
	if opening, err := decoder.Token(); err != nil {
		return unreadable(err)
	} else if opening != json.Delim('[') {
		return unreadable(fmt.Errorf("it begins with %v, not with a list", opening))
	}
	for decoder.More() {
		var batch Batch
		if err := decoder.Decode(&batch); err != nil {
			return unreadable(err)
		}
		if err := each(batch); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing bracket: a cut manifest ends before it
		return unreadable(err)
	}
	return nil
}
