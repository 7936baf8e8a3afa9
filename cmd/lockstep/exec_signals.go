package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// signals are those that exec takes note of, in order of arrival.
type signals chan os.Signal

// catchSignals begins to take note. A signal that this process was told to
// ignore, as nohup(1) does with HUP, stays ignored here and in the command.
func catchSignals() signals {
	s := make(signals, 32)
	for _, each := range slices.Concat(ending, passing) {
		if !signal.Ignored(each) {
			signal.Notify(s, each)
		}
	}
	return s
}

func (s signals) stop() { signal.Stop(s) }

// ends reports whether a signal is a request to end.
func ends(s os.Signal) bool { return slices.Contains(ending, s) }

// interrupted says that a signal ended the wait for the lock.
type interrupted struct{ signal syscall.Signal }

func (i *interrupted) Error() string {
	return fmt.Sprintf("the wait was ended by a signal (%v)", i.signal)
}
