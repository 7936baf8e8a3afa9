package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// The story of docs/operations.md: the destination is gone for three runs, comes
// back, and the next run does everything. No file is blamed meanwhile.
func TestTheDestinationWasGoneForThreeRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 2)
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		w.open(w.source, refusingStore{w.lake, "put", "NoSuchBucket", ""}, w.state)
		for i := range 3 {
			_, err := w.run(fmt.Sprint("P", i+1))
			if err = Translate(err); !errors.As(err, new(*DestinationUnavailableError)) {
				t.Errorf("run %d: %T %v", i+1, err, err)
			}
			w.upload(fmt.Sprintf("in/late%d", i), "late")
		}
		for key, row := range w.rows() {
			if row.Outcome != ledger.Due || row.Attempts != 0 {
				t.Errorf("%s is %+v", key, row)
			}
		}
		w.open(w.source, w.lake, w.state)
		out, err := w.run("P4")
		w.ok(err)
		equal(t, "done", out.Done, 5)
		w.wantOutputs(map[string]string{"in/a": "a", "in/b": "b", "in/late0": "late", "in/late1": "late", "in/late2": "late"})
	})
}

// Where an output belongs is an object of somebody else: it stays as it is, the
// file is not blamed, and the run says whose place it is.
func TestAnObjectOfSomebodyElseIsNeverReplaced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxFailedFraction", 0)
		w.set("failure.minFailedFiles", 1)
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		_, err := w.lake.Put(t.Context(), "out/a.parquet", strings.NewReader("precious"), "", bucket.Condition{})
		w.ok(err)
		_, err = w.run("P1")
		if err = Translate(err); !errors.As(err, new(*DestinationTakenError)) || !strings.Contains(err.Error(), "s3://lake/out/a.parquet") {
			t.Errorf("%T %v", err, err)
		}
		equal(t, "the object", string(w.read(w.lake, "out/a.parquet")), "precious")
		rows := w.rows()
		equal(t, "a", rows["in/a"].Outcome, ledger.Due)
		equal(t, "attempts of a", rows["in/a"].Attempts, 0)
		equal(t, "b", rows["in/b"].Outcome, ledger.Done)
	})
}

// Quarantine is the judgement of one processor with one configuration.
func TestQuarantineEndsWithTheSettingsThatItWasMadeUnder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.steps.settings = "of one processor"
		w.upload("in/a", "poison")
		_, err := w.run("P1")
		w.ok(err)
		if _, err = w.run("P2"); err != nil || w.rows()["in/a"].Outcome != ledger.Quarantined {
			t.Fatalf("%v, %+v", err, w.rows()["in/a"])
		}
		w.steps.settings = "of another processor"
		out, err := w.run("P3")
		w.ok(err)
		equal(t, "tried again under other settings", out.Failed, 1)
	})
}

// A processor says "not the file" by one error.
func TestAProcessorThatSaysNotTheFileBlamesNone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.set("failure.maxFailedFraction", 0)
		w.set("failure.minFailedFiles", 1)
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		w.processor.before = func(_ context.Context, in process.File) error {
			if in.Key == "in/a" {
				return fmt.Errorf("%w: the disk is full", process.ErrNotFile)
			}
			return nil
		}
		_, err := w.run("P1")
		if err = Translate(err); !errors.As(err, new(*ProcessorUnavailableError)) || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%T %v", err, err)
		}
		equal(t, "a", w.rows()["in/a"].Outcome, ledger.Due)
		equal(t, "b", w.rows()["in/b"].Outcome, ledger.Done)
	})
}

// A reader of a folder of the latest versions counts each file once, one of all
// versions chooses among them.
func TestWhatADestinationShowsOfAnOverwrittenFile(t *testing.T) {
	for _, versions := range []Versions{VersionsLatest, VersionsAll} {
		inWorld(t, func(w *world) {
			want := []string{"out/a.parquet"}
			if versions == VersionsAll {
				want = []string{"out/a." + versionName(w.etag("one")) + ".parquet", "out/a." + versionName(w.etag("two")) + ".parquet"}
				slices.Sort(want)
			}
			w.set("destination.versions", string(versions))
			for i, content := range []string{"one", "two"} {
				w.upload("in/a", content)
				_, err := w.run(fmt.Sprint("P", i+1))
				w.ok(err)
			}
			equalLists(t, string(versions), w.keys(w.lake, ""), want)
		})
	}
}

// A lock whose object was deleted is created again above all that was granted,
// so that no run is fenced by those before it.
func TestADeletedLockIsNoDeadEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.ok(w.state.Delete(t.Context(), LockKey(w.parsed())))
		for i := range 3 {
			w.upload("in/a", fmt.Sprint("version ", i))
			out, err := w.run(fmt.Sprint("P", i+1))
			w.ok(err)
			equal(t, "done", out.Done, 1)
			w.ok(w.state.Delete(t.Context(), LockKey(w.parsed())))
			time.Sleep(time.Second)
		}
	})
}

// Outputs of an older program are refused before a first run; those of this one,
// whose names may look alike, are not.
func TestADestinationOfTheFormerLayoutIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("destination.versions", "all")
		w.upload("in/a", "a")
		_, err := w.run("P1")
		w.ok(err)
		w.set("state.prefix", "other/") // a new ledger over the same outputs
		_, err = w.run("P2")
		w.ok(err)
		w.set("state.prefix", "third/")
		_, err = w.lake.Put(t.Context(), "out/x.csv.0123456789ab.parquet", strings.NewReader("old"), "", bucket.Condition{})
		w.ok(err)
		token := w.begin("P3")
		_, err = w.tryDiscover("P3", token)
		if err = Translate(err); !errors.As(err, new(*DestinationTakenError)) || !strings.Contains(err.Error(), "docs/upgrade.md") {
			t.Errorf("%T %v", err, err)
		}
	})
}
