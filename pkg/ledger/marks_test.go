package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// inOrder is a selection of keys that come in order, but for an hour.
var inOrder = Selection{Prefix: "in", Lexicographic: true, LookBack: time.Hour, Reconcile: 24 * time.Hour}

// spy remembers where the last listing began.
type spy struct {
	Lister
	after string
}

func (s *spy) List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	s.after = o.StartAfter
	return s.Lister.List(ctx, o)
}

// orderly is a bench whose source is spied on.
type orderly struct {
	*bench
	spy *spy
}

func newOrderly(t *testing.T) orderly {
	b := newBench(t)
	b.ledger.limits.listings = 1
	return orderly{b, &spy{Lister: b.source}}
}

// run is a whole run two hours after the one before.
func (o orderly) run(sel Selection, failing ...string) (after string, took []string) {
	o.t.Helper()
	o.clock.advance(2 * time.Hour)
	found, taken, err := discoverAll(o.t.Context(), o.ledger, o.spy, sel, o.clock.now())
	if err != nil {
		o.t.Fatal(err)
	}
	o.commitWith(Commit{MaxAttempts: 9}, taken, found.Upkeep, failing...)
	return o.spy.after, keysOf(taken)
}

func TestKeysInOrderAreListedFromWhereAllIsSettled(t *testing.T) {
	o := newOrderly(t)
	o.write("x", "in/01", "in/02")
	for i, step := range []struct {
		write   []string
		failing []string
		after   string
		takes   []string
	}{
		{nil, nil, "", []string{"in/01", "in/02"}},                         // everything
		{[]string{"in/03"}, nil, "", []string{"in/03"}},                    // a mark was made of nothing: both were unsettled
		{[]string{"in/04"}, []string{"in/04"}, "in/02", []string{"in/04"}}, // 03 was unsettled when the last mark was made
		{[]string{"in/05"}, nil, "in/03", []string{"in/04", "in/05"}},      // the failed file is listed again
		{nil, nil, "in/03", nil},                                           // still: the run before saw 04 unsettled
		{nil, nil, "in/05", nil},
		{[]string{"in/06"}, nil, "in/05", []string{"in/06"}},
	} {
		o.write("x", step.write...)
		after, takes := o.run(inOrder, step.failing...)
		if after != step.after {
			t.Errorf("run %d listed from %q, want %q", i, after, step.after)
		}
		wantKeys(t, fmt.Sprint("run ", i), takes, step.takes...)
	}
}

func TestLateKeyIsFoundWithinTheLookBackAndElseByReconciliation(t *testing.T) {
	o := newOrderly(t)
	sel := inOrder
	sel.LookBack = 3 * time.Hour
	o.write("x", "in/10")
	o.run(sel)
	o.run(sel)
	o.write("x", "in/20")
	o.run(sel) // 14:00 and two hours a run
	o.run(sel)
	o.write("x", "in/15") // sorts before a key that is two hours old
	if _, takes := o.run(sel); !slices.Equal(takes, []string{"in/15"}) {
		t.Errorf("within the look-back: took %q", takes)
	}
	o.run(sel)
	o.run(sel)
	o.run(sel)
	o.write("x", "in/05") // sorts before everything
	o.write("y", "in/10") // an old one is overwritten
	if err := o.source.Delete(t.Context(), "in/15"); err != nil {
		t.Fatal(err)
	}
	for range 3 { // 28:00 to 32:00 after the first
		if after, takes := o.run(sel); after == "" || len(takes) > 0 {
			t.Errorf("listed from %q, took %q", after, takes)
		}
	}
	o.clock.advance(24 * time.Hour)
	if after, takes := o.run(sel); after != "" || !slices.Equal(takes, []string{"in/05", "in/10"}) {
		t.Errorf("the reconciliation listed from %q and took %q", after, takes)
	}
	if row := o.row("in/15"); row.Key != "" {
		t.Errorf("the deleted key is still known: %+v", row)
	}
	if after, _ := o.run(sel); after == "" {
		t.Error("the next run listed everything again")
	}
}

func TestAnotherSelectionListsEverything(t *testing.T) {
	o := newOrderly(t)
	o.write("x", "in/01", "in/02.tmp")
	sel := inOrder
	sel.Exclude = []string{"*.tmp"}
	for range 3 {
		o.run(sel)
	}
	if o.spy.after != "in/02.tmp" {
		t.Fatalf("listed from %q", o.spy.after)
	}
	if after, takes := o.run(inOrder); after != "" || !slices.Equal(takes, []string{"in/02.tmp"}) {
		t.Errorf("without the exclusion: listed from %q, took %q", after, takes)
	}
}

func TestFailureOfABackfillIsNotForgotten(t *testing.T) {
	o := newOrderly(t)
	o.write("x", "in/01", "in/02")
	for range 3 {
		o.run(inOrder)
	}
	again := Selection{Prefix: "in", Include: []string{"01"}, Reprocess: true}
	o.run(again, "in/01")
	if after, takes := o.run(inOrder); after != "" || !slices.Equal(takes, []string{"in/01"}) {
		t.Errorf("listed from %q, took %q", after, takes)
	}
}

func TestListingFromAMarkTellsNothingOfWhatIsBefore(t *testing.T) {
	o := newOrderly(t)
	o.write("x", "in/01", "in/02", "in/03")
	for range 3 {
		o.run(inOrder)
	}
	if err := o.source.Delete(t.Context(), "in/01"); err != nil {
		t.Fatal(err)
	}
	o.write("x", "in/04")
	o.clock.advance(2 * time.Hour)
	found, taken, err := discoverAll(t.Context(), o.ledger, o.spy, inOrder, o.clock.now())
	if err != nil || found.After != "in/03" || found.Listed != 1 || found.Gone != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	wantKeys(t, "new", keysOf(taken), "in/04")
}

// A pipeline that finds nothing for days must not list everything each time.
func TestQuietRunsMoveTheMarksToo(t *testing.T) {
	o := newOrderly(t)
	o.write("x", "in/01", "in/02")
	o.run(inOrder)
	token := int64(100)
	var whole []int
	for run := range 30 {
		o.clock.advance(2 * time.Hour)
		found, taken, err := discoverAll(t.Context(), o.ledger, o.spy, inOrder, o.clock.now())
		if err != nil || len(taken) > 0 {
			t.Fatalf("took %d, %v", len(taken), err)
		}
		if found.After == "" {
			whole = append(whole, run)
		}
		token++
		lost := once("put", "head.json", 1, errLost)
		if run%2 == 1 { // a reply is lost: it is done once all the same
			o.state.Fault(nil, lost)
		}
		if err := o.ledger.Settle(t.Context(), token, *found.Upkeep.Mark); err != nil {
			t.Fatal(err)
		}
		o.state.Fault(nil, nil)
	}
	if want := []int{0, 12, 24}; !slices.Equal(whole, want) { // the first had no mark yet; then once a day
		t.Errorf("runs %d listed everything, want %d", whole, want)
	}
	marks := o.head().Marks
	for i := 1; i < len(marks.Settled); i++ {
		if !marks.Settled[i-1].At.Before(marks.Settled[i].At) {
			t.Errorf("a mark was added twice: %+v", marks.Settled)
		}
	}
	if err := o.ledger.Settle(t.Context(), token-1, Mark{}); !errors.Is(err, ErrFenced) {
		t.Errorf("an older run: %v", err)
	}
}

func TestMarksStayFew(t *testing.T) {
	start := newClock().now()
	sel := inOrder
	sel.LookBack, sel.Reconcile = 100*time.Hour, 10000*time.Hour
	head := Head{}
	for i := range 3000 {
		at := start.Add(time.Duration(i) * 15 * time.Minute)
		key := func(i int) string { return fmt.Sprintf("in/%06d", max(0, i)) }
		after := head.startAfter(sel, at)
		spans := []joined{{settled: key(i)}}
		head.Marks = head.Marks.add(*head.newMark(sel, at, after, spans), 200)
		if n := len(head.Marks.Settled); n > 150 {
			t.Fatalf("%d marks", n)
		}
		if i > 410 && after < key(i-410) || after > key(i-400) {
			t.Fatalf("quarter %d: listed from %q", i, after)
		}
	}
}

// TestOrderlyKeysAreDoneExactlyOnce lets keys come late by less than the
// look-back, fail and be put off, over a thousand runs.
func TestOrderlyKeysAreDoneExactlyOnce(t *testing.T) {
	for seed := range uint64(5) {
		o := newOrderly(t)
		r := rand.New(rand.NewPCG(seed, 9))
		sel := inOrder
		sel.LookBack, sel.MaxFiles = 5*time.Hour, 4
		done := map[string]int{}
		type late struct {
			key string
			due time.Time
		}
		var waiting []late
		start := o.clock.now()
		var listed, whole int64
		for run := range 200 {
			o.clock.advance(time.Hour)
			now := o.clock.now()
			for n := range r.IntN(5) {
				key := fmt.Sprintf("in/%06d-%d", int(now.Sub(start).Minutes()), n)
				waiting = append(waiting, late{key, now.Add(time.Duration(r.IntN(270)) * time.Minute)})
			}
			waiting = slices.DeleteFunc(waiting, func(l late) bool {
				if l.due.After(now) && run < 190 {
					return false
				}
				o.write(l.key, l.key)
				return true
			})
			if run >= 190 {
				sel.MaxFiles = 0
			}
			found, taken, err := discoverAll(t.Context(), o.ledger, o.spy, sel, now)
			if err != nil {
				t.Fatal(err)
			}
			if found.After == "" {
				whole++
			}
			listed += found.Listed
			var rows []Row
			for _, c := range taken {
				switch {
				case run < 190 && r.IntN(5) == 0:
					rows = append(rows, c.Row(Failed))
				case run < 190 && r.IntN(5) == 0: // put off: no outcome
				default:
					rows = append(rows, c.Row(Done))
					done[c.Key]++
				}
			}
			mustCommit(t, o.ledger, Commit{Run: fmt.Sprint(run), Token: int64(run + 1), At: now, Rows: EachRow(rows), Upkeep: found.Upkeep, MaxAttempts: 1000})
		}
		var keys int64
		for page, err := range o.source.List(t.Context(), bucket.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				keys++
				if n := done[e.Key]; n != 1 && strings.HasPrefix(e.Key, "in/") {
					t.Errorf("seed %d: %s was done %d times", seed, e.Key, n)
				}
			}
		}
		if whole > 200/24+10 || listed > 200*keys/3 {
			t.Errorf("seed %d: %d listings of everything, %d keys listed of %d over 200 runs", seed, whole, listed, keys)
		}
	}
}
