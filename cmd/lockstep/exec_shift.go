package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/child"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

const (
	// clockResolution is what an HTTP Date can hide.
	clockResolution = time.Second
	// look is how often exec makes sure that it has not been frozen.
	look = time.Second
	// cleanup is how long a lock that is likely lost is tried to be given back.
	cleanup = 5 * time.Second
)

// shift is one command's time under the lock.
type shift struct {
	lock     *lease.Lock
	grant    lease.Grant
	url      objectURL
	patience time.Duration // between TERM and KILL when the lease is lost
	signals  signals
	err      io.Writer
}

// patience is how long a command may take to end after a TERM. The lease's
// context ends with the TTL at the latest; others may take over when the grace
// is over too, by a clock of whole seconds. Half of what is left between the
// two is for the command; the other half is for steps of that clock, and for
// the KILL to be carried out.
func patience(grant lease.Grant, ttl time.Duration) time.Duration {
	grace := grant.Expires.Sub(grant.Renewed) - ttl
	return max(0, (grace-clockResolution)/2)
}

// work runs the command under the lock and gives the lock back.
func (s shift) work(ctx context.Context, command *exec.Cmd) error {
	kept, stop := s.lock.Keep(ctx, s.grant)
	running, err := child.Start(command)
	if err != nil {
		stop()
		s.release(ctx, "the command could not be started")
		fmt.Fprintf(s.err, "lockstep: %v; the lock was given back\n", err)
		return exitCode(child.NotStarted(err))
	}
	sent := s.watch(kept, running)
	lost := kept.Err() != nil
	cause := context.Cause(kept)
	stop()
	code := running.ExitCode()
	if lost {
		s.tellLost(cause, sent, running)
		short, cancel := context.WithTimeout(ctx, cleanup)
		defer cancel()
		// Perhaps nobody came in between: then the next need not wait.
		_, _ = s.lock.Release(short, s.grant.Owner, s.grant.Token, "lost; the command has been stopped")
		return exitCode(exitLost)
	}
	if !s.release(ctx, fmt.Sprintf("the command ended with code %d", code)) {
		return exitCode(exitLost)
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// watch returns when the command has ended. Until then it forwards signals,
// and stops the command when the lease is lost; sent says what that took.
func (s shift) watch(kept context.Context, running *child.Child) (sent []string) {
	lost := kept.Done()
	var patience <-chan time.Time
	kill := func() {
		sent = []string{"TERM", "KILL"}
		running.Kill()
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	awake := time.Now() // when last known, before the loss
	for {
		select {
		case <-running.Ended():
			return sent
		case caught := <-s.signals:
			forward(caught, running)
		case <-lost:
			lost = nil
			sent = []string{"TERM"}
			running.Terminate()
			// Whoever was frozen learns of the loss late, and has that much less time.
			patience = time.After(s.patience - max(0, passed(awake)-look))
		case <-patience:
			kill()
		case <-ticker.C:
			switch {
			case lost != nil:
				if kept.Err() == nil { // else the loss is about to be told
					awake = time.Now()
				}
			case len(sent) > 1 || passed(awake) > s.patience+look: // the timer may have been frozen, too
				kill()
			}
		}
	}
}

// passed is the time since t on the faster of the machine's clocks: a virtual
// machine that is frozen may stop the monotonic one.
func passed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

func forward(caught any, running *child.Child) {
	s, ok := caught.(syscall.Signal)
	switch {
	case !ok:
	case ends(s):
		running.SignalGroup(s)
	default:
		running.Signal(s)
	}
}

// release gives the lock back and reports whether it was still ours. It is
// retried until the lease ends by itself, or a signal asks for an end. When
// there is no telling, the lock is taken to have been ours.
func (s shift) release(ctx context.Context, reason string) bool {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for {
			select {
			case caught := <-s.signals:
				if number, ok := caught.(syscall.Signal); ok && ends(caught) {
					cancel(&interrupted{number})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	released, err := s.lock.Release(ctx, s.grant.Owner, s.grant.Token, reason)
	switch {
	case err != nil:
		fmt.Fprintf(s.err, "lockstep: the lock could not be given back, it ends by itself: %v\n", err)
	case !released.Held:
		fmt.Fprintf(s.err, "lockstep: the lock was lost while the command ran; see: lockstep lock events %s\n", shellWord(s.url.String()))
		writeHolders(s.err, released.Holders, released.Now)
		return false
	}
	return true
}

// tellLost explains the loss of the lease once the command is gone: writing to
// standard error may block, and must not keep anybody from being stopped.
func (s shift) tellLost(cause error, sent []string, running *child.Child) {
	how := "had ended by itself"
	if len(sent) > 0 {
		how = "got " + strings.Join(sent, " and ")
	}
	fmt.Fprintf(s.err, "lockstep: the lock was lost while the command ran: %v\n", cause)
	fmt.Fprintf(s.err, "  the command %s: %s\n", how, running.Describe())
	fmt.Fprintf(s.err, "  its last effects may have come too late; only what refuses a token below the latest is safe from them, its own was %d\n", s.grant.Token)
}
