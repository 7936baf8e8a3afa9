package step

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// begun leaves the mark of a call that began with a batch, and of which nothing
// more is heard.
func (w *world) begun(run string, token int64, batch int) {
	w.Helper()
	w.write(keysOf(w.parsed(), run, token).begun(batch, newCallName()), "{}")
}

// CASES 37: the files of a call that crashed are suspect, and count no attempt;
// each is alone in its call next time. Only one that crashes a call alone, while
// others of the run get through, is to blame.
func TestAFileThatCrashesItsCallIsFoundAndBlamedAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 2)
		for _, name := range []string{"a", "b", "c", "d"} {
			w.upload("in/"+name, name)
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.begun("P1", token, 0) // a or b crashed it
		_, err := w.process("P1", token, w.batches(d)[1])
		w.ok(err)
		out := w.commit("P1", token, d)
		equal(t, "answer", out, CommitOutput{Done: 2, Deferred: 2, Rows: 2, Unanswered: 1, Summary: out.Summary})
		for _, name := range []string{"a", "b"} {
			row := w.rows()["in/"+name]
			equal(t, name+": outcome", row.Outcome, ledger.Due)
			equal(t, name+": attempts", row.Attempts, 0)
			equal(t, name+": suspect", row.Suspect, true)
		}
		w.release("P1", token)

		token = w.begin("P2")
		d = w.discover("P2", token)
		equalLists(t, "batches", shape(w.batches(d)), []string{"0: in/a", "1: in/b"})
		w.begun("P2", token, 0) // it was a
		_, err = w.process("P2", token, w.batches(d)[1])
		w.ok(err)
		out = w.commit("P2", token, d)
		equal(t, "answer", out, CommitOutput{Done: 1, Failed: 1, Rows: 1, Unanswered: 1, Summary: out.Summary})
		equal(t, "attempts of a", w.rows()["in/a"].Attempts, 1)
		equal(t, "b is suspect", w.rows()["in/b"].Suspect, false)
		w.release("P2", token)

		w.upload("in/e", "e")
		w.upload("in/f", "f")
		token = w.begin("P3")
		equalLists(t, "batches", shape(w.batches(w.discover("P3", token))), []string{"0: in/a", "1: in/e in/f"})
	})
}

// A call that never began says nothing of its files, and one that crashes with
// each file blames none of them: nothing got through.
func TestCallsThatSayNothingBlameNoFile(t *testing.T) {
	for name, begun := range map[string]bool{"never began": false, "always crashes": true} {
		inWorld(t, func(w *world) {
			w.set("batch.maxFiles", 1)
			w.upload("in/a", "a")
			w.upload("in/b", "b")
			for n := range 4 {
				run := fmt.Sprint("P", n)
				token := w.begin(run)
				d := w.discover(run, token)
				for _, batch := range w.batches(d) {
					if begun {
						w.begun(run, token, batch.Number)
					}
				}
				_, err := w.tryCommit(run, token, d)
				if !errors.As(Translate(err), new(*ProcessFunctionError)) {
					t.Errorf("%s: %T %v", name, Translate(err), err)
				}
				w.release(run, token)
			}
			_, err := w.run("P9")
			w.ok(err)
			for key, row := range w.rows() {
				equal(t, name+": "+key, row.Outcome, ledger.Done)
			}
		})
	}
}

// Attempts leave results of their own, and the best outcome counts.
func TestALateDuplicateOfACallReplacesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		var slowed atomic.Bool
		w.source.Fault(func(op, key string) error {
			if op == "get" && slowed.CompareAndSwap(false, true) {
				time.Sleep(5 * time.Second)
			}
			return nil
		}, nil)
		first := make(chan error)
		go func() { _, err := w.process("P1", token, w.batches(d)[0]); first <- err }()
		time.Sleep(time.Second)
		_, err := w.process("P1", token, w.batches(d)[0]) // its repeat
		w.ok(err)
		equal(t, "done", w.commit("P1", token, d).Done, 1)
		before := w.keys(w.state, keysOf(w.parsed(), "P1", token).results())
		w.upload("in/a", "a2")
		w.ok(<-first)
		for _, key := range before {
			w.read(w.state, key)
		}
		results := w.results("P1", token, 0)
		all := append(outcomes(results[0]), outcomes(results[1])...)
		slices.Sort(all)
		equalLists(t, "results", all, []string{"in/a done", "in/a superseded"})
		w.wantOutputs(map[string]string{"in/a": "a"})
		if _, err := w.process("P1", token, w.batches(d)[0]); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a call after the commit began: %v", err)
		}
	})
}

func TestAResultAboutOtherFilesIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		token := w.begin("P1")
		d := w.discover("P1", token)
		batch := w.batches(d)[0]
		another := batch.Files[0]
		another.ETag = w.etag("another version")
		for name, other := range map[string][]ledger.Candidate{
			"at another version": {another, batch.Files[1]},
			"fewer":              batch.Files[:1], "in another order": {batch.Files[1], batch.Files[0]}, "none": {},
		} {
			_, err := w.process("P1", token, Batch{Number: 0, Files: other})
			w.ok(err)
			r, err := w.steps.begin(w.execution("P1"))
			w.ok(err)
			results, err := r.findBatch(w.Context(), keysOf(r.config, "P1", token), batch)
			w.ok(err)
			for _, f := range results.files {
				if f.Outcome != OutcomeDeferred || !f.Suspect {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
	})
}

// A discovery that came late leaves the manifest alone that is processed, and
// both are closed by the commit.
func TestASecondDiscoveryLeavesTheFirstAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		w.upload("in/b", "b")
		w.discover("P1", token)
		equal(t, "open manifests", len(w.ledgerHead().Open), 2)
		equal(t, "done", w.commit("P1", token, d).Done, 1)
		equal(t, "open manifests", len(w.ledgerHead().Open), 0)
		w.write(d.Manifest.Key, "[]")
		_, err := w.tryCommit("P1", token, d)
		if err == nil || !strings.Contains(err.Error(), "is not the one that was processed") {
			t.Errorf("a manifest that somebody overwrote: %v", err)
		}
	})
}

func (w *world) ledgerHead() ledger.Head {
	w.Helper()
	books, err := ledger.Open(w.state, LedgerPrefix(w.parsed()))
	w.ok(err)
	head, err := books.Head(w.Context())
	w.ok(err)
	return head
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
			w.set("failure.minFailedFiles", 1)
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
				Summary: "s3://state/lockstep/runs/P1/0000000000000001/summary.json",
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
		_, err := w.run("P0")
		w.ok(err)
		token, batch := w.onlyBatch("in/b", "b")
		d := w.discover("P1", token)
		w.ok(w.source.Delete(w.Context(), "in/b"))
		_, err = w.process("P1", token, batch)
		w.ok(err)
		out := w.commit("P1", token, d)
		equal(t, "answer", out, CommitOutput{Superseded: 1, Summary: out.Summary})
		equal(t, "what was done", w.rows()["in/a"].Outcome, ledger.Done)
		equal(t, "what is gone", w.rows()["in/b"].Outcome, ledger.Due)
		w.release("P1", token)
		_, err = w.run("P2")
		w.ok(err)
		_, err = w.run("P3")
		w.ok(err)
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
		text := w.read(w.state, keysOf(w.parsed(), "P1", token).summary())
		call, _ := callOf(d.Manifest.Key)
		golden(t, "testdata/summary.json", []byte(strings.ReplaceAll(string(text), call, "CALL")))
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

// One bad file wakes nobody, unless nothing else could be done for reasons that
// are not its own.
func TestAFewFailuresFailNoRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxFailedFraction", 0.5)
		w.set("failure.minFailedFiles", 3)
		w.upload("in/0", "poison")
		w.upload("in/1", "poison")
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/2", "poison")
		_, err = w.run("P2")
		if !errors.As(err, new(*TooManyFilesFailedError)) {
			t.Errorf("three of three: %v", err)
		}
	})
}
