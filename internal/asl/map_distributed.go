package asl

import (
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// distributedMap is a Map state whose iterations are executions of their own.
type distributedMap struct {
	mapWork
	label     string // "" has one generated
	express   bool
	reader    *itemReader // nil: the items are in the state's input
	writer    *resultWriter
	tolerated toleranceFields
}

const (
	mostChildren   = 10000 // that run at a time
	expressTimeout = 5 * time.Minute
)

func (w distributedMap) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	return c.retrying(raw, func() (any, error) { return w.attempt(c, effective) })
}

func (distributedMap) failed(c *chain) error { return c.append(MapStateFailed, nil) }

// A mapAttempt is one attempt of the state: one Map Run.
type mapAttempt struct {
	distributedMap
	c        *chain
	input    any
	run      *MapRun
	source   source
	items    []any
	target   target
	failures int      // children that failed or timed out
	failure  *failure // of the run as a whole
}

func (w distributedMap) attempt(c *chain, input any) (any, error) {
	a := &mapAttempt{distributedMap: w, c: c, input: input}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	if err := c.append(MapRunStarted, MapRunStartedDetails{MapRunARN: a.run.arn}); err != nil {
		return nil, err
	}
	result, err := a.carryOut()
	if f, ok := err.(*failure); ok && !f.terminal {
		a.run.end(StatusFailed, c.now())
		if err := c.append(MapRunFailed, f.FailureDetails); err != nil {
			return nil, err
		}
		return nil, f
	}
	if err != nil {
		a.run.abort(c.now())
		return nil, err
	}
	a.run.end(StatusSucceeded, c.now())
	succeeded, err := c.aside(MapRunSucceeded, nil)
	if err != nil {
		return nil, err
	}
	_, err = c.exec.append(MapStateSucceeded, succeeded.ID, nil)
	return result, err
}

// prepare settles everything that can fail before there is a Map Run.
func (a *mapAttempt) prepare() error {
	c := a.c
	limit, err := a.concurrency(c, a.input)
	if err != nil {
		return err
	}
	if a.reader == nil {
		if a.items, err = a.distributedMap.items(c, a.input); err != nil {
			return err
		}
	}
	if err := c.append(MapStateStarted, MapStateStartedDetails{Length: len(a.items)}); err != nil {
		return err
	}
	tolerated, err := a.tolerated.resolve(c, a.input)
	if err != nil {
		return err
	}
	if a.reader != nil {
		if a.source, err = a.reader.locate(c, a.input); err != nil {
			return err
		}
	}
	m, label, id := c.exec.m, a.label, c.exec.m.rnd.uuid()
	if label == "" {
		label = uuid.NewSHA1(uuid.NameSpaceOID, []byte(m.cfg.Name+"/"+c.state.name)).String()
	}
	name := m.cfg.Name + "/" + label
	a.run = &MapRun{
		arn: m.arn("mapRun", name+":"+id), id: id, machineName: name, machineARN: m.arn("stateMachine", name),
		execution: c.exec, maxConcurrency: limit, tolerated: tolerated,
		status: StatusRunning, start: c.now(),
	}
	if a.writer != nil {
		if a.target, err = a.writer.locate(c, a.input, a.run); err != nil {
			return err
		}
	}
	return c.exec.addMapRun(a.run)
}

// carryOut is everything between MapRunStarted and the run's end.
func (a *mapAttempt) carryOut() (any, error) {
	if a.writer != nil {
		if err := a.target.test(a.c); err != nil {
			return nil, err
		}
	}
	if a.reader != nil {
		var err error
		if a.items, err = a.source.read(a.c); err != nil {
			return nil, err
		}
	}
	a.run.setTotal(len(a.items))
	if err := a.runChildren(); err != nil {
		return nil, err
	}
	if a.writer != nil {
		if err := a.target.write(a.c, a); err != nil {
			return nil, err
		}
	}
	if a.failure != nil {
		return nil, a.failure
	}
	if a.writer != nil {
		return a.target.result(), nil
	}
	outputs := make([]any, len(a.items))
	for i, child := range a.run.Children() {
		outputs[i] = child.result()
	}
	return outputs, nil
}

// runChildren starts the children in order, as many at a time as are allowed, and waits for them.
func (a *mapAttempt) runChildren() error {
	workers := a.run.maxConcurrency
	if workers == 0 || workers > mostChildren {
		workers = mostChildren
	}
	g := a.c.newGroup()
	next := 0
	var broken error
	for range min(workers, len(a.items)) {
		g.spawn(func() {
			for next < len(a.items) && a.failure == nil && broken == nil && !g.scope.isStopped() {
				index := next
				next++
				if err := a.runChild(g.scope, index); err != nil {
					broken = err
				}
			}
		})
	}
	if err := g.wait(); err != nil {
		return err
	}
	return broken
}

// runChild runs the child of one item to its end. Its error is the parent's; what becomes of the child is the run's
// matter: it fails as soon as more children have failed than are tolerated.
func (a *mapAttempt) runChild(within *scope, index int) error {
	input, err := a.child(a.c, a.input, index, a.items[index])
	if err != nil {
		return a.c.failed(err)
	}
	text := payload.Encode(input)
	if len(text) > dataLimit {
		a.failure = tooBig(a.c.state.name)
		a.run.end(StatusFailed, a.c.now())
		return nil
	}
	m, name := a.c.exec.m, a.c.exec.m.rnd.uuid()
	id := identity{
		name: name, machineName: a.run.machineName, machineARN: a.run.machineARN, mapRun: a.run,
		arn: m.arn("execution", a.run.machineName+":"+name),
	}
	if a.express {
		id.arn, id.timeout = m.arn("express", a.run.machineName+":"+name+":"+m.rnd.uuid()), expressTimeout
	}
	own := within.inner()
	defer own.stop()
	child := m.newExecution(id, document{value: input, text: text}, a.c.exec.sched, own)
	if !a.run.begin(child) {
		return errStopped
	}
	child.run(a.processor)
	if status := child.Status(); status == StatusFailed || status == StatusTimedOut {
		a.failures++
	}
	if a.failure == nil && a.run.tolerated.exceeded(a.failures, len(a.items)) {
		a.failure = fail(errorExceedTolerance, exceedsToleranceCause)
		a.run.end(StatusFailed, a.c.now())
	}
	return nil
}

func (c *chain) now() time.Time { return c.exec.sched.now().UTC().Truncate(time.Millisecond) }

func (e *Execution) addMapRun(run *MapRun) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status != StatusRunning {
		return errStopped
	}
	e.mapRuns = append(e.mapRuns, run)
	return nil
}

func (r *MapRun) setTotal(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total = n
}
