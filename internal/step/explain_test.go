package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

func (w *world) explain(key string) Explained {
	w.Helper()
	e, err := w.operator().Explain(w.Context(), key)
	w.ok(err)
	return e
}

func TestExplainTellsWhereAFileStands(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.set("selection.exclude", []string{"*.tmp"})
		w.upload("in/a", "good")
		w.upload("in/b", "poison")
		w.upload("in/ab", "good")
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/a", "newer")
		w.upload("in/c", "new")
		w.upload("in/c.tmp", "new")
		w.ok(w.source.Delete(w.Context(), "in/ab"))
		for key, want := range map[string]struct {
			source  bool
			outcome ledger.Outcome
			next    Next
			error   string
			outputs int
		}{
			"in/a":     {true, ledger.Done, Next{Takes: true, Kind: "changed"}, "", 1},
			"in/b":     {true, ledger.Quarantined, Next{Reason: ledger.SkipQuarantined}, "malformed file: it is poison", 0},
			"in/ab":    {false, ledger.Done, Next{Reason: ReasonNotThere}, "", 1},
			"in/c":     {true, "", Next{Takes: true, Kind: "new"}, "", 0},
			"in/c.tmp": {true, "", Next{Reason: ledger.SkipExcluded}, "", 0},
			"in/":      {false, "", Next{Reason: ReasonNotThere}, "", 0},
			"on/a":     {false, "", Next{Reason: ReasonOutsidePrefix}, "", 0},
		} {
			e := w.explain(key)
			outcome := ledger.Outcome("")
			if e.Row != nil {
				outcome = e.Row.Outcome
			}
			equal(t, key+": in the source", e.Source != nil, want.source)
			equal(t, key+": in the ledger", outcome, want.outcome)
			equal(t, key+": next", e.Next, want.next)
			equal(t, key+": outputs", len(e.Outputs), want.outputs)
			equalLists(t, key+": gaps", e.Gaps, nil)
			if (e.Failure != nil) != (want.error != "") {
				t.Errorf("%s: failure %+v", key, e.Failure)
			}
		}
		equal(t, "failure", *w.explain("in/b").Failure, LastFailure{
			Run: "P1", Token: 1, Error: "malformed file: it is poison",
			Summary: "s3://state/lockstep/runs/P1/0000000000000001/summary.json",
		})
		if output := w.explain("in/a").Outputs[0]; output.ETag != w.etag("good") || !strings.HasPrefix(output.Key, "out/a.") {
			t.Errorf("output %+v", output)
		}
	})
}

// A summary lists a hundred failures; the results have all.
func TestExplainFindsAFailureBeyondTheSummary(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 9)
		for i := range maxFailuresListed + 20 {
			w.upload(fmt.Sprintf("in/%04d", i), "poison")
		}
		_, err := w.run("P1")
		w.ok(err)
		e := w.explain(fmt.Sprintf("in/%04d", maxFailuresListed+15))
		if e.Failure == nil || e.Failure.Error != "malformed file: it is poison" {
			t.Errorf("%+v", e)
		}
	})
}

func TestWhatExplainDoesNotFindIsAGap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.upload("in/b", "poison")
		_, err := w.run("P1")
		w.ok(err)
		w.ok(w.state.Delete(w.Context(), keysOf(w.parsed(), "P1", 1).summary()))
		w.lake.Fault(func(op, _ string) error {
			if op == "head" {
				return errors.New("connection reset")
			}
			return nil
		}, nil)
		e := w.explain("in/b")
		if len(e.Gaps) != 2 || !strings.Contains(e.Gaps[0], "no records of run P1 tell of it") || !strings.Contains(e.Gaps[1], "connection reset") {
			t.Errorf("gaps %q", e.Gaps)
		}
		equal(t, "next", e.Next.Reason, ledger.SkipQuarantined)
	})
}

// A plan is what the next run does, and changes nothing.
func TestAPlanIsWhatTheNextRunDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 2)
		w.set("failure.backoffSeconds", 0)
		w.set("batch.maxFiles", 2)
		w.set("selection.maxFiles", 6)
		for _, key := range []string{"in/a", "in/b", "in/c", "in/d"} {
			w.upload(key, map[bool]string{true: "poison", false: "good"}[key == "in/b"])
		}
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/c", "newer")
		for i := range 6 {
			w.upload(fmt.Sprint("in/e", i), "good")
		}
		token := w.begin("P2") // a plan needs no lock
		for _, b := range []*bucket.Memory{w.source, w.lake, w.state} {
			b.Fault(func(op, key string) error {
				if op == "put" || op == "delete" {
					t.Errorf("%s %s", op, key)
				}
				return nil
			}, nil)
		}
		var told []string
		tell := func(v ledger.Verdict) error {
			told = append(told, fmt.Sprint(v.Key, " ", v.Kind, v.Reason, " ", v.Attempts))
			return nil
		}
		planned, err := w.operator().Plan(w.Context(), tell, tell)
		w.ok(err)
		w.state.Fault(nil, nil)
		slices.Sort(told)
		equalLists(t, "verdicts", told, []string{
			"in/a done 0", "in/b retried 1", "in/c changed 0", "in/d done 0", "in/e0 new 0", "in/e1 new 0", "in/e2 new 0", "in/e3 new 0", "in/e4 left 0", "in/e5 left 0",
		})
		equal(t, "holder", planned.Lock.Holders[0].Token, token)
		d := w.discover("P2", token)
		equal(t, "batches", planned.Batches, d.Batches)
		equal(t, "files", planned.Taken(), d.Files)
		equal(t, "left", planned.Left, d.Left)
	})
}

func TestAPlanEndsWithTheErrorOfWhoReadsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "good")
		broken := errors.New("broken pipe")
		if _, err := w.operator().Plan(w.Context(), func(ledger.Verdict) error { return broken }, nil); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		w.source.Fault(func(string, string) error { return bucket.ErrConflict }, nil)
		if _, err := w.operator().Plan(w.Context(), func(ledger.Verdict) error { return nil }, nil); err == nil {
			t.Error("a listing that fails is a plan")
		}
	})
}
