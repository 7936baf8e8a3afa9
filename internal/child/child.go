// Package child runs one command that must not outlive its right to run.
//
// It promises, on Unix, that
//   - the command leads a process group of its own, so that it can be stopped
//     together with what it started;
//   - once the command has ended, what is left of its group is killed before
//     Ended says so;
//   - a signal never reaches a stranger who got the process id afterwards
//     (outside Linux there is a moment after the end in which it might);
//   - a command that reads from a terminal can do so, and gets the terminal's
//     signals; on Linux it cannot be suspended there.
//
// On Linux the kernel kills the command when this process dies, however that
// happens. It does not kill what the command started, nor a command that
// changes its user on the way (sudo), nor does anything here reach a process
// that left the group (setsid, a daemon).
package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// outputGrace is how long the output of a dead command may be held open by
// processes that left its group, where it is copied instead of passed on.
const outputGrace = time.Second

// Child is a command that was started.
type Child struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	gone bool // the command has ended; its ids may be somebody else's
}

// Start starts cmd, whose SysProcAttr must be unset. Its error is that of
// exec.Cmd.Start.
func Start(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr != nil {
		return nil, errors.New("the command has system attributes already")
	}
	c := &Child{cmd: cmd, ended: make(chan struct{})}
	cmd.WaitDelay = outputGrace
	giveBack := prepare(cmd)
	started := make(chan error)
	go func() {
		// Linux sends a child its parent-death signal when the thread that started
		// it ends, so this thread stays until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.await()
			giveBack()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		giveBack()
		return nil, err
	}
	return c, nil
}

// Ended is closed once the command has ended and its group is gone.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Signal sends s to the command. One that has ended gets nothing.
func (c *Child) Signal(s syscall.Signal) { c.send(c.cmd.Process.Pid, s) }

// SignalGroup sends s to the command and all that it started in its group.
func (c *Child) SignalGroup(s syscall.Signal) { c.send(-c.cmd.Process.Pid, s) }

// Terminate asks the group to end, and wakes who is suspended so that it can.
func (c *Child) Terminate() {
	c.SignalGroup(syscall.SIGTERM)
	c.SignalGroup(wake)
}

// Kill ends the group at once. It may be called again and again: a process
// that was just being started may have escaped the first.
func (c *Child) Kill() { c.SignalGroup(syscall.SIGKILL) }

func (c *Child) send(pid int, s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		kill(pid, s)
	}
}

// ExitCode is the command's exit code, or 128 + n when signal n ended it, as
// shells have it. The command must have ended.
func (c *Child) ExitCode() int { return exitCode(c.cmd.ProcessState) }

// Describe says how the command ended, for people. It must have ended.
func (c *Child) Describe() string { return c.cmd.ProcessState.String() }

// NotStarted reports the exit code by which shells and env(1) tell that a
// command could not be started: 127 when there is none, else 126.
func NotStarted(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
