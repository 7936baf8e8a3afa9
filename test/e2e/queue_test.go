package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

func TestTheSecondRunWaitsAndTakesWhatArrivedMeanwhile(t *testing.T) {
	w := newWorld(t, nil)
	first := w.csvs("a.csv", "b.csv", "c.csv")
	working := w.watch.stop("P1", "ProcessFiles")
	waiting := w.watch.entered("P2", "WaitForLock")
	p1 := w.run("P1")
	w.await(working.reached, "P1 at work")
	p2 := w.run("P2")
	w.await(waiting, "P2 to wait")
	late := w.csvs("b2.csv", "d.csv")
	working.open()
	w.ended(p1, asl.StatusSucceeded)
	w.ended(p2, asl.StatusSucceeded)
	w.succeed("P3")

	w.same("P1 did", w.doneBy("P1"), []string{"a.csv", "b.csv", "c.csv"})
	w.same("P2 did", w.doneBy("P2"), []string{"b2.csv", "d.csv"})
	w.exactlyOnce(slices.Concat(first, late)...)
	if reason := w.waitReason(p2); !strings.Contains(reason, p1.ARN()) || !strings.Contains(reason, "since") || !strings.Contains(reason, "until") {
		t.Errorf("P2 waits because of %q, which does not say who has the lock, since when and until when", reason)
	}
}

// waitReason is what AcquireLock told a run that had to wait.
func (w *world) waitReason(e *asl.Execution) string {
	w.t.Helper()
	for _, event := range e.History() {
		if exited, ok := event.Details.(asl.StateExitedDetails); ok && exited.Name == "AcquireLock" {
			var out output
			w.decode(exited.Output, &out)
			return out.Acquired.Reason
		}
	}
	return ""
}

func TestWithOneWaiterTheOtherRunsAreSuperseded(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Lock.MaxWaiters = 1 })
	files := w.csvs("a.csv", "b.csv")
	working := w.watch.stop("P1", "ProcessFiles")
	p1 := w.run("P1")
	w.await(working.reached, "P1 at work")
	waiting := w.watch.entered("P2", "WaitForLock")
	p2 := w.run("P2")
	w.await(waiting, "P2 to wait")
	files = append(files, w.csvs("c.csv")...)
	for i := range 4 {
		e := w.succeed(fmt.Sprint("P", 3+i))
		if got := journey(e); got != "AcquireLock LockDecision RunSkipped" {
			t.Errorf("%s went %s", e.Name(), got)
		}
	}
	working.open()
	w.ended(p1, asl.StatusSucceeded)
	w.ended(p2, asl.StatusSucceeded)
	w.same("P2 did", w.doneBy("P2"), []string{"c.csv"})
	w.exactlyOnce(files...)
}

func TestManyRunsAtOnceWorkOneAtATime(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Lock.MaxWaiters = 1 })
	files := w.csvs("a.csv", "b.csv", "c.csv", "d.csv")
	var runs []*asl.Execution
	for i := range 6 {
		runs = append(runs, w.run(fmt.Sprint("P", 1+i)))
	}
	files = append(files, w.csvs("e.csv", "f.csv")...)
	worked := 0
	for _, e := range runs {
		w.ended(e, asl.StatusSucceeded)
		if !strings.HasSuffix(journey(e), "RunSkipped") {
			worked++
		}
	}
	if granted := w.grants(); worked == 0 || len(granted) != worked {
		t.Errorf("%d runs worked under the tokens %v", worked, granted)
	}
	w.succeed("after") // for what came after the last of them had looked
	w.exactlyOnce(files...)
}

func TestWaitersGoInOrderOfPriorityThenArrival(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv")
	working := w.watch.stop("P1", "ProcessFiles")
	runs := []*asl.Execution{w.run("P1")}
	w.await(working.reached, "P1 at work")
	for _, name := range []string{"P2", "P3", "P4", "urgent"} {
		if name == "urgent" {
			w.config.Lock.Priority = 5
		}
		waiting := w.watch.entered(name, "WaitForLock")
		runs = append(runs, w.run(name))
		w.await(waiting, name+" to wait")
	}
	working.open()
	var order []string
	for _, e := range runs {
		w.ended(e, asl.StatusSucceeded)
	}
	slices.SortFunc(runs, func(a, b *asl.Execution) int {
		return int(w.output(a).Acquired.Token - w.output(b).Acquired.Token)
	})
	for _, e := range runs {
		order = append(order, e.Name())
	}
	w.same("the order of holders", order, []string{"P1", "urgent", "P2", "P3", "P4"})
	w.exactlyOnce(files...)
}

func TestARunThatWaitedTooLongFailsAndNamesTheHolder(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv")
	working := w.watch.stop("P1", "ProcessFiles")
	p1 := w.run("P1")
	w.await(working.reached, "P1 at work")
	w.config.Lock.MaxWaitSeconds = 0
	w.failed(w.run("P2"), "LockWaitTimedOut", p1.ARN(), "lock.maxWaitSeconds 0")
	if waiters := w.lockStatus().Waiters; len(waiters) > 0 {
		t.Errorf("a run that gave up left %v in the queue", waiters)
	}
	working.open()
	w.ended(p1, asl.StatusSucceeded)
	w.exactlyOnce(files...)
}

func TestOfTwoRunsThatReachForTheFreeLockOneWaits(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv")
	for _, round := range []string{"first-", "second-"} { // the lock is created, and then replaced
		reaching := w.wire.hold("acquire", request("put", "lock.json"))
		late := w.run(round + "late")
		w.await(reaching.reached, "a run to reach for the free lock")
		working := w.watch.stop(round+"early", "DiscoverFiles")
		early := w.run(round + "early")
		w.await(working.reached, "another run to have it")
		waiting := w.watch.entered(round+"late", "WaitForLock")
		reaching.letGo()
		w.await(waiting, "the late one to wait")
		working.open()
		w.ended(early, asl.StatusSucceeded)
		w.ended(late, asl.StatusSucceeded)
		w.exactlyOnce(files...)
		files = append(files, w.csvs(round+"b.csv")...)
	}
	w.succeed("last")
	w.exactlyOnce(files...)
}
