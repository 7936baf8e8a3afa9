package child

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// await returns when the command has ended and its group is gone. The dead
// command is reaped last: until then its id, and its group's, are its own.
func (c *Child) await() {
	c.awaitExit()
	c.mu.Lock()
	c.gone = true
	kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	c.mu.Unlock()
	_ = c.cmd.Wait() // ProcessState tells how it ended
}

// cldStopped is the code of a child that was stopped; see sigaction(2).
const cldStopped = 5

// awaitExit returns when the command has ended, without reaping it. A command
// in the foreground of a terminal goes on when it is suspended there: nobody
// could wake it, because we hold the shell's place, and the lock with it.
func (c *Child) awaitExit() {
	pid, options := c.cmd.Process.Pid, unix.WEXITED|unix.WNOWAIT
	if c.cmd.SysProcAttr.Foreground {
		options |= unix.WSTOPPED
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && info.Code == cldStopped:
			_ = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil) // seen
			kill(-pid, syscall.SIGCONT)
		default:
			return
		}
	}
}
