package scale

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

const (
	// measured is from how many files on time and memory are held to bounds.
	measured = 1_000_000

	maxPeak     = 256 << 20
	maxCPU      = 1.25 // times that of the SDK's bare loop
	minSpeedup  = 8.0
	maxRowBytes = 25.0
	maxMerge    = 33 << 20 // a merge, and the commit that led to it

	atOnce    = 16   // pages that a discovery asks for at a time
	fresh     = 1000 // files that a discovery has to find
	buildRuns = 20   // commits that the ledger is built by
	slowPage  = 50 * time.Millisecond
)

// bench is one run over one source and its ledger.
type bench struct {
	table
	season
	whole       *testing.T // of which table.T is a part
	endpoint    string
	known       orders // what all orders have in common
	ledgerBytes int64
	written     int64 // bytes of segments, all in all
}

func TestScale(t *testing.T) {
	b := &bench{table: table{T: t}, whole: t, season: newSeason(*scale, fresh), endpoint: startServers(t)}
	b.known = orders{Endpoint: b.endpoint, Ledger: "ledger", Known: *scale, Fresh: fresh}
	defer b.print()
	b.buildLedger()
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"discovery", b.discoverAmongKnown},
		{"slow pages", b.discoverSlowPages},
		{"throttled", b.discoverThrottled},
		{"first run", b.discoverFirst},
		{"commits", b.commitToKnown},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.T = t
			defer func() { b.T = b.whole }()
			part.do()
		})
	}
}

// measures tells whether time and memory are held to their bounds.
func measures() bool { return *scale >= measured }

// pageKeys is how many keys a page has: a thousand as S3's, or fewer, so that
// few files are many pages.
func pageKeys() int {
	if measures() {
		return 1000
	}
	return 100
}

// pages is how many a listing has.
func (b *bench) pages() int64 { return int64((b.files.count + pageKeys() - 1) / pageKeys()) }

// mostPages is how many a discovery may ask for: where spans meet, parts of
// pages are read twice, and looking for where keys are takes a request each.
func (b *bench) mostPages() int64 { return b.pages()*11/10 + 200 }

// orders are the common ones with some changes.
func (b *bench) orders(do string, change func(*orders)) orders {
	o := b.known
	o.Do = do
	if change != nil {
		change(&o)
	}
	return o
}

// tally is what the servers were asked since the last tally.
func (b *bench) tally() tally {
	b.Helper()
	t, err := readTally(b.Context(), b.endpoint)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func (b *bench) buildLedger() {
	r := run(b.T, "build the ledger", b.orders("build", func(o *orders) { o.Commits = buildRuns }))
	head := b.head(b.known)
	b.ledgerBytes = size(head)
	b.written = b.tally().State["PUT segment"].In
	if head.Rows() != int64(*scale) {
		b.Fatalf("the ledger has %d rows, want %d", head.Rows(), *scale)
	}
	perRow := float64(b.ledgerBytes) / float64(head.Rows())
	b.note("rows in the ledger", "%s", count(head.Rows()))
	b.note("its segments, all of which overlap", "%d", len(head.Segments))
	b.note("its size", "%s", megabytes(b.ledgerBytes))
	b.hold(perRow <= maxRowBytes, "bytes a row", "25", "%.2f", perRow)
	b.note("CPU to build it, a row", "%.2f µs", float64(r.CPU.Microseconds())/float64(*scale))
}

func (b *bench) head(o orders) ledger.Head {
	b.Helper()
	books, err := openLedger(o)
	if err != nil {
		b.Fatal(err)
	}
	head, err := books.Head(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return head
}

// discoverAmongKnown compares a discovery with bare listings where pages take
// no time, so that what is left is work.
func (b *bench) discoverAmongKnown() {
	source := b.bucketOf(pageKeys(), 0, 0)
	sdk := b.list("list by the SDK", source, true)
	own := b.list("list", source, false)
	b.tally()
	found := run(b.T, "discover", b.orders("discover", func(o *orders) { o.Source = source }))
	b.found(found)
	asked := b.tally()
	pages := asked.Listings[source].Pages
	b.hold(pages <= b.mostPages(), "pages asked for", "a tenth and 200 more than there are", "%s of %s", count(pages), count(b.pages()))
	b.hold(asked.Listings[source].AtOnce <= atOnce, "pages at a time", "16", "%d", asked.Listings[source].AtOnce)
	b.note("requests to the ledger", "%s", count(asked.requests()))
	b.hold(asked.received() <= b.ledgerBytes*2+(32<<20), "bytes read of the ledger", "2 × its size + 32 MiB", "%s, %.2f × its size", megabytes(asked.received()), float64(asked.received())/float64(b.ledgerBytes))
	b.note("CPU of a bare listing by the SDK, a file", "%.2f µs", perFile(sdk.CPU, b.files.count))
	b.note("CPU of a bare listing by our client, a file", "%.2f µs", perFile(own.CPU, b.files.count))
	b.note("CPU of the discovery, a file", "%.2f µs", perFile(found.CPU, b.files.count))
	ratio := found.CPU.Seconds() / sdk.CPU.Seconds()
	b.limit(ratio <= maxCPU, "CPU of the discovery over the SDK's bare listing", "1.25", "%.2f", ratio)
	b.note("CPU of the discovery over our client's", "%.2f", found.CPU.Seconds()/own.CPU.Seconds())
	b.note("peak memory of the bare listings", "%s, %s", megabytes(sdk.Peak), megabytes(own.Peak))
	b.limit(found.Peak < maxPeak, "peak memory of the discovery", "256 MiB", "%s", megabytes(found.Peak))
}

// list lists everything, and does nothing with it.
func (b *bench) list(name, source string, sdk bool) report {
	b.Helper()
	r := run(b.T, name, b.orders("list", func(o *orders) { o.Source, o.SDK = source, sdk }))
	if r.Listed != int64(b.files.count) {
		b.Fatalf("listed %d files of %d", r.Listed, b.files.count)
	}
	return r
}

// found holds a discovery to what it must find.
func (b *bench) found(r report) {
	b.Helper()
	if want := b.freshKeys(); !slices.Equal(r.Keys, want) {
		b.Fatalf("took %d files, want %d: %.10q, want %.10q", len(r.Keys), len(want), r.Keys, want)
	}
	f := r.Found
	if f.Listed != int64(b.files.count) || f.New != fresh || f.Skipped[ledger.SkipDone] != int64(*scale) || f.Gone != 0 || f.Left != 0 {
		b.Fatalf("found %+v", f)
	}
}

func perFile(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }

// discoverSlowPages is what discovery in ranges is for: pages take their time.
func (b *bench) discoverSlowPages() {
	if !measures() {
		b.Skip("shows nothing but time")
	}
	source := b.bucketOf(pageKeys(), slowPage, 0)
	part := b.pages()
	if !*whole {
		part = (b.pages() + 9) / 10
	}
	sequential := run(b.T, "list slow pages", b.orders("list", func(o *orders) { o.Source, o.Pages = source, int(part) }))
	b.tally()
	found := run(b.T, "discover slow pages", b.orders("discover", func(o *orders) { o.Source = source }))
	b.found(found)
	asked := b.tally().Listings[source]
	one := sequential.Wall.Seconds() * float64(b.pages()) / float64(part)
	b.note("50 ms a page: listing page after page", "%.0f s (measured over %s of %s pages)", one, count(part), count(b.pages()))
	b.note("50 ms a page: discovery", "%.1f s, %d pages at a time", found.Wall.Seconds(), asked.AtOnce)
	b.limit(one/found.Wall.Seconds() >= minSpeedup, "50 ms a page: how much faster", "8", "%.1f", one/found.Wall.Seconds())
	b.limit(found.Peak < maxPeak, "50 ms a page: peak memory", "256 MiB", "%s", megabytes(found.Peak))
}

// discoverThrottled meets a server that refuses more than a few requests at a
// time.
func (b *bench) discoverThrottled() {
	takes, limit := 5*time.Millisecond, 3
	if measures() {
		takes, limit = slowPage, 6
	}
	source := b.bucketOf(pageKeys(), takes, limit)
	b.tally()
	r := run(b.T, "discover throttled", b.orders("discover", func(o *orders) { o.Source = source }))
	b.found(r)
	asked := b.tally().Listings[source]
	b.hold(asked.Pages <= b.mostPages(), "throttled: pages answered", "a tenth and 200 more than there are", "%s of %s", count(asked.Pages), count(b.pages()))
	// How many a small source is asked for at a time is the machine's affair.
	b.hold(asked.SlowDowns > 0 || !measures(), "throttled: refused with SlowDown", "some, or nothing was shown", "%s, beyond %d at a time", count(asked.SlowDowns), limit)
	b.note("throttled: time", "%.1f s", r.Wall.Seconds())
}

// discoverFirst is a first run: nothing is known yet, neither of the files nor
// of how their keys are spread.
func (b *bench) discoverFirst() {
	take := b.files.count / 100
	page := time.Duration(0)
	if measures() {
		page = slowPage
	}
	source := b.bucketOf(pageKeys(), page, 0)
	b.tally()
	r := run(b.T, "discover first", b.orders("discover", func(o *orders) {
		o.Source, o.Ledger, o.MaxFiles = source, "first", take
	}))
	asked := b.tally().Listings[source]
	for i, key := range r.Keys {
		if want := b.key(i); key != want {
			b.Fatalf("file %d of the first run is %q, want %q", i, key, want)
		}
	}
	if f := r.Found; len(r.Keys) != take || f.New != int64(take) || f.Left != int64(b.files.count-take) || f.Listed != int64(b.files.count) {
		b.Fatalf("took %d files, found %+v", len(r.Keys), f)
	}
	b.hold(asked.Pages <= b.mostPages(), "first run: pages asked for", "a tenth and 200 more than there are", "%s of %s", count(asked.Pages), count(b.pages()))
	b.note("first run: took", "%s files of %s", count(take), count(b.files.count))
	b.note("first run: time", "%.1f s, %d pages of %v at a time", r.Wall.Seconds(), asked.AtOnce, page)
	b.note("first run: CPU, a file", "%.2f µs", perFile(r.CPU, b.files.count))
	b.limit(r.Peak < maxPeak, "first run: peak memory", "256 MiB", "%s", megabytes(r.Peak))
}

// commitToKnown commits runs of a usual size to the full ledger.
func (b *bench) commitToKnown() {
	rows, commits := 1000, 200
	if !measures() {
		rows, commits = *scale/1000, 40
	}
	r := run(b.T, "commit", b.orders("commit", func(o *orders) { o.Rows, o.Commits = rows, commits }))
	var sent, received, own, largest, requests int64
	merges := 0
	for _, c := range r.Commits {
		b.written += c.Tally.State["PUT segment"].In
		sent, received, requests = sent+c.Tally.sent(), received+c.Tally.received(), requests+c.Tally.requests()
		own += c.Bytes
		largest = max(largest, c.Tally.sent())
		if c.Merged > 0 {
			merges++
		}
	}
	head := b.head(b.known)
	if head.Rows() != int64(*scale+rows*commits) {
		b.Fatalf("the ledger has %d rows after the commits, want %d", head.Rows(), *scale+rows*commits)
	}
	b.note("commits", "%d of %s rows, of which %d merged segments", commits, count(rows), merges)
	b.note("a commit's own segment", "%s bytes, %.2f a row", count(own/int64(commits)), float64(own)/float64(commits*rows))
	b.note("a commit writes on average", "%s bytes, heads and merges included", count(sent/int64(commits)))
	b.note("a commit reads on average", "%s bytes", count(received/int64(commits)))
	b.note("requests of a commit", "%.1f", float64(requests)/float64(commits))
	b.hold(largest <= max(b.ledgerBytes/4, maxMerge), "the largest commit wrote", "¼ of the ledger, or 33 MiB",
		"%s bytes, %.1f %% of the ledger", count(largest), 100*float64(largest)/float64(b.ledgerBytes))
	// A row is written again only when its segment at least doubles.
	times := float64(b.written) / float64(size(head))
	most := 1 + math.Log2(float64(buildRuns+commits))
	b.hold(times <= most, "how often a byte of the ledger was written, all in all", "1 + log₂ of the commits", "%.2f (%.2f)", times, most)
	b.note("time of a commit", "%.1f ms", r.Wall.Seconds()*1000/float64(commits))
	b.note("peak memory of the commits", "%s", megabytes(r.Peak))
}

func size(head ledger.Head) (n int64) {
	for _, s := range head.Segments {
		n += s.Bytes
	}
	return n
}
