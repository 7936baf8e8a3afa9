package e2e_test

import (
	"bytes"
	"testing"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

func TestAnAbortedWaiterLeavesTheQueueToTheOthers(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv")
	working := w.watch.stop("P1", "ProcessFiles")
	p1 := w.run("P1")
	w.await(working.reached, "P1 at work")
	var waiters []*asl.Execution
	for _, name := range []string{"P2", "P3"} {
		waiting := w.watch.stop(name, "WaitForLock")
		waiters = append(waiters, w.run(name))
		w.await(waiting.reached, name+" to wait")
		if name == "P3" { // P2 stays: a turn at the lock under way when it is aborted would queue again
			waiting.open()
		}
	}
	withdrawn := w.wire.answered("release", reply("put", "lock.json"))
	waiters[0].Abort("", "somebody pressed stop")
	w.await(withdrawn, "P2's place to be given up")
	if left := w.lockStatus().Waiters; len(left) != 1 || left[0].Owner != waiters[1].ARN() {
		t.Errorf("the queue is %v, want P3 alone", left)
	}
	files = append(files, w.csvs("b.csv")...)
	working.open()
	w.ended(p1, asl.StatusSucceeded)
	w.ended(waiters[1], asl.StatusSucceeded)
	w.same("P3 did", w.doneBy("P3"), []string{"b.csv"})
	w.exactlyOnce(files...)
}

// The lease of an aborted execution is not renewed any more, and ends by itself:
// its function goes on as a zombie, and what it still does changes nothing.
func TestAnAbortedRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		function string
		at       point
		does     string // the run that does the files
	}{
		{"while the ledger hears of its token", "discover", request("put", "head.json"), "P2"},
		{"while it writes its manifest", "discover", request("put", "/manifest-"), "P2"},
		{"while it reads a file", "process", request("get", "incoming/a.csv"), "P2"},
		{"while it publishes", "process", request("put", "parquet/a.csv"), "P2"},
		{"while it writes a batch's result", "process", request("put", "/results/"), "P2"},
		{"while it commits", "commit", request("put", "head.json"), "P2"},
		{"when it has just committed", "commit", reply("put", "head.json"), "P1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			files := w.csvs("a.csv", "b.csv")
			held := w.wire.hold(c.function, c.at)
			p1 := w.run("P1")
			w.await(held.reached, c.name)
			stopped := w.wire.answered("release", reply("put", "lock.json"))
			p1.Abort("", "somebody pressed stop")
			w.ended(p1, asl.StatusAborted)
			w.await(stopped, "P1's life to be ended at the lock")
			w.leaseRunsOut()
			w.succeed("P2") // the zombie stands still meanwhile
			held.letGo()
			w.await(held.over, "the zombie's call")
			w.quiet(c.function)

			w.same(c.does+" did", w.doneBy(c.does), []string{"a.csv", "b.csv"})
			w.exactlyOnce(files...)
			files = append(files, w.csvs("c.csv")...)
			w.succeed("P3")
			w.exactlyOnce(files...)
		})
	}
}

func TestTheLeaseOfARunThatTimedOutRunsOut(t *testing.T) {
	definition := bytes.Replace(lockstep.Definition, []byte(`"TimeoutSeconds": 86400`), []byte(`"TimeoutSeconds": 15`), 1)
	if bytes.Equal(definition, lockstep.Definition) {
		t.Fatal("the definition has another TimeoutSeconds now")
	}
	w := newWorldOf(t, definition, nil)
	files := w.csvs("a.csv", "b.csv")
	held := w.wire.hold("process", request("get", "incoming/b.csv"))
	p1 := w.run("P1")
	w.await(held.reached, "b.csv to be read")
	stopped := w.wire.answered("release", reply("put", "lock.json"))
	w.ended(p1, asl.StatusTimedOut)
	w.await(stopped, "P1's life to be ended at the lock")
	w.leaseRunsOut()
	w.succeed("P2")
	w.same("P2 did", w.doneBy("P2"), []string{"a.csv", "b.csv"})
	w.exactlyOnce(files...)
}
