package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// All or nothing: one failure, and nothing of the run is seen or remembered but
// the failure.
func TestOneFailureTakesTheWholeRunBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.atomicity", "run")
		w.set("batch.maxFiles", 1)
		w.upload("in/a", "a")
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/b", "b")
		w.upload("in/c", "poison")
		_, err = w.run("P2")
		var many *TooManyFilesFailedError
		if !errors.As(err, &many) || !many.AllOrNothing || many.Failed != 1 || many.Total != 2 {
			t.Fatalf("%v", err)
		}
		w.wantOutputs(map[string]string{"in/a": "a"}) // of the run before
		rows := w.rows()
		equal(t, "rows in the ledger", len(rows), 2)
		equal(t, "outcome of the poison", rows["in/c"].Outcome, ledger.Failed)
		w.upload("in/c", "cured")
		out, err := w.run("P3")
		w.ok(err)
		equal(t, "done", out.Done, 2)
		w.wantOutputs(map[string]string{"in/a": "a", "in/b": "b", "in/c": "cured"})
	})
}

// A call that crashed left outputs that no result names.
func TestOutputsOfACrashedBatchAreTakenBackToo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.atomicity", "run")
		w.upload("in/a", "a")
		w.upload("in/folder/b", "b")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		aside, err := outputKey(w.parsed(), ledger.File{Key: "in/a", ETag: w.etag("a")}, process.RejectedName)
		w.ok(err)
		for _, key := range []string{aside, "out/a.of.another", "out/folder/b.of.another"} {
			_, err := w.lake.Put(w.Context(), key, strings.NewReader("x"), "", bucket.Condition{})
			w.ok(err)
		}
		w.ok(w.state.Delete(w.Context(), keysOf(w.parsed(), "P1", token).result(0)))
		_, err = w.tryCommit("P1", token, d)
		var many *TooManyFilesFailedError
		if !errors.As(err, &many) {
			t.Fatalf("%v", err)
		}
		equalLists(t, "the lake", w.keys(w.lake, ""), []string{"out/a.of.another", "out/folder/b.of.another"})
	})
}

// Trouble that puts a file off spoils an all-or-nothing run as well.
func TestTroubleSpoilsAnAllOrNothingRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.atomicity", "run")
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		w.source.Fault(func(op, key string) error {
			if op == "get" && key == "in/b" {
				return errors.New("connection reset")
			}
			return nil
		}, nil)
		_, err := w.run("P1")
		var many *TooManyFilesFailedError
		if !errors.As(err, &many) {
			t.Fatalf("%v", err)
		}
		w.wantOutputs(nil)
		equal(t, "rows in the ledger", len(w.rows()), 0)
	})
}

// Outputs that cannot be removed keep the ledger from being told.
func TestTheLedgerIsToldOnlyOnceTheOutputsAreGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.atomicity", "run")
		w.upload("in/a", "a")
		w.upload("in/b", "poison")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		w.lake.Fault(func(op, _ string) error {
			if op == "delete" {
				return errors.New("connection reset")
			}
			return nil
		}, nil)
		_, err := w.tryCommit("P1", token, d)
		w.wantTransient(err)
		equal(t, "rows in the ledger", len(w.rows()), 0)
		w.lake.Fault(nil, nil)
		for range 2 { // and may be repeated
			_, err = w.tryCommit("P1", token, d)
			var many *TooManyFilesFailedError
			if !errors.As(err, &many) {
				t.Fatalf("%v", err)
			}
			w.wantOutputs(nil)
			equal(t, "rows in the ledger", len(w.rows()), 1)
		}
	})
}

// heedless is a bucket that deletes whatever became of the context, as a
// request does that is on its way already.
type heedless struct{ *bucket.Memory }

func (h heedless) Delete(_ context.Context, key string) error {
	return h.Memory.Delete(context.Background(), key)
}

// Once the lease is lost the keys may be another run's.
func TestNothingIsTakenBackOnceTheLeaseIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.atomicity", "run")
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		w.open(w.source, heedless{w.lake}, w.state)
		r, err := w.steps.begin(execution("P1"), w.config())
		w.ok(err)
		keys := keysOf(r.config, "P1", token)
		lost, cancel := context.WithCancelCause(w.Context())
		w.state.Fault(nil, func(op, key string) error {
			if op == "get" && key == keys.result(0) {
				cancel(lease.ErrLost) // what is to be removed is known by now
			}
			return nil
		})
		if err := r.takeBack(lost, keys, d.Manifest); !errors.Is(err, lease.ErrLost) {
			t.Errorf("%v", err)
		}
		w.wantOutputs(map[string]string{"in/a": "a"})
	})
}
