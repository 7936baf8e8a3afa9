package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// source is a lister over keys in order, which counts what is asked of it.
type source struct {
	keys     []string // in order
	pageSize int
	delay    time.Duration                              // of a page; the tests run in bubbles, where it takes no time
	before   func(o bucket.ListOptions, page int) error // may be nil; an error ends the listing

	listings, pages atomic.Int64
}

func (s *source) List(_ context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	return func(yield func(bucket.Page, error) bool) {
		s.listings.Add(1)
		at, _ := slices.BinarySearch(s.keys, max(o.Prefix, o.StartAfter+"\x00"))
		for number := 1; ; number++ {
			s.pages.Add(1)
			time.Sleep(s.delay)
			if s.before != nil {
				if err := s.before(o, number); err != nil {
					yield(bucket.Page{}, err)
					return
				}
			}
			var p bucket.Page
			for len(p.Entries) < s.pageSize && at < len(s.keys) && strings.HasPrefix(s.keys[at], o.Prefix) {
				p.Entries = append(p.Entries, bucket.Entry{Key: s.keys[at], ETag: md5Tag(at), Size: 1})
				at++
			}
			p.Last = at == len(s.keys) || !strings.HasPrefix(s.keys[at], o.Prefix)
			if !yield(p, nil) || p.Last {
				return
			}
		}
	}
}

// keyKinds write key number i of n in the ways that people do.
var keyKinds = map[string]func(i, n int, r *rand.Rand) string{
	"by day": func(i, n int, _ *rand.Rand) string {
		return fmt.Sprintf("in/2026/%02d/%02d/events-%05d.csv.gz", i*12/n+1, i%28+1, i)
	},
	"counters": func(i, _ int, _ *rand.Rand) string { return fmt.Sprintf("in/%09d", i) },
	"times": func(i, _ int, _ *rand.Rand) string {
		return time.Unix(1769860800+int64(i)*37, 0).UTC().Format("in/20060102T150405.json")
	},
	"random": func(_, _ int, r *rand.Rand) string { return fmt.Sprintf("in/%016x-%08x", r.Uint64(), r.Uint32()) },
	"unicode": func(i, _ int, r *rand.Rand) string {
		return "in/" + string([]rune{'本' + rune(r.IntN(400)), 'é', '😀' + rune(r.IntN(40))}) + fmt.Sprint(i)
	},
	"few heads": func(i, n int, _ *rand.Rand) string {
		return fmt.Sprintf("in/%s/%06d", []string{"a", "b", "zzz"}[i*3/n], i)
	},
	"odd": func(i, _ int, r *rand.Rand) string { return fmt.Sprintf("in/ \t%c#?%%+&/%d", rune(1+r.IntN(250)), i) },
}

// TestParallelListingsFindWhatOneFinds holds discoveries of many listings that
// take over each other's spans against one listing from end to end, and against
// what was put there.
func TestParallelListingsFindWhatOneFinds(t *testing.T) {
	for name, key := range keyKinds {
		for _, known := range []int{0, 10, 90} { // percent of the keys that the ledger has
			t.Run(fmt.Sprintf("%s, %d%% known", name, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testParallel(t, name, key, known) })
			})
		}
	}
}

func testParallel(t *testing.T, kind string, key func(int, int, *rand.Rand) string, known int) {
	const files = 600
	r := rand.New(rand.NewPCG(uint64(known), uint64(len(t.Name()))))
	src := &source{keys: []string{"a", "in", "in2/x", "z"}, pageSize: 3, delay: 50 * time.Millisecond}
	for i := range files {
		src.keys = append(src.keys, key(i, files, r))
	}
	slices.Sort(src.keys)
	src.keys = slices.Compact(src.keys)
	l := openLedger(t, bucket.NewMemory("state", nil))
	l.limits.blockRows, l.limits.wholeBytes, l.limits.spanRows, l.limits.splitFrom, l.limits.splitAfter = 4, 300, 40, 1, 1
	var want []string
	gone := []string{}
	var token int64
	for range 3 { // three segments that overlap
		token++
		var rows []Row
		for i, k := range src.keys {
			switch {
			case i%3+1 != int(token):
			case r.IntN(100) >= known:
				if strings.HasPrefix(k, "in/") {
					want = append(want, k)
				}
			default:
				rows = append(rows, Row{Key: k, ETag: md5Tag(i), Size: 1, Outcome: Done})
				if r.IntN(4) == 0 {
					gone = append(gone, k+".gone")
					rows = append(rows, Row{Key: k + ".gone", Outcome: Done})
				}
			}
		}
		mustCommit(t, l, Commit{Run: fmt.Sprint(token), Token: token, Rows: EachRow(rows)})
	}
	slices.Sort(want)
	gone = slices.DeleteFunc(gone, func(k string) bool { return !strings.HasPrefix(k, "in/") })
	slices.Sort(gone)
	discover := func(listings int) (Discovery, time.Duration) {
		l.limits.listings = listings
		start := time.Now()
		found, taken, err := discoverAll(t.Context(), l, src, Selection{Prefix: "in"}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		wantKeys(t, fmt.Sprint(listings, " listings"), keysOf(taken), want...)
		if !slices.Equal(append([]string{}, found.Upkeep.Gone...), gone) {
			t.Errorf("%d listings: gone %q, want %q", listings, found.Upkeep.Gone, gone)
		}
		return found, time.Since(start)
	}
	one, long := discover(1)
	sequential := src.pages.Load()
	for range 5 {
		src.listings.Store(0)
		src.pages.Store(0)
		many, short := discover(8)
		if !reflect.DeepEqual(many, one) {
			t.Errorf("8 listings found\n%+v\none found\n%+v", many, one)
		}
		// Characters that no key before showed are found one after the other.
		if varied := slices.Contains([]string{"unicode", "odd"}, kind); !varied && short > long/2 || short > long {
			t.Errorf("8 listings took %v, one %v", short, long)
		}
		if n := src.listings.Load(); n < 8 {
			t.Errorf("only %d listings", n)
		}
		if n := src.pages.Load(); n > 3*sequential {
			t.Errorf("%d pages, where one listing needs %d", n, sequential)
		}
	}
}

func TestFaultOfOneSpanEndsTheDiscovery(t *testing.T) {
	broken := errors.New("500 from one of the servers")
	for page := 1; page <= 3; page++ {
		synctest.Test(t, func(t *testing.T) {
			l := openLedger(t, bucket.NewMemory("state", nil))
			l.limits.splitFrom, l.limits.splitAfter = 4, 4
			src := &source{pageSize: 2, delay: 50 * time.Millisecond, before: func(o bucket.ListOptions, number int) error {
				if number == page && o.StartAfter > "in/0000050" {
					return broken
				}
				return nil
			}}
			for i := range 1000 {
				src.keys = append(src.keys, fmt.Sprintf("in/%07d", i))
			}
			_, taken, err := discoverAll(t.Context(), l, src, Selection{}, time.Time{})
			if !errors.Is(err, broken) || len(taken) > 0 {
				t.Errorf("page %d: took %d files, %v", page, len(taken), err)
			}
		})
	}
}

// What is short is not split: each half costs a page that is partly in vain.
func TestShortListingIsOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, bucket.NewMemory("state", nil))
		src := &source{pageSize: 10, delay: 50 * time.Millisecond}
		for i := range 80 {
			src.keys = append(src.keys, fmt.Sprintf("in/%07d", i))
		}
		if _, _, err := discoverAll(t.Context(), l, src, Selection{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if src.listings.Load() != 1 || src.pages.Load() != 8 {
			t.Errorf("%d listings with %d pages", src.listings.Load(), src.pages.Load())
		}
	})
}

func TestSlowDownIsWaitedForAndListedOn(t *testing.T) {
	l := openLedger(t, bucket.NewMemory("state", nil))
	var waits atomic.Int64
	l.wait = func(ctx context.Context, _ int) error { waits.Add(1); return context.Cause(ctx) }
	var mu sync.Mutex
	refused := 0
	src := &source{pageSize: 2, before: func(o bucket.ListOptions, number int) error {
		mu.Lock()
		defer mu.Unlock()
		if refused < 30 && number%2 == 0 { // every listing gets one page on, then is refused
			refused++
			return fmt.Errorf("list: %w", bucket.ErrSlowDown)
		}
		return nil
	}}
	for i := range 300 {
		src.keys = append(src.keys, fmt.Sprintf("in/%07d", i))
	}
	_, taken, err := discoverAll(t.Context(), l, src, Selection{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "in spite of it", keysOf(taken), src.keys...)
	if waits.Load() != 30 {
		t.Errorf("waited %d times for 30 refusals", waits.Load())
	}
}

// A ledger that cannot be read says so, however it was refused: going on
// without a row would hand out what is done.
func TestSlowDownOfTheLedgerIsNotGoneOnFrom(t *testing.T) {
	b, keys := manyBlocks(t)
	b.ledger.limits.spanRows = 1 << 40
	src := &source{keys: keys, pageSize: 20}
	for n := 1; ; n++ {
		refused := false
		b.state.Fault(func(op, key string) error {
			if n--; op == "get" && n == 0 {
				refused = true
				return bucket.ErrSlowDown
			}
			return nil
		}, nil)
		reads := n
		_, taken, err := discoverAll(t.Context(), b.ledger, src, Selection{}, time.Time{})
		if !refused {
			break
		}
		if !errors.Is(err, bucket.ErrSlowDown) || len(taken) > 0 {
			t.Errorf("read %d refused: took %d files, %v", reads, len(taken), err)
		}
		n = reads
	}
}

func TestServerThatOnlySaysSlowDownEndsTheDiscovery(t *testing.T) {
	l := openLedger(t, bucket.NewMemory("state", nil))
	src := &source{pageSize: 2, before: func(bucket.ListOptions, int) error { return bucket.ErrSlowDown }}
	if _, _, err := discoverAll(t.Context(), l, src, Selection{}, time.Time{}); !errors.Is(err, bucket.ErrSlowDown) {
		t.Errorf("got %v", err)
	}
	if n := src.listings.Load(); n != int64(l.limits.attempts)+1 {
		t.Errorf("%d tries", n)
	}
}

func TestPaceHalvesOnceForEachWarningAndRecovers(t *testing.T) {
	p := newPace(8)
	ask := func() int {
		ticket, err := p.ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	var tickets []int
	for range 8 {
		tickets = append(tickets, ask())
	}
	for _, ticket := range tickets { // all were on their way when the server had enough
		p.answered(ticket, true)
	}
	if p.allow != 4 {
		t.Errorf("8 answers of one burst leave %d, want 4", p.allow)
	}
	for range 6 {
		p.answered(ask(), true)
	}
	if p.allow != 1 {
		t.Errorf("further warnings leave %d, want 1", p.allow)
	}
	for want := 2; want <= 8; want++ {
		for range want - 1 {
			p.answered(ask(), false)
		}
		if p.allow != want {
			t.Errorf("%d calm pages leave %d, want %d", want-1, p.allow, want)
		}
	}
	for range 20 {
		p.answered(ask(), false)
	}
	if p.allow != 8 {
		t.Errorf("it grew to %d, over its most", p.allow)
	}
}

func TestPaceLetsNobodyInBeyondItsBound(t *testing.T) {
	p := newPace(1)
	ticket, err := p.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := p.ask(ctx); !errors.Is(err, why) {
		t.Errorf("a second one got %v", err)
	}
	p.answered(ticket, false)
	if _, err := p.ask(t.Context()); err != nil {
		t.Error(err)
	}
}

func FuzzCutLiesBetween(f *testing.F) {
	f.Add("in/a", "in/b", "in/", "abc0123456789/")
	f.Add("in/2026/01/02/x", "", "in/", "0123456789/x")
	f.Add("in/本", "in/é", "", "本é")
	f.Fuzz(func(t *testing.T, after, upTo, prefix, letters string) {
		var a alphabet
		a.learn(letters)
		a.learn(after)
		cut, ok := a.between(after, upTo, prefix)
		if ok && (cut <= after || upTo != "" && cut >= upTo) {
			t.Errorf("between(%q, %q) = %q", after, upTo, cut)
		}
		if ok && upTo == "" && !strings.HasPrefix(cut, prefix) {
			t.Errorf("between(%q, end of %q) = %q", after, prefix, cut)
		}
	})
}

// Few cuts must do to find where the keys are, however long their common start.
func TestCutsFindTheKeys(t *testing.T) {
	for name, key := range keyKinds {
		const files = 20_000
		r := rand.New(rand.NewPCG(7, 7))
		keys := make([]string, files)
		for i := range keys {
			keys[i] = key(i, files, r)
		}
		slices.Sort(keys)
		var a alphabet
		for i := range 200 { // what two pages of a hundred tell
			a.learn(strings.TrimPrefix(keys[i], "in/"))
		}
		at, upTo, tries := keys[200], "", 0
		for ; tries < 200; tries++ {
			cut, ok := a.between(at, upTo, "in/")
			if !ok {
				t.Errorf("%s: no cut between %q and %q", name, at, upTo)
				break
			}
			if n, _ := slices.BinarySearch(keys, cut); n < files*9/10 {
				break // a tenth or more is beyond
			}
			upTo = cut
		}
		t.Logf("%s: %d cuts", name, tries)
		if tries > 60 {
			t.Errorf("%s: %d cuts, and still no tenth of the keys is beyond", name, tries)
		}
	}
}
