package local

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes cmd the leader of a process group and ties its life to ours:
// the kernel kills it when the thread that started it ends (see launcher).
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when p has exited, without reaping it: until then its id,
// and that of its group, cannot be given to anybody else.
func awaitExit(p *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// terminate asks p to end. The process must not have been reaped.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// killGroup kills p and everything in its group. p must not have been reaped.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
