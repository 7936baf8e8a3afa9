package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// What exec, lock, ledger and plan say of themselves. They keep clear of 1 and 2, which most
// commands that run under exec say too; the names are those of sysexits.h, of
// env(1) and of shells.
const (
	exitNotHeld     = 1   // break: nobody holds the lock under this name and token
	exitUsage       = 64  // EX_USAGE: the command line or the AWS settings were refused
	exitCorrupt     = 65  // EX_DATAERR: the lock's document cannot be read
	exitUnavailable = 69  // EX_UNAVAILABLE: S3 refused, or did not answer
	exitBusy        = 75  // EX_TEMPFAIL: somebody else has the lock
	exitLost        = 76  // the lock was lost while the command ran
	exitSignal      = 128 // and the number of the signal
)

// usageCode is the exit code of a command line that was refused.
func usageCode(err error) int {
	var refused *kong.ParseError
	if errors.As(err, &refused) {
		for _, step := range refused.Context.Path {
			if step.Command != nil { // the first is the verb, as in "lock status"
				if slices.Contains([]string{"exec", "lock", "ledger", "outputs", "plan", "run", "history"}, step.Command.Name) {
					return exitUsage
				}
				break
			}
		}
	}
	return 2
}

// refuse explains why a command cannot begin.
func refuse(w io.Writer, err error) error {
	fmt.Fprintln(w, "lockstep:", err)
	return exitCode(exitUsage)
}

// failed explains why a lock could not be asked or had.
func failed(w io.Writer, err error) error {
	fmt.Fprintln(w, "lockstep:", err)
	var corrupt *lease.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return exitCode(exitCorrupt)
	case errors.Is(err, lease.ErrNotHeld):
		return exitCode(exitNotHeld)
	}
	return exitCode(exitUnavailable)
}
