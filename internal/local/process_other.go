//go:build !linux

package local

import (
	"os"
	"os/exec"
)

// ownGroup does nothing here: process groups, and a death tied to the
// parent's, are only used on Linux.
func ownGroup(*exec.Cmd) {}

// awaitExit returns at once; the exit is seen by cmd.Wait.
func awaitExit(*os.Process) {}

// terminate asks p to end.
func terminate(p *os.Process) { _ = p.Signal(os.Interrupt) }

// killGroup kills p; what it started is left alone.
func killGroup(p *os.Process) { _ = p.Kill() }
