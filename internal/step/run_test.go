package step

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestEveryFileIsDoneOnceOverTwoRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 2)
		for i := range 5 {
			w.upload(fmt.Sprintf("in/%d.csv", i), fmt.Sprint("file ", i))
		}
		out, err := w.run("P1")
		w.ok(err)
		equal(t, "done", out.Done, 5)
		w.upload("in/5.csv", "file 5")
		out, err = w.run("P2")
		w.ok(err)
		equal(t, "done by the second run", out.Done, 1)
		out, err = w.run("P3")
		w.ok(err)
		equal(t, "done by the third run", out.Done, 0)
		want := map[string]string{}
		for i := range 6 {
			want[fmt.Sprintf("in/%d.csv", i)] = fmt.Sprint("file ", i)
		}
		w.wantOutputs(want)
		for key, row := range w.rows() {
			if by := map[bool]string{true: "P2", false: "P1"}[key == "in/5.csv"]; row.Run != by {
				t.Errorf("%s was done by %s, want %s", key, row.Run, by)
			}
		}
	})
}

// A run of many calls, each over before a renewal beside it could be, keeps its
// lease: calls renew what they find old.
func TestManyShortCallsKeepTheLeaseAlive(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.ttlSeconds", 60)
		w.set("batch.maxFiles", 1)
		for i := range 30 {
			w.upload(fmt.Sprintf("in/%02d.csv", i), fmt.Sprint(i))
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		for _, batch := range w.batches(d) {
			time.Sleep(10 * time.Second) // of the bubble's time
			_, err := w.process("P1", token, batch)
			w.ok(err)
		}
		equal(t, "done", w.commit("P1", token, d).Done, 30)
	})
}

// CASES 13: a lost lease is told as one by every step.
func TestEveryStepStopsWhenTheLeaseIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a.csv", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		batch := w.batches(d)[0]
		time.Sleep(10 * time.Minute)
		next := w.begin("P2")
		_, discovering := w.tryDiscover("P1", token)
		_, processing := w.process("P1", token, batch)
		_, committing := w.tryCommit("P1", token, d)
		for step, err := range map[string]error{"discover": discovering, "process": processing, "commit": committing} {
			var lost *LeaseLostError
			if !errors.As(Translate(err), &lost) {
				t.Errorf("%s: %v", step, err)
			}
		}
		w.wantOutputs(nil)
		w.processAll("P2", next, w.discover("P2", next))
		w.wantOutputs(map[string]string{"in/a.csv": "a"})
	})
}

// CASES 39: the same execution comes back with a new token and new records.
func TestARedrivenRunStartsOverUnderANewToken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 1)
		w.upload("in/a.csv", "a")
		w.upload("in/b.csv", "poison")
		first := w.begin("P1")
		d := w.discover("P1", first)
		w.processAll("P1", first, d)
		w.commit("P1", first, d)
		w.release("P1", first)

		second := w.begin("P1#1")
		if second <= first {
			t.Fatalf("token %d after %d", second, first)
		}
		d = w.discover("P1#1", second)
		batches := w.batches(d)
		if len(batches) != 1 || batches[0].Files[0].Key != "in/b.csv" {
			t.Fatalf("the redriven run takes %+v, want in/b.csv alone", batches)
		}
		// Batch 0 of the first attempt has a result, which must not pass for
		// that of this attempt's batch 0.
		w.set("failure.maxFailedFraction", 1)
		out, err := w.tryCommit("P1#1", second, d)
		if !errors.As(err, new(*ProcessFunctionError)) {
			t.Errorf("%+v, %v", out, err)
		}
		equal(t, "attempts", w.rows()["in/b.csv"].Attempts, 1)
	})
}

func TestAStepOfNoExecutionIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: Execution{Input: w.config()}})
		var refused *InvalidInputError
		if !errors.As(err, &refused) {
			t.Errorf("%v", err)
		}
	})
}

// A step whose configuration is wrong touches nothing.
func TestBadConfigurationTouchesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		touched := func(op, key string) error { t.Errorf("%s %s", op, key); return nil }
		for _, b := range []*bucket.Memory{w.source, w.lake, w.state} {
			b.Fault(touched, nil)
		}
		w.set("lock.ttlSecond", 60)
		_, acquiring := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution("P1")})
		_, discovering := w.tryDiscover("P1", 1)
		_, processing := w.process("P1", 1, Batch{})
		_, committing := w.tryCommit("P1", 1, DiscoverOutput{})
		_, releasing := w.steps.Release(w.Context(), ReleaseInput{Execution: w.execution("P1")})
		for _, err := range []error{acquiring, discovering, processing, committing, releasing} {
			var config *InvalidConfigError
			if !errors.As(err, &config) || config.Field != "lock.ttlSecond" {
				t.Errorf("%v", err)
			}
		}
	})
}
