package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestOneRowIsFoundAmongMany(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.blockRows = 3
	b.ledger.limits.wholeBytes, b.ledger.limits.tailBytes = 10, 120 // read in parts
	b.ledger.limits.mergeCount = 4
	random := rand.New(rand.NewPCG(7, 7))
	for token := range int64(9) {
		rows := map[string]Row{}
		for range 20 {
			key := fmt.Sprintf("in/%02d", random.IntN(60)*2)
			rows[key] = Row{Key: key, ETag: md5Tag(random.Int()), Outcome: Done}
		}
		mustCommit(t, b.ledger, Commit{
			Run: fmt.Sprint(token), Token: token + 1, Rows: EachRow(slices.Collect(maps.Values(rows))),
			Upkeep: Upkeep{Gone: []string{fmt.Sprintf("in/%02d", random.IntN(60)*2)}},
		})
	}
	want := map[string]Row{}
	for _, row := range rowsOf(t, b.ledger) {
		want[row.Key] = row
	}
	for i := -1; i < 130; i++ {
		for _, key := range []string{fmt.Sprintf("in/%02d", i), fmt.Sprintf("in/%02d/", i), fmt.Sprintf("in/%02d", i)[:4]} {
			got, err := b.ledger.Row(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if row, known := want[key]; known != (got != nil) || known && *got != row {
				t.Errorf("%s: got %+v, want %+v (%v)", key, got, row, known)
			}
		}
	}
	if row, err := newBench(t).ledger.Row(t.Context(), "a"); row != nil || err != nil {
		t.Errorf("of an empty ledger: %+v, %v", row, err)
	}
}

// Explain says of one file what a plan says of all of them.
func TestExplainAgreesWithThePlan(t *testing.T) {
	b := newBench(t)
	b.write("x", "in/a", "in/changed", "in/failed", "in/poison")
	for range 3 {
		b.run(Selection{Prefix: "in"}, "in/poison")
	}
	b.write("y", "in/changed", "in/failed")
	b.run(Selection{Prefix: "in", Include: []string{"failed"}}, "in/failed")
	b.write("new", "in/new", "in/new.tmp", "in/empty/")
	b.clock.advance(time.Hour)
	b.write("young", "in/young")
	sel := Selection{Prefix: "in", Exclude: []string{"*.tmp"}, MinAge: time.Minute, Backoff: 30 * time.Minute}
	for _, backoff := range []time.Duration{0, 2 * time.Hour} {
		sel.Backoff = backoff
		planned := map[string]Verdict{}
		keep := func(v Verdict) error {
			planned[v.Key] = v
			return nil
		}
		if _, err := b.ledger.Plan(t.Context(), b.source, sel, b.clock.now(), keep, keep); err != nil {
			t.Fatal(err)
		}
		reasons := map[Reason]bool{}
		for page, err := range b.source.List(t.Context(), bucket.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				got, err := b.ledger.Explain(t.Context(), e, sel, b.clock.now())
				want := planned[e.Key]
				if err != nil || got.File != want.File || got.Kind != want.Kind || got.Reason != want.Reason || got.Attempts != want.Attempts {
					t.Errorf("%s: got %+v (%v), want %+v", e.Key, got, err, want)
				}
				if known := e.Key != "in/new" && e.Key != "in/young" && e.Key != "in/new.tmp" && e.Key != "in/empty/"; known != (got.Row != nil) {
					t.Errorf("%s: row %+v", e.Key, got.Row)
				}
				reasons[got.Reason] = true
			}
		}
		if len(reasons) < 5 || reasons[DeferBackoff] != (backoff > time.Hour) {
			t.Errorf("only %v was to explain", reasons)
		}
	}
	_, err := b.ledger.Explain(t.Context(), bucket.Entry{Key: "other/a"}, sel, b.clock.now())
	if err == nil || !strings.Contains(err.Error(), `not below the prefix "in/"`) {
		t.Errorf("a key elsewhere: %v", err)
	}
}

func TestExplainKnowsWhatALexicographicListingLeavesOut(t *testing.T) {
	b := newBench(t)
	sel := Selection{Lexicographic: true, LookBack: time.Minute, Reconcile: time.Hour}
	b.write("x", "b")
	for range 2 {
		b.run(sel)
		b.clock.advance(2 * time.Minute)
	}
	b.write("late", "a")
	for _, c := range []struct {
		at   time.Duration
		want Reason
	}{{0, SkipUnlisted}, {time.Hour, ""}} {
		v, err := b.ledger.Explain(t.Context(), bucket.Entry{Key: "a", ETag: `"e"`, Size: 4}, sel, b.clock.now().Add(c.at))
		_, taken, discoverErr := discoverAll(t.Context(), b.ledger, b.source, sel, b.clock.now().Add(c.at))
		if err != nil || discoverErr != nil || v.Reason != c.want || (len(taken) > 0) != (c.want == "") {
			t.Errorf("after %v: %+v, %v; a run takes %+v, %v", c.at, v, err, taken, discoverErr)
		}
	}
}
