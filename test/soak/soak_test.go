package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

var (
	soakFor = flag.Duration("soak", 3*time.Second, "how long the soak's clients work; from 25s on they are killed, too")
	seed    = flag.Uint64("seed", 0, "what the soak's troubles follow from; 0 draws one")
)

const (
	clients = 16
	// rough is how long a soak must be to have kills and cut lines in it.
	rough = 25 * time.Second
	// drain is how long the last waiters may take: a dead one in front of them
	// blocks the queue for 3 × poll + 30 s, a dead holder for its lease.
	drain = 60 * time.Second
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(clientVariable); spec != "" {
		os.Exit(work(spec))
	}
	os.Exit(m.Run())
}

func TestSoak(t *testing.T) {
	s := newSoak(t, *soakFor)
	h := s.run(s.wreck)
	s.figures(h)
	for _, wrong := range h.verdict() {
		t.Error(wrong)
	}
	for _, f := range s.trouble.missing(s.expected()) {
		t.Errorf("no %q was injected: this soak shows nothing about it", f)
	}
}

// The soak is worth as much as what it finds. Each of these breaks one of the
// lock's assumptions, and must soon be found out.
func TestTheSoakFindsWhatItLooksFor(t *testing.T) {
	if *soakFor < rough {
		t.Skip("takes up to half a minute; runs with -soak 30s and longer")
	}
	t.Run("a server that ignores conditions", func(t *testing.T) {
		s := newSoak(t, rough)
		s.blind = true
		s.findsTwoHolders(func(context.Context) {})
	})
	t.Run("a client that goes on when its lease is lost", func(t *testing.T) {
		s := newSoak(t, rough)
		s.deaf = true
		s.findsTwoHolders(func(ctx context.Context) {
			for wait := time.Second; sleep(ctx, wait); wait = 10 * time.Second {
				if slot, ok := s.await(ctx, true); ok {
					s.trouble.takeDown(slot, ttl+grace+2*time.Second)
				}
			}
		})
	})
}

// soak is one run.
type soak struct {
	*testing.T
	length      time.Duration
	seed        uint64
	trouble     *trouble
	fence       *fence
	crew        *crew
	blind, deaf bool
	enough      func() bool // ends the run early, nobody waited for; may be nil
	lastToken   int64
	took        time.Duration
}

func newSoak(t *testing.T, length time.Duration) *soak {
	s := &soak{T: t, length: length, seed: *seed}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	t.Logf("seed %d", s.seed)
	s.trouble = newTrouble(s.seed)
	s.fence = &fence{trouble: s.trouble}
	return s
}

// run lets the clients work while wreck does its worst, heals everything, and
// waits until all have been served.
func (s *soak) run(wreck func(context.Context)) history {
	began := time.Now()
	stack, err := local.Start(s.Context(), local.Config{Stderr: s.Output()})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = stack.Close(context.Background()) })
	if err := stack.CreateBucket(s.Context(), bucketName); err != nil {
		s.Fatal(err)
	}
	var late sync.WaitGroup
	ways := make([]string, clients)
	for slot := range ways {
		p := &proxy{slot: slot, upstream: stack.Endpoint(), fence: s.fence, trouble: s.trouble, blind: s.blind, late: &late}
		ways[slot] = p.open(s.T)
	}
	s.crew = newCrew(s.T, s.seed, clients, func(slot int) orders {
		return orders{Proxy: ways[slot], Direct: stack.Endpoint(), Deaf: s.deaf}
	})

	working, end := context.WithCancel(s.Context())
	defer end()
	var wreckers sync.WaitGroup
	wreckers.Go(func() { wreck(working) })
	wreckers.Go(func() {
		for sleep(working, min(7*time.Second, s.length/4)) {
			s.trouble.stepClock()
		}
	})
	for start := time.Now(); sleep(working, 100*time.Millisecond); {
		past := time.Since(start) - s.length
		// On a slow machine some kinds of trouble are yet to come.
		if past >= 0 && (past > drain || len(s.trouble.missing(s.expected())) == 0) || s.enough != nil && s.enough() {
			break
		}
	}
	end()
	wreckers.Wait()
	s.trouble.heal()
	if s.enough != nil {
		s.crew.kill()
	} else if !s.crew.finish(drain) {
		s.Errorf("clients still waited %v after all trouble had ended", drain)
		s.crew.kill()
	}
	late.Wait()
	s.took = time.Since(began)
	return s.history(stack)
}

// wreck cuts lines and kills processes, at times that the seed fixes.
func (s *soak) wreck(ctx context.Context) {
	if s.length < rough {
		return
	}
	var wreckers sync.WaitGroup
	every := func(first, pause time.Duration, strike func()) {
		wreckers.Go(func() {
			for wait := first; sleep(ctx, wait); wait = s.trouble.draw(pause/2, pause*3/2) {
				strike()
			}
		})
	}
	every(2*time.Second, 6*time.Second, func() {
		if slot, ok := s.await(ctx, s.trouble.pick(2) == 0); ok {
			s.trouble.takeDown(slot, s.trouble.draw(500*time.Millisecond, 6*time.Second))
		}
	})
	every(4*time.Second, 20*time.Second, func() { s.kill(ctx, true, killHolder) })
	// One that dies in the queue blocks it for half a minute when its turn comes;
	// several at once block it no longer.
	every(18*time.Second, 2*time.Minute, func() {
		s.kill(ctx, false, killWaiter)
		s.kill(ctx, false, killWaiter)
	})
	wreckers.Wait()
}

// await finds a holder, or a waiter.
func (s *soak) await(ctx context.Context, holding bool) (slot int, ok bool) {
	for sleep(ctx, s.trouble.draw(0, 5*time.Millisecond)) {
		if slot, ok := s.crew.find(holding, s.trouble.pick); ok {
			return slot, true
		}
	}
	return 0, false
}

func (s *soak) kill(ctx context.Context, holding bool, f fault) {
	if slot, ok := s.await(ctx, holding); ok {
		s.crew.strike(slot)
		s.trouble.did(f)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (s *soak) history(stack *local.Stack) history {
	h := history{lives: s.crew.lives, stamps: s.fence.taken, slots: clients}
	direct, err := newBucket(stack.Endpoint())
	if err != nil {
		s.Fatal(err)
	}
	if h.counter, err = readCounter(context.Background(), direct); err != nil {
		s.Fatal(err)
	}
	register, err := s3lock.New(direct, lockKey)
	if err != nil {
		s.Fatal(err)
	}
	lock, err := lease.New(register, lease.Config{})
	if err != nil {
		s.Fatal(err)
	}
	status, err := lock.Inspect(context.Background())
	if err != nil || status.Corrupt != "" {
		s.Fatalf("the lock's document at the end: %s, %v", status.Corrupt, err)
	}
	s.lastToken = status.LastToken
	return h
}

// findsTwoHolders fails the test unless a run finds two holders.
func (s *soak) findsTwoHolders(wreck func(context.Context)) {
	s.enough = func() bool {
		all, _ := s.crew.soFar().holds()
		return len(twoHolders(all)) > 0
	}
	all, _ := s.run(wreck).holds()
	if found := twoHolders(all); len(found) > 0 {
		s.Logf("found after %v: %s", s.took.Round(time.Second), found[0])
	} else {
		s.Error("it was not found")
	}
}

// expected lists the troubles that a run of this length must have had.
func (s *soak) expected() []fault {
	all := append(slices.Clone(writeFaults), clockStep)
	if s.length >= rough {
		all = append(all, wreckage...)
	}
	return all
}

// figures says what the run was.
func (s *soak) figures(h history) {
	all, _ := h.holds()
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("seed", "%d", s.seed)
	line("length", "%v of trouble, %v in all, %d clients in %d processes", s.length, s.took.Round(time.Second), clients, len(h.lives))
	var lost, increments, unknown, givenUp int
	var longest time.Duration
	served := make([]int, clients)
	for _, held := range all {
		served[held.slot]++
		longest = max(longest, held.from.Sub(held.asked))
		if held.lost {
			lost++
		}
		increments += len(held.increments)
		for _, i := range held.increments {
			if !i.known {
				unknown++
			}
		}
	}
	failures := map[string]int{}
	for _, l := range h.lives {
		for _, r := range l.records {
			switch r.Act {
			case kept:
				givenUp++
			case failed:
				failures[r.Note]++
			}
		}
	}
	line("acquisitions", "%d, last token %d; each client %d to %d times", len(all), s.lastToken, slices.Min(served), slices.Max(served))
	line("leases lost", "%d", lost)
	line("releases given up", "%d", givenUp)
	after, slowest := takeovers(all)
	line("takeovers after kill", "%d, within %v", after, slowest.Round(time.Millisecond))
	line("longest wait", "%v; most grants to others in one wait %d", longest.Round(time.Millisecond), overtaken(all))
	line("counter", "%d, of %d increments, %d of them of unknown outcome", h.counter, increments, unknown)
	line("fence", "%d stamps taken", len(h.stamps))
	for _, f := range append(append(slices.Clone(writeFaults), clockStep), wreckage...) {
		line("fault: "+string(f), "%d", s.trouble.injected[f])
	}
	total := 0
	for _, n := range s.trouble.requests {
		total += n
	}
	line("requests that arrived", "%d: %s", total, counts(s.trouble.requests))
	if len(failures) > 0 {
		line("failed acquires", "%d: %s", len(failures), counts(failures))
	}
	s.Logf("figures\n%s", b.String())
}

// takeovers counts the holders that came after a killed one, and finds how
// long the longest took.
func takeovers(all []hold) (n int, slowest time.Duration) {
	for i := 1; i < len(all); i++ {
		if all[i-1].killed {
			n++
			slowest = max(slowest, all[i].from.Sub(all[i-1].to))
		}
	}
	return n, slowest
}

func counts(m map[string]int) string {
	var parts []string
	for _, key := range slices.Sorted(func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}) {
		parts = append(parts, fmt.Sprintf("%s %d", key, m[key]))
	}
	return strings.Join(parts, ", ")
}
