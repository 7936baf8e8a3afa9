package step

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

var (
	randomSeed   = flag.Uint64("random.seed", 0, "seed of the one random world to run; 0 runs many")
	randomWorlds = flag.Int("random.worlds", 8, "how many random worlds to run")
	randomSteps  = flag.Int("random.steps", 250, "steps a world")
)

// TestEveryVersionIsDoneOnceInEffect lets runs go wrong in every way that we
// know: their functions die at any request, replies get lost, processing calls
// crash or come twice, commits come late and twice, releases never; leases run
// out and are broken while their runs go on, so that several runs work at a
// time; meanwhile files arrive, change, vanish, and are poison. Whatever
// happens
//   - a version is written down as done once, and not handed out after that;
//   - each output is whole, and that of a version that existed;
//   - when the trouble ends, every file is done and has its output, or is in
//     quarantine, and the ledger knows nothing else.
func TestEveryVersionIsDoneOnceInEffect(t *testing.T) {
	seeds := []uint64{*randomSeed}
	if *randomSeed == 0 {
		seeds = seeds[:0]
		for range *randomWorlds {
			seeds = append(seeds, rand.Uint64())
		}
	}
	sum := map[string]int{}
	for _, seed := range seeds {
		inWorld(t, func(w *world) {
			defer func() {
				if w.Failed() {
					w.Logf("repeat with -random.seed=%d -random.steps=%d", seed, *randomSteps)
				}
			}()
			r := newRandom(w, seed)
			for range *randomSteps {
				r.step()
			}
			r.settle()
			for what, n := range r.saw {
				sum[what] += n
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", sum)
	if len(seeds) < 8 {
		return
	}
	for _, what := range []string{"commit", "fault", "killed", "zombie", "broken", "lost", "fenced", "overwritten while read", "twice", "done", "quarantined", "nothing new"} {
		if sum[what] == 0 {
			t.Errorf("no %q in any world: they are too tame", what)
		}
	}
}

// random is a world under random trouble.
type random struct {
	*world
	rand *die

	mu    sync.Mutex // guards what the hooks use
	quiet bool       // no trouble
	calls int        // requests until the running function is killed; 0 is never
	kill  context.CancelCauseFunc
	saw   map[string]int

	contents map[string]string // version (key and ETag) → content, of all that ever existed
	version  int
	runs     []*execute // that are not over
	number   int
	was      map[string]ledger.Row // the ledger as it was last seen
	done     map[string]int        // how often a version was written down as done
}

// execute is an execution, wherever it is on its journey.
type execute struct {
	name     string
	token    int64
	found    DiscoverOutput
	batches  []Batch
	stage    string // "acquire", "discover", "process", "commit", "release"
	attempts int    // at the stage
}

func newRandom(w *world, seed uint64) *random {
	r := &random{
		world: w, rand: &die{rand: rand.New(rand.NewPCG(seed, 1))},
		contents: map[string]string{}, was: map[string]ledger.Row{}, done: map[string]int{}, saw: map[string]int{},
	}
	w.set("lock.ttlSeconds", 60)
	w.set("lock.graceSeconds", 1)
	w.set("batch.maxFiles", 1+r.rand.IntN(3))
	w.set("failure.backoffSeconds", []int{0, 60}[r.rand.IntN(2)])
	w.set("selection.first", []string{"key", "oldest"}[r.rand.IntN(2)])
	w.set("selection.maxFiles", []int{0, 3, 8}[r.rand.IntN(3)])
	w.state.Fault(r.before, r.after)
	w.lake.Fault(r.before, r.after)
	w.source.Fault(r.before, nil)
	w.processor.before = r.meanwhile
	return r
}

// die serves the lease's keeper and the readers of results, too.
type die struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (d *die) IntN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

func (r *random) chance(percent int) bool { return r.rand.IntN(100) < percent }

func (r *random) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw[what]++
}

var errKilled = errors.New("the function was killed")

// before kills the function at its request, or refuses it.
func (r *random) before(op, _ string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quiet {
		return nil
	}
	if r.calls > 0 {
		if r.calls--; r.calls == 0 {
			r.saw["killed"]++
			r.kill(errKilled)
			return errKilled
		}
	}
	if r.chance(1) {
		r.saw["fault"]++
		faults := []error{errors.New("500 InternalError"), bucket.ErrSlowDown}
		if op == "put" {
			faults = append(faults, bucket.ErrConflict)
		}
		return faults[r.rand.IntN(len(faults))]
	}
	return nil
}

// after loses the reply of a request that took effect, or lets another run
// overtake between a commit's segment and its head.
func (r *random) after(op, key string) error {
	r.mu.Lock()
	overtake := !r.quiet && op == "put" && strings.Contains(key, "/segments/") && r.chance(15)
	lost := !r.quiet && op != "list" && r.chance(1)
	if lost {
		r.saw["fault"]++
	}
	r.mu.Unlock()
	if overtake { // by now all results are read
		r.overtake()
	}
	if lost {
		return errors.New("the reply was lost")
	}
	return nil
}

// undisturbed does what the world and its oracle do.
func (r *random) undisturbed(do func()) {
	set := func(quiet bool) (before bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		before, r.quiet = r.quiet, quiet
		return before
	}
	before := set(true)
	do()
	set(before)
}

// meanwhile is what happens while a file is read.
func (r *random) meanwhile(_ context.Context, in process.File) error {
	if r.quiet {
		return nil
	}
	switch {
	case r.chance(4):
		r.note("overwritten while read")
		r.write(in.Key)
	case r.chance(1):
		r.breakLock()
	case r.chance(3):
		time.Sleep(time.Duration(r.rand.IntN(60)) * time.Second) // the lease is kept meanwhile
	}
	return nil
}

// overtake takes the lock from whoever has it and discovers.
func (r *random) overtake() {
	r.breakLock()
	r.undisturbed(func() {
		r.number++
		e := &execute{name: fmt.Sprint("P", r.number), stage: "acquire"}
		r.runs = append(r.runs, e)
		r.ok(r.perform(r.Context(), e))
		if e.stage == "discover" { // unless others wait
			r.ok(r.perform(r.Context(), e))
		}
	})
}

func (r *random) breakLock() {
	r.undisturbed(func() {
		register, err := s3lock.New(r.state, LockKey(r.parsed()))
		r.ok(err)
		lock, err := lease.New(register, lease.Config{})
		r.ok(err)
		status, err := lock.Inspect(context.Background())
		r.ok(err)
		for _, h := range status.Holders {
			r.note("broken")
			r.ok(lock.Break(context.Background(), lease.BreakRequest{Token: h.Token, By: "ada", Reason: "thought dead"}))
		}
	})
}

func (r *random) write(key string) {
	r.undisturbed(func() {
		r.version++
		content := fmt.Sprintf("v%d", r.version)
		if r.chance(10) {
			content += " poison"
		}
		written, err := r.source.Put(context.Background(), key, strings.NewReader(content), "", bucket.Condition{})
		r.ok(err)
		r.contents[key+written.ETag] = content
		if r.chance(30) { // late, or of the same second as others
			r.source.SetLastModified(key, r.source.Now().Add(-time.Duration(r.rand.IntN(3))*time.Hour).Truncate(time.Hour))
		}
	})
}

func (r *random) step() {
	for range max(0, r.rand.IntN(8)-5) {
		key := fmt.Sprintf("in/%02d", r.rand.IntN(25))
		if r.chance(20) {
			r.undisturbed(func() { r.ok(r.source.Delete(context.Background(), key)) })
		} else {
			r.write(key)
		}
	}
	switch n := r.rand.IntN(100); {
	case n < 10 && len(r.runs) < 4 || len(r.runs) == 0:
		r.number++
		r.runs = append(r.runs, &execute{name: fmt.Sprint("P", r.number), stage: "acquire"})
	case n < 11:
		r.breakLock()
	case n < 20:
		time.Sleep(time.Duration(r.rand.IntN(10)) * time.Second)
	case n < 22:
		time.Sleep(2 * time.Minute) // longer than a lease
	case n < 60:
		r.advance(r.runs[0])
	default:
		r.advance(r.runs[r.rand.IntN(len(r.runs))])
	}
	r.look()
}

// advance lets one function of a run work, as far as it gets.
func (r *random) advance(e *execute) {
	ctx, kill := context.WithCancelCause(r.Context())
	defer kill(nil)
	calls := 0
	if !r.quiet && r.chance(6) {
		calls = 1 + r.rand.IntN(12)
	}
	r.willDie(kill, calls)
	err := r.perform(ctx, e)
	r.willDie(nil, 0)
	if err == nil {
		e.attempts = 0
		return
	}
	r.noteError(err)
	if e.attempts++; e.stage == "release" && e.attempts > 2 || errors.Is(err, errKilled) && r.chance(30) {
		r.over(e) // nobody comes back to it
		return
	}
	if e.stage != "process" && (e.attempts > 2 || !transient(err) && !errors.Is(err, errKilled)) {
		e.stage, e.attempts = "release", 0 // as the state machine does
	}
}

func (r *random) willDie(kill context.CancelCauseFunc, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kill, r.calls = kill, calls
}

func (r *random) noteError(err error) {
	switch {
	case errors.Is(err, lease.ErrLost):
		r.note("lost")
	case errors.Is(err, ledger.ErrFenced):
		r.note("fenced")
	}
}

func (r *random) over(e *execute) {
	r.runs = slices.DeleteFunc(r.runs, func(other *execute) bool { return other == e })
}

// perform is one state of the machine.
func (r *random) perform(ctx context.Context, e *execute) error {
	switch e.stage {
	case "acquire":
		out, err := r.steps.Acquire(ctx, AcquireInput{Execution: execution(e.name), Config: r.config()})
		if err == nil && out.Decision == DecisionHeld {
			e.token, e.stage = out.Token, "discover"
		}
		return err
	case "discover":
		found, err := r.steps.Discover(ctx, DiscoverInput{Execution: execution(e.name), Config: r.config(), Token: e.token})
		if err != nil {
			return err
		}
		e.found, e.stage = found, "process"
		if found.Batches == 0 {
			r.note("nothing new")
			e.stage = "release"
			return nil
		}
		r.undisturbed(func() { e.batches = r.batches(found) })
		r.handedOut(e)
	case "process":
		if len(e.batches) == 0 || r.chance(3) { // some of the batches are never begun
			e.stage = "commit"
			return nil
		}
		batch := e.batches[0]
		e.batches = e.batches[1:]
		_, err := r.steps.Process(ctx, ProcessInput{Execution: execution(e.name), Config: r.config(), Token: e.token, Batch: batch})
		if err != nil && r.chance(50) || r.chance(5) {
			r.note("twice")
			e.batches = append(e.batches, batch)
		}
		return err
	case "commit":
		_, err := r.steps.Commit(ctx, CommitInput{Execution: execution(e.name), Config: r.config(), Token: e.token, Discovered: e.found})
		if err == nil {
			r.note("commit")
			if r.chance(90) {
				e.stage = "release"
			}
		}
		return err
	case "release":
		if !r.quiet && r.chance(15) { // it is never released, and goes on later as if nothing had happened
			r.note("zombie")
			e.stage = "commit"
			if e.found.Batches == 0 {
				r.over(e)
			}
			return nil
		}
		_, err := r.steps.Release(ctx, ReleaseInput{Execution: execution(e.name), Config: r.config(), Token: e.token})
		if err == nil {
			r.over(e)
		}
		return err
	}
	return nil
}

// handedOut holds a manifest against the ledger: nothing done is in it.
func (r *random) handedOut(e *execute) {
	r.look()
	for _, batch := range e.batches {
		for _, f := range batch.Files {
			if row := r.was[f.Key]; row.ETag == f.ETag && row.Outcome != ledger.Failed {
				r.Errorf("%s was handed %+v, and the ledger knows %+v", e.name, f, row)
			}
			if _, existed := r.contents[f.Key+f.ETag]; !existed {
				r.Errorf("%s was handed %s at %s, which never was", e.name, f.Key, f.ETag)
			}
		}
	}
}

// look compares the ledger with what it was, and reads every output.
func (r *random) look() {
	r.undisturbed(func() {
		rows := r.rows()
		for key, row := range rows {
			before, version := r.was[key], key+row.ETag
			if row.Outcome == ledger.Done && (before.ETag != row.ETag || before.Outcome != ledger.Done) {
				r.note("done")
				if r.done[version]++; r.done[version] > 1 {
					r.Errorf("%s at %s was written down as done %d times, lastly by %s", key, row.ETag, r.done[version], row.Run)
				}
			}
			if row.Outcome == ledger.Done && strings.Contains(r.contents[version], "poison") {
				r.Errorf("poison %s is done", key)
			}
		}
		r.was = rows
	})
	if r.Failed() {
		r.FailNow()
	}
}

// outputs maps the keys in the lake to their content.
func (r *random) outputs() map[string]string {
	outputs := map[string]string{}
	for _, key := range r.keys(r.lake, "") {
		outputs[key] = string(r.read(r.lake, key))
	}
	return outputs
}

// settle ends the trouble, and lets one run after the other do what is left.
func (r *random) settle() {
	r.quiet = true
	for len(r.runs) > 0 {
		r.advance(r.runs[0])
		time.Sleep(time.Minute)
	}
	for range 40 {
		r.number++
		_, err := r.run(fmt.Sprint("P", r.number))
		r.ok(err)
		r.look()
		time.Sleep(time.Hour)
	}
	possible := map[string]string{} // outputs of all versions that ever were
	wanted := map[string]string{}
	for version, content := range r.contents {
		key, etag, _ := strings.Cut(version, `"`)
		output, err := outputKey(r.parsed(), ledger.File{Key: key, ETag: `"` + etag}, process.OutputName)
		r.ok(err)
		possible[output] = string(bytes.ToUpper([]byte(content)))
	}
	rows, files := r.rows(), r.keys(r.source, "in/")
	for _, key := range files {
		content := string(r.read(r.source, key))
		row := rows[key]
		if row.ETag != r.etag(content) {
			r.Errorf("%s is lost: the ledger knows %+v of it", key, row)
			continue
		}
		if strings.Contains(content, "poison") {
			if row.Outcome != ledger.Quarantined {
				r.Errorf("poison %s is %s", key, row.Outcome)
			}
			r.note("quarantined")
			continue
		}
		// One that crashed with its batch too often is in quarantine, too.
		if row.Outcome == ledger.Done {
			output, err := outputKey(r.parsed(), ledger.File{Key: key, ETag: row.ETag}, process.OutputName)
			r.ok(err)
			wanted[output] = strings.ToUpper(content)
		} else if row.Outcome != ledger.Quarantined {
			r.Errorf("%s is %s when all is quiet", key, row.Outcome)
		}
	}
	if len(rows) != len(files) {
		r.Errorf("the ledger knows %d keys of %d files", len(rows), len(files))
	}
	got := r.outputs()
	for key, content := range got {
		if possible[key] != content {
			r.Errorf("output %s is %q, want %q", key, content, possible[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if got[key] != wanted[key] {
			r.Errorf("output %s is %q, want %q", key, got[key], wanted[key])
		}
	}
}
