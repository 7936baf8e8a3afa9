package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// manifestKey is where the tests write their manifest.
const manifestKey = "lockstep/runs/P1/000000000001/manifest.json"

// longFile is a file whose entry has more than 1,000 bytes: some 8,000 of them
// fill a part of an upload.
func longFile(i int) ledger.Candidate {
	return ledger.Candidate{File: ledger.File{Key: fmt.Sprintf("in/%07d/%s", i, strings.Repeat("k", 1000)), ETag: `"e"`, Size: 1}}
}

// overTheWire is a bucket "state" behind a real SDK client.
func overTheWire(t *testing.T) (Store, *bucket.Memory, *s3test.Server) {
	memory := bucket.NewMemory("state", nil)
	server := s3test.New(t, memory)
	over, err := bucket.New(server.Client(), "state", bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return over, memory, server
}

// noManifest checks that neither a manifest nor parts of one are there.
func noManifest(t *testing.T, memory *bucket.Memory, server *s3test.Server) {
	t.Helper()
	if _, err := memory.Get(context.Background(), manifestKey, bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("the manifest: %v", err)
	}
	if unfinished := server.Uploads(); len(unfinished) > 0 {
		t.Errorf("unfinished uploads of %q", unfinished)
	}
}

func TestAManifestIsSentWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, memory, server := overTheWire(t)
		w := startManifest(t.Context(), store, manifestKey, defaultBatch())
		defer w.abandon()
		const files = 20_000
		for i := range files {
			if err := w.add(longFile(i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		equal(t, "parts before the end", len(server.Requests("part")), 2)
		if _, err := memory.Get(t.Context(), manifestKey, bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("before the end: %v", err)
		}
		etag, err := w.publish()
		if err != nil {
			t.Fatal(err)
		}
		var next, batches int
		err = readManifest(t.Context(), store, ObjectRef{Bucket: "state", Key: manifestKey, ETag: etag}, func(b Batch) error {
			if b.Number != batches {
				return fmt.Errorf("batch %d comes after %d others", b.Number, batches)
			}
			batches++
			for _, f := range b.Files {
				if f.Key != longFile(next).Key {
					return fmt.Errorf("file %d is %.20s…", next, f.Key)
				}
				next++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		equal(t, "files", next, files)
		equal(t, "batches", batches, w.batches)
	})
}

func defaultBatch() BatchSettings { return BatchSettings{MaxFiles: 20, MaxBytes: 1 << 30} }

// A bubble ends only when all that was begun in it has ended: these tests also
// show that no upload goes on behind a discovery's back.
func TestAnAbandonedManifestLeavesNothing(t *testing.T) {
	for _, files := range []int{0, 1, 20_000} {
		synctest.Test(t, func(t *testing.T) {
			store, memory, server := overTheWire(t)
			w := startManifest(t.Context(), store, manifestKey, defaultBatch())
			for i := range files {
				if err := w.add(longFile(i)); err != nil {
					t.Fatal(err)
				}
			}
			w.abandon()
			w.abandon() // as a defer after it does
			noManifest(t, memory, server)
			equal(t, "aborts", len(server.Requests("abort")), min(files/1000, 1))
		})
	}
}

func TestAManifestThatCannotBeWrittenEndsItsWriter(t *testing.T) {
	for _, op := range []string{"create", "part", "complete"} {
		synctest.Test(t, func(t *testing.T) {
			store, memory, server := overTheWire(t)
			server.Fail(s3test.Fault{Op: op, Times: s3test.Always, Do: s3test.Answer(403, "AccessDenied")})
			w := startManifest(t.Context(), store, manifestKey, defaultBatch())
			var err error
			added := 0
			for ; err == nil && added < 60_000; added++ {
				err = w.add(longFile(added))
			}
			if err == nil {
				_, err = w.publish()
			}
			w.abandon()
			var call *bucket.CallError
			if !errors.As(err, &call) || call.Status != 403 || !strings.Contains(err.Error(), "write manifest") || !strings.Contains(err.Error(), manifestKey) {
				t.Errorf("%s: %v", op, err)
			}
			if early := added < 60_000; early != (op != "complete") {
				t.Errorf("%s: the writer ended after %d files", op, added)
			}
			noManifest(t, memory, server)
		})
	}
}

// The lease may be lost while the manifest is under way: nothing appears.
func TestACancelledManifestLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, memory, server := overTheWire(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := startManifest(ctx, store, manifestKey, defaultBatch())
		for i := range 20_000 {
			if err := w.add(longFile(i)); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if _, err := w.publish(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		w.abandon()
		noManifest(t, memory, server)
		equal(t, "aborts", len(server.Requests("abort")), 1)
	})
}

// The whole step: a state bucket that refuses a part in the middle, and then
// does not.
func TestADiscoveryWhoseManifestFailsMayBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		const files = 18_000
		for i := range files {
			w.upload(longFile(i).Key, "x")
		}
		token := w.begin("P1")
		server := w.wire(w.state)
		server.Fail(s3test.Fault{Op: "part", After: 1, Times: s3test.Always, Do: s3test.Answer(503, "SlowDown")})
		_, err := w.tryDiscover("P1", token)
		w.wantTransient(err)
		noManifest(t, w.state, server)
		equalLists(t, "run records", w.keys(w.state, "lockstep/runs/"), nil)
		server.Heal()
		d := w.discover("P1", token)
		equal(t, "files", d.Files, files)
		if !strings.HasSuffix(d.Manifest.ETag, `-3"`) {
			t.Errorf("the manifest has ETag %s, which is not of three parts", d.Manifest.ETag)
		}
		equal(t, "batches", len(w.batches(d)), d.Batches)
	})
}
