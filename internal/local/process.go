package local

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

const (
	// stopGrace is how long a process has between TERM and KILL.
	stopGrace = 2 * time.Second
	// outputGrace is how long the output of a dead process may be held open by
	// what it left behind outside its process group.
	outputGrace = time.Second
	// tailBytes of a process's output are kept to explain why it did not start.
	tailBytes = 4 << 10
)

// process is one execution environment: an operating system process that
// serves one invocation at a time, under a name that is its own.
type process struct {
	name     string // to the Runtime API: "process-3"
	function string
	cmd      *exec.Cmd
	output   *tail

	polls  chan struct{} // holds one when the process asks for work
	exited chan struct{} // closed once the process has been waited for

	mu        sync.Mutex
	done      work
	initError []byte // what it reported to init/error
	killed    bool   // it was told to end, and gets no more work
	ending    bool   // it has exited, or is being waited for: no more signals
}

// launch starts the process's command. ended is called once it has been waited
// for, before exited is closed.
func (p *process) launch(launcher *launcher, stderr io.Writer, ended func()) error {
	p.output = &tail{to: stderr}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = outputGrace
	ownGroup(p.cmd)
	if err := launcher.start(p.cmd); err != nil {
		return err
	}
	go func() {
		awaitExit(p.cmd.Process)
		// What the function started dies with it, as in Lambda's sandbox. The dead
		// process has not been reaped, so its group's id is still its own.
		p.mu.Lock()
		p.ending = true
		killGroup(p.cmd.Process)
		p.mu.Unlock()
		_ = p.cmd.Wait() // ProcessState tells how it ended
		p.output.flush()
		ended()
		close(p.exited)
	}()
	return nil
}

// asked notes that the process waits for its next request.
func (p *process) asked() {
	select {
	case p.polls <- struct{}{}:
	default: // it asked before and went away: still one process that waits
	}
}

func (p *process) took(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = work{request: request, open: true, served: p.done.served + 1}
}

func (p *process) answered(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done.request == request {
		p.done.open = false
	}
}

// work is what a process has done so far.
type work struct {
	request string // the last one taken; empty if none
	open    bool   // it has not been answered
	served  int    // requests taken
}

func (p *process) work() work {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *process) failedToStart(report []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.initError = report
}

func (p *process) startReport() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.initError
}

// kill ends the process, and what it started, at once. It does not wait.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if !p.ending {
		killGroup(p.cmd.Process)
	}
}

// usable tells whether the process can be given work.
func (p *process) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.killed && !p.ending
}

// stop asks the process to end, insists after stopGrace, and waits for it.
func (p *process) stop() {
	p.mu.Lock()
	if !p.ending {
		terminate(p.cmd.Process)
	}
	p.mu.Unlock()
	patience := time.NewTimer(stopGrace)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
		p.kill()
		<-p.exited
	}
}

// end says how the process ended, in the words of Lambda. It must have exited.
func (p *process) end() string {
	if p.cmd.ProcessState.Success() {
		return "Runtime exited without providing a reason"
	}
	return fmt.Sprintf("Runtime exited with error: %s", p.cmd.ProcessState)
}
