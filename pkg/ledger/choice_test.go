package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestOldestFirstTakesByAgeAndThenByKey(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b", "c", "d", "e")
	for key, hours := range map[string]int{"a": -1, "b": -3, "c": -2, "d": -3, "e": -4} {
		b.source.SetLastModified(key, b.clock.now().Add(time.Duration(hours)*time.Hour))
	}
	sel := Selection{OldestFirst: true, MaxFiles: 2}
	for _, want := range [][]string{{"e", "b"}, {"d", "c"}, {"a"}, {}} {
		wantKeys(t, "the oldest two", b.run(sel), want...)
	}
}

// The choice must be the same whether it keeps the first few of what it sees,
// sorts in memory, or sorts on disk.
func TestChoiceIsTheSameHoweverItIsMade(t *testing.T) {
	const files = sortChunk + 500
	for _, oldest := range []bool{false, true} {
		for _, limit := range []Selection{{}, {MaxFiles: 1}, {MaxFiles: 700, MaxBytes: 900}} {
			limit.OldestFirst = oldest
			var results [2][]string
			var counts [2]Discovery
			for i, held := range []int{0, 1000} { // everything sorted, or few held
				l := openLedger(t, bucket.NewMemory("state", nil))
				l.limits.heldFiles = held
				c := l.newChoice(t.Context(), limit, nil)
				r := rand.New(rand.NewPCG(1, 2))
				for _, n := range r.Perm(files) {
					at := time.Unix(int64(n*7919%100), int64(n%2)).UTC()
					if err := c.files.add(t.Context(), due{kind: New, Candidate: Candidate{
						File: File{Key: fmt.Sprintf("%06d", n), ETag: md5Tag(n), Size: int64(n % 4), LastModified: at}, Attempts: n % 3}}); err != nil {
						t.Fatal(err)
					}
				}
				err := c.each(&counts[i], func(d due) error {
					results[i] = append(results[i], fmt.Sprintf("%+v", d))
					return nil
				})
				c.files.close()
				if err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(results[0], results[1]) || counts[0].Left != counts[1].Left || counts[0].LeftBytes != counts[1].LeftBytes {
				t.Errorf("%+v: sorted took %d and left %d, held took %d and left %d", limit, len(results[0]), counts[0].Left, len(results[1]), counts[1].Left)
			}
			if n := int64(len(results[0])) + counts[0].Left; n != files || limit.MaxFiles > 0 && len(results[0]) > limit.MaxFiles {
				t.Errorf("%+v: took %d, left %d of %d", limit, len(results[0]), counts[0].Left, files)
			}
		}
	}
}

func TestErrorOfTheTakerEndsASortOnDisk(t *testing.T) {
	l := openLedger(t, bucket.NewMemory("state", nil))
	l.limits.heldFiles = 0
	src := &source{pageSize: 1000}
	for i := range sortChunk + 10 {
		src.keys = append(src.keys, fmt.Sprintf("%07d", i))
	}
	full := errors.New("the manifest is full")
	n := 0
	_, err := l.Discover(t.Context(), src, Selection{}, time.Time{}, func(Candidate) error {
		if n++; n == 3 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || n != 3 {
		t.Errorf("after %d files: %v", n, err)
	}
}

func TestFailedFileWaitsForItsBackoff(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b")
	sel := Selection{Backoff: time.Hour}
	b.run(sel, "a") // a fails, b is done
	for _, step := range []struct {
		advance time.Duration
		takes   []string
	}{
		{59 * time.Minute, nil}, {time.Minute, []string{"a"}}, // an hour after the first failure
		{time.Hour, nil}, {59 * time.Minute, nil}, {time.Minute, []string{"a"}}, // two after the second
	} {
		b.clock.advance(step.advance)
		found, taken := b.discover(sel)
		wantKeys(t, fmt.Sprint("after ", step.advance), keysOf(taken), step.takes...)
		if len(step.takes) == 0 {
			if found.Skipped[DeferBackoff] != 1 {
				t.Errorf("skipped %v, want one that backs off", found.Skipped)
			}
			continue
		}
		b.commitWith(Commit{MaxAttempts: 9}, taken, found.Upkeep, "a")
	}
	b.clock.advance(time.Minute)
	b.write("better", "a")
	wantKeys(t, "a new version starts afresh", b.run(sel), "a")
}

func TestBackoffDoublesUpToADay(t *testing.T) {
	s := newSelector(Selection{Backoff: 5 * time.Hour})
	for attempts, want := range []time.Duration{1: 5 * time.Hour, 2: 10 * time.Hour, 3: 20 * time.Hour, 4: 24 * time.Hour, 90: 24 * time.Hour} {
		if got := s.backoff(attempts); want > 0 && got != want {
			t.Errorf("after %d attempts: %v, want %v", attempts, got, want)
		}
	}
	week := newSelector(Selection{Backoff: 7 * 24 * time.Hour})
	if got := week.backoff(3); got != 7*24*time.Hour {
		t.Errorf("a longer one is kept: %v", got)
	}
}

func TestPlanTellsOfEveryFile(t *testing.T) {
	b := newBench(t)
	b.write("x", "in/bad", "in/done", "in/old", "in/poison", "in/waits")
	b.run(Selection{}, "in/bad", "in/poison")
	b.run(Selection{}, "in/bad", "in/poison")
	b.run(Selection{Exclude: []string{"**/bad"}}, "in/poison") // the third time
	b.write("y", "in/old", "in/new1", "in/new2", "in/no.tmp")
	b.write("", "in/")
	sel := Selection{Prefix: "in", Exclude: []string{"*.tmp"}, MaxFiles: 3}
	before := b.objects()
	var got []string
	tell := func(v Verdict) error {
		line := fmt.Sprintf("%s %s%s", v.Key, v.Kind, v.Reason)
		if v.Row != nil {
			line += fmt.Sprintf(" (%s, %d)", v.Row.Outcome, v.Row.Attempts)
		}
		got = append(got, line)
		return nil
	}
	found, err := b.ledger.Plan(t.Context(), b.source, sel, b.clock.now(), tell, tell)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{
		"in/ folderMarker", "in/bad retried", "in/done done (done, 0)", "in/new1 new", "in/new2 new",
		"in/no.tmp excluded", "in/old left", "in/poison quarantined (quarantined, 3)", "in/waits done (done, 0)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if found.Taken() != 3 || found.Left != 1 || !slices.Equal(b.objects(), before) {
		t.Errorf("found %+v", found)
	}
	got = nil
	if again, err := b.ledger.Plan(t.Context(), b.source, sel, b.clock.now(), tell, nil); err != nil || !reflect.DeepEqual(again, found) || len(got) != 4 {
		t.Errorf("without the skipped ones: %+v, %v; want %+v; told %q", again, err, found, got)
	}
	why := errors.New("the terminal is gone")
	for _, when := range []string{"in/done", "in/new1", "in/old"} {
		stop := func(v Verdict) error {
			if v.Key == when {
				return why
			}
			return nil
		}
		_, err := b.ledger.Plan(t.Context(), b.source, sel, b.clock.now(), stop, stop)
		if !errors.Is(err, why) {
			t.Errorf("an error at %s: got %v", when, err)
		}
	}
}
