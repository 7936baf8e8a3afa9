package step

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// maxLaps is how often a run begins to work. One that loses the lock each time
// is not slow but has a fault, and ends with its first loss.
const maxLaps = 3

// Acquire takes one turn at the run's lock: it takes it, queues for it, or
// gives up. Asking again while holding returns the same grant. A run that lost
// its lock comes back here and begins a lap; what bounds a run is counted over
// all its laps.
func (s *Steps) Acquire(ctx context.Context, in AcquireInput) (AcquireOutput, error) {
	r, err := s.begin(in.Execution)
	if err != nil {
		return AcquireOutput{}, err
	}
	if err := in.State.check(); err != nil {
		return AcquireOutput{}, err
	}
	out := nextTurn(in.State)
	if out.Lap > maxLaps {
		out.Lap, out.Decision = maxLaps, DecisionOvertaken
		out.Reason = fmt.Sprintf("the run lost its lock in each of its %d laps; the first loss: %s", maxLaps, out.Loss.Error)
		r.log.Warn("acquire", "decision", out.Decision, "reason", out.Reason)
		return out, nil
	}
	answer, err := r.lock.Ask(ctx, r.execution.owner())
	if err != nil {
		return AcquireOutput{}, fmt.Errorf("acquire lock %s: %w", r.lockURL(), err)
	}
	out.count(in.State.Acquired, answer)
	if err := r.decide(ctx, &out, answer); err != nil {
		return AcquireOutput{}, err
	}
	r.measureTurn(answer, out.Decision)
	r.log.Info("acquire", "decision", out.Decision, "token", out.Token, "waited", out.WaitedSeconds, "wait", out.WaitSeconds,
		"turn", out.Turns, "lap", out.Lap, "reason", out.Reason)
	return out, nil
}

// nextTurn is what a turn knows from the state before it asks. Behind a grant
// there is only one way back to AcquireLock: the grant was lost.
func nextTurn(state RunState) AcquireOutput {
	before := state.Acquired
	if before == nil {
		return AcquireOutput{Turns: 1, Lap: 1}
	}
	out := AcquireOutput{Turns: before.Turns + 1, Lap: before.Lap, Regained: before.Regained, Loss: before.Loss}
	if before.Decision == DecisionHeld {
		out.Lap++
		out.Loss = cmp.Or(before.Loss, state.Lost, &Failure{Error: "LeaseLostError"})
	}
	return out
}

// count adds up the time in the queue. A place in it that is younger than
// before is another place: that of a lap, of a redrive, or of a run that did
// not ask for long.
func (out *AcquireOutput) count(before *AcquireOutput, answer lease.Answer) {
	out.QueuedSeconds = int64(answer.Waiting / time.Second)
	out.WaitedSeconds = out.QueuedSeconds
	if before == nil {
		return
	}
	out.WaitedSeconds += before.WaitedSeconds
	if before.Decision == DecisionWait && out.QueuedSeconds >= before.QueuedSeconds {
		out.WaitedSeconds -= before.QueuedSeconds
	}
	out.Regained = before.Decision == DecisionHeld && before.Token == answer.Grant.Token
}

// decide turns the lock's answer into what the state machine does next.
func (r *run) decide(ctx context.Context, out *AcquireOutput, answer lease.Answer) error {
	switch answer.Decision {
	case lease.Held:
		out.Decision = DecisionHeld
		out.Token = answer.Grant.Token
		out.Expires = answer.Grant.Expires.UTC().Format(time.RFC3339)
		out.Reason = fmt.Sprintf("this run holds the lock with token %d", out.Token)
		return nil
	case lease.Superseded:
		out.Decision = DecisionSuperseded
		out.Reason = fmt.Sprintf("%s; lock.maxWaiters %d reached, a waiting run will do this work", describeHolders(answer), r.config.Lock.MaxWaiters)
		return nil
	case lease.Wait:
	default:
		return fmt.Errorf("acquire lock %s: unknown decision %q", r.lockURL(), answer.Decision)
	}
	holders, limits := describeHolders(answer), r.config.Lock
	if out.WaitedSeconds < int64(limits.MaxWaitSeconds) && out.Turns < maxTurns {
		out.Decision = DecisionWait
		out.Reason = holders
		out.WaitSeconds = int64(max(answer.RetryAfter, r.config.shortestPause()) / time.Second)
		return nil
	}
	out.Decision = DecisionTimedOut
	out.Reason = fmt.Sprintf("waited %d s of lock.maxWaitSeconds %d, in %d of %d turns; %s; if the holder is gone for good, break the lock at %s",
		out.WaitedSeconds, limits.MaxWaitSeconds, out.Turns, maxTurns, holders, r.lockURL())
	if err := r.lock.Withdraw(ctx, r.execution.owner()); err != nil {
		return fmt.Errorf("leave the queue for %s: %w", r.lockURL(), err)
	}
	return nil
}

func (r *run) lockURL() string {
	return "s3://" + r.state.Name() + "/" + LockKey(r.config)
}

// describeHolders answers the first question of a person at 3 a.m.: who has
// it, since when, until when.
func describeHolders(answer lease.Answer) string {
	if len(answer.Holders) == 0 {
		return "the lock is free and waits for runs that came earlier"
	}
	var held []string
	for _, h := range answer.Holders {
		held = append(held, fmt.Sprintf("held by %s (token %d) since %s until %s",
			h.Owner, h.Token, h.Acquired.UTC().Format(time.RFC3339), h.Expires.UTC().Format(time.RFC3339)))
	}
	return strings.Join(held, ", ")
}
