package asl

import (
	"container/heap"
	"time"
)

// A simulation is the time of a scheduler in which nothing takes time but waiting: as soon as no goroutine has the turn
// and no call is outside, it jumps to the next timer. With a scale of waits the jump itself takes that share of its length.
type simulation struct {
	now    time.Time
	timers timers
	count  int         // of timers ever set: breaks ties
	jump   func() bool // stops a jump that takes its time
}

type timer struct {
	at    time.Time
	order int
	p     *pause
	index int // in the heap; -1 when it has left
}

func (sim *simulation) after(s *scheduler, d time.Duration, p *pause) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sim.count++
	t := &timer{at: sim.now.Add(d), order: sim.count, p: p}
	heap.Push(&sim.timers, t)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.index >= 0 {
			heap.Remove(&sim.timers, t.index)
		}
	}
}

// settle starts a jump if nothing is left to do, and stops one that is under way if something is.
func (sim *simulation) settle(s *scheduler) {
	if sim.jump != nil {
		sim.jump()
		sim.jump = nil
	}
	if s.taken || s.outside > 0 || len(sim.timers) == 0 {
		return
	}
	next := sim.timers[0]
	pacing := scale(next.at.Sub(sim.now), s.scale)
	if pacing <= 0 {
		sim.fire(s)
		return
	}
	sim.jump = s.clock.AfterFunc(pacing, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.taken && s.outside == 0 && len(sim.timers) > 0 && sim.timers[0] == next {
			sim.fire(s)
		}
	})
}

func (sim *simulation) fire(s *scheduler) {
	t := heap.Pop(&sim.timers).(*timer)
	if t.at.After(sim.now) {
		sim.now = t.at
	}
	if t.p.woken {
		sim.settle(s) // it was late: something else woke the goroutine
		return
	}
	s.wakeLocked(t.p, elapsed)
}

type timers []*timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].order < t[j].order
	}
	return t[i].at.Before(t[j].at)
}
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}
func (t *timers) Push(v any) {
	v.(*timer).index = len(*t)
	*t = append(*t, v.(*timer))
}
func (t *timers) Pop() any {
	last := len(*t) - 1
	v := (*t)[last]
	v.index = -1
	(*t)[last] = nil
	*t = (*t)[:last]
	return v
}
