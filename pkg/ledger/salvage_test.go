package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// salvaged reads what is left, and which objects were lost.
func (b *bench) salvaged() (rows []Row, lost []string) {
	b.t.Helper()
	for row, err := range b.ledger.Salvage(b.t.Context(), func(d *DamagedError) { lost = append(lost, d.Object) }) {
		if err != nil {
			b.t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows, lost
}

func TestSalvageReadsWhatIsLeft(t *testing.T) {
	fill := func(b *bench) {
		b.ledger.limits.blockRows = 2
		b.ledger.limits.mergeCount = 100
		mustCommit(t, b.ledger, Commit{Run: "1", Token: 1, At: b.clock.now(), Rows: EachRow(done("a", "b", "c", "d", "e", "f"))})
		mustCommit(t, b.ledger, Commit{Run: "2", Token: 2, At: b.clock.now(), Rows: EachRow([]Row{{Key: "b", Outcome: Failed}, {Key: "g", Outcome: Done}})})
		mustCommit(t, b.ledger, Commit{Run: "3", Token: 3, At: b.clock.now(), Rows: EachRow(done("b", "h")), Upkeep: Upkeep{Gone: []string{"c"}}})
	}
	for name, c := range map[string]struct {
		damage func(b *bench, segments []string)
		want   string // keys, each with the run that told it
		lost   func(segments []string) []string
	}{
		"nothing is lost": {
			func(*bench, []string) {}, "a1 b3 d1 e1 f1 g2 h3", func([]string) []string { return nil },
		},
		"the newest": {
			func(b *bench, s []string) { b.overwrite(s[2], []byte("rubbish")) }, "a1 b2 c1 d1 e1 f1 g2", func(s []string) []string { return s[2:3] },
		},
		"one in the middle, deleted": {
			func(b *bench, s []string) { _ = b.state.Delete(t.Context(), s[1]) }, "a1 b3 d1 e1 f1 h3", func(s []string) []string { return s[1:2] },
		},
		"the head": {
			func(b *bench, _ []string) { b.overwrite("state/ledger/head.json", nil) }, "a1 b3 d1 e1 f1 g2 h3",
			func([]string) []string { return []string{"state/ledger/head.json"} },
		},
		"the head, deleted": {
			func(b *bench, _ []string) { _ = b.state.Delete(t.Context(), "state/ledger/head.json") }, "a1 b3 d1 e1 f1 g2 h3",
			func([]string) []string { return []string{"state/ledger/head.json"} },
		},
		"the head, and the end of the oldest": {
			func(b *bench, s []string) {
				b.overwrite("state/ledger/head.json", nil)
				body := b.read(s[0])
				b.overwrite(s[0], body[:len(body)/2])
			}, "a1 b3 d1 g2 h3", func(s []string) []string { return []string{"state/ledger/head.json", s[0]} },
		},
	} {
		b := newBench(t)
		fill(b)
		var segments []string
		for _, s := range b.head().Segments {
			segments = append(segments, "state/ledger/"+s.Name)
		}
		c.damage(b, segments)
		rows, lost := b.salvaged()
		var got []string
		for _, row := range rows {
			got = append(got, row.Key+row.Run)
		}
		if text := strings.Join(got, " "); text != c.want || !slices.Equal(lost, c.lost(segments)) {
			t.Errorf("%s: got %s, want %s; lost %q", name, text, c.want, lost)
		}
	}
}

func TestSalvageOfAnEmptyLedgerLosesNothing(t *testing.T) {
	if rows, lost := newBench(t).salvaged(); len(rows)+len(lost) > 0 {
		t.Errorf("rows %+v, lost %q", rows, lost)
	}
}

// Only damage is passed over: what cannot be read now may be there.
func TestTroubleEndsASalvage(t *testing.T) {
	for _, fault := range []string{"get state/ledger/head.json", "list state/ledger/segments/", "get .seg"} {
		op, suffix, _ := strings.Cut(fault, " ")
		b := newBench(t)
		mustCommit(t, b.ledger, Commit{Run: "1", Token: 1, Rows: EachRow(done("a"))})
		if op == "list" {
			b.overwrite("state/ledger/head.json", nil)
		}
		outage := errors.New("503")
		b.state.Fault(once(op, suffix, 1, outage), nil)
		n := 0
		for row, err := range b.ledger.Salvage(t.Context(), func(*DamagedError) {}) {
			if n++; !errors.Is(err, outage) {
				t.Errorf("%s: %+v, %v", fault, row, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d answers", fault, n)
		}
	}
	b := newBench(t)
	b.overwrite("state/ledger/head.json", []byte(`{"schema": 99}`))
	for row, err := range b.ledger.Salvage(t.Context(), func(d *DamagedError) { t.Error(d) }) {
		if err == nil || errors.Is(err, ErrDamaged) {
			t.Errorf("another schema: %+v, %v", row, err)
		}
	}
}

func TestASelectionSaysWhatIsOutsideOfIt(t *testing.T) {
	b := newBench(t)
	b.write("x", "in/a", "in/b.tmp", "in/c/")
	b.write("", "in/c/")
	outside := Selection{Prefix: "in", Exclude: []string{"*.tmp"}}.Outside()
	var got []string
	for page, err := range b.source.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			got = append(got, fmt.Sprint(e.Key, " ", outside(e)))
		}
	}
	if want := []string{"in/a ", "in/b.tmp excluded", "in/c/ folderMarker"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
