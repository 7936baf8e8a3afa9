package step

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// CASES 37.
func TestABatchWithoutAResultIsAFailedAttempt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 2)
		for _, name := range []string{"a", "b", "c", "d"} {
			w.upload("in/"+name, name)
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		_, err := w.process("P1", token, w.batches(d)[1]) // batch 0 crashed
		w.ok(err)
		out := w.commit("P1", token, d)
		equal(t, "done", out.Done, 2)
		equal(t, "failed", out.Failed, 2)
		equal(t, "quarantined", out.Quarantined, 0)
		rows := w.rows()
		for name, want := range map[string]ledger.Outcome{"a": ledger.Failed, "b": ledger.Failed, "c": ledger.Done, "d": ledger.Done} {
			equal(t, name, rows["in/"+name].Outcome, want)
		}
		w.release("P1", token)
		out, err = w.run("P2")
		w.ok(err)
		equal(t, "done by the next run", out.Done, 2)
		equal(t, "attempts once done", w.rows()["in/a"].Attempts, 0) // CASES 28
	})
}

func TestAResultAboutOtherFilesIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		token := w.begin("P1")
		d := w.discover("P1", token)
		batch := w.batches(d)[0]
		for name, other := range map[string][]ledger.Candidate{
			"fewer": batch.Files[:1], "in another order": {batch.Files[1], batch.Files[0]}, "none": {},
		} {
			_, err := w.process("P1", token, Batch{Number: 0, Files: other})
			w.ok(err)
			r, err := w.steps.begin(execution("P1"), w.config())
			w.ok(err)
			results, err := r.readResult(w.Context(), keysOf(r.config, "P1", token), batch)
			w.ok(err)
			for _, f := range results {
				if f.Outcome != OutcomeFailed || !strings.Contains(f.Error, "about other files") {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
	})
}

// A discovery that came late must not have its manifest taken for the one that
// was processed.
func TestAnOverwrittenManifestIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		w.upload("in/b", "b")
		w.discover("P1", token)
		_, err := w.tryCommit("P1", token, d)
		if err == nil || !strings.Contains(err.Error(), "another discovery of this run overwrote it") {
			t.Errorf("%v", err)
		}
		equal(t, "rows in the ledger", len(w.rows()), 0)
	})
}

// CASES 28, 29: quarantine at maxAttempts; a new version starts afresh.
func TestAFileIsQuarantinedAndItsNextVersionStartsAfresh(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 2)
		w.upload("in/a", "poison")
		out, err := w.run("P1")
		w.ok(err)
		equal(t, "first attempt", out, CommitOutput{Failed: 1, Summary: out.Summary})
		out, err = w.run("P2")
		w.ok(err)
		equal(t, "second attempt", out, CommitOutput{Failed: 1, Quarantined: 1, Summary: out.Summary})
		equal(t, "outcome", w.rows()["in/a"].Outcome, ledger.Quarantined)
		out, err = w.run("P3")
		w.ok(err)
		equal(t, "a third run, which finds nothing", out, CommitOutput{})
		w.upload("in/a", "poison again")
		out, err = w.run("P4")
		w.ok(err)
		equal(t, "first attempt at the new version", out, CommitOutput{Failed: 1, Summary: out.Summary})
		w.upload("in/a", "good")
		out, err = w.run("P5")
		w.ok(err)
		equal(t, "done", out.Done, 1)
		equal(t, "attempts", w.rows()["in/a"].Attempts, 0)
	})
}

func TestAReprocessingRunTakesWhatIsDoneOrQuarantined(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.upload("in/a", "a")
		w.upload("in/b", "poison")
		_, err := w.run("P1")
		w.ok(err)
		w.set("selection.reprocess", true)
		token := w.begin("P2")
		equal(t, "files", w.discover("P2", token).Files, 2)
	})
}

// A file that moved on is no row: the next run looks again. CASES 27.
func TestSupersededFilesAreLeftToTheNextRun(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "old", "in/b", "b")
		d := w.discover("P1", token)
		w.upload("in/a", "new")
		_, err := w.process("P1", token, batch)
		w.ok(err)
		out := w.commit("P1", token, d)
		equal(t, "answer", out, CommitOutput{Done: 1, Superseded: 1, Rows: 1, Summary: out.Summary})
		w.release("P1", token)
		out, err = w.run("P2")
		w.ok(err)
		equal(t, "done", out.Done, 1)
		w.wantOutputs(map[string]string{"in/a": "new", "in/b": "b"})
	})
}

// The run fails, but what was done is safe.
func TestTooManyFailuresFailTheRunAfterTheCommit(t *testing.T) {
	for _, c := range []struct {
		good, bad int
		fraction  float64
		fails     bool
	}{
		{1, 1, 0.5, false}, {1, 2, 0.5, true}, {0, 1, 1, false}, {1, 0, 0, false}, {9, 1, 0, true},
		{43, 57, 0.57, false}, {42, 58, 0.57, true}, {7, 3, 0.3, false}, {6, 4, 0.3, true},
	} {
		inWorld(t, func(w *world) {
			w.set("failure.maxFailedFraction", c.fraction)
			for i := range c.bad {
				w.upload(fmt.Sprintf("in/bad%d", i), "poison")
			}
			for i := range c.good {
				w.upload(fmt.Sprintf("in/good%d", i), "good")
			}
			_, err := w.run("P1")
			equal(t, "rows in the ledger", len(w.rows()), c.good+c.bad)
			var many *TooManyFilesFailedError
			if errors.As(err, &many) != c.fails {
				t.Fatalf("%d of %d at %v: %v", c.bad, c.good+c.bad, c.fraction, err)
			}
			if !c.fails {
				w.ok(err)
				return
			}
			equal(t, "error", *many, TooManyFilesFailedError{
				Failed: int64(c.bad), Total: int64(c.good + c.bad), MaxFraction: c.fraction,
				First:   "in/bad0: malformed file: it is poison",
				Summary: "s3://state/lockstep/runs/P1/000000000001/summary.json",
			})
		})
	}
}

// CASES 13: a run that lost its lease without knowing is stopped at the ledger.
func TestACommitBehindANewerTokenIsFenced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		books, err := ledger.Open(w.state, LedgerPrefix(w.parsed()))
		w.ok(err)
		w.ok(books.Fence(w.Context(), token+1))
		_, err = w.tryCommit("P1", token, d)
		var fenced *LedgerFencedError
		if !errors.As(Translate(err), &fenced) {
			t.Errorf("%T: %v", Translate(err), err)
		}
		equal(t, "rows in the ledger", len(w.rows()), 0)
		for _, key := range w.keys(w.state, "lockstep/runs/") {
			if strings.HasSuffix(key, "summary.json") {
				t.Error("there is a summary of what was refused")
			}
		}
	})
}

// The reply of the commit is lost; the repeated call changes nothing.
func TestCommitMayBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		w.upload("in/b", "poison")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		first := w.commit("P1", token, d)
		before := w.keys(w.state, LedgerPrefix(w.parsed()))
		equal(t, "answer", w.commit("P1", token, d), first)
		equalLists(t, "objects of the ledger", w.keys(w.state, LedgerPrefix(w.parsed())), before)
		equal(t, "attempts", w.rows()["in/b"].Attempts, 1)
	})
}

// Where the commit landed and the summary did not, the repeated call writes it.
func TestARepeatedCommitWritesTheMissingSummary(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		summary := keysOf(w.parsed(), "P1", token).summary()
		w.state.Fault(func(op, key string) error {
			if op == "put" && key == summary {
				return errors.New("connection reset")
			}
			return nil
		}, nil)
		_, err := w.tryCommit("P1", token, d)
		w.wantTransient(err)
		equal(t, "rows in the ledger", len(w.rows()), 1)
		w.state.Fault(nil, nil)
		equal(t, "done", w.commit("P1", token, d).Done, 1)
		w.read(w.state, summary)
	})
}

// CASES 22.
func TestARunThatDoesNothingMovesNothingBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		_, err := w.run("P1")
		w.ok(err)
		token, batch := w.onlyBatch("in/b", "b")
		d := w.discover("P1", token)
		w.ok(w.source.Delete(w.Context(), "in/b"))
		_, err = w.process("P1", token, batch)
		w.ok(err)
		out := w.commit("P1", token, d)
		equal(t, "answer", out, CommitOutput{Superseded: 1, Summary: out.Summary})
		equal(t, "rows in the ledger", len(w.rows()), 1)
	})
}

// CASES 31, in small: results are read side by side and counted in order.
func TestManyBatchesAreCommittedInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 1)
		for i := range 3 * resultReaders {
			content := fmt.Sprint("good ", i)
			if i%5 == 0 {
				content = fmt.Sprint("poison ", i)
			}
			w.upload(fmt.Sprintf("in/%03d", i), content)
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		equal(t, "failed", w.commit("P1", token, d).Failed, 10)
		var summary Summary
		w.ok(json.Unmarshal(w.read(w.state, keysOf(w.parsed(), "P1", token).summary()), &summary))
		for i, f := range summary.Failures {
			equal(t, "failure", f.Key, fmt.Sprintf("in/%03d", i*5))
		}
	})
}

func TestTheSummaryIsTheAuditRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 10)
		w.set("selection.maxFiles", 5)
		w.set("failure.maxAttempts", 1)
		w.set("selection.exclude", []string{"*.tmp"})
		for _, f := range []string{"a.csv", "b.csv", "c.tmp", "d.csv", "e.csv", "f.csv", "g.csv"} {
			w.upload("in/"+f, map[bool]string{true: "poison", false: "one\ntwo"}[f == "b.csv"])
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.upload("in/d.csv", "changed")
		w.processAll("P1", token, d)
		w.commit("P1", token, d)
		golden(t, "testdata/summary.json", w.read(w.state, keysOf(w.parsed(), "P1", token).summary()))
	})
}

var update = flag.Bool("update", false, "rewrite the golden files; read the difference before you commit it")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s changed (-update rewrites it):\n%s", name, got)
	}
}
