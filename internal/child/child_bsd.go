//go:build unix && !linux

package child

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// await returns when the command has ended and its group is gone.
func (c *Child) await() {
	_ = c.cmd.Wait() // ProcessState tells how it ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	kill(-c.cmd.Process.Pid, syscall.SIGKILL)
}
