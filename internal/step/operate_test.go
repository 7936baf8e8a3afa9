package step

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

func (w *world) operator() *Operator {
	w.Helper()
	o, err := w.steps.Operate(w.config(), "ada@host", fmt.Sprint("operator:ada@host:", rand.Uint64()))
	w.ok(err)
	return o
}

func TestAnOperatorWaitsForARunAndIsNamedAsHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("lock.maxWaiters", 1)
		token := w.begin("P1")
		o := w.operator()
		nothing := func(context.Context, int64) error { t.Error("worked under a run's lock"); return nil }
		var held *lease.HeldError
		if err := o.Hold(w.Context(), 0, nothing); !errors.As(err, &held) || held.Holders[0].Owner != w.execution("P1").ID {
			t.Errorf("without waiting: %v", err)
		}
		var late *lease.TimeoutError
		if err := o.Hold(w.Context(), 5*time.Second, nothing); !errors.As(err, &late) {
			t.Errorf("after a short wait: %v", err)
		}
		w.ask("P2") // who waits does not make an operator superfluous
		worked := false
		done := make(chan error)
		go func() {
			done <- o.Hold(w.Context(), time.Minute, func(ctx context.Context, got int64) error {
				status, err := o.Lock(ctx)
				w.ok(err)
				if len(status.Holders) != 1 || status.Holders[0].Token != got || !strings.HasPrefix(status.Holders[0].Owner, "operator:ada@host:") {
					t.Errorf("holders %+v", status.Holders)
				}
				worked = true
				return nil
			})
		}()
		time.Sleep(3 * time.Second)
		w.release("P1", token)
		w.ok(w.lockOf("P2").Withdraw(w.Context(), w.execution("P2").ID))
		w.ok(<-done)
		if !worked {
			t.Error("the work was not done")
		}
		w.begin("P3") // it is free again
	})
}

func (w *world) lockOf(run string) *lease.Lock {
	w.Helper()
	r, err := w.steps.begin(w.execution(run))
	w.ok(err)
	return r.lock
}

func TestAnOperatorGivesTheLockBackWhateverHappens(t *testing.T) {
	inWorld(t, func(w *world) {
		broken := errors.New("broken")
		if err := w.operator().Hold(w.Context(), 0, func(context.Context, int64) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(w.Context())
		if err := w.operator().Hold(ctx, 0, func(ctx context.Context, _ int64) error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		w.begin("P1")
	})
}

// A lock that somebody broke ends the work, and the ledger is left alone.
func TestAnOperatorWhoLosesTheLockStops(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "poison")
		_, err := w.run("P1")
		w.ok(err)
		o := w.operator()
		err = o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
			w.ok(w.lockOf("P2").Break(ctx, lease.BreakRequest{Token: token, By: "bob", Reason: "test"}))
			w.begin("P2")
			<-ctx.Done()
			_, err := o.Retry(ctx, token, Filter{})
			return err
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("%v", err)
		}
		equal(t, "run of the row", w.rows()["in/a"].Run, "P1")
	})
}

func TestFiltersChooseRows(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 2)
		w.set("failure.backoffSeconds", 0)
		w.upload("in/a.csv", "good")
		w.upload("in/sub/b.csv", "poison")
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/sub/c.json", "poison")
		_, err = w.run("P2")
		w.ok(err)
		for _, c := range []struct {
			filter Filter
			want   string
		}{
			{Filter{}, "in/a.csv in/sub/b.csv in/sub/c.json"},
			{Filter{Keys: []string{"in/sub/b.csv", "in/none", "in/a.csv", "in/a.csv"}}, "in/a.csv in/sub/b.csv"},
			{Filter{Globs: []string{"*.csv"}}, "in/a.csv"},
			{Filter{Globs: []string{"**/*.csv", "**/*.json"}}, "in/a.csv in/sub/b.csv in/sub/c.json"},
			{Filter{Outcomes: []ledger.Outcome{ledger.Quarantined}}, "in/sub/b.csv"},
			{Filter{Outcomes: []ledger.Outcome{ledger.Quarantined, ledger.Failed}}, "in/sub/b.csv in/sub/c.json"},
			{Filter{Runs: []string{"P2"}}, "in/sub/b.csv in/sub/c.json"},
			{Filter{Runs: []string{"P2"}, Globs: []string{"**/*.csv"}}, "in/sub/b.csv"},
			{Filter{Keys: []string{"in/a.csv"}, Outcomes: []ledger.Outcome{ledger.Failed}}, ""},
		} {
			var keys []string
			for row, err := range w.operator().Rows(w.Context(), c.filter) {
				w.ok(err)
				keys = append(keys, row.Key)
			}
			equal(t, fmt.Sprintf("%+v", c.filter), strings.Join(keys, " "), c.want)
		}
		if err := (Filter{Globs: []string{"[a"}}).Validate(); err == nil {
			t.Error("a broken glob passes")
		}
	})
}

func TestEditsOfAnOperatorReachTheNextRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.set("failure.backoffSeconds", 86400)
		w.upload("in/a", "good")
		w.upload("in/b", "poison")
		_, err := w.run("P1")
		w.ok(err)
		o := w.operator()
		do := func(what func(ctx context.Context, token int64) (ledger.Committed, error)) ledger.Committed {
			var committed ledger.Committed
			w.ok(o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
				committed, err = what(ctx, token)
				return err
			}))
			return committed
		}
		next := func(run string) string {
			token := w.begin(run)
			defer w.release(run, token)
			var keys []string
			for _, batch := range w.batches(w.discover(run, token)) {
				for _, f := range batch.Files {
					keys = append(keys, f.Key)
				}
			}
			return strings.Join(keys, " ")
		}
		equal(t, "next", next("N1"), "")
		committed := do(func(ctx context.Context, token int64) (ledger.Committed, error) { return o.Retry(ctx, token, Filter{}) })
		equal(t, "retried", committed.Failed, 1)
		equal(t, "run of the row", w.rows()["in/b"].Run, "retry by ada@host")
		equal(t, "next", next("N2"), "in/b")
		do(func(ctx context.Context, token int64) (ledger.Committed, error) {
			return o.Forget(ctx, token, Filter{Keys: []string{"in/a"}})
		})
		equal(t, "next", next("N3"), "in/a in/b")
		_, err = w.run("P4")
		w.ok(err)
		equal(t, "next", next("N5"), "")
		do(o.Reset)
		equal(t, "next", next("N6"), "in/a in/b")
	})
}
