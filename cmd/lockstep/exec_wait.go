package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// obtain gets the lock, or an error: *interrupted when a signal ended the
// wait, else that of the lock.
func (e execCommand) obtain(ctx context.Context, lock *lease.Lock, caught signals, w io.Writer) (lease.Grant, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type outcome struct {
		grant lease.Grant
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		grant, err := e.acquire(ctx, lock, w)
		done <- outcome{grant, err}
	}()
	for {
		select {
		case s := <-caught:
			if number, ok := s.(syscall.Signal); ok && ends(s) {
				cancel(&interrupted{number})
			}
		case o := <-done:
			// The signal may have come too late to stop the acquire.
			if o.err == nil && ctx.Err() != nil {
				e.giveUp(lock, o.grant)
				o.err = context.Cause(ctx)
			}
			return o.grant, o.err
		}
	}
}

// acquire tries before it queues, for two reasons: who is in the way can be
// told while waiting, and an endpoint that does not answer at all is an error,
// while a queue has to sit out an outage.
func (e execCommand) acquire(ctx context.Context, lock *lease.Lock, w io.Writer) (lease.Grant, error) {
	wait := e.Wait != nil && *e.Wait > 0
	if wait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *e.Wait)
		defer cancel()
	}
	owner := e.owner()
	grant, err := lock.TryAcquire(ctx, owner)
	var held *lease.HeldError
	if !errors.As(err, &held) || e.NoWait || e.Wait != nil && !wait {
		return grant, err
	}
	if e.Verbose || isTerminal(w) {
		fmt.Fprintf(w, "lockstep: waiting for %s\n", e.URL)
		writeHolders(w, held.Holders, held.Now)
	}
	return lock.Acquire(ctx, owner)
}

// giveUp returns a grant that is not needed any more.
func (e execCommand) giveUp(lock *lease.Lock, grant lease.Grant) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	_, _ = lock.Release(ctx, grant.Owner, grant.Token, "interrupted before the command was started") // else it expires
}

// notHad says why the command was not started.
func (e execCommand) notHad(w io.Writer, err error) error {
	const notStarted = "; the command was not started"
	var signal *interrupted
	var held *lease.HeldError
	var timeout *lease.TimeoutError
	var superseded *lease.SupersededError
	switch {
	case errors.As(err, &signal):
		fmt.Fprintf(w, "lockstep: %v%s\n", signal, notStarted)
		return exitCode(exitSignal + int(signal.signal))
	case errors.As(err, &held):
		fmt.Fprintf(w, "lockstep: somebody else has %s%s\n", e.URL, notStarted)
		writeHolders(w, held.Holders, held.Now)
		writeBreak(w, e.URL, held.Holders)
	case errors.As(err, &timeout):
		fmt.Fprintf(w, "lockstep: gave up after waiting %v for %s%s\n", timeout.Waited.Round(time.Millisecond), e.URL, notStarted)
		writeHolders(w, timeout.Holders, time.Time{})
		writeBreak(w, e.URL, timeout.Holders)
	case errors.As(err, &superseded):
		fmt.Fprintf(w, "lockstep: %d wait for %s already, which is as many as may%s\n", len(superseded.Waiters), e.URL, notStarted)
		writeHolders(w, superseded.Holders, time.Time{})
	default:
		fmt.Fprintf(w, "lockstep: the command was not started\n")
		return failed(w, err)
	}
	return exitCode(exitBusy)
}

// isTerminal reports whether somebody may be watching.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
