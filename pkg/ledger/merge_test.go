package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMergePlan(t *testing.T) {
	l := &Ledger{limits: limits{mergeCount: 3, mergeBytes: 100}}
	for _, tc := range []struct {
		sizes    []int64
		dead     int64 // of one row a segment
		from, to int
	}{
		{nil, 0, 0, 0},
		{[]int64{1}, 0, 1, 1},
		{[]int64{1, 1}, 0, 2, 2},                // too few to be worth it
		{[]int64{1, 1, 1}, 0, 0, 3},             // enough
		{[]int64{3, 1, 1, 1}, 0, 0, 4},          // the oldest is as large as the others together
		{[]int64{4, 1, 1, 1}, 0, 1, 4},          // it is larger
		{[]int64{9, 4, 1, 1}, 0, 4, 4},          // nothing balances
		{[]int64{50, 40, 5, 5}, 0, 0, 4},        // exactly the budget
		{[]int64{50, 40, 10, 5}, 0, 4, 4},       // beyond it
		{[]int64{90, 90, 1, 1, 1}, 0, 2, 5},     // large ones are left alone
		{[]int64{90, 90, 90, 90}, 1, 4, 4},      // a quarter is dead
		{[]int64{90, 90, 90, 90}, 2, 0, 4},      // half is: rewrite, whatever it costs
		{[]int64{8, 4, 2, 1, 1, 1, 1}, 0, 0, 7}, // as far as it balances
	} {
		var segments []Segment
		for _, size := range tc.sizes {
			segments = append(segments, Segment{Rows: 1, Bytes: size})
		}
		if from, to := l.plan(segments, tc.dead); from != tc.from || to != tc.to {
			t.Errorf("sizes %v, %d dead: merge %d to %d, want %d to %d", tc.sizes, tc.dead, from, to, tc.from, tc.to)
		}
	}
}

// commitMany commits one new key a time.
func commitMany(t *testing.T, l *Ledger, from, to int) (bytes int64) {
	t.Helper()
	for i := from; i < to; i++ {
		rows := []Row{{Key: fmt.Sprintf("in/%05d", i*7919%10007), ETag: md5Tag(i), Size: int64(i), Outcome: Done}}
		bytes += mustCommit(t, l, Commit{Run: fmt.Sprint(i), Token: int64(i + 1), Rows: EachRow(rows)}).Bytes
	}
	return bytes
}

func TestMergingKeepsTheRowsAndBoundsTheSegments(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.blockRows = 4
	commitMany(t, b.ledger, 0, 120)
	if n := len(b.head().Segments); n > 8+6 {
		t.Errorf("120 commits left %d segments", n)
	}
	rows := rowsOf(t, b.ledger)
	if len(rows) != 120 || !slices.IsSortedFunc(rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("%d rows, or not in order", len(rows))
	}
	if err := b.ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNewerSegmentsOverrideOlderOnes(t *testing.T) {
	for _, merging := range []int{1000, 2} {
		b := newBench(t)
		b.ledger.limits.mergeCount = merging
		for i := range 20 {
			rows := []Row{
				{Key: "a", ETag: md5Tag(i), Outcome: Done},
				{Key: fmt.Sprintf("b%02d", i), ETag: md5Tag(i), Outcome: Done},
				{Key: "c", ETag: md5Tag(i), Outcome: Failed, Attempts: i},
			}
			mustCommit(t, b.ledger, Commit{Run: fmt.Sprint(i), Token: int64(i + 1), Rows: EachRow(rows), MaxAttempts: 100})
		}
		if row := b.row("a"); row.Run != "19" || row.ETag != md5Tag(19) {
			t.Errorf("a is %+v", row)
		}
		if row := b.row("c"); row.Run != "19" || row.Attempts != 20 {
			t.Errorf("c is %+v", row)
		}
		if n := len(rowsOf(t, b.ledger)); n != 22 {
			t.Errorf("%d rows, want 22", n)
		}
	}
}

func TestMergeWorkIsBounded(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.blockRows = 4
	b.ledger.limits.mergeBytes = 2000
	b.ledger.limits.mergeCount = 4
	var most int64
	sizes := map[string]int64{}
	for i := range 80 {
		before := b.head()
		for _, s := range before.Segments {
			sizes[s.Name] = s.Bytes
		}
		commitMany(t, b.ledger, i, i+1)
		after := b.head()
		var merged int64
		for _, r := range after.Retired[len(before.Retired):] {
			merged += sizes[r.Name]
		}
		most = max(most, merged)
	}
	if most == 0 || most > 2000 {
		t.Errorf("one commit merged %d bytes, at most 2000 were allowed", most)
	}
}

func TestMarksGoOnceNoOlderSegmentCanHoldTheirKeys(t *testing.T) {
	b := newBench(t)
	keys := []string{"a", "b", "c", "d"}
	mustCommit(t, b.ledger, Commit{Run: "1", Token: 1, Rows: EachRow(done(keys...))})
	for _, key := range keys {
		b.write("x", key)
	}
	mustCommit(t, b.ledger, Commit{Run: "2", Token: 2, Upkeep: Upkeep{Gone: []string{"a", "b", "c"}}})
	wantRows(t, b.ledger, "d")
	if head := b.head(); head.Rows() != 7 || head.Segments[1].Gone != 3 {
		t.Errorf("head %+v", head)
	}
	found, _ := b.discover(Selection{})
	if found.Upkeep.Dead != 6 {
		t.Errorf("%d dead rows, want three and their three marks", found.Upkeep.Dead)
	}
	merged := mustCommit(t, b.ledger, Commit{Run: "3", Token: 3, Upkeep: found.Upkeep})
	if head := b.head(); merged.Merged != 2 || head.Rows() != 1 {
		t.Errorf("merged %d segments into %+v", merged.Merged, head)
	}
	wantRows(t, b.ledger, "d")
}

func TestMergeKeepsAMarkThatStillHidesAnOlderRow(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.mergeBytes = 500
	b.ledger.limits.mergeCount = 2
	var rows []Row
	for i := range 30 {
		rows = append(rows, Row{Key: fmt.Sprintf("k%02d", i), ETag: md5Tag(i), Outcome: Done})
	}
	mustCommit(t, b.ledger, Commit{Run: "large", Token: 1, Rows: EachRow(rows)})
	mustCommit(t, b.ledger, Commit{Run: "2", Token: 2, Upkeep: Upkeep{Gone: []string{"k05", "zz"}}})
	merged := mustCommit(t, b.ledger, Commit{Run: "3", Token: 3, Upkeep: Upkeep{Gone: []string{"k06", "k07", "k08", "k1"}}})
	head := b.head()
	if merged.Merged != 2 || len(head.Segments) != 2 || head.Segments[1].Gone != 5 {
		t.Fatalf("merged %d into %+v, want all marks kept but that of zz", merged.Merged, head.Segments)
	}
	if n := len(rowsOf(t, b.ledger)); n != 26 {
		t.Errorf("%d rows, want 26", n)
	}
}

func TestRewriteIsCutIntoSegments(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.blockRows = 2
	b.ledger.limits.segmentBytes = 300
	commitMany(t, b.ledger, 0, 7)
	var keys []string
	for _, row := range rowsOf(t, b.ledger) {
		keys = append(keys, row.Key)
	}
	head := b.head()
	mustCommit(t, b.ledger, Commit{Run: "x", Token: 100, Upkeep: Upkeep{Dead: head.Rows()}})
	after := b.head()
	if len(after.Segments) < 2 {
		t.Fatalf("one segment: %+v", after.Segments)
	}
	for i := 1; i < len(after.Segments); i++ {
		if after.Segments[i].First <= after.Segments[i-1].Last {
			t.Errorf("segments overlap: %+v", after.Segments)
		}
	}
	wantRows(t, b.ledger, keys...)
}

func TestRetiredSegmentsStayForReadersOfAnOlderHead(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.mergeCount = 2
	b.write("x", "a", "b", "c")
	mustCommit(t, b.ledger, Commit{Run: "1", Token: 1, Rows: EachRow(done("a", "c"))})
	merger := openLedger(t, b.state)
	merger.limits.mergeCount = 2
	var merged int
	// The discovery holds the head of commit 1 while commits 2 and 3 merge it away.
	found, err := b.ledger.Discover(t.Context(), b.source, Selection{}, b.clock.now(), func(c Candidate) error {
		if merged == 0 {
			merged = mustCommit(t, merger, Commit{Run: "2", Token: 2, Rows: EachRow(done("d"))}).Merged
			merged += mustCommit(t, merger, Commit{Run: "3", Token: 3, Rows: EachRow(done("e"))}).Merged
			retired := b.head().Retired
			b.clock.advance(readerGrace)
			again := mustCommit(t, merger, Commit{Run: "4", Token: 4, Rows: EachRow(done("f"))})
			if again.Merged += mustCommit(t, merger, Commit{Run: "5", Token: 5, Rows: EachRow(done("g"))}).Merged; again.Merged == 0 {
				t.Error("no merge had the occasion to delete")
			}
			for _, r := range retired {
				b.read("state/ledger/" + r.Name)
			}
		}
		return nil
	})
	if err != nil || merged == 0 || found.Listed != 3 {
		t.Fatalf("found %+v, merged %d, %v", found, merged, err)
	}
	retired := b.head().Retired
	b.clock.advance(readerGrace + time.Second)
	mustCommit(t, merger, Commit{Run: "6", Token: 6, Rows: EachRow(done("h"))})
	mustCommit(t, merger, Commit{Run: "7", Token: 7, Rows: EachRow(done("i"))})
	objects := b.objects()
	for _, r := range retired {
		if slices.Contains(objects, "state/ledger/"+r.Name) {
			t.Errorf("%s was retired at %v and is still there at %v", r.Name, r.Since, b.clock.now())
		}
	}
	wantRows(t, b.ledger, "a", "c", "d", "e", "f", "g", "h", "i")
}

func TestOrphansGoAndStrangersStay(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.mergeCount = 2
	orphan := "state/ledger/segments/000000000001-0000000000000001-00000000000000000000000000000000.seg"
	young := "state/ledger/segments/000000000001-0000000000000001-00000000000000000000000000000001.seg"
	stranger := "state/ledger/segments/notes.txt"
	b.overwrite(orphan, []byte("x"))
	b.overwrite(stranger, []byte("x"))
	commitMany(t, b.ledger, 0, 1)
	b.clock.advance(23 * time.Hour)
	b.overwrite(young, []byte("x"))
	commitMany(t, b.ledger, 1, 2)
	if !slices.Contains(b.objects(), orphan) {
		t.Error("a segment of 23 hours is gone; its commit may be at work")
	}
	b.clock.advance(2 * time.Hour)
	commitMany(t, b.ledger, 2, 4)
	objects := b.objects()
	if slices.Contains(objects, orphan) || !slices.Contains(objects, young) || !slices.Contains(objects, stranger) {
		t.Errorf("left are %q", objects)
	}
	if n := len(rowsOf(t, b.ledger)); n != 4 {
		t.Errorf("%d rows", n)
	}
}

func TestMergeThatComesSecondGivesUp(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.mergeCount = 3
	commitMany(t, b.ledger, 0, 2)
	heir := openLedger(t, b.state)
	raced := false
	b.state.Fault(func(op, key string) error { // during the merge of the third commit
		if op == "list" && !raced {
			raced = true
			mustCommit(t, heir, Commit{Run: "heir", Token: 50, Rows: EachRow(done("heir"))})
		}
		return nil
	}, nil)
	committed, err := b.ledger.Commit(t.Context(), Commit{Run: "2", Token: 3, Rows: EachRow(done("z"))})
	if err != nil || committed.MergeErr != nil || committed.Merged != 0 || !raced {
		t.Errorf("committed %+v, %v, raced %v", committed, err, raced)
	}
	if head := b.head(); len(head.Segments) != 4 || len(head.Retired) != 0 {
		t.Errorf("head %+v", head)
	}
	if n := len(rowsOf(t, b.ledger)); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}

func TestMergeOfSegmentsThatWereMergedOtherwiseGivesUp(t *testing.T) {
	b := newBench(t)
	commitMany(t, b.ledger, 0, 4)
	stale := b.head()
	if n, err := b.ledger.mergeRange(t.Context(), stale, 2, 4, 4); n != 2 || err != nil {
		t.Fatalf("merged %d, %v", n, err)
	}
	if n, err := b.ledger.mergeRange(t.Context(), stale, 0, 3, 4); n != 0 || err != nil {
		t.Errorf("merged %d of segments that are no longer together, %v", n, err)
	}
	if n := len(rowsOf(t, b.ledger)); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}

func TestFailedMergeLeavesTheCommitStanding(t *testing.T) {
	outage := errors.New("503")
	for name, fault := range map[string]struct{ before, after func(string, string) error }{
		"read":         {once("get", ".seg", 1, outage), nil},
		"write":        {once("put", ".seg", 2, outage), nil},
		"list":         {once("list", "", 1, outage), nil},
		"swap, lost":   {nil, once("put", "head.json", 2, errLost)},
		"swap, 409":    {once("put", "head.json", 2, errors.New("500")), nil},
		"read of head": {once("get", "head.json", 2, outage), nil},
	} {
		b := newBench(t)
		b.ledger.limits.mergeCount = 3
		commitMany(t, b.ledger, 0, 2)
		b.state.Fault(fault.before, fault.after)
		committed, err := b.ledger.Commit(t.Context(), Commit{Run: "2", Token: 3, Rows: EachRow(done("z"))})
		b.state.Fault(nil, nil)
		if err != nil || committed.Done != 1 {
			t.Errorf("%s: committed %+v, %v", name, committed, err)
		}
		if swap := strings.HasPrefix(name, "swap"); swap != (committed.MergeErr == nil) {
			t.Errorf("%s: merging ended with %v", name, committed.MergeErr)
		}
		if n := len(rowsOf(t, b.ledger)); n != 3 {
			t.Errorf("%s: %d rows, want 3", name, n)
		}
	}
}

func TestVerifyStopsAtAnOutage(t *testing.T) {
	b := newBench(t)
	commitMany(t, b.ledger, 0, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ledger.Verify(ctx); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want an error that is no damage", err)
	}
}
