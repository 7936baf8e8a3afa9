//go:build !unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

const wake = syscall.SIGTERM

func prepare(*exec.Cmd) (giveBack func()) { return func() {} }

func (c *Child) await() {
	_ = c.cmd.Wait() // ProcessState tells how it ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

// kill ends the process; there are no groups and no other signals here.
func kill(pid int, _ syscall.Signal) {
	if p, err := os.FindProcess(max(pid, -pid)); err == nil {
		_ = p.Kill()
	}
}

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
