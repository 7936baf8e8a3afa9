package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// onlyBatch begins a run that finds these files, given as key and content, in
// one batch.
func (w *world) onlyBatch(files ...string) (token int64, batch Batch) {
	w.Helper()
	for i := 0; i < len(files); i += 2 {
		w.upload(files[i], files[i+1])
	}
	token = w.begin("P1")
	batches := w.batches(w.discover("P1", token))
	if len(batches) != 1 {
		w.Fatalf("%d batches", len(batches))
	}
	return token, batches[0]
}

// CASES 29: the first file of a batch is poison.
func TestAPoisonFileHarmsNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "poison", "in/b", "b\nb", "in/c", "c")
		out, err := w.process("P1", token, batch)
		w.ok(err)
		equal(t, "answer", out, ProcessOutput{Batch: 0, Done: 2, Failed: 1})
		result := w.result("P1", token, 0)
		equalLists(t, "outcomes", outcomes(result), []string{"in/a failed", "in/b done", "in/c done"})
		equal(t, "error", result.Files[0].Error, "malformed file: it is poison")
		equal(t, "rows", result.Files[1].Rows, 2)
		equal(t, "outputs", len(result.Files[1].Outputs), 1)
		w.wantOutputs(map[string]string{"in/b": "b\nb", "in/c": "c"})
	})
}

// CASES 27: overwritten or deleted between the listing and the reading.
func TestAFileThatMovedOnIsSuperseded(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/changed", "old", "in/deleted", "gone", "in/kept", "kept")
		w.upload("in/changed", "new")
		w.ok(w.source.Delete(w.Context(), "in/deleted"))
		out, err := w.process("P1", token, batch)
		w.ok(err)
		equal(t, "answer", out, ProcessOutput{Done: 1})
		equalLists(t, "outcomes", outcomes(w.result("P1", token, 0)), []string{"in/changed superseded", "in/deleted superseded", "in/kept done"})
		w.wantOutputs(map[string]string{"in/kept": "kept"})
	})
}

// An object in an archive blocks no other, and is not to blame.
func TestAnArchivedFileIsSkippedAndCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b")
		w.source.SetStorageClass("in/a", "GLACIER")
		out, err := w.process("P1", token, batch)
		w.ok(err)
		equal(t, "answer", out, ProcessOutput{Done: 1})
		equalLists(t, "outcomes", outcomes(w.result("P1", token, 0)), []string{"in/a archived", "in/b done"})
	})
}

// A batch that is repeated writes the same keys.
func TestProcessMayBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b")
		for range 3 {
			out, err := w.process("P1", token, batch)
			w.ok(err)
			equal(t, "answer", out, ProcessOutput{Done: 2})
			w.wantOutputs(map[string]string{"in/a": "a", "in/b": "b"})
		}
		equal(t, "results, one for each call", len(w.results("P1", token, 0)), 3)
	})
}

// CASES 13: the lease is lost in the middle; what comes after is not published,
// even by a processor that does not look at its context.
func TestNothingIsPublishedOnceTheLeaseIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b", "in/c", "c")
		w.processor.before = func(_ context.Context, in process.File) error {
			if in.Key == "in/b" {
				w.release("P1", token)
				next := w.begin("P2")
				time.Sleep(time.Minute) // of the bubble's time: this run renews, and learns of it
				w.release("P2", next)
			}
			return nil
		}
		_, err := w.process("P1", token, batch)
		var lost *LeaseLostError
		if !errors.As(Translate(err), &lost) {
			t.Errorf("%T: %v", Translate(err), err)
		}
		w.wantOutputs(map[string]string{"in/a": "a"})
		equal(t, "results", len(w.results("P1", token, 0)), 0)
	})
}

// A processor's own context says nothing of the lease.
func TestPublishAsksForTheLeaseItself(t *testing.T) {
	inWorld(t, func(w *world) {
		lost := errors.New("the lease is lost")
		r, err := w.steps.begin(w.execution("P1"))
		w.ok(err)
		p := &publisher{run: r, holding: func() error { return lost }}
		if err := p.Publish(context.Background(), process.Output{Name: process.OutputName, Body: strings.NewReader("x")}); !errors.Is(err, lost) {
			t.Errorf("%v", err)
		}
		w.wantOutputs(nil)
	})
}

// A long file keeps the lease alive for as long as it takes.
func TestALongFileKeepsTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a")
		w.processor.before = func(context.Context, process.File) error {
			time.Sleep(time.Hour) // of the bubble's time
			return nil
		}
		_, err := w.process("P1", token, batch)
		w.ok(err)
		w.wantOutputs(map[string]string{"in/a": "a"})
	})
}

func TestFilesThatDoNotFitIntoTheCallAreDeferred(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b", "in/c", "c", "in/d", "d")
		w.processor.before = func(ctx context.Context, _ process.File) error { return pause(ctx, 50*time.Second) }
		ctx, cancel := context.WithTimeout(w.Context(), 150*time.Second) // 120 s of work
		defer cancel()
		begun := time.Now()
		out, err := w.processIn(ctx, "P1", token, batch)
		w.ok(err)
		equal(t, "time until the result", time.Since(begun), 120*time.Second)
		equal(t, "answer", out, ProcessOutput{Done: 2})
		result := w.result("P1", token, 0)
		equalLists(t, "outcomes", outcomes(result), []string{"in/a done", "in/b done", "in/c deferred", "in/d deferred"})
		equal(t, "error", result.Files[2].Error, "")
	})
}

// A file that has the whole call to itself and is not finished would never be:
// it failed, and those behind it come first the next time.
func TestAFileTooLargeForACallFails(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b")
		w.processor.before = func(ctx context.Context, _ process.File) error { return pause(ctx, time.Hour) }
		ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second) // too short to keep back half a minute
		defer cancel()
		begun := time.Now()
		out, err := w.processIn(ctx, "P1", token, batch)
		w.ok(err)
		equal(t, "time until the result", time.Since(begun), 10*time.Second)
		equal(t, "answer", out, ProcessOutput{Failed: 1})
		result := w.result("P1", token, 0)
		equalLists(t, "outcomes", outcomes(result), []string{"in/a unproven", "in/b deferred"})
		if !strings.Contains(result.Files[0].Error, "more memory") {
			t.Errorf("error %q", result.Files[0].Error)
		}
	})
}

// pause is a processor's work of so long.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func TestAnOutputKeyTooLongFailsItsFileAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		long := "in/" + strings.Repeat("k", maxKeyBytes-3)
		token, batch := w.onlyBatch("in/a", "a", long, "x")
		out, err := w.process("P1", token, batch)
		w.ok(err)
		equal(t, "answer", out, ProcessOutput{Done: 1, Failed: 1})
		if text := w.result("P1", token, 0).Files[1].Error; !strings.Contains(text, "S3 takes 1024; shorten destination.prefix") {
			t.Errorf("error %q", text)
		}
	})
}

func TestALongErrorIsCutInTheRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a")
		w.processor.before = func(context.Context, process.File) error {
			return fmt.Errorf("%w: %s", process.ErrMalformed, strings.Repeat("é", 100_000))
		}
		_, err := w.process("P1", token, batch)
		w.ok(err)
		if text := w.result("P1", token, 0).Files[0].Error; len(text) > 1100 || !strings.HasSuffix(text, "é…") {
			t.Errorf("an error of %d bytes", len(text))
		}
	})
}

func TestProcessNeedsAProcessor(t *testing.T) {
	inWorld(t, func(w *world) {
		steps, err := New(Config{Open: func(string) (Store, error) { return w.state, nil }})
		w.ok(err)
		if _, err := steps.Process(w.Context(), ProcessInput{Execution: w.execution("P1")}); err == nil {
			t.Error("no error")
		}
		if _, err := New(Config{}); err == nil {
			t.Error("steps without buckets")
		}
	})
}

// What refuses everything is named, and blames no file; one file that is refused
// among others that get through is to blame once that is proven.
func TestARefusalBlamesAFileOnlyWhenAnotherGotThrough(t *testing.T) {
	for name, c := range map[string]struct {
		where func(w *world) *bucket.Memory
		op    string
		code  string
		only  string // the key that is refused; "" for all
		want  []string
	}{
		"the destination":           {func(w *world) *bucket.Memory { return w.lake }, "put", "AccessDenied", "", []string{"in/a deferred", "in/b deferred"}},
		"the source":                {func(w *world) *bucket.Memory { return w.source }, "get", "AccessDenied", "", []string{"in/a unproven", "in/b unproven"}},
		"one source object":         {func(w *world) *bucket.Memory { return w.source }, "get", "AccessDenied", "in/a", []string{"in/a unproven", "in/b done"}},
		"the bucket is gone":        {func(w *world) *bucket.Memory { return w.source }, "get", "NoSuchBucket", "", []string{"in/a deferred", "in/b deferred"}},
		"the credentials are over":  {func(w *world) *bucket.Memory { return w.source }, "get", "ExpiredToken", "in/a", []string{"in/a deferred", "in/b deferred"}},
		"the key is disabled":       {func(w *world) *bucket.Memory { return w.lake }, "put", "KMS.DisabledException", "", []string{"in/a deferred", "in/b deferred"}},
		"the clock is wrong":        {func(w *world) *bucket.Memory { return w.source }, "get", "RequestTimeTooSkewed", "", []string{"in/a deferred", "in/b deferred"}},
		"the access key is unknown": {func(w *world) *bucket.Memory { return w.source }, "get", "InvalidAccessKeyId", "", []string{"in/a deferred", "in/b deferred"}},
	} {
		inWorld(t, func(w *world) {
			token, batch := w.onlyBatch("in/a", "a", "in/b", "b")
			refusing := refusingStore{c.where(w), c.op, c.code, c.only}
			stores := []Store{refusing}
			for _, m := range []*bucket.Memory{w.source, w.lake, w.state} {
				if m != refusing.Memory {
					stores = append(stores, m)
				}
			}
			w.open(stores...)
			_, err := w.process("P1", token, batch)
			w.ok(err)
			equalLists(t, name, outcomes(w.result("P1", token, 0)), c.want)
		})
	}
}

// refusingStore answers calls of one kind with a refusal.
type refusingStore struct {
	*bucket.Memory
	op, code, only string
}

func (r refusingStore) refusal(op, key string) error {
	if op != r.op || r.only != "" && key != r.only {
		return nil
	}
	return &bucket.CallError{Op: op, Bucket: r.Name(), Key: key, Status: 403, Code: r.code}
}

func (r refusingStore) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	if err := r.refusal("get", key); err != nil {
		return nil, err
	}
	return r.Memory.Get(ctx, key, c)
}

func (r refusingStore) PutWith(ctx context.Context, key string, body io.ReadSeeker, o bucket.PutOptions) (bucket.Written, error) {
	if err := r.refusal("put", key); err != nil {
		return bucket.Written{}, err
	}
	return r.Memory.PutWith(ctx, key, body, o)
}
