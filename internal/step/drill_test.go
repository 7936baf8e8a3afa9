package step

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
)

var (
	drillSeed   = flag.Uint64("drill.seed", 0, "seed of the one drill to run; 0 runs many")
	drillWorlds = flag.Int("drill.worlds", 3, "how many drills to run")
	drillFirst  = flag.Uint64("drill.first", 21, "seed of the first of them; the others follow")
	drillFaults = flag.Int("drill.faults", 0, "how many drills may pass before the oracle must find each of the wrong programs; 0 leaves them out")
	drillSteps  = flag.Int("drill.steps", 260, "steps a drill")
)

// TestNothingIsLostCountedTwiceOrBlamedForTheWeather lets runs go wrong in every
// way that we know. Their functions are killed at any request, stand still for
// longer than a lease, crash, and have answers lost; calls come twice and late;
// executions are aborted, and the event of it comes early, late, twice or never;
// they are redriven; locks are broken, and deleted; people edit the ledger; buckets
// refuse everything for a while; and the files are overwritten, go back to what
// they were, vanish, return, and are poison. The oracle (drill_oracle_test.go)
// looks at the outcome after every step.
func TestNothingIsLostCountedTwiceOrBlamedForTheWeather(t *testing.T) {
	seeds := []uint64{*drillSeed}
	if *drillSeed == 0 {
		seeds = seeds[:0]
		for i := range *drillWorlds {
			seeds = append(seeds, *drillFirst+uint64(i))
		}
	}
	sum := map[string]int{}
	for _, seed := range seeds {
		d := playDrill(t, seed, fault{})
		for what, n := range d.saw {
			sum[what] += n
		}
		if len(d.violations) > 0 {
			t.Fatalf("repeat with -drill.seed=%d -drill.steps=%d:\n%s", seed, *drillSteps, strings.Join(d.violations, "\n"))
		}
	}
	t.Logf("%v", sum)
	if len(seeds) < 20 {
		return
	}
	for _, what := range []string{
		"run", "commit", "killed", "frozen", "lost reply", "fault", "weather", "aborted", "told early", "told late", "told twice", "never told",
		"redriven", "lap", "late call", "broken", "lock deleted", "edited", "overwritten", "gone back", "vanished", "returned", "overwritten while read",
		"crashed", "suspect", "lost", "ended", "done", "quarantined", "nothing new",
	} {
		if sum[what] == 0 {
			t.Errorf("no %q in any drill: they are too tame", what)
		}
	}
}

// playDrill plays one drill to its end, or to the first violations.
func playDrill(t *testing.T, seed uint64, f fault) (d *drill) {
	inWorld(t, func(w *world) {
		d = newDrill(w, seed, f)
		for range *drillSteps {
			if d.step(); len(d.violations) > 0 {
				break
			}
		}
		if len(d.violations) == 0 {
			d.settle()
		}
		d.finish()
	})
	return d
}

// drill is a world under trouble.
type drill struct {
	*world
	rand  *die
	fault fault

	mu      sync.Mutex // guards what calls use
	quiet   bool       // no trouble
	weather map[string]string
	saw     map[string]int

	calls      []*call      // that have not been answered
	executions []*execute   // all that are not over
	ended      []*execute   // that may be redriven
	events     []statusTold // that are to be delivered
	late       []func()     // calls that are sent once more, some time
	number     int
	version    int

	oracle
}

// execute is an execution, wherever it is on its journey.
type execute struct {
	name     string
	redrives int
	stage    string // "acquire", "discover", "process", "commit", "release", "over"
	state    RunState
	token    int64
	batches  []Batch
	attempts int // at the stage
	busy     *call
	over     bool
}

type statusTold struct {
	in    ReleaseInput
	owner string
	at    time.Time
}

func newDrill(w *world, seed uint64, f fault) *drill {
	d := &drill{
		world: w, rand: &die{rand: rand.New(rand.NewPCG(seed, 1))}, fault: f,
		weather: map[string]string{}, saw: map[string]int{}, oracle: newOracle(),
	}
	w.set("lock.ttlSeconds", 60)
	w.set("lock.graceSeconds", 2)
	w.set("destination.versions", []string{"latest", "latest", "all"}[d.rand.IntN(3)])
	w.set("batch.maxFiles", 1+d.rand.IntN(3))
	w.set("failure.backoffSeconds", []int{0, 60}[d.rand.IntN(2)])
	w.set("failure.maxAttempts", 1+d.rand.IntN(3))
	w.set("selection.first", []string{"key", "oldest"}[d.rand.IntN(2)])
	w.set("selection.maxFiles", []int{0, 3, 8}[d.rand.IntN(3)])
	return d
}

// die serves the calls, too.
type die struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (d *die) IntN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

func (d *drill) chance(percent int) bool { return d.rand.IntN(100) < percent }
func (d *drill) chance2(n, of int) bool  { return !d.isQuiet() && d.rand.IntN(of) < n }
func (d *drill) isQuiet() bool           { d.mu.Lock(); defer d.mu.Unlock(); return d.quiet }
func (d *drill) weatherAt(bucket string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.weather[bucket]
}

func (d *drill) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saw[what]++
}

// execution is what the context object says.
func (d *drill) execution(e *execute) Execution {
	x := d.world.execution(e.name)
	x.RedriveCount = e.redrives
	return x
}

// step does one thing.
func (d *drill) step() {
	d.changeFiles()
	d.answers()
	switch n := d.rand.IntN(100); {
	case len(d.executions) == 0, n < 9 && len(d.executions) < 4:
		d.begin()
	case n < 11:
		d.abort()
	case n < 14:
		d.redrive()
	case n < 15:
		d.breakLock()
	case n < 16 && d.chance(40):
		d.deleteLock()
	case n < 18:
		d.edit()
	case n < 21:
		d.changeWeather()
	case n < 25:
		d.callOnceMore()
	case n < 33:
		time.Sleep(time.Duration(d.rand.IntN(10)) * time.Second)
	case n < 35:
		time.Sleep(2 * time.Minute) // longer than a lease
	case n < 70:
		d.advance(d.executions[0])
	default:
		d.advance(d.executions[d.rand.IntN(len(d.executions))])
	}
	d.deliver()
	d.answers()
	d.look()
}

func (d *drill) begin() {
	d.number++
	d.note("run")
	d.executions = append(d.executions, &execute{name: fmt.Sprint("P", d.number), stage: "acquire"})
}

// answers takes up the answers of calls that have ended.
func (d *drill) answers() {
	for i := 0; i < len(d.calls); {
		c := d.calls[i]
		if !c.hasEnded() {
			i++
			continue
		}
		d.calls = slices.Delete(d.calls, i, i+1)
		c.then()
	}
}

// newCall makes a call and its steps, with some trouble ahead.
func (d *drill) newCall(stage string, token int64) (*call, *Steps) {
	ctx, kill := context.WithCancelCause(context.Background())
	c := &call{d: d, stage: stage, token: token, ctx: ctx, kill: kill, stood: make(chan struct{}), ended: make(chan struct{})}
	if !d.isQuiet() {
		if d.chance(5) {
			c.killAt = 1 + d.rand.IntN(14)
		}
		if d.chance(9) {
			c.freezeAt = 1 + d.rand.IntN(12)
			c.freezeFor = []time.Duration{5 * time.Second, 30 * time.Second, 10 * time.Minute}[d.rand.IntN(3)]
		}
	}
	steps, err := New(Config{
		Open: func(name string) (Store, error) {
			store := map[string]Store{"source": d.source, "lake": d.lake, "state": d.state}[name]
			if d.fault.store != nil {
				store = d.fault.store(name, store)
			}
			return callStore{store, c}, nil
		},
		Processor: &drillProcessor{call: c},
	})
	d.ok(err)
	return c, steps
}

// send makes a call. It returns once the call has ended or stands still.
func (d *drill) send(c *call, work func(ctx context.Context) error, then func(err error)) {
	var err error
	c.then = func() { then(err) }
	go func() {
		defer close(c.ended)
		err = work(c.ctx)
		if c.isDead() {
			err = errKilled
		}
	}()
	d.calls = append(d.calls, c)
	select {
	case <-c.ended:
	case <-c.stood:
	}
	d.answers()
}

func (c *call) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// advance lets an execution enter its state, unless it waits for an answer.
func (d *drill) advance(e *execute) {
	if e.busy != nil {
		time.Sleep(time.Second)
		return
	}
	switch e.stage {
	case "acquire":
		d.acquire(e)
	case "discover":
		d.discover(e)
	case "process":
		d.process(e)
	case "commit":
		d.commit(e)
	case "release":
		d.release(e)
	}
}

// in sends the call of an execution's state.
func in[Out any](d *drill, e *execute, work func(*Steps, context.Context) (Out, error), then func(Out)) {
	c, steps := d.newCall(e.stage, e.token)
	e.busy = c
	var out Out
	redrives := e.redrives
	d.send(c, func(ctx context.Context) (err error) {
		out, err = work(steps, ctx)
		return err
	}, func(err error) {
		if e.over || e.redrives != redrives || e.busy != c {
			return // nobody waits for it any more
		}
		e.busy = nil
		if err == nil {
			e.attempts = 0
			then(out)
			return
		}
		d.failed(e, err)
	})
	if d.chance(4) && !d.isQuiet() { // an answer that the service loses sight of; the call is sent again, later
		again, twin := d.newCall(e.stage, e.token)
		d.late = append(d.late, func() {
			d.note("late call")
			d.send(again, func(ctx context.Context) error { _, err := work(twin, ctx); return err }, func(error) {})
		})
	}
}

// failed is what the state machine makes of an error.
func (d *drill) failed(e *execute, err error) {
	named := Translate(err)
	isLost := errors.As(named, new(*LeaseLostError)) || errors.As(named, new(*LedgerFencedError))
	d.noteError(named)
	failure := &Failure{Error: strings.TrimPrefix(fmt.Sprintf("%T", named), "*step."), Cause: named.Error()}
	if errors.Is(err, errKilled) {
		failure = &Failure{Error: "Runtime.ExitError", Cause: "killed"}
	}
	retried := errors.As(named, new(*TransientError)) && e.attempts < 2
	switch {
	case retried, e.stage == "release" && e.attempts < 2:
		e.attempts++
	case e.stage == "process": // tolerated; the next batch is handed out
		e.attempts = 0
		e.batches = e.batches[1:]
	case isLost && (e.stage == "discover" || e.stage == "commit"):
		d.note("lap")
		e.state.Lost, e.stage, e.attempts = failure, "acquire", 0
	case e.stage == "release":
		d.end(e, "FAILED")
	default:
		e.state.Failure, e.stage, e.attempts = failure, "release", 0
	}
}

func (d *drill) noteError(err error) {
	switch {
	case errors.Is(err, lease.ErrEnded):
		d.note("ended")
	case errors.Is(err, lease.ErrLost):
		d.note("lost")
	case errors.Is(err, ledger.ErrFenced):
		d.note("fenced")
	}
}

func (d *drill) acquire(e *execute) {
	input := AcquireInput{Execution: d.execution(e), State: e.state}
	in(d, e, func(s *Steps, ctx context.Context) (AcquireOutput, error) {
		out, err := s.Acquire(ctx, input)
		if err == nil && out.Decision == DecisionHeld {
			d.granted(out.Token)
		}
		return out, err
	}, func(out AcquireOutput) {
		e.state.Acquired = &out
		switch out.Decision {
		case DecisionHeld:
			e.token, e.stage = out.Token, "discover"
		case DecisionWait:
		case DecisionOvertaken:
			e.state.Failure, e.stage = out.Loss, "release"
		default:
			d.end(e, "SUCCEEDED")
		}
	})
}

func (d *drill) discover(e *execute) {
	input := DiscoverInput{Execution: d.execution(e), Token: e.token}
	in(d, e, func(s *Steps, ctx context.Context) (DiscoverOutput, error) {
		out, err := s.Discover(ctx, input)
		if err == nil {
			d.listed(input.Token, d.batches(out))
		}
		return out, err
	}, func(out DiscoverOutput) {
		e.state.Discovered, e.stage = &out, "process"
		if out.Batches == 0 {
			d.note("nothing new")
			e.stage = "release"
			return
		}
		e.batches = d.batches(out)
	})
}

func (d *drill) process(e *execute) {
	if len(e.batches) == 0 {
		e.stage = "commit"
		return
	}
	if d.chance(3) && !d.isQuiet() { // the call never begins
		if d.fault.marksUnbegun {
			key := keysOf(d.parsed(), e.name, e.token).begun(e.batches[0].Number, newCallName())
			_, err := d.state.Put(context.Background(), key, strings.NewReader("{}"), "", bucket.Condition{})
			d.ok(err)
		}
		e.batches = e.batches[1:]
		return
	}
	input := ProcessInput{Execution: d.execution(e), Token: e.token, Batch: e.batches[0]}
	in(d, e, func(s *Steps, ctx context.Context) (ProcessOutput, error) {
		out, err := s.Process(ctx, input)
		if err != nil && len(input.Batch.Files) == 1 {
			d.excuse(input.Batch.Files[0]) // a call with one file that dies speaks against it
		}
		return out, err
	}, func(ProcessOutput) { e.batches = e.batches[1:] })
	if e.busy != nil && !d.isQuiet() && d.chance(20) { // the child's time is over, and its call is not
		e.busy = nil
		if len(input.Batch.Files) == 1 {
			d.excuse(input.Batch.Files[0]) // not finished within its time, with the call to itself
		}
		e.batches = e.batches[1:]
	}
}

func (d *drill) commit(e *execute) {
	input := CommitInput{Execution: d.execution(e), Token: e.token, Discovered: *e.state.Discovered}
	in(d, e, func(s *Steps, ctx context.Context) (CommitOutput, error) { return s.Commit(ctx, input) }, func(out CommitOutput) {
		d.note("commit")
		e.state.Committed, e.stage = &out, "release"
	})
}

func (d *drill) release(e *execute) {
	if d.chance(4) && !d.isQuiet() {
		d.end(e, "FAILED") // it never gets there
		return
	}
	if d.fault.freesAtOnce {
		e.state.Discovered = nil
	}
	input := ReleaseInput{Execution: d.execution(e), State: e.state}
	owner := d.execution(e).owner()
	in(d, e, func(s *Steps, ctx context.Context) (ReleaseOutput, error) { return s.Release(ctx, input) }, func(ReleaseOutput) {
		d.lifeEnded(owner)
		status := "SUCCEEDED"
		if e.state.Failure != nil {
			status = "FAILED"
		}
		d.end(e, status)
	})
}

// end ends an execution. Its calls may be at work still.
func (d *drill) end(e *execute, status string) {
	e.over = true
	d.executions = slices.DeleteFunc(d.executions, func(other *execute) bool { return other == e })
	if status == "SUCCEEDED" {
		return
	}
	d.ended = append(d.ended, e)
	config := string(d.config())
	stop := moment(time.Now())
	told := statusTold{owner: d.execution(e).owner(), in: ReleaseInput{DetailType: statusChangeType, Detail: statusChange{
		ExecutionARN: d.execution(e).ID, Name: e.name, Status: status, StopDate: &stop, Input: &config, RedriveCount: e.redrives,
	}}}
	if d.isQuiet() {
		d.events = append(d.events, told)
		return
	}
	switch d.rand.IntN(5) {
	case 0:
		d.note("never told")
	case 1:
		d.note("told late")
		told.at = time.Now().Add(time.Duration(d.rand.IntN(300)) * time.Second)
		d.events = append(d.events, told)
	case 2:
		d.note("told twice")
		later := told
		later.at = time.Now().Add(time.Duration(d.rand.IntN(120)) * time.Second)
		d.events = append(d.events, told, later)
	default:
		d.note("told early")
		d.events = append(d.events, told)
	}
}

// deliver delivers the events whose time has come.
func (d *drill) deliver() {
	due := slices.DeleteFunc(slices.Clone(d.events), func(s statusTold) bool { return s.at.After(time.Now()) })
	d.events = slices.DeleteFunc(d.events, func(s statusTold) bool { return !s.at.After(time.Now()) })
	for _, told := range due {
		c, steps := d.newCall("release", 0)
		d.send(c, func(ctx context.Context) error { _, err := steps.Release(ctx, told.in); return err }, func(err error) {
			if err == nil {
				d.lifeEnded(told.owner)
			}
		})
	}
}

func (d *drill) abort() {
	e := d.executions[d.rand.IntN(len(d.executions))]
	d.note("aborted")
	e.busy = nil
	d.end(e, "ABORTED")
}

// redrive starts an execution that failed or was stopped again where it ended.
func (d *drill) redrive() {
	if len(d.ended) == 0 || len(d.executions) >= 4 {
		return
	}
	i := d.rand.IntN(len(d.ended))
	e := d.ended[i]
	d.ended = slices.Delete(d.ended, i, i+1)
	d.note("redriven")
	e.over, e.busy, e.attempts = false, nil, 0
	e.redrives++
	d.executions = append(d.executions, e)
}

func (d *drill) callOnceMore() {
	if len(d.late) == 0 {
		return
	}
	i := d.rand.IntN(len(d.late))
	again := d.late[i]
	d.late = slices.Delete(d.late, i, i+1)
	again()
}

func (d *drill) breakLock() {
	lock := d.openLock()
	status, err := lock.Inspect(context.Background())
	d.ok(err)
	for _, h := range status.Holders {
		d.note("broken")
		d.excuseToken(h.Token)
		d.ok(lock.Break(context.Background(), lease.BreakRequest{Token: h.Token, By: "ada", Reason: "thought dead"}))
	}
}

// deleteLock deletes the lock's object, whoever holds it.
func (d *drill) deleteLock() {
	d.note("lock deleted")
	d.excuseAllTokens()
	d.ok(d.state.Delete(context.Background(), LockKey(d.parsed())))
}

// edit has somebody change the ledger, if the lock is free.
func (d *drill) edit() {
	c, steps := d.newCall("edit", 0)
	operator, err := steps.Operate(d.config(), "ada", fmt.Sprint("ada", d.rand.IntN(1<<30)))
	d.ok(err)
	filter := Filter{Keys: []string{d.anyKey(), d.anyKey(), d.anyKey()}}
	verb := d.rand.IntN(8)
	d.send(c, func(ctx context.Context) error {
		return operator.Hold(ctx, 0, func(ctx context.Context, token int64) (err error) {
			d.granted(token)
			switch {
			case verb < 3:
				_, err = operator.Retry(ctx, token, filter)
			case verb < 6:
				_, err = operator.Forget(ctx, token, filter)
			case verb < 7:
				_, err = operator.Reset(ctx, token)
			default:
				_, err = operator.Rebuild(ctx, token, Sources{Segments: true, Intact: true})
			}
			return err
		})
	}, func(err error) {
		if err == nil {
			d.note("edited")
		}
	})
}

func (d *drill) changeWeather() {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := []string{"source", "lake"}[d.rand.IntN(2)]
	if d.weather[name] != "" || d.rand.IntN(2) == 0 {
		delete(d.weather, name)
		return
	}
	d.weather[name] = []string{"AccessDenied", "NoSuchBucket", "ExpiredToken", "KMS.DisabledException"}[d.rand.IntN(4)]
}

// settle ends the trouble, lets everything that is under way come to its end,
// and one run after the other do what is left.
func (d *drill) settle() {
	d.mu.Lock()
	d.quiet, d.weather = true, map[string]string{}
	d.mu.Unlock()
	d.late = nil
	for rounds := 0; (len(d.executions) > 0 || len(d.calls) > 0 || len(d.events) > 0) && rounds < 2000; rounds++ {
		for _, e := range slices.Clone(d.executions) {
			d.advance(e)
		}
		time.Sleep(time.Minute)
		d.deliver()
		d.answers()
	}
	for range 60 {
		d.begin()
		e := d.executions[0]
		for rounds := 0; !e.over && rounds < 200; rounds++ {
			d.advance(e)
			time.Sleep(time.Second)
			d.answers()
		}
		time.Sleep(time.Hour)
		if d.look(); len(d.violations) > 0 {
			return
		}
	}
	d.lookAtRest()
}

// finish waits for whatever still stands still.
func (d *drill) finish() {
	for _, c := range d.calls {
		<-c.ended
	}
}

// drillProcessor writes a file in capitals, and the token of its run. "poison" is
// malformed, "crash" brings the call down, and nothing is made of nothing.
type drillProcessor struct{ call *call }

func (p *drillProcessor) Process(ctx context.Context, in process.File, out process.Publisher) (process.Outcome, error) {
	d := p.call.d
	if d.chance2(4, 100) {
		d.note("overwritten while read")
		d.overwrite(in.Key)
	}
	content := readAll(in.Body)
	switch {
	case content == nil:
		return process.Outcome{}, fmt.Errorf("%w: cannot be read", process.ErrMalformed) // blames the file, as careless code does
	case strings.Contains(string(content), "poison"):
		return process.Outcome{}, fmt.Errorf("%w: it is poison", process.ErrMalformed)
	case strings.Contains(string(content), "crash"):
		d.note("crashed")
		p.call.die()
		return process.Outcome{}, errKilled
	case d.chance2(2, 100):
		return process.Outcome{}, fmt.Errorf("%w: its database is down", process.ErrNotFile)
	}
	if len(content) == 0 {
		return process.Outcome{}, nil
	}
	err := out.Publish(ctx, d.fault.output(in, content))
	return process.Outcome{Rows: 1}, err
}

// Empty implements process.Emptier.
func (p *drillProcessor) Empty(ctx context.Context, in process.File, _ io.ReaderAt, _ int64, out process.Publisher) error {
	return out.Publish(ctx, p.call.d.fault.output(in, nil))
}

func (c *call) die() {
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	c.kill(errKilled)
}
