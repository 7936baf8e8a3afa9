package local

import (
	"os/exec"
	"runtime"
)

// launcher starts every process of a stack from one thread that lives as long
// as the stack. Linux sends a child its parent-death signal when the thread
// that started it ends, and Go's threads may end at any time.
type launcher struct {
	commands chan launch
	done     chan struct{}
}

type launch struct {
	cmd    *exec.Cmd
	result chan error
}

func newLauncher() *launcher {
	l := &launcher{commands: make(chan launch), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for c := range l.commands {
			c.result <- c.cmd.Start()
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd) error {
	result := make(chan error)
	l.commands <- launch{cmd, result}
	return <-result
}

// close ends the launcher, once all it started has ended.
func (l *launcher) close() {
	close(l.commands)
	<-l.done
}
