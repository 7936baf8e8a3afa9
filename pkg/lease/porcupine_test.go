package lease_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// storm is one client's line to the register: every request takes its time,
// and one in rough fails in one of the ways in which requests do.
type storm struct {
	lease.Register
	dice  *rand.Rand
	rough int
	calm  time.Time // until then nothing goes through
}

// travel takes a time that no other request is likely to take: at each moment
// of virtual time one thing happens, and so a seed is one history.
func (s *storm) travel(ctx context.Context) error {
	return pause(ctx, time.Duration(1+s.dice.Int64N(int64(200*time.Millisecond))))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", lease.ErrUncertain, ctx.Err())
	case <-time.After(d):
		return nil
	}
}

func (s *storm) Load(ctx context.Context, known string) (lease.Reading, error) {
	return s.send(ctx, func() (lease.Reading, error) { return s.Register.Load(context.WithoutCancel(ctx), known) })
}

func (s *storm) Swap(ctx context.Context, version string, value []byte) (lease.Reading, error) {
	do := func() (lease.Reading, error) { return s.Register.Swap(context.WithoutCancel(ctx), version, value) }
	if s.dice.IntN(s.rough) > 0 {
		return s.send(ctx, do)
	}
	late := func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
		// The line stalls, with this request in it.
		s.calm = time.Now().Add(time.Duration(s.dice.Int64N(int64(3 * time.Second))))
		time.AfterFunc(time.Duration(s.dice.Int64N(int64(4*time.Second))), func() { _, _ = do() })
		return leasetest.LostRequest(ctx, do)
	}
	faults := []leasetest.Fault{
		leasetest.LostRequest, leasetest.LostReply, leasetest.Conflict, leasetest.Unavailable, leasetest.Hung,
		leasetest.Slow(time.Duration(s.dice.Int64N(int64(2 * time.Second)))), late, late,
	}
	fault := faults[s.dice.IntN(len(faults))]
	return s.send(ctx, func() (lease.Reading, error) { return fault(ctx, do) })
}

func (s *storm) send(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
	if err := s.travel(ctx); err != nil {
		return lease.Reading{}, err
	}
	if time.Now().Before(s.calm) {
		return leasetest.Hung(ctx, do)
	}
	r, err := do()
	if lost := s.travel(ctx); lost != nil {
		return lease.Reading{}, lost
	}
	return r, err
}

// history is what happened to one lock, in a bubble of virtual time.
type history struct {
	mu    sync.Mutex
	clock int64 // counts calls and returns
	ops   []porcupine.Operation
	limit int
	end   time.Time
}

// tampering is a seam for seeded faults; its zero value is none.
type tampering struct {
	register func(lease.Register) lease.Register
	clock    func() lease.Clock
}

// record runs clients of one lock, each of so many calls, and writes down what
// they were told.
func record(t *testing.T, seed uint64, calls int, bad tampering) (h *history) {
	synctest.Test(t, func(t *testing.T) {
		dice := rand.New(rand.NewPCG(seed, 0))
		h = &history{limit: 1 + dice.IntN(2)}
		rough := 2 + dice.IntN(6)
		memory := leasetest.NewMemory(nil)
		// The specification counts tokens from 0; a new lock's begin at the clock.
		memory.Put([]byte(`{"schema":2,"limit":1,"lastToken":0,"holders":[],"waiters":[],"events":[],"ended":[],"nonce":"first"}`))
		var all sync.WaitGroup
		for i := range 4 {
			c := &actor{history: h, id: i, owner: fmt.Sprint("P", i), dice: rand.New(rand.NewPCG(seed, uint64(i)+1))}
			line := &storm{Register: memory, dice: rand.New(rand.NewPCG(seed, uint64(i)+11)), rough: rough}
			var reg lease.Register = line
			if bad.register != nil {
				line.Register = bad.register(memory)
				reg = line
			}
			cfg := lease.Config{TTL: specTTL, Grace: specGrace, Limit: h.limit, Poll: 10 * time.Minute,
				Patience: 3 * time.Second, Cleanup: 2 * time.Second, Rand: leasetest.Seeded(seed<<8 + uint64(i))}
			if bad.clock != nil {
				cfg.Clock = bad.clock()
			}
			var err error
			if c.lock, err = lease.New(reg, cfg); err != nil {
				t.Fatal(err)
			}
			run := c.work
			if i == 3 {
				run = c.operate
			}
			all.Go(func() { run(t.Context(), calls) })
		}
		all.Wait()
		h.end = time.Now()
	})
	for i := range h.ops {
		if op := &h.ops[i]; op.Return == 0 { // it may happen at any time
			op.Return = h.clock + 1
		}
	}
	return h
}

// do writes down a call and its answer.
func (h *history) do(id int, c call, f func() answer) answer {
	h.mu.Lock()
	h.clock++
	c.limit, c.from = h.limit, time.Now()
	began := h.clock
	h.mu.Unlock()
	a := f()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	c.to = time.Now()
	op := porcupine.Operation{ClientId: id, Input: c, Output: a, Call: began, Return: h.clock}
	if a.unknown {
		op.Return = 0
	}
	h.ops = append(h.ops, op)
	if a.unknown && c.verb == "try" {
		c.verb = "abandon"
		h.ops = append(h.ops, porcupine.Operation{ClientId: id, Input: c, Output: a, Call: began})
	}
	return a
}

// actor is a client that does what comes to its mind.
type actor struct {
	*history
	id    int
	owner string
	lock  *lease.Lock
	dice  *rand.Rand
	grant lease.Grant
	old   int64 // an earlier token
}

func (c *actor) rest(most time.Duration) {
	time.Sleep(time.Duration(1 + c.dice.Int64N(int64(most))))
}

func (c *actor) work(ctx context.Context, calls int) {
	c.rest(3 * time.Second)
	for range calls {
		within, cancel := context.WithTimeout(ctx, 300*time.Millisecond+time.Duration(c.dice.Int64N(int64(4*time.Second))))
		switch n := c.dice.IntN(10); {
		case c.grant.Token == 0 && n == 0 && c.old > 0:
			c.release(within, c.old)
		case c.grant.Token == 0 && n < 6:
			c.take(within, "try")
		case c.grant.Token == 0, n == 9: // n == 9: it asks again for what it has
			c.take(within, "ask")
		case n < 4:
			c.renew(within)
		case n < 8:
			c.release(within, c.grant.Token)
		default:
			c.rest(2 * specLease) // its lease may end
		}
		cancel()
		c.check()
		c.rest(2 * time.Second)
		c.check()
	}
}

// check is what a holder does before each effect.
func (c *actor) check() {
	if c.grant.Check() == nil {
		c.do(c.id, call{verb: "work", owner: c.owner, token: c.grant.Token}, func() answer { return answer{yes: true} })
	}
}

func (c *actor) take(ctx context.Context, verb string) {
	if c.grant.Token > 0 {
		c.old = c.grant.Token
	}
	c.grant = lease.Grant{} // a new life of the owner
	c.do(c.id, call{verb: verb, owner: c.owner}, func() answer {
		var g lease.Grant
		var a answer
		var err error
		if verb == "try" {
			g, err = c.lock.TryAcquire(ctx, c.owner)
			var held *lease.HeldError
			if errors.As(err, &held) {
				return answer{}
			}
		} else {
			var said lease.Answer
			said, err = c.lock.Ask(ctx, c.owner)
			g, a.waits = said.Grant, said.Decision == lease.Wait
		}
		if err != nil {
			return answer{unknown: true}
		}
		c.grant = g
		a.yes, a.token, a.expires = g.Token > 0, g.Token, g.Expires
		return a
	})
}

func (c *actor) renew(ctx context.Context) {
	c.do(c.id, call{verb: "renew", owner: c.owner, token: c.grant.Token}, func() answer {
		g, err := c.lock.Renew(ctx, c.grant)
		switch {
		case err == nil:
			c.grant = g
			return answer{yes: true, token: g.Token, expires: g.Expires}
		case errors.Is(err, lease.ErrLost) && c.grant.Remaining() > 0:
			c.old, c.grant = c.grant.Token, lease.Grant{}
			return answer{}
		default: // also where only the deadline passed
			return answer{unknown: true}
		}
	})
}

func (c *actor) release(ctx context.Context, token int64) {
	c.old, c.grant = token, lease.Grant{}
	a := c.do(c.id, call{verb: "release", owner: c.owner, token: token}, func() answer {
		r, err := c.lock.Release(ctx, c.owner, token, "done")
		return answer{unknown: err != nil, yes: r.Held}
	})
	if a.unknown { // it thinks better of it, while the release may be under way
		c.take(context.WithoutCancel(ctx), "try")
	}
}

// operate is the life of somebody who breaks locks, and of a cleaner.
func (c *actor) operate(ctx context.Context, calls int) {
	for range (calls + 2) / 3 {
		c.rest(8 * time.Second)
		s, err := c.lock.Inspect(ctx)
		if err != nil || len(s.Holders) == 0 {
			continue
		}
		h := s.Holders[c.dice.IntN(len(s.Holders))]
		within, cancel := context.WithTimeout(ctx, 3*time.Second)
		if c.dice.IntN(2) == 0 {
			c.do(c.id, call{verb: "break", owner: h.Owner, token: h.Token}, func() answer {
				err := c.lock.Break(within, lease.BreakRequest{Holder: h.Owner, Token: h.Token, By: "ana", Reason: "test"})
				return answer{unknown: err != nil && !errors.Is(err, lease.ErrNotHeld), yes: err == nil}
			})
		} else {
			c.do(c.id, call{verb: "clean", owner: h.Owner, token: h.Token}, func() answer {
				r, err := c.lock.Release(within, h.Owner, h.Token, "cleanup")
				return answer{unknown: err != nil, yes: r.Held}
			})
		}
		cancel()
	}
}

func (h *history) String() string {
	var b strings.Builder
	for _, op := range h.ops {
		c := op.Input.(call)
		fmt.Fprintf(&b, "[%3d %3d] %s–%s %v → %v\n", op.Call, op.Return,
			c.from.Format("05.000"), c.to.Format("05.000"), c, op.Output)
	}
	return b.String()
}

const callsEach = 8

// illegal runs a seed and, where its history is none of a lock, looks for the
// shortest run of the seed that is not.
func illegal(t *testing.T, seed uint64, bad tampering) (h *history, found bool) {
	if h = record(t, seed, callsEach, bad); porcupine.CheckOperations(lockModel, h.ops) {
		return h, false
	}
	for calls := 1; ; calls++ {
		if h = record(t, seed, calls, bad); !porcupine.CheckOperations(lockModel, h.ops) {
			return h, true
		}
	}
}

// Histories of four clients in bad weather are histories of a lock.
func TestHistoriesAreLinearizable(t *testing.T) {
	const first = 20260301
	histories := 3000
	if testing.Short() || lease.RaceDetector {
		histories = 300
	}
	t.Logf("seeds %d to %d", first, first+histories-1)
	told := map[string]int{}
	for i := range histories {
		h, broken := illegal(t, first+uint64(i), tampering{})
		if broken {
			draw(t, h, first+uint64(i))
			return
		}
		for _, op := range h.ops {
			verb, a := op.Input.(call).verb, op.Output.(answer)
			said, _, _ := strings.Cut(a.String(), ",")
			told[verb+" → "+said]++
		}
	}
	// A history in which nothing happens is one of any lock.
	for _, what := range slices.Sorted(maps.Keys(told)) {
		t.Logf("%6d × %s", told[what], what)
	}
	for _, verb := range []string{"try", "ask", "renew", "release", "clean", "break"} {
		for _, said := range []string{" → yes", " → unknown"} {
			if told[verb+said] == 0 {
				t.Errorf("no history has %s%s", verb, said)
			}
		}
	}
}

func draw(t *testing.T, h *history, seed uint64) {
	_, info := porcupine.CheckOperationsVerbose(lockModel, h.ops, 0)
	path := filepath.Join(t.ArtifactDir(), fmt.Sprintf("history-%d.html", seed))
	if err := porcupine.VisualizePath(lockModel, info, path); err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d: no order of these calls is one of a lock; drawn in %s, which -artifacts keeps\n%s", seed, path, h)
}

func TestASeedIsOneHistory(t *testing.T) {
	for seed := range uint64(20) {
		if a, b := record(t, seed, callsEach, tampering{}), record(t, seed, callsEach, tampering{}); a.String() != b.String() {
			t.Errorf("seed %d: \n%s\nand then\n%s", seed, a, b)
		}
	}
}

// torn is a register whose compare and swap are two steps.
type torn struct{ *leasetest.Memory }

func (r torn) Swap(ctx context.Context, version string, value []byte) (lease.Reading, error) {
	if at, err := r.Load(ctx, ""); err != nil || at.Version != version {
		return at, lease.ErrConflict
	}
	time.Sleep(30 * time.Millisecond)
	r.Put(value)
	after, err := r.Load(ctx, "")
	after.Value = nil
	return after, err
}

// trusting takes a write whose reply was lost for one that landed.
type trusting struct{ *leasetest.Memory }

func (r trusting) Swap(ctx context.Context, version string, value []byte) (lease.Reading, error) {
	now, err := r.Load(ctx, "")
	if n, _ := strconv.Atoi(version); err == nil && time.Now().UnixNano()%7 == 0 {
		return lease.Reading{Version: strconv.Itoa(n + 1), Now: now.Now}, nil
	}
	return r.Memory.Swap(ctx, version, value)
}

// slow is a clock that runs at a quarter of the speed.
type slow struct{ start time.Time }

func (c slow) Read() lease.Instant {
	shown := time.Since(c.start) / 4
	return lease.Instant{Wall: c.start.Add(shown).Round(0), Mono: shown}
}

func TestLinearizabilityFindsSeededFaults(t *testing.T) {
	for name, bad := range map[string]tampering{
		"a register that is not atomic":     {register: func(r lease.Register) lease.Register { return torn{r.(*leasetest.Memory)} }},
		"a lost write that is trusted":      {register: func(r lease.Register) lease.Register { return trusting{r.(*leasetest.Memory)} }},
		"a clock of a quarter of the speed": {clock: func() lease.Clock { return slow{time.Now()} }},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(500) {
				if h, broken := illegal(t, seed, bad); broken {
					t.Logf("found by seed %d; no order of these is one of a lock:\n%s", seed, h)
					return
				}
			}
			t.Error("not found in 500 histories")
		})
	}
}
