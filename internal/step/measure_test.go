package step

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// wantMeasured compares all that was told of a metric: "P1 3" is 3 by P1.
func (w *world) wantMeasured(m Metric, want ...string) {
	w.Helper()
	w.told.Lock()
	defer w.told.Unlock()
	var got []string
	for _, told := range w.measured {
		if value, is := told.Values[m]; is {
			got = append(got, fmt.Sprintf("%s %v", told.Run, value))
		}
	}
	equalLists(w, string(m), got, want)
}

// onceMore forgets what was measured so far.
func (w *world) onceMore() {
	w.told.Lock()
	defer w.told.Unlock()
	w.measured = nil
}

func TestUnitsAreAsTheNamesSay(t *testing.T) {
	for m, want := range map[Metric]Unit{
		LockWaitSeconds: UnitSeconds, OldestUnprocessedAgeSeconds: UnitSeconds, LockHeldSeconds: UnitSeconds,
		Bytes: UnitBytes, LedgerBytes: UnitBytes,
		Rows: UnitCount, LedgerRows: UnitCount, FilesNew: UnitCount, LockTakeovers: UnitCount, RunsSucceeded: UnitCount, QuarantineSize: UnitCount,
	} {
		equal(t, string(m), m.Unit(), want)
	}
}

func TestWaitingForTheLockAndHoldingItAreMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.ttlSeconds", 600)
		first := w.begin("P1")
		time.Sleep(20 * time.Second)
		w.ask("P2")
		time.Sleep(15 * time.Second)
		w.ask("P2")
		time.Sleep(15 * time.Second)
		w.release("P1", first)
		second := w.begin("P2")
		time.Sleep(70 * time.Second)
		w.begin("P2") // a repeated call
		w.release("P2", second)
		w.release("P2", second)
		w.wantMeasured(LockWaitSeconds, "P1 0", "P2 30")
		w.wantMeasured(LockHeldSeconds, "P1 50", "P2 70")
		w.wantMeasured(LockTakeovers, "P1 0", "P2 0")
		equal(t, "token", w.measured[0].Token, first)
		equal(t, "pipeline", w.measured[0].Pipeline, "test")
	})
}

func TestAWaitThatWasGivenUpIsMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.ttlSeconds", 600)
		w.set("lock.maxWaitSeconds", 40)
		w.begin("P1")
		w.onceMore()
		w.ask("P2")
		time.Sleep(45 * time.Second)
		equal(t, "decision", w.ask("P2").Decision, DecisionTimedOut)
		w.wantMeasured(LockWaitSeconds, "P2 45")
		w.wantMeasured(LockTakeovers)
	})
}

func TestTakingOverFromAVanishedHolderIsCountedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		w.ask("P2")
		time.Sleep(126 * time.Second) // TTL 120 s, grace 5 s
		w.begin("P2")
		w.begin("P2")
		w.wantMeasured(LockTakeovers, "P1 0", "P2 1")
		w.wantMeasured(LockHeldSeconds)
	})
}

// The one that finds the lease at its end need not be the next in line.
func TestATakeoverIsCountedByWhoeverFreesTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		w.set("lock.pollSeconds", 300)
		w.ask("P2")
		w.set("lock.pollSeconds", 15)
		time.Sleep(126 * time.Second)
		equal(t, "decision for a newcomer", w.ask("P3").Decision, DecisionWait)
		w.begin("P2")
		w.wantMeasured(LockTakeovers, "P1 0", "P3 1", "P2 0")
	})
}

func TestASupersededRunIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		w.begin("P1")
		w.ask("P2")
		w.ask("P3")
		w.wantMeasured(RunsSuperseded, "P3 1")
		w.wantMeasured(LockWaitSeconds, "P1 0")
	})
}

func TestOnlyARunThatFinishedIsASuccess(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		w.release("P1", token)
		w.begin("P2")
		time.Sleep(7 * time.Second)
		_, err := w.steps.Release(w.Context(), ReleaseInput{
			Execution: w.execution("P2"), State: RunState{Failure: &Failure{Error: "States.Timeout"}},
		})
		w.ok(err)
		w.begin("P3")
		time.Sleep(9 * time.Second)
		_, err = w.steps.Release(w.Context(), w.ended("P3", "ABORTED"))
		w.ok(err)
		w.wantMeasured(RunsSucceeded, "P1 1")
		w.wantMeasured(LockHeldSeconds, "P1 0", "P2 7") // the lease of P3 is not over
	})
}

// A run that leaves its lease to end by itself has finished all the same, also
// where its last lap found nothing to commit.
func TestASuccessCountsWhereTheLeaseEndsByItself(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin("P1")
		w.releaseAfter("P1", RunState{Acquired: &AcquireOutput{Token: 1, Regained: true}, Discovered: &DiscoverOutput{}})
		w.wantMeasured(RunsSucceeded, "P1 1")
	})
}

// A run whose lease ended by itself did its work all the same.
func TestASuccessCountsWithoutTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		time.Sleep(126 * time.Second)
		w.begin("P2")
		w.onceMore()
		w.release("P1", token)
		w.wantMeasured(RunsSucceeded, "P1 1")
		w.wantMeasured(LockHeldSeconds)
		equal(t, "token", w.measured[0].Token, token)
	})
}

func TestTheOldestFileThatWaitsIsMeasuredAtTheCutoff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/z", "z")
		time.Sleep(time.Minute)
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		time.Sleep(30 * time.Second)
		w.set("selection.maxFiles", 2) // in/z, the oldest, is left
		for i, want := range []string{"P0 90", "P1 100", "P2 0"} {
			run := fmt.Sprint("P", i)
			w.onceMore()
			_, err := w.run(run)
			w.ok(err)
			w.wantMeasured(OldestUnprocessedAgeSeconds, want)
			w.wantMeasured(FilesNew, fmt.Sprintf("%s %d", run, []int{2, 1, 0}[i]))
			time.Sleep(10 * time.Second)
		}
	})
}

func TestWhatACommitDidIsMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 2)
		w.upload("in/a", "1\n2\n3") // three rows in five bytes
		w.upload("in/b", "poison")
		for _, run := range []string{"P1", "P2", "P3"} {
			_, err := w.run(run)
			w.ok(err)
		}
		w.wantMeasured(FilesNew, "P1 2", "P2 1", "P3 0")
		w.wantMeasured(FilesDone, "P1 1", "P2 0")
		w.wantMeasured(FilesFailed, "P1 1", "P2 1")
		w.wantMeasured(FilesQuarantined, "P1 0", "P2 1")
		w.wantMeasured(Rows, "P1 3", "P2 0")
		w.wantMeasured(Bytes, "P1 5", "P2 0")
		w.wantMeasured(RunsSucceeded, "P1 1", "P2 1", "P3 1")
	})
}

func TestARepeatedCommitCountsNothingAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		w.state.Fault(func(op, key string) error {
			if op == "put" && strings.HasSuffix(key, "/summary.json") {
				return bucket.ErrConflict
			}
			return nil
		}, nil)
		if _, err := w.tryCommit("P1", token, d); err == nil { // the ledger has it, the summary is not written
			t.Fatal("no error")
		}
		w.state.Fault(nil, nil)
		equal(t, "done", w.commit("P1", token, d).Done, 1)
		w.wantMeasured(FilesDone, "P1 1")
	})
}

// A run in which too much failed is measured, and is no success.
func TestAFailedRunMeasuresItsFiles(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxFailedFraction", 0.1)
		w.set("failure.minFailedFiles", 1)
		w.upload("in/a", "a")
		w.upload("in/b", "poison")
		if _, err := w.run("P1"); err == nil {
			t.Fatal("no error")
		}
		w.wantMeasured(FilesDone, "P1 1")
		w.wantMeasured(FilesFailed, "P1 1")
		w.wantMeasured(Bytes, "P1 1")
	})
}

func TestTheQuarantineIsMeasuredAsItIsWhenARunEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		run := func(name string, want ...string) {
			w.Helper()
			w.onceMore()
			_, err := w.run(name)
			w.ok(err)
			w.wantMeasured(QuarantineSize, want...)
		}
		w.upload("in/a", "poison")
		run("P1", "P1 0", "P1 1")
		run("P2", "P2 1")
		w.upload("in/b", "poison")
		run("P3", "P3 1", "P3 2")
		w.upload("in/a", "good")
		run("P4", "P4 1", "P4 1") // in/a has left with its new version
		w.set("selection.reprocess", true)
		run("P5", "P5 1") // the listing shows none, and in/b fails again
		w.upload("in/b", "good")
		run("P6") // how much there is, the next run tells
		w.set("selection.reprocess", false)
		run("P7", "P7 0")
	})
}

// With keys in order most runs list the end only, and see no old quarantine.
func TestAnEmptyPartIsNoEmptyQuarantine(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.set("selection.order", "lexicographic")
		w.set("selection.lookBackSeconds", 1)
		w.upload("in/1", "poison")
		_, err := w.run("P1")
		w.ok(err)
		time.Sleep(time.Hour)
		w.upload("in/2", "good")
		_, err = w.run("P2")
		w.ok(err)
		time.Sleep(time.Hour)
		w.upload("in/3", "poison")
		_, err = w.run("P3")
		w.ok(err)
		w.wantMeasured(QuarantineSize, "P1 0", "P1 1", "P2 1", "P2 1", "P3 1")
		time.Sleep(24 * time.Hour)
		_, err = w.run("P4") // lists everything
		w.ok(err)
		w.wantMeasured(QuarantineSize, "P1 0", "P1 1", "P2 1", "P2 1", "P3 1", "P4 2")
	})
}

func TestTheLedgersSizeIsMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		for _, run := range []string{"P1", "P2"} {
			_, err := w.run(run)
			w.ok(err)
		}
		w.wantMeasured(LedgerRows, "P1 0", "P2 2")
		books, err := w.operator().Head(w.Context())
		w.ok(err)
		w.wantMeasured(LedgerBytes, "P1 0", fmt.Sprint("P2 ", books.Segments[0].Bytes))
	})
}

// What is told and what is listed are the same metrics.
func TestEveryMetricIsMeasuredAndListed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		w.upload("in/a", "a")
		token := w.begin("P1")
		w.ask("P2")
		w.ask("P3")
		d := w.discover("P1", token)
		w.processAll("P1", token, d)
		w.commit("P1", token, d)
		w.release("P1", token)
		told := map[Metric]bool{}
		for _, m := range w.measured {
			for name := range m.Values {
				told[name] = true
				if !slices.Contains(Metrics, name) {
					t.Errorf("%s is not listed", name)
				}
			}
		}
		for _, name := range Metrics {
			if !told[name] {
				t.Errorf("%s was not measured", name)
			}
		}
		equal(t, "metrics", len(told), len(Metrics))
	})
}

func TestTheDocumentedMetricsAreThoseThereAre(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1]+" "+row[2])
	}
	for _, m := range Metrics {
		want = append(want, fmt.Sprint(m, " ", m.Unit()))
	}
	equalLists(t, "metrics", documented, want)
}
