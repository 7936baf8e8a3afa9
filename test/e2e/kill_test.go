package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// A call that crashed with several files blames none of them, and the next run
// takes each alone.
func TestAKilledBatchBlamesNoFileAndTheRestIsCommitted(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Batch.MaxFiles = 2 })
	files := w.csvs("a.csv", "b.csv", "c.csv", "d.csv", "e.csv", "f.csv")
	reading := w.wire.hold("process", request("get", "incoming/d.csv")) // c.csv has its output by now
	p1 := w.run("P1")
	w.await(reading.reached, "d.csv to be read")
	w.kill("process")
	reading.drop()
	w.ended(p1, asl.StatusSucceeded)

	if got := w.output(p1).Committed; got.Done != 4 || got.Failed != 0 || got.Deferred != 2 || got.Unanswered != 1 {
		t.Errorf("P1 committed %+v, want 4 done, 2 deferred, and one call without an answer", got)
	}
	w.same("P1 did", w.doneBy("P1"), []string{"a.csv", "b.csv", "e.csv", "f.csv"})
	for _, path := range []string{"c.csv", "d.csv"} {
		if row := w.ledgerRows()["incoming/"+path]; row.Outcome != ledger.Due || row.Attempts != 0 || !row.Suspect {
			t.Errorf("%s is %+v, want it due, suspect and without a failed attempt", path, row)
		}
	}
	children := p1.MapRuns()[0].Children()
	if got := children[1].Describe(); got.Status != asl.StatusFailed || text(got.Error) != "Runtime.ExitError" {
		t.Errorf("the killed child is %s %s", got.Status, text(got.Error))
	}
	if failures := w.summary("P1").Failures; len(failures) != 2 || !strings.Contains(failures[0].Error, "left no result") {
		t.Errorf("the summary has the failures %+v", failures)
	}

	w.leaseRunsOut() // nobody knows that the call is dead
	p2 := w.succeed("P2")
	if got := w.output(p2).Discovered; got.Files != 2 || got.Batches != 2 {
		t.Errorf("P2 found %d files in %d batches, want the two that are suspect, each alone", got.Files, got.Batches)
	}
	w.same("P2 did", w.doneBy("P2"), []string{"c.csv", "d.csv"})
	w.exactlyOnce(files...)
}

// A run whose function is killed at a point ends as it should, and the next
// one does what is left.
func TestAKilledStep(t *testing.T) {
	const exit = "Runtime.ExitError"
	for _, c := range []struct {
		name     string
		function string
		at       point
		wants    string // the error of P1; "" if it succeeds all the same
		does     string // the run that does the files
	}{
		{"acquire before it has the lock", "acquire", request("put", "lock.json"), exit, "P2"},
		{"acquire when it has the lock", "acquire", reply("put", "lock.json"), exit, "P2"},
		{"discover before it lists", "discover", request("list", "incoming/"), exit, "P2"},
		{"discover before the manifest", "discover", request("put", "/manifest-"), exit, "P2"},
		{"discover after the manifest", "discover", reply("put", "/manifest-"), exit, "P2"},
		{"commit before it has counted", "commit", request("get", "/manifest-"), exit, "P2"},
		{"commit before the ledger's segment", "commit", request("put", "/ledger/"), exit, "P2"},
		{"commit before the ledger's head", "commit", request("put", "head.json"), exit, "P2"},
		{"commit after the ledger's head", "commit", reply("put", "head.json"), exit, "P1"},
		{"commit before the summary", "commit", request("put", "summary.json"), exit, "P1"},
		{"release before the lock is free", "release", request("put", "lock.json"), "", "P1"},
		{"release when the lock is free", "release", reply("put", "lock.json"), "", "P1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			files := w.csvs("a.csv", "b.csv")
			held := w.wire.hold(c.function, c.at)
			p1 := w.run("P1")
			w.await(held.reached, c.name)
			w.kill(c.function)
			held.drop()
			if c.wants == "" {
				w.ended(p1, asl.StatusSucceeded)
			} else {
				w.failed(p1, c.wants)
				if got := journey(p1); !strings.HasSuffix(got, "ReleaseAfterFailure FirstError RunFailed") {
					t.Errorf("P1 went %s", got)
				}
			}
			w.leaseRunsOut() // where a call of P1 might still be at work
			w.succeed("P2")
			w.same(c.does+" did", w.doneBy(c.does), []string{"a.csv", "b.csv"})
			w.exactlyOnce(files...)
		})
	}
}

func TestAFileThatKillsItsProcessHurtsNoOther(t *testing.T) {
	w := newWorld(t, nil)
	innocent := w.csvs("a.csv", "b.csv", "d.csv")
	w.csvs("c.csv")
	crash := func(run string) *asl.Execution {
		w.t.Helper()
		reading := w.wire.hold("process", request("get", "incoming/c.csv"))
		e := w.run(run)
		w.await(reading.reached, "c.csv to be read")
		w.kill("process")
		reading.drop()
		w.await(e.Ended(), "the end of "+run)
		w.leaseRunsOut()
		return e
	}
	w.failed(crash("P1"), "ProcessFunctionError", "4 of 4 files were deferred, and none of them is blamed")
	p2 := crash("P2")
	w.ended(p2, asl.StatusSucceeded)
	w.same("P2 did", w.doneBy("P2"), []string{"a.csv", "b.csv", "d.csv"})
	if got := w.output(p2).Committed; got.Done != 3 || got.Failed != 1 {
		t.Errorf("P2 committed %+v, want three done and c.csv failed", got)
	}
	// Alone in its run, the file is not proven to be the reason.
	w.failed(crash("P3"), "ProcessFunctionError")
	if row := w.ledgerRows()["incoming/c.csv"]; row.Attempts != 1 {
		t.Errorf("after P3 c.csv is %+v, want one failed attempt", row)
	}
	for i, run := range []string{"P4", "P5"} {
		innocent = append(innocent, w.csv(run+".csv", 3))
		e := crash(run)
		w.ended(e, asl.StatusSucceeded)
		if got := w.output(e).Committed; got.Done != 1 || got.Failed != 1 || got.Quarantined != int64(i) {
			t.Errorf("%s committed %+v", run, got)
		}
	}
	if p6 := w.succeed("P6"); len(p6.MapRuns()) > 0 {
		t.Errorf("P6 found %+v, want nothing", w.output(p6).Discovered)
	}
	w.exactlyOnce(innocent...)

	files := append(slices.Clone(innocent), w.csvs("c.csv")...) // a new version starts afresh
	w.succeed("P7")
	w.exactlyOnce(files...)
}
