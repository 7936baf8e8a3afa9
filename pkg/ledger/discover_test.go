package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestThreeFilesOfOneSecondAreTakenOverThreeRuns(t *testing.T) { // case 19
	b := newBench(t)
	b.write("x", "in/a", "in/b", "in/c")
	for _, want := range []string{"in/a", "in/b", "in/c"} {
		wantKeys(t, "limit 1", b.run(Selection{MaxFiles: 1}), want)
	}
	wantKeys(t, "afterwards", b.run(Selection{MaxFiles: 1}))
}

func TestUploadWithAnOlderLastModifiedIsTaken(t *testing.T) { // case 20
	b := newBench(t)
	b.write("x", "in/b")
	b.run(Selection{})
	b.write("big", "in/a", "in/c")
	b.source.SetLastModified("in/a", b.clock.now().Add(-72*time.Hour))
	b.source.SetLastModified("in/c", b.clock.now().Add(-72*time.Hour))
	wantKeys(t, "older than what is done", b.run(Selection{}), "in/a", "in/c")
}

func TestLastModifiedIsNotPartOfTheVersion(t *testing.T) { // case 21
	b := newBench(t)
	b.write("x", "in/a")
	b.run(Selection{})
	for _, shift := range []time.Duration{time.Millisecond, -time.Hour, 1000 * time.Hour} {
		b.source.SetLastModified("in/a", b.clock.now().Add(shift))
		wantKeys(t, fmt.Sprint("time moved by ", shift), b.run(Selection{}))
	}
}

func TestVersionIsETagAndSize(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow([]Row{{Key: "a", ETag: `"e"`, Size: 1, Outcome: Done}})})
	for _, tc := range []struct {
		etag string
		size int64
		skip int64
	}{{`"e"`, 1, 1}, {`"e"`, 2, 0}, {`"f"`, 1, 0}, {`e`, 1, 0}} {
		src := listing{pages: []bucket.Page{{Last: true, Entries: []bucket.Entry{{Key: "a", ETag: tc.etag, Size: tc.size}}}}}
		found, _, err := discoverAll(t.Context(), b.ledger, src, Selection{}, time.Time{})
		if err != nil || found.Skipped[SkipDone] != tc.skip || found.Changed != 1-tc.skip {
			t.Errorf("ETag %s, size %d: found %+v, %v", tc.etag, tc.size, found, err)
		}
	}
}

func TestKeyThatNoManifestCanCarryIsSkippedAndCounted(t *testing.T) {
	b := newBench(t)
	found, taken, err := discoverAll(t.Context(), b.ledger, listing{pages: []bucket.Page{page(true, "a", "b\xff", "c")}}, Selection{}, time.Time{})
	if err != nil || found.Skipped[SkipKey] != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	wantKeys(t, "not UTF-8", keysOf(taken), "a", "c")
}

func TestEmptyRunMovesNothingBackwards(t *testing.T) { // case 22
	b := newBench(t)
	wantKeys(t, "nothing there at all", b.run(Selection{}))
	b.write("x", "in/a")
	b.run(Selection{})
	wantKeys(t, "nothing new", b.run(Selection{}))
	if head := b.head(); head.Token != 3 || len(head.Segments) != 1 || len(head.Commits) != 3 {
		t.Errorf("after two empty runs the head is %+v", head)
	}
	wantKeys(t, "nothing new still", b.run(Selection{}))
}

func TestUnusualKeysComeBackExactly(t *testing.T) { // case 23
	keys := []string{"\x01", "/leading", "a #?%+&.csv", "a b", "a%2Fb", "a+b", "a//b", "a\nb\t\r", "dot.", "in/😀.csv", "ü", "\u2028", "😀"}
	slices.Sort(keys)
	b := newBench(t)
	b.write("x", keys...)
	wantKeys(t, "first", b.run(Selection{}), keys...)
	wantKeys(t, "second", b.run(Selection{}))
	for i, row := range rowsOf(t, b.ledger) {
		if row.Key != keys[i] {
			t.Errorf("row %d has key %q, want %q", i, row.Key, keys[i])
		}
	}
}

func TestPrefixIsAPathPrefix(t *testing.T) { // case 24
	for _, tc := range []struct {
		prefix  string
		include []string
		want    []string
	}{
		{"files", nil, []string{"files/a", "files/b/c"}},
		{"files/", nil, []string{"files/a", "files/b/c"}},
		{"file", nil, nil},
		{"files/b", nil, []string{"files/b/c"}},
		{"", nil, []string{"files", "files/a", "files/b/c", "files2/a"}},
		{"", []string{"files*/**"}, []string{"files/a", "files/b/c", "files2/a"}}, // the way to a raw prefix
	} {
		b := newBench(t)
		b.write("x", "files", "files/a", "files/b/c", "files2/a")
		_, taken := b.discover(Selection{Prefix: tc.prefix, Include: tc.include})
		wantKeys(t, fmt.Sprintf("prefix %q, include %q", tc.prefix, tc.include), keysOf(taken), tc.want...)
	}
}

func TestStateInsideTheSourceIsNeverInput(t *testing.T) { // case 25
	b := newBench(t)
	b.write("x", "in/a", "in/state/head.json", "in/stately")
	found, taken := b.discover(Selection{Prefix: "in", ExcludePrefixes: []string{"in/state"}})
	wantKeys(t, "with the state excluded", keysOf(taken), "in/a", "in/stately")
	if found.Skipped[SkipExcludedPrefix] != 1 {
		t.Errorf("skipped %v, want one below the excluded prefix", found.Skipped)
	}
	var wrong *SelectionError
	_, _, err := discoverAll(t.Context(), b.ledger, b.source, Selection{Prefix: "in/state/x", ExcludePrefixes: []string{"in/state"}}, b.clock.now())
	if !errors.As(err, &wrong) || wrong.Field != "ExcludePrefixes[0]" {
		t.Errorf("a source inside the state: got %v", err)
	}
}

func TestFolderMarkersAreSkippedAndOtherEmptyFilesTaken(t *testing.T) { // case 26
	b := newBench(t)
	b.write("", "in/", "in/empty.csv", "in/sub/")
	b.write("x", "in/strange/")
	found, taken := b.discover(Selection{Prefix: "in"})
	wantKeys(t, "markers", keysOf(taken), "in/empty.csv", "in/strange/")
	if found.Skipped[SkipFolderMarker] != 2 {
		t.Errorf("skipped %v, want two markers", found.Skipped)
	}
}

func TestFileOverwrittenWhileBeingReadIsTakenAgain(t *testing.T) { // case 27
	b := newBench(t)
	b.write("old", "in/a", "in/b")
	found, taken := b.discover(Selection{})
	b.write("new", "in/a") // reading it met 412: no outcome is committed
	b.commit(taken[1:], found.Upkeep)
	_, taken = b.discover(Selection{})
	if len(taken) != 1 || taken[0].Key != "in/a" || taken[0].Attempts != 0 {
		t.Errorf("took %+v, want in/a with no attempt counted", taken)
	}
}

func TestNewVersionStartsAtZero(t *testing.T) { // case 28
	b := newBench(t)
	expect := func(attempts int) {
		t.Helper()
		if _, taken := b.discover(Selection{}); len(taken) != 1 || taken[0].Attempts != attempts {
			t.Errorf("took %+v, want one file with %d attempts", taken, attempts)
		}
	}
	b.write("one", "in/a")
	b.run(Selection{}, "in/a")
	b.run(Selection{}, "in/a")
	expect(2)
	b.run(Selection{})
	if row := b.row("in/a"); row.Outcome != Done || row.Attempts != 0 {
		t.Errorf("after success: %+v", row)
	}
	b.write("two", "in/a")
	expect(0)
	b.run(Selection{}, "in/a")
	expect(1)
	b.write("three", "in/a")
	expect(0)
}

func TestCutListingGivesNothing(t *testing.T) { // case 30
	b := newBench(t)
	b.write("x", "in/a")
	b.run(Selection{})
	cut := listing{err: errors.New("page 7: 503 SlowDown")}
	for i := range 6 {
		cut.pages = append(cut.pages, page(false, fmt.Sprintf("in/b%d", i)))
	}
	found, _, err := discoverAll(t.Context(), b.ledger, cut, Selection{}, b.clock.now())
	if !errors.Is(err, cut.err) {
		t.Errorf("got %v, want the listing's error", err)
	}
	if found.Listed != 0 || found.Upkeep.Gone != nil {
		t.Errorf("a listing that broke off concluded %+v", found)
	}
}

func TestListingThatBreaksItsRulesIsAnError(t *testing.T) {
	for name, src := range map[string]listing{
		"no page at all":     {},
		"no last page":       {pages: []bucket.Page{page(false, "in/a"), page(false, "in/b")}},
		"key twice":          {pages: []bucket.Page{page(true, "in/a", "in/a")}},
		"key on two pages":   {pages: []bucket.Page{page(false, "in/a"), page(true, "in/a")}},
		"out of order":       {pages: []bucket.Page{page(true, "in/b", "in/a")}},
		"pages out of order": {pages: []bucket.Page{page(false, "in/b"), page(true, "in/a")}},
		"another prefix":     {pages: []bucket.Page{page(true, "in/a", "out/a")}},
		"no key":             {pages: []bucket.Page{page(true, "")}},
	} {
		b := newBench(t)
		if _, _, err := discoverAll(t.Context(), b.ledger, src, Selection{Prefix: "in"}, b.clock.now()); !errors.Is(err, bucket.ErrListing) {
			t.Errorf("%s: got %v, want ErrListing", name, err)
		}
	}
}

func TestNothingListedIsNothingTaken(t *testing.T) { // case 36
	b := newBench(t)
	found, taken := b.discover(Selection{})
	if found.Taken() != 0 || len(taken) != 0 || found.Skipped == nil {
		t.Errorf("found %+v", found)
	}
}

func TestDiscoverySaysWhatBecameOfEveryFile(t *testing.T) {
	b := newBench(t)
	b.write("v1", "in/changed", "in/done", "in/failed", "in/gone", "in/poison")
	b.run(Selection{}, "in/failed", "in/poison")
	poison := func() []Candidate {
		var only []Candidate
		_, taken := b.discover(Selection{})
		for _, c := range taken {
			if c.Key == "in/poison" {
				only = append(only, c)
			}
		}
		return only
	}
	b.commit(poison(), Upkeep{}, "in/poison")
	b.commit(poison(), Upkeep{}, "in/poison")

	b.write("v2", "in/changed")
	if err := b.source.Delete(t.Context(), "in/gone"); err != nil {
		t.Fatal(err)
	}
	b.write("content", "in/archived", "in/archived-ir", "in/new", "in/no.tmp", "in/old", "in/state/x", "in/young", "in/z1", "in/z2")
	b.write("a rather long content", "in/large")
	b.write("", "in/", "in/small")
	b.source.SetStorageClass("in/archived", "DEEP_ARCHIVE")
	b.source.SetStorageClass("in/done", "GLACIER") // archived after it was processed
	b.source.SetStorageClass("in/archived-ir", "GLACIER_IR")
	for _, key := range []string{"in/old", "in/young"} {
		b.source.SetLastModified(key, map[string]time.Time{"in/old": b.clock.now().Add(-48 * time.Hour), "in/young": b.clock.now().Add(59 * time.Minute)}[key])
	}
	b.clock.advance(time.Hour)
	b.write("v2", "late/not-listed")

	found, taken := b.discover(Selection{
		Prefix: "in", Include: []string{"*", "state/**"}, Exclude: []string{"*.tmp"}, ExcludePrefixes: []string{"in/state/"},
		MinSize: 1, MaxSize: 10, Since: b.clock.now().Add(-24 * time.Hour), MinAge: 30 * time.Minute, MaxFiles: 4,
	})
	wantKeys(t, "all at once", keysOf(taken), "in/archived-ir", "in/changed", "in/failed", "in/new")
	want := map[Reason]int64{
		SkipFolderMarker: 1, SkipExcludedPrefix: 1, SkipExcluded: 1, SkipTooSmall: 1, SkipTooLarge: 1, SkipBeforeSince: 1,
		SkipDone: 1, SkipQuarantined: 1, DeferArchived: 1, DeferTooYoung: 1,
	}
	if fmt.Sprint(found.Skipped) != fmt.Sprint(want) {
		t.Errorf("skipped %v\nwant    %v", found.Skipped, want)
	}
	if found.New != 2 || found.Changed != 1 || found.Retried != 1 || found.Left != 2 || found.LeftBytes != 14 || found.Bytes != 7+2+2+7 {
		t.Errorf("found %+v", found)
	}
	if found.Gone != 1 || len(found.Upkeep.Gone) != 1 || found.Upkeep.Gone[0] != "in/gone" {
		t.Errorf("gone: %d, %q", found.Gone, found.Upkeep.Gone)
	}
	wantBalance(t, found)
}

func wantBalance(t *testing.T, d Discovery) {
	t.Helper()
	sum := d.Taken() + d.Left
	for _, n := range d.Skipped {
		sum += n
	}
	if sum != d.Listed {
		t.Errorf("of %d listed files %d are accounted for: %+v", d.Listed, sum, d)
	}
}

func TestLimitsEndTheTakingInKeyOrder(t *testing.T) {
	for _, tc := range []struct {
		sel  Selection
		want []string
	}{
		{Selection{MaxFiles: 2}, []string{"a5", "b3"}},
		{Selection{MaxBytes: 8}, []string{"a5", "b3"}},
		{Selection{MaxBytes: 7}, []string{"a5"}}, // c1 would fit, but order holds
		{Selection{MaxBytes: 2}, []string{"a5"}}, // or it would never be taken
		{Selection{MaxBytes: 9, MaxFiles: 3}, []string{"a5", "b3", "c1"}},
		{Selection{MaxBytes: 100}, []string{"a5", "b3", "c1", "d9"}},
	} {
		b := newBench(t)
		for key, n := range map[string]int{"a5": 5, "b3": 3, "c1": 1, "d9": 9} {
			b.write(strings.Repeat("x", n), key)
		}
		found, taken := b.discover(tc.sel)
		wantKeys(t, fmt.Sprintf("%+v", tc.sel), keysOf(taken), tc.want...)
		wantBalance(t, found)
	}
}

func TestReprocessTakesDoneAndQuarantinedFromZero(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b")
	for range 3 {
		b.run(Selection{}, "b")
	}
	if row := b.row("b"); row.Outcome != Quarantined {
		t.Fatalf("b is %+v", row)
	}
	found, taken := b.discover(Selection{Reprocess: true})
	wantKeys(t, "reprocess", keysOf(taken), "a", "b")
	if found.Reprocessed != 2 || taken[1].Attempts != 0 {
		t.Errorf("found %+v, took %+v", found, taken)
	}
}

func TestTakesErrorEndsTheDiscovery(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b")
	full := errors.New("the manifest is full")
	_, err := b.ledger.Discover(t.Context(), b.source, Selection{}, b.clock.now(), func(c Candidate) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

func TestCancelledDiscoveryIsAnError(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.ledger.Discover(ctx, listing{pages: []bucket.Page{page(true, "a")}}, Selection{}, b.clock.now(), func(Candidate) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRowsOutsideThePrefixAreNotGone(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.blockRows = 1
	b.write("x", "a/1", "b/1", "b/2", "b0", "c/1")
	b.run(Selection{})
	for _, prefix := range []string{"a", "b", "c", "d", "b/2"} {
		found, _ := b.discover(Selection{Prefix: prefix})
		if found.Gone != 0 {
			t.Errorf("prefix %q: %d gone: %q", prefix, found.Gone, found.Upkeep.Gone)
		}
	}
	if err := b.source.Delete(t.Context(), "b/1"); err != nil {
		t.Fatal(err)
	}
	if found, _ := b.discover(Selection{Prefix: "b"}); found.Gone != 1 || found.Upkeep.Gone[0] != "b/1" {
		t.Errorf("found %+v", found)
	}
}

func TestKeysAreForgottenOnlyOnceGone(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.gone = 2
	b.write("x", "a", "b", "c", "d")
	b.run(Selection{})
	for _, key := range []string{"a", "b", "c"} {
		if err := b.source.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	b.run(Selection{})
	wantRows(t, b.ledger, "c", "d") // two a run
	b.run(Selection{})
	wantRows(t, b.ledger, "d")
	b.write("x", "a") // the same content again is a new file
	wantKeys(t, "came back", b.run(Selection{}), "a")
}

func wantRows(t *testing.T, l *Ledger, keys ...string) {
	t.Helper()
	var got []string
	for _, row := range rowsOf(t, l) {
		got = append(got, row.Key)
	}
	if fmt.Sprint(got) != fmt.Sprint(keys) {
		t.Errorf("the ledger has %q, want %q", got, keys)
	}
}

func TestRestoredCopyOfAnArchivedFileIsTaken(t *testing.T) {
	l := openLedger(t, bucket.NewMemory("state", nil))
	p := page(true, "a", "b", "c")
	p.Entries[0].StorageClass = "DEEP_ARCHIVE"
	p.Entries[1].StorageClass, p.Entries[1].Restored = "DEEP_ARCHIVE", true
	found, taken, err := discoverAll(t.Context(), l, listing{pages: []bucket.Page{p}}, Selection{}, time.Time{})
	if err != nil || found.Skipped[DeferArchived] != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	wantKeys(t, "readable", keysOf(taken), "b", "c")
}
