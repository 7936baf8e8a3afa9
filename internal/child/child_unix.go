//go:build unix

package child

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const wake = syscall.SIGCONT

// prepare gives cmd a group of its own, and that group the terminal where we
// have it. The function it returns takes the terminal back.
func prepare(cmd *exec.Cmd) (giveBack func()) {
	cmd.SysProcAttr = attributes()
	in, ok := cmd.Stdin.(*os.File)
	if !ok {
		return func() {}
	}
	terminal := int(in.Fd())
	ours, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	if err != nil || ours != unix.Getpgrp() {
		return func() {} // no terminal, or it is somebody else's at the moment
	}
	cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, terminal
	return func() {
		// Who takes the terminal from the background is stopped by this signal.
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(terminal, unix.TIOCSPGRP, ours)
	}
}

func kill(pid int, s syscall.Signal) { _ = syscall.Kill(pid, s) }

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
