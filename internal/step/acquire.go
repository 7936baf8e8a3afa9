package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Acquire takes one turn at the run's lock: it takes it, queues for it, or
// gives up. Asking again while holding returns the same grant.
func (s *Steps) Acquire(ctx context.Context, in AcquireInput) (AcquireOutput, error) {
	r, err := s.begin(in.Execution, in.Config)
	if err != nil {
		return AcquireOutput{}, err
	}
	answer, err := r.lock.Ask(ctx, r.execution.ID)
	if err != nil {
		return AcquireOutput{}, fmt.Errorf("acquire lock %s: %w", r.lockURL(), err)
	}
	out := AcquireOutput{WaitedSeconds: int64(answer.Waiting / time.Second)}
	switch answer.Decision {
	case lease.Held:
		out.Decision = DecisionHeld
		out.Token = answer.Grant.Token
		out.Expires = answer.Grant.Expires.UTC().Format(time.RFC3339)
		out.Reason = fmt.Sprintf("this run holds the lock with token %d", out.Token)
	case lease.Superseded:
		out.Decision = DecisionSuperseded
		out.Reason = fmt.Sprintf("%s; lock.maxWaiters %d reached, a waiting run will do this work", describeHolders(answer), r.config.Lock.MaxWaiters)
	case lease.Wait:
		out.Reason = describeHolders(answer)
		if answer.Waiting < seconds(r.config.Lock.MaxWaitSeconds) {
			out.Decision = DecisionWait
			out.WaitSeconds = int64(max(answer.RetryAfter, r.config.shortestPause()) / time.Second)
			break
		}
		out.Decision = DecisionTimedOut
		out.Reason = fmt.Sprintf("waited %d s of lock.maxWaitSeconds %d; %s; if the holder is gone for good, break the lock at %s",
			out.WaitedSeconds, r.config.Lock.MaxWaitSeconds, out.Reason, r.lockURL())
		if err := r.lock.Withdraw(ctx, r.execution.ID); err != nil {
			return AcquireOutput{}, fmt.Errorf("leave the queue for %s: %w", r.lockURL(), err)
		}
	default:
		return AcquireOutput{}, fmt.Errorf("acquire lock %s: unknown decision %q", r.lockURL(), answer.Decision)
	}
	r.measureTurn(answer, out.Decision)
	r.log.Info("acquire", "decision", out.Decision, "token", out.Token, "waited", out.WaitedSeconds, "wait", out.WaitSeconds, "reason", out.Reason)
	return out, nil
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
