package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	// startLimit is how long a new process has until it asks for work, and one
	// that has answered until it asks again. Lambda's limit for a start is 10 s.
	startLimit = 30 * time.Second
	// housekeeping bounds a call to the emulator that should take no time.
	housekeeping = 10 * time.Second
)

// processNumber makes the names of processes unique among all stacks, which
// share one emulator.
var processNumber atomic.Int64

// pool serves one function with up to Function.Concurrency processes.
type pool struct {
	fn       Function
	lambda   *emulatedLambda
	runtime  *runtimeFront
	gateway  string // host:port
	launcher *launcher
	stderr   io.Writer
	logger   *slog.Logger

	slots   chan struct{} // one for each invocation that has a process, or gets one
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    []*process // alive, oldest first
	idle   []*process // wait for work, last used last
}

// invoke runs the function once. When ctx ends first, the function goes on, as
// on Lambda, unless it was still waiting in line.
func (p *pool) invoke(ctx context.Context, payload []byte) (Invocation, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return Invocation{}, fmt.Errorf("invoke %s: %w", p.fn.Name, context.Cause(ctx))
	}
	type outcome struct {
		inv Invocation
		err error
	}
	ended := make(chan outcome, 1)
	if err := p.inBackground(func() {
		defer func() { <-p.slots }()
		inv, proc, err := p.run(payload)
		ended <- outcome{inv, err}
		if proc != nil {
			p.settle(proc, err == nil)
		}
	}); err != nil {
		<-p.slots
		return Invocation{}, err
	}
	select {
	case o := <-ended:
		if o.err != nil {
			return Invocation{}, fmt.Errorf("invoke %s: %w", p.fn.Name, o.err)
		}
		return o.inv, nil
	case <-ctx.Done():
		return Invocation{}, fmt.Errorf("invoke %s: %w", p.fn.Name, context.Cause(ctx))
	}
}

// inBackground runs f so that close waits for it.
func (p *pool) inBackground(f func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("invoke %s: %w", p.fn.Name, ErrClosed)
	}
	p.running.Go(f)
	return nil
}

// run finds or starts a process and has it serve payload. It returns the
// process too, if there still is one.
func (p *pool) run(payload []byte) (Invocation, *process, error) {
	for {
		proc := p.takeIdle()
		if proc == nil {
			var failure *Invocation
			var err error
			if proc, failure, err = p.start(); err != nil {
				return Invocation{}, nil, err
			} else if failure != nil {
				return *failure, proc, nil
			}
		}
		inv, taken, err := p.serve(proc, payload)
		if err != nil || taken {
			return inv, proc, err
		}
		// The process died before it took the request; nothing has been done yet.
		p.logger.Debug("process died idle", "process", proc.name, "function", p.fn.Name)
	}
}

// start launches a process and waits until it asks for work. A failure is what
// the invoker gets when it does not come to that.
func (p *pool) start() (*process, *Invocation, error) {
	name := fmt.Sprintf("process-%d", processNumber.Add(1))
	proc := &process{
		name:     name,
		function: p.fn.Name,
		cmd:      exec.Command(p.fn.Argv[0], p.fn.Argv[1:]...),
		polls:    make(chan struct{}, 1),
		exited:   make(chan struct{}),
	}
	proc.cmd.Env = environment(p.fn, name, p.gateway)
	ctx, cancel := context.WithTimeout(context.Background(), housekeeping)
	defer cancel()
	if err := p.lambda.create(ctx, name, p.fn.Timeout); err != nil {
		return nil, nil, err
	}
	p.runtime.add(proc)
	if err := p.launch(proc); err != nil {
		p.forget(proc)
		if errors.Is(err, ErrClosed) {
			return nil, nil, err
		}
		failure := invalidEntrypoint(uuid.NewString(), err)
		return nil, &failure, nil
	}
	p.logger.Debug("process started", "process", name, "function", p.fn.Name, "pid", proc.cmd.Process.Pid)
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-proc.polls:
		return proc, nil, nil
	case <-proc.exited:
		failure := diedAtStart(uuid.NewString(), proc)
		return proc, &failure, nil
	case <-limit.C:
		proc.kill()
		<-proc.exited
		failure := timedOut(uuid.NewString(), startLimit)
		return proc, &failure, nil
	}
}

// launch starts the process and counts it among the living, unless the pool
// is closed: close must not miss one.
func (p *pool) launch(proc *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if err := proc.launch(p.launcher, p.stderr, func() { p.forget(proc) }); err != nil {
		return err
	}
	p.all = append(p.all, proc)
	return nil
}

// serve has proc work on payload. taken is false when the process died before
// it took the request.
func (p *pool) serve(proc *process, payload []byte) (inv Invocation, taken bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := proc.work().served
	replies := make(chan reply, 1)
	go func() { replies <- p.lambda.invoke(ctx, proc.name, payload) }()
	var r reply
	select {
	case r = <-replies:
	case <-proc.exited:
		work := proc.work()
		if work.served == before || work.open {
			cancel()
			<-replies
			return exitError(work.request, proc.end()), work.served > before, nil
		}
		r = <-replies // it answered, and then ended
	}
	if r.err != nil {
		return Invocation{}, true, r.err
	}
	work := proc.work()
	if r.failed && work.open { // kumo's clock ran out: the process has not answered
		proc.kill()
		return timedOut(work.request, p.fn.Timeout), true, nil
	}
	inv = Invocation{RequestID: work.request, Payload: r.payload}
	if r.failed {
		inv.ErrorType = errorType(r.payload)
	}
	return inv, true, nil
}

// settle waits until proc asks for work again and can be reused, or is gone.
// A process that is not sound is not waited for.
func (p *pool) settle(proc *process, sound bool) {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	if !sound {
		proc.kill()
	}
	select {
	case <-proc.polls:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = append(p.idle, proc)
	case <-proc.exited:
	case <-limit.C:
		proc.kill()
		<-proc.exited
	}
}

// takeIdle returns the process that was used last, or nil if all have work or
// there are none.
func (p *pool) takeIdle() *process {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 {
			p.mu.Unlock()
			return nil
		}
		proc := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if proc.usable() {
			return proc
		}
		<-proc.exited // so that its successor does not run beside it
	}
}

// forget drops a process that has ended.
func (p *pool) forget(proc *process) {
	p.mu.Lock()
	p.all = without(p.all, proc)
	p.idle = without(p.idle, proc)
	p.mu.Unlock()
	p.runtime.remove(proc)
	ctx, cancel := context.WithTimeout(context.Background(), housekeeping)
	defer cancel()
	if err := p.lambda.remove(ctx, proc.name); err != nil {
		p.logger.Warn("a function stays registered with the emulator", "process", proc.name, "error", err)
	}
}

func without(list []*process, gone *process) []*process {
	return slices.DeleteFunc(list, func(p *process) bool { return p == gone })
}

func (p *pool) processes() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// close stops every process and waits until no invocation is left.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var stopping sync.WaitGroup
	for _, proc := range p.processes() {
		stopping.Go(proc.stop)
	}
	stopping.Wait()
	p.running.Wait()
}
