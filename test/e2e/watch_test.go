package e2e_test

import (
	"strings"
	"sync"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// watch sees every event of every execution, and may hold an execution there.
type watch struct {
	mu    sync.Mutex
	gates []*gate
}

// gate is a place in one execution: it is reached once.
type gate struct {
	run, state string
	holds      bool
	passed     bool
	reached    chan struct{}
	opened     chan struct{}
	openOnce   sync.Once
}

// entered returns a channel that is closed when a run enters a state.
func (w *watch) entered(run, state string) <-chan struct{} {
	return w.add(&gate{run: run, state: state}).reached
}

// stop holds a run as it enters a state, until the gate is opened or the run ends.
func (w *watch) stop(run, state string) *gate {
	return w.add(&gate{run: run, state: state, holds: true})
}

func (w *watch) add(g *gate) *gate {
	g.reached, g.opened = make(chan struct{}), make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates = append(w.gates, g)
	return g
}

func (g *gate) open() { g.openOnce.Do(func() { close(g.opened) }) }

func (w *watch) openAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.gates {
		g.open()
	}
}

// Event is asl.Observer.
func (w *watch) Event(e *asl.Execution, event asl.Event) {
	if !strings.HasSuffix(string(event.Type), "StateEntered") {
		return
	}
	for _, g := range w.at(e.Name(), event.State()) {
		close(g.reached)
		if g.holds {
			select {
			case <-g.opened:
			case <-e.Ended():
			}
		}
	}
}

// at takes the gates that are reached here for the first time.
func (w *watch) at(run, state string) []*gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	var here []*gate
	for _, g := range w.gates {
		if !g.passed && g.run == run && g.state == state {
			g.passed = true
			here = append(here, g)
		}
	}
	return here
}

// Status is asl.Observer.
func (w *watch) Status(*asl.Execution, asl.Status) {}
