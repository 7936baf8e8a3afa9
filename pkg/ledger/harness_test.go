package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// clock is the server's clock in tests.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// bench is a ledger and its source, both in memory.
type bench struct {
	t      *testing.T
	clock  *clock
	state  *bucket.Memory
	source *bucket.Memory
	ledger *Ledger
	runs   int64
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, clock: newClock()}
	b.state = bucket.NewMemory("state", b.clock.now)
	b.source = bucket.NewMemory("source", b.clock.now)
	b.ledger = openLedger(t, b.state)
	return b
}

// openLedger opens a ledger that retries without waiting.
func openLedger(t testing.TB, store Store) *Ledger {
	t.Helper()
	l, err := Open(store, "state/ledger")
	if err != nil {
		t.Fatal(err)
	}
	l.wait = func(ctx context.Context, _ int) error { return context.Cause(ctx) }
	return l
}

// write puts files into the source; the content makes the version.
func (b *bench) write(content string, keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		if _, err := b.source.Put(b.t.Context(), key, strings.NewReader(content), "", bucket.Condition{}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) discover(sel Selection) (Discovery, []Candidate) {
	b.t.Helper()
	found, taken, err := discoverAll(b.t.Context(), b.ledger, b.source, sel, b.clock.now())
	if err != nil {
		b.t.Fatal(err)
	}
	return found, taken
}

func discoverAll(ctx context.Context, l *Ledger, src Lister, sel Selection, cutoff time.Time) (Discovery, []Candidate, error) {
	var taken []Candidate
	found, err := l.Discover(ctx, src, sel, cutoff, func(c Candidate) error {
		taken = append(taken, c)
		return nil
	})
	return found, taken, err
}

// run is a whole run: it takes what is there, fails the named keys and does
// the others. It returns the keys it took.
func (b *bench) run(sel Selection, failing ...string) []string {
	b.t.Helper()
	found, taken := b.discover(sel)
	b.commit(taken, found.Upkeep, failing...)
	return keysOf(taken)
}

func (b *bench) commit(taken []Candidate, upkeep Upkeep, failing ...string) Committed {
	b.t.Helper()
	return b.commitWith(Commit{}, taken, upkeep, failing...)
}

func (b *bench) commitWith(c Commit, taken []Candidate, upkeep Upkeep, failing ...string) Committed {
	b.t.Helper()
	b.runs++
	c.Run, c.Token, c.At = fmt.Sprint("run-", b.runs), b.runs, b.clock.now()
	c.Rows, c.Upkeep = EachRow(outcomes(taken, failing...)), upkeep
	committed, err := b.ledger.Commit(b.t.Context(), c)
	if err == nil {
		err = committed.MergeErr
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return committed
}

func outcomes(taken []Candidate, failing ...string) []Row {
	var rows []Row
	for _, c := range taken {
		outcome := Done
		if slices.Contains(failing, c.Key) {
			outcome = Failed
		}
		rows = append(rows, c.Row(outcome))
	}
	return rows
}

func keysOf(taken []Candidate) []string {
	keys := []string{}
	for _, c := range taken {
		keys = append(keys, c.Key)
	}
	return keys
}

// rows reads the whole ledger.
func rowsOf(t testing.TB, l *Ledger) []Row {
	t.Helper()
	var rows []Row
	for row, err := range l.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func (b *bench) row(key string) Row {
	b.t.Helper()
	for _, row := range rowsOf(b.t, b.ledger) {
		if row.Key == key {
			return row
		}
	}
	return Row{}
}

func (b *bench) head() Head {
	b.t.Helper()
	head, err := b.ledger.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return head
}

// objects lists the keys of the state bucket.
func (b *bench) objects() []string {
	b.t.Helper()
	var keys []string
	for page, err := range b.state.List(b.t.Context(), bucket.ListOptions{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (b *bench) overwrite(key string, body []byte) {
	b.t.Helper()
	if _, err := b.state.Put(b.t.Context(), key, strings.NewReader(string(body)), "", bucket.Condition{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(key string) []byte {
	b.t.Helper()
	o, err := b.state.Get(b.t.Context(), key, bucket.Condition{})
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := io.ReadAll(o.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

// listing is a lister that answers with the given pages and then the error.
type listing struct {
	pages []bucket.Page
	err   error
}

func (l listing) List(_ context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	return func(yield func(bucket.Page, error) bool) {
		for _, page := range l.pages {
			page.Entries = slices.DeleteFunc(slices.Clone(page.Entries), func(e bucket.Entry) bool { return o.StartAfter != "" && e.Key <= o.StartAfter })
			if !yield(page, nil) {
				return
			}
		}
		if l.err != nil {
			yield(bucket.Page{}, l.err)
		}
	}
}

func page(last bool, keys ...string) bucket.Page {
	p := bucket.Page{Last: last}
	for _, key := range keys {
		p.Entries = append(p.Entries, bucket.Entry{Key: key, ETag: `"e"`, Size: 1})
	}
	return p
}

// once makes a hook that fails the n-th call it is asked about, from 1.
func once(op, suffix string, n int, err error) func(string, string) error {
	return func(gotOp, key string) error {
		if gotOp != op || !strings.HasSuffix(key, suffix) {
			return nil
		}
		if n--; n == 0 {
			return err
		}
		return nil
	}
}

var errLost = errors.New("the reply was lost")

func wantKeys(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("%s: took %q, want %q", what, got, want)
	}
}
