package asl

import (
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// A chain is one line of states of an execution: the whole of it, a branch or an iteration. Each event points to the
// one before it in its chain.
type chain struct {
	exec  *Execution
	scope *scope
	last  int64 // id of the event that the next one points to

	state   *state         // that is being executed
	entered Event          // its entry
	retries *int           // RetryCount of a Task
	mapItem map[string]any // Item of the context object, inside an inline Map

	parent *chain
	inner  []*chain // branches and iterations that run
	inTask bool     // a task has been scheduled and has not ended

	iteration MapIterationDetails // of an iteration
}

// newChain returns the chain of a branch or iteration; it is stopped alone, or with c.
func (c *chain) newChain(within *scope) *chain {
	in := &chain{exec: c.exec, scope: within.inner(), last: c.last, mapItem: c.mapItem, parent: c}
	c.inner = append(c.inner, in)
	return in
}

// close takes the chain out of its parent's.
func (c *chain) close() {
	c.scope.stop()
	c.parent.inner = remove(c.parent.inner, c)
}

// append adds an event that the next one points to.
func (c *chain) append(t EventType, details any) error {
	event, err := c.aside(t, details)
	if err == nil {
		c.last = event.ID
	}
	return err
}

// aside adds an event that the next one does not point to.
func (c *chain) aside(t EventType, details any) (Event, error) {
	if c.scope.isStopped() {
		return Event{}, errStopped
	}
	return c.exec.append(t, c.last, details)
}

// run executes a flow from its start to its end.
func (c *chain) run(f *flow, input document) (document, error) {
	for name := f.start; ; {
		s := f.states[name]
		output, next, err := c.execute(s, input)
		if err != nil {
			return document{}, err
		}
		input = document{value: output}
		if next == "" {
			return input, nil
		}
		name = next
	}
}

// execute runs one state. A failure that it returns is the state's, after all retries and catches.
func (c *chain) execute(s *state, input document) (any, string, error) {
	entered, err := c.aside(EventType(s.kind+"StateEntered"), StateEnteredDetails{Name: s.name, Input: input.String()})
	if err != nil {
		return nil, "", err
	}
	c.state, c.entered, c.last, c.retries = s, entered, entered.ID, nil
	output, next, err := s.work.run(c, input.value)
	if err != nil {
		return nil, "", c.failed(err)
	}
	text := payload.Encode(output)
	if len(text) > dataLimit {
		f := tooBig(s.name)
		f.terminal = true
		return nil, "", f
	}
	err = c.append(EventType(s.kind+"StateExited"), StateExitedDetails{Name: s.name, Output: text})
	return output, next, err
}

// sleep lets d pass, shortened as waits are.
func (c *chain) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	s := c.exec.sched
	p := s.prepare(c.scope)
	cancel := s.after(d, scaled, p)
	defer cancel()
	if s.park(p) == stopped {
		return errStopped
	}
	return nil
}

// outside runs f, a call that takes its time, beside the turns.
func (c *chain) outside(f func()) error {
	s := c.exec.sched
	p := s.prepare(c.scope)
	s.call(p, f)
	if s.park(p) == stopped {
		return errStopped
	}
	return nil
}
