package ledger

import (
	"fmt"
	"testing"
	"time"
)

// aged sets the times of files, as hours before the bench's clock.
func (b *bench) aged(hours map[string]int) {
	b.t.Helper()
	for key, h := range hours {
		b.source.SetLastModified(key, b.clock.now().Add(-time.Duration(h)*time.Hour))
	}
}

func (b *bench) wantOldest(what string, found Discovery, hours int) {
	b.t.Helper()
	want := time.Time{}
	if hours > 0 {
		want = b.clock.now().Add(-time.Duration(hours) * time.Hour)
	}
	if !found.Oldest.Equal(want) {
		b.t.Errorf("%s: the oldest is of %v, want %v", what, found.Oldest, want)
	}
}

func TestTheOldestFileCountsWhetherTakenOrLeft(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b", "c", "d")
	b.aged(map[string]int{"a": 1, "b": 4, "c": 2, "d": 9})
	// By key the oldest ones are left, and by age the younger ones.
	for _, sel := range []Selection{{}, {MaxFiles: 1}, {MaxFiles: 3}, {MaxFiles: 2, OldestFirst: true}, {MaxBytes: 1}} {
		found, _ := b.discover(sel)
		b.wantOldest(fmt.Sprintf("%+v", sel), found, 9)
	}
}

func TestOnlyWhatIsDueAndNotDoneIsOld(t *testing.T) {
	b := newBench(t)
	b.write("x", "done", "failed", "quarantined", "young", "excluded")
	b.aged(map[string]int{"done": 50, "failed": 3, "quarantined": 40, "excluded": 60})
	b.source.SetLastModified("young", b.clock.now())
	sel := Selection{Exclude: []string{"excluded"}, MinAge: time.Minute}
	found, taken := b.discover(sel)
	b.wantOldest("at first", found, 50)
	b.commitWith(Commit{MaxAttempts: 1}, taken, found.Upkeep, "quarantined")
	b.write("y", "failed") // a new version, so that the next failure is its first
	b.aged(map[string]int{"failed": 3})
	found, taken = b.discover(sel)
	b.wantOldest("a changed file", found, 3)
	b.commitWith(Commit{MaxAttempts: 2}, taken, found.Upkeep, "failed")
	found, _ = b.discover(sel)
	b.wantOldest("a file to be retried", found, 3)
	sel.Backoff = time.Hour
	found, _ = b.discover(sel)
	b.wantOldest("one that waits to be retried", found, 0)
	sel.Reprocess = true
	found, taken = b.discover(sel)
	if found.Reprocessed != 2 || len(taken) != 2 {
		t.Fatalf("took %q: %+v", keysOf(taken), found)
	}
	b.wantOldest("files that were processed before", found, 0)
}

// Spans are listed in parallel; the oldest file may be in any of them.
func TestTheOldestFileIsFoundInEverySpan(t *testing.T) {
	b := newBench(t)
	var keys []string
	for i := range 4000 {
		keys = append(keys, fmt.Sprintf("%04d", i))
	}
	b.ledger.limits.blockRows, b.ledger.limits.spanRows = 100, 400
	b.write("x", keys...)
	b.run(Selection{})
	for _, oldest := range []int{0, 1234, 3999} {
		changed := map[string]int{}
		for i := oldest % 400; i < len(keys); i += 400 {
			changed[keys[i]] = 5
		}
		changed[keys[oldest]] = 7
		for key := range changed {
			b.write(fmt.Sprint("y", oldest), key)
		}
		b.aged(changed)
		found, taken := b.discover(Selection{MaxFiles: 2})
		b.wantOldest(keys[oldest], found, 7)
		if len(taken) != 2 || found.Left != int64(len(changed)-2) {
			t.Errorf("took %d, left %d", len(taken), found.Left)
		}
		b.run(Selection{})
	}
}
