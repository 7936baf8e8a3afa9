package lease

import (
	"context"
	"fmt"
	"time"
)

const (
	firstPause   = 25 * time.Millisecond
	longestPause = 2 * time.Second
)

// pace spreads the attempts of one call: pauses that grow, with full jitter,
// and an end to patience with a register that gives no answer. Losing a race
// is an answer: it may go on for as long as the context allows.
type pace struct {
	dice     *dice
	clock    Clock
	patience time.Duration
	attempts int
	heard    Instant // the last answer, or the beginning
	stuck    int     // conflicts over a version that is current
}

// mostStuck is more often than a conflict with nobody is possible: a 409 may
// come from a write that failed in the end, but not twenty times over.
const (
	mostStuck        = 20
	mostStuckDeleted = 3
)

// refusedWithoutCause counts a conflict at the very version that is current. A
// register that does not recognise its own versions would do so for ever.
// Over a delete marker it need not be wrong: it may create nothing there.
func (p *pace) refusedWithoutCause(at view) error {
	p.stuck++
	switch {
	case at.deleted && p.stuck >= mostStuckDeleted:
		return &DeletedError{ErrRefused}
	case p.stuck < mostStuck:
		return nil
	}
	return fmt.Errorf("%w: %d times it answered that its value is at another version, and then served this one; it does not recognise its own versions, so no lock can be kept there",
		ErrRefused, p.stuck)
}

func (l *Lock) newPace(patience time.Duration) *pace {
	return &pace{dice: l.dice, clock: l.cfg.Clock, patience: patience, heard: l.cfg.Clock.Read()}
}

func (p *pace) answered() { p.heard = p.clock.Read() }

// pause waits before the next attempt. It returns an error, which carries why
// the last attempt failed, when there should be none.
func (p *pace) pause(ctx context.Context, last error) error {
	if silent := p.clock.Read().Mono - p.heard.Mono; silent > p.patience {
		return fmt.Errorf("%w, %v now: %w", errNoAnswer, silent.Round(time.Millisecond), last)
	}
	longest := min(firstPause<<min(p.attempts, 16), longestPause)
	p.attempts++
	if err := sleep(ctx, p.dice.between(0, longest)); err != nil {
		return fmt.Errorf("%w (last answer: %w)", err, last)
	}
	return nil
}

// sleep waits for d, or returns at once with the cause that ended ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
