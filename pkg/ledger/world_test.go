package ledger

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var (
	worldSeed  = flag.Uint64("world.seed", 0, "seed of the one world to run; 0 runs many")
	worldSteps = flag.Int("world.steps", 100, "steps a world")
	worlds     = flag.Int("worlds", 10, "how many worlds to run")
)

// TestEveryVersionIsDoneExactlyOnce runs random worlds against an oracle: files
// arrive, change and vanish, at late and at equal times; files fail; replies
// are lost, requests refused, runs killed between any two requests; runs whose
// lease was stolen wake up and commit; listings break off; people retry, forget
// and reset, lose the head and write the ledger anew. After every step
// the ledger must hold exactly what its commits say, and in the end every
// version that stayed is done once or quarantined.
func TestEveryVersionIsDoneExactlyOnce(t *testing.T) {
	seeds := []uint64{*worldSeed}
	if *worldSeed == 0 {
		seeds = seeds[:0]
		for range *worlds {
			seeds = append(seeds, rand.Uint64())
		}
	}
	var sum tally
	for _, seed := range seeds {
		w := newWorld(t, seed)
		for range *worldSteps {
			w.step()
		}
		w.settle()
		sum.add(w.tally)
		if t.Failed() {
			t.Fatalf("repeat with -world.seed=%d -world.steps=%d", seed, *worldSteps)
		}
	}
	t.Logf("%+v", sum)
	if len(seeds) >= 10 && !sum.everythingHappened() {
		t.Errorf("the worlds are too tame: %+v", sum)
	}
}

// tally counts what a world went through, so that a quiet one is noticed.
type tally struct {
	commits, fenced, uncertain, landed, broken, merges, gone, quarantined, retried, changed, edits int
}

func (s *tally) add(o tally) {
	s.commits += o.commits
	s.fenced += o.fenced
	s.uncertain += o.uncertain
	s.landed += o.landed
	s.broken += o.broken
	s.merges += o.merges
	s.gone += o.gone
	s.quarantined += o.quarantined
	s.retried += o.retried
	s.changed += o.changed
	s.edits += o.edits
}

func (s tally) everythingHappened() bool {
	return min(s.commits, s.fenced, s.uncertain, s.landed, s.broken, s.merges, s.gone, s.quarantined, s.retried, s.changed, s.edits) > 0
}

type world struct {
	t      *testing.T
	random *rand.Rand
	clock  *clock
	state  *bucket.Memory
	ledger *Ledger
	quiet  bool // no faults
	lost   bool // the last reply was lost

	files   map[string]File // the source
	version int
	token   int64
	zombies []Commit // of runs that lost their lease and do not know

	rows map[string]Row // the oracle: what the ledger must hold
	done map[string]int // how often a version was committed as done
	tally
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), clock: newClock(),
		files: map[string]File{}, rows: map[string]Row{}, done: map[string]int{},
	}
	w.state = bucket.NewMemory("state", w.clock.now)
	w.state.Fault(w.before, w.after)
	w.ledger = openLedger(t, w.state)
	w.ledger.limits = limits{
		blockRows: 1 + w.random.IntN(5), mergeCount: 2 + w.random.IntN(3), mergeBytes: 300 + w.random.Int64N(3000),
		segmentBytes: 200 + w.random.Int64N(800), gone: 1 + w.random.IntN(5), commits: 3, attempts: 4, marks: 2 + w.random.IntN(4),
		wholeBytes: w.random.Int64N(600), tailBytes: 60 + w.random.Int64N(200), fetchBytes: w.random.Int64N(300),
		listings: 1, // one after the other, so that a seed is always the same world
		spanRows: 1 + w.random.Int64N(20), splitFrom: 2, splitAfter: 2, heldFiles: w.random.IntN(3),
	}
	return w
}

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

// before and after make the state bucket as bad as the network can be.
func (w *world) before(op, key string) error {
	percent := 4
	if op == "get" && w.lost { // the network is down: the read-back fails too
		percent = 60
	}
	w.lost = false
	if w.quiet || !w.chance(percent) {
		return nil
	}
	faults := []error{errors.New("500 InternalError")}
	if op == "put" && strings.HasSuffix(key, "head.json") {
		faults = append(faults, bucket.ErrConflict, bucket.ErrPrecondition)
	}
	return faults[w.random.IntN(len(faults))]
}

func (w *world) after(op, _ string) error {
	if w.quiet || op != "put" || !w.chance(6) {
		return nil
	}
	w.lost = true
	return errLost
}

func (w *world) step() {
	for range w.random.IntN(4) {
		w.change()
	}
	w.clock.advance(time.Duration(w.random.IntN(40)) * time.Minute)
	if w.chance(12) {
		w.operate()
	}
	if len(w.zombies) > 0 && w.chance(30) {
		w.wakeZombie()
	}
	w.run(w.selection())
	w.check()
}

// change lets a file arrive, change or vanish. Times are late, early and equal.
func (w *world) change() {
	key := fmt.Sprintf("in/%02d/%02d", w.random.IntN(4), w.random.IntN(12))
	if w.chance(25) {
		delete(w.files, key)
		return
	}
	w.version++
	at := w.clock.now().Add(time.Duration(w.random.IntN(7)-5) * time.Hour)
	w.files[key] = File{Key: key, ETag: md5Tag(w.version), Size: int64(1 + w.random.IntN(3)), LastModified: at}
}

func (w *world) selection() Selection {
	sel := Selection{Prefix: "in"}
	if w.chance(20) {
		sel.Prefix = fmt.Sprintf("in/%02d", w.random.IntN(4))
	}
	if w.chance(30) {
		sel.MaxFiles = 1 + w.random.IntN(3)
	}
	if w.chance(20) {
		sel.MinAge = time.Hour
	}
	sel.OldestFirst = w.chance(30)
	if w.chance(30) {
		sel.Backoff = time.Duration(1+w.random.IntN(3)) * time.Hour
	}
	return sel
}

// List is the source: pages of three, sometimes cut. A page shows the source
// as it is when it is asked for.
func (w *world) List(_ context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	return func(yield func(bucket.Page, error) bool) {
		after := o.StartAfter
		for {
			if !w.quiet && w.chance(2) {
				yield(bucket.Page{}, errors.New("503 SlowDown"))
				return
			}
			keys := slices.Sorted(maps.Keys(w.files))
			keys = slices.DeleteFunc(keys, func(k string) bool { return k <= after || !strings.HasPrefix(k, o.Prefix) })
			page := bucket.Page{Last: len(keys) <= 3}
			for _, k := range keys[:min(3, len(keys))] {
				f := w.files[k]
				page.Entries = append(page.Entries, bucket.Entry{Key: k, ETag: f.ETag, Size: f.Size, LastModified: f.LastModified})
				after = k
			}
			if !yield(page, nil) || page.Last {
				return
			}
		}
	}
}

// run is one run of the pipeline, which may die anywhere.
func (w *world) run(sel Selection) {
	w.token++
	token := w.token
	ctx := w.t.Context()
	if err := w.ledger.Fence(ctx, token); err != nil {
		return
	}
	expected := w.expected(sel)
	found, taken, err := discoverAll(ctx, w.ledger, w, sel, w.clock.now())
	if err != nil {
		w.broken++
		return
	}
	if !slices.Equal(taken, expected) {
		w.t.Errorf("token %d took\n%+v\nwant\n%+v", token, taken, expected)
	}
	w.gone += int(found.Gone)
	w.retried += int(found.Retried)
	w.changed += int(found.Changed)
	c := Commit{Run: fmt.Sprint("run-", token), Token: token, At: w.clock.now(), Rows: EachRow(w.process(taken)), MaxAttempts: 3, Upkeep: found.Upkeep}
	switch {
	case w.chance(10): // killed before it commits
	case w.chance(10): // the lease is lost here; it will wake up
		w.zombies = append(w.zombies, c)
	default:
		w.commit(c)
	}
}

// process fails some files, finds some changed, and does the others.
func (w *world) process(taken []Candidate) []Row {
	var rows []Row
	for _, c := range taken {
		switch {
		case w.chance(25):
			rows = append(rows, c.Row(Failed))
		case w.chance(5):
			w.change()
		default:
			if w.files[c.Key].ETag == c.ETag {
				rows = append(rows, c.Row(Done))
			}
		}
	}
	w.random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows
}

// commit sends a commit, again after each error, or dies in between.
func (w *world) commit(c Commit) {
	for {
		committed, err := w.ledger.Commit(w.t.Context(), c)
		landed := w.committed(c.Run, c.Token)
		switch {
		case err == nil && !landed:
			w.t.Errorf("%s was committed as %+v and the head does not have it", c.Run, committed)
			return
		case err == nil:
			w.merges += committed.Merged
			w.apply(c)
			return
		case errors.Is(err, ErrFenced):
			w.fenced++
			if landed {
				w.t.Errorf("%s is fenced, and in the head", c.Run)
			}
			if c.Token >= w.seen() {
				w.t.Errorf("%s is fenced by an older token: %v", c.Run, err)
			}
			return
		}
		w.uncertain++
		if landed && w.chance(70) { // it died without knowing that it had landed
			w.landed++
			w.apply(c)
			return
		}
		if !landed && w.chance(20) {
			return
		}
	}
}

// undisturbed looks at the ledger without faults.
func (w *world) undisturbed(look func()) {
	before := w.quiet
	w.quiet = true
	look()
	w.quiet = before
}

func (w *world) head() (head Head) {
	w.undisturbed(func() {
		var err error
		if head, err = w.ledger.Head(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	})
	return head
}

func (w *world) committed(run string, token int64) bool {
	_, ok := w.head().commitment(run, token)
	return ok
}

func (w *world) seen() int64 { return w.head().Token }

// operate has a person at work on the ledger, under a token of their own.
func (w *world) operate() {
	w.token++
	by, token := fmt.Sprint("ada-", w.token), w.token
	ctx := w.t.Context()
	switch {
	case w.chance(50):
		w.edit(by, token)
	case w.chance(30):
		w.send(by, token, func() error {
			_, err := w.ledger.Reset(ctx, by, token)
			return err
		}, func() {
			clear(w.rows)
			clear(w.done)
		})
	default:
		w.rewrite(by, token)
	}
}

func (w *world) edit(by string, token int64) {
	verbs := map[string]Verb{}
	for _, key := range slices.Sorted(maps.Keys(w.rows)) {
		switch {
		case w.chance(20):
			verbs[key] = Forget
		case w.rows[key].Outcome != Done && w.chance(50):
			verbs[key] = Retry
		}
	}
	w.send(by, token, func() error {
		_, err := w.ledger.Edit(w.t.Context(), Edit{By: by, Token: token, Change: func(r Row) Verb { return verbs[r.Key] }})
		return err
	}, func() {
		for key, verb := range verbs {
			row := w.rows[key]
			if verb == Forget {
				delete(w.rows, key)
				delete(w.done, key+row.ETag)
				continue
			}
			w.rows[key] = Row{Key: key, ETag: row.ETag, Size: row.Size, Outcome: Failed, Run: by}
		}
	})
}

// send sends an edit again after each error, or dies in between.
func (w *world) send(by string, token int64, attempt func() error, apply func()) {
	for {
		err := attempt()
		landed := w.committed(by, token)
		if err == nil && !landed {
			w.t.Errorf("%s is done, and the head does not have it", by)
		}
		if landed && (err == nil || w.chance(70)) {
			w.edits++
			apply()
			return
		}
		if !landed && w.chance(20) {
			return
		}
	}
}

// rewrite writes the ledger anew, sometimes because its head was lost.
func (w *world) rewrite(by string, token int64) {
	intact := w.chance(50)
	w.undisturbed(func() {
		if intact {
			return
		}
		err := w.state.Delete(w.t.Context(), "state/ledger/head.json")
		if w.chance(50) {
			_, err = w.state.Put(w.t.Context(), "state/ledger/head.json", strings.NewReader("rubbish"), "", bucket.Condition{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	})
	var rows []Row
	for _, key := range slices.Sorted(maps.Keys(w.rows)) {
		rows = append(rows, w.rows[key])
	}
	for {
		_, err := w.ledger.Replace(w.t.Context(), Replacement{By: by, Token: token, Rows: EachRow(rows), Intact: intact})
		if err == nil {
			w.edits++
			return
		}
	}
}

// wakeZombie lets a run commit that lost its lease: the later runs fenced it,
// unless none of them got as far as the ledger.
func (w *world) wakeZombie() {
	c := w.zombies[0]
	w.zombies = w.zombies[1:]
	w.commit(c)
}

// apply is the oracle's commit.
func (w *world) apply(c Commit) {
	w.commits++
	for _, key := range c.Upkeep.Gone {
		delete(w.rows, key)
	}
	for row := range c.Rows {
		row.Run, row.At = c.Run, c.At
		if row.Outcome == Done {
			row.Attempts = 0
			w.done[row.Key+row.ETag]++
			if n := w.done[row.Key+row.ETag]; n != 1 {
				w.t.Errorf("%s at %s was done %d times", row.Key, row.ETag, n)
			}
		} else if row.Attempts++; row.Attempts >= c.MaxAttempts {
			row.Outcome = Quarantined
			w.quarantined++
		}
		w.rows[row.Key] = row
	}
}

// expected is what a discovery must take, by the oracle alone.
func (w *world) expected(sel Selection) []Candidate {
	var due []Candidate
	for _, key := range slices.Sorted(maps.Keys(w.files)) {
		f := w.files[key]
		c := Candidate{File: f}
		if row, known := w.rows[key]; known && row.ETag == f.ETag && row.Size == f.Size {
			pause := sel.Backoff << max(0, row.Attempts-1) // of one, two, four times; three fail
			if row.Outcome != Failed || sel.Backoff > 0 && w.clock.now().Before(row.At.Add(pause)) {
				continue
			}
			c.Attempts = row.Attempts
		}
		if strings.HasPrefix(key, sel.Prefix+"/") && (sel.MinAge == 0 || !f.LastModified.After(w.clock.now().Add(-sel.MinAge))) {
			due = append(due, c)
		}
	}
	if sel.OldestFirst {
		slices.SortStableFunc(due, func(a, b Candidate) int { return a.LastModified.Compare(b.LastModified) })
	}
	if sel.MaxFiles > 0 && len(due) > sel.MaxFiles {
		due = due[:sel.MaxFiles]
	}
	return due
}

// check holds the ledger against the oracle, and reads every byte of it.
func (w *world) check() {
	w.undisturbed(func() {
		got := map[string]Row{}
		for row, err := range w.ledger.Rows(w.t.Context()) {
			if err != nil {
				w.t.Fatal(err)
			}
			got[row.Key] = row
		}
		if !maps.Equal(got, w.rows) {
			w.t.Errorf("the ledger holds\n%+v\nwant\n%+v", got, w.rows)
		}
		if err := w.ledger.Verify(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	})
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// settle lets the weather clear: every file that is there must be done once,
// or be in quarantine, and the ledger must hold nothing else.
func (w *world) settle() {
	w.quiet = true
	w.clock.advance(48 * time.Hour)
	for range 30 {
		w.run(Selection{Prefix: "in"})
		w.clock.advance(2 * time.Hour)
	}
	for len(w.zombies) > 0 {
		w.wakeZombie()
	}
	for w.run(Selection{Prefix: "in"}); len(w.zombies) > 0; {
		w.wakeZombie()
	}
	w.check()
	for key, f := range w.files {
		row := w.rows[key]
		if row.ETag != f.ETag || row.Outcome == Failed {
			w.t.Errorf("%+v was lost: its row is %+v", f, row)
		}
		if row.Outcome == Done && w.done[key+f.ETag] != 1 {
			w.t.Errorf("%+v was done %d times", f, w.done[key+f.ETag])
		}
	}
	if len(w.rows) != len(w.files) {
		w.t.Errorf("the ledger remembers %d keys of %d files", len(w.rows), len(w.files))
	}
}
