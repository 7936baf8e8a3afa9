package asl

import (
	"context"
	"sync"
	"time"
)

// Clock is the time that executions live in. [RealClock] serves outside of tests.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d; stop keeps it from being called, if it has not been yet.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// RealClock is the machine's own clock; in a testing/synctest bubble, the bubble's.
type RealClock struct{}

// Now implements [Clock].
func (RealClock) Now() time.Time { return time.Now() }

// AfterFunc implements [Clock].
func (RealClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// A scheduler gives the goroutines of one execution, and of its child executions, their turns. A goroutine that has
// the turn is the only one that runs; it gives the turn up when it ends or when it parks, and those that are woken get
// it in the order in which they were woken. Calls to the outside (Lambda, S3) run beside the turns.
type scheduler struct {
	clock Clock
	scale float64 // of waits

	mu      sync.Mutex
	taken   bool     // somebody has the turn
	ready   []*pause // woken, in order
	outside int      // calls that have not returned
	alive   sync.WaitGroup

	simulated *simulation // nil in real time
}

// wakeReason tells a parked goroutine why it runs again.
type wakeReason int

const (
	stopped wakeReason = iota // its scope was stopped
	elapsed                   // its timer ran out
	done                      // what it waited for has happened
)

// A pause is one parking of one goroutine: the first reason to wake wins.
type pause struct {
	turn   chan struct{} // closed when it has the turn again
	woken  bool
	reason wakeReason
	scope  *scope
}

func newScheduler(clock Clock, scale float64, simulated bool) *scheduler {
	s := &scheduler{clock: clock, scale: scale}
	if simulated {
		s.simulated = &simulation{now: clock.Now()}
	}
	return s
}

func (s *scheduler) now() time.Time {
	if s.simulated == nil {
		return s.clock.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.simulated.now
}

// spawn runs f in a goroutine of its own, which has the turn whenever it is not parked.
func (s *scheduler) spawn(f func()) {
	p := &pause{turn: make(chan struct{})}
	s.alive.Add(1)
	go func() {
		defer s.alive.Done()
		<-p.turn
		f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.passTurn()
	}()
	s.wake(p, done)
}

// prepare returns a pause that ends at the latest when the scope is stopped.
func (s *scheduler) prepare(sc *scope) *pause {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &pause{turn: make(chan struct{}), scope: sc}
	if sc.stopped {
		s.wakeLocked(p, stopped)
	} else {
		sc.pauses = append(sc.pauses, p)
	}
	return p
}

// park gives the turn up until p is woken.
func (s *scheduler) park(p *pause) wakeReason {
	s.mu.Lock()
	s.passTurn()
	s.mu.Unlock()
	<-p.turn
	return p.reason
}

func (s *scheduler) wake(p *pause, reason wakeReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked(p, reason)
}

func (s *scheduler) wakeLocked(p *pause, reason wakeReason) {
	if p.woken {
		return
	}
	p.woken, p.reason = true, reason
	if p.scope != nil {
		p.scope.forget(p)
	}
	s.ready = append(s.ready, p)
	if !s.taken {
		s.passTurn()
	}
}

// passTurn hands the turn to the goroutine that was woken first, if there is one.
func (s *scheduler) passTurn() {
	s.taken = len(s.ready) > 0
	if s.taken {
		next := s.ready[0]
		s.ready = s.ready[1:]
		close(next.turn)
	}
	if s.simulated != nil {
		s.simulated.settle(s)
	}
}

// call runs f beside the turns and wakes p when it returns.
func (s *scheduler) call(p *pause, f func()) {
	s.mu.Lock()
	s.outside++
	s.mu.Unlock()
	s.alive.Add(1)
	go func() {
		defer s.alive.Done()
		f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outside--
		s.wakeLocked(p, done)
		if s.simulated != nil {
			s.simulated.settle(s)
		}
	}()
}

// pace says whether a timer is shortened by the scale of waits.
type pace bool

const (
	asWritten pace = false
	scaled    pace = true
)

// after wakes p when d has passed, unless it is cancelled first.
func (s *scheduler) after(d time.Duration, how pace, p *pause) (cancel func()) {
	if s.simulated != nil {
		return s.simulated.after(s, d, p)
	}
	if how == scaled {
		d = scale(d, s.scale)
	}
	stop := s.clock.AfterFunc(d, func() { s.wake(p, elapsed) })
	return func() { stop() }
}

func scale(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) * by)
}

// A scope is a group of goroutines that are stopped together: an execution, a branch, an iteration.
type scope struct {
	s        *scheduler
	parent   *scope
	ctx      context.Context // of calls to the outside; done when the scope is stopped
	cancel   context.CancelFunc
	stopped  bool
	pauses   []*pause
	children []*scope
}

func (s *scheduler) newScope(ctx context.Context) *scope {
	sc := &scope{s: s}
	sc.ctx, sc.cancel = context.WithCancel(ctx)
	return sc
}

// inner returns a scope that is stopped with sc, or alone.
func (sc *scope) inner() *scope {
	sc.s.mu.Lock()
	defer sc.s.mu.Unlock()
	in := &scope{s: sc.s, parent: sc, stopped: sc.stopped}
	in.ctx, in.cancel = context.WithCancel(sc.ctx)
	sc.children = append(sc.children, in)
	return in
}

// stop wakes everything in the scope, with the reason stopped.
func (sc *scope) stop() {
	sc.s.mu.Lock()
	defer sc.s.mu.Unlock()
	sc.stopLocked()
	if sc.parent != nil {
		sc.parent.children = remove(sc.parent.children, sc)
	}
}

func (sc *scope) stopLocked() {
	sc.stopped = true
	sc.cancel()
	for len(sc.pauses) > 0 {
		sc.s.wakeLocked(sc.pauses[0], stopped)
	}
	for _, in := range sc.children {
		in.stopLocked()
	}
}

func (sc *scope) isStopped() bool {
	sc.s.mu.Lock()
	defer sc.s.mu.Unlock()
	return sc.stopped
}

func (sc *scope) forget(p *pause) { sc.pauses = remove(sc.pauses, p) }

func remove[T comparable](list []T, gone T) []T {
	for i, v := range list {
		if v == gone {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
