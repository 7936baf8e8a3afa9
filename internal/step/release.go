package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// statusChangeType is the detail-type of EventBridge's event.
const statusChangeType = "Step Functions Execution Status Change"

// Release ends the run's life at the lock, so that no call of it that is still
// under way takes the lock again. A lock passes at once only where every
// processing call of the run has answered; otherwise its lease ends by itself.
// Releasing what is not held is no error, and leaves a later holder alone.
func (s *Steps) Release(ctx context.Context, in ReleaseInput) (ReleaseOutput, error) {
	if in.DetailType != "" {
		return s.releaseStopped(ctx, in)
	}
	r, err := s.begin(in.Execution)
	if err != nil {
		return ReleaseOutput{}, err
	}
	if err := in.State.check(); err != nil {
		return ReleaseOutput{}, err
	}
	why := "run finished"
	if in.State.Failure != nil {
		why = "run failed: " + in.State.Failure.Error
	}
	if in.State.mayBeProcessing() {
		return r.stop(ctx, in.State.token(), in.State.Failure == nil, why+"; a processing call may still be at work")
	}
	released, err := r.lock.Release(ctx, r.execution.owner(), 0, why)
	if err != nil {
		return ReleaseOutput{}, fmt.Errorf("release lock %s: %w", r.lockURL(), err)
	}
	r.measureRelease(released, in.State.token(), in.State.Failure == nil)
	out := ReleaseOutput{Released: released.Held, Reason: why}
	if !released.Held {
		out.Reason += "; this execution held no lock"
	}
	r.log.Info("release", "released", out.Released, "reason", out.Reason)
	return out, nil
}

// mayBeProcessing reports whether a processing call may be at work under the
// run's lease: stopping a Map, or a task that times out, stops no function.
func (s RunState) mayBeProcessing() bool {
	switch {
	case s.Acquired != nil && s.Acquired.Regained:
		return true // a call of the lap before works under the same token
	case s.Discovered == nil || s.Discovered.Batches == 0:
		return false
	}
	return s.Committed == nil || s.Committed.Unanswered > 0
}

// token is the run's fencing token; 0 if it had none.
func (s RunState) token() int64 {
	if s.Acquired == nil {
		return 0
	}
	return s.Acquired.Token
}

// releaseStopped ends the life of an execution that ended where no Catch sees
// it: aborted, timed out, or failed by States.Runtime. Its calls may be at
// work, whatever it did last, so no lease is shortened.
func (s *Steps) releaseStopped(ctx context.Context, in ReleaseInput) (ReleaseOutput, error) {
	if in.DetailType != statusChangeType {
		return ReleaseOutput{}, &InvalidInputError{fmt.Sprintf("detail-type %q is not %q; correct the EventBridge rule", in.DetailType, statusChangeType)}
	}
	switch in.Detail.Status {
	case "ABORTED", "TIMED_OUT", "FAILED":
	default:
		return ReleaseOutput{Reason: fmt.Sprintf("execution is %s; nothing to do", in.Detail.Status)}, nil
	}
	if in.Detail.Input == nil {
		return ReleaseOutput{}, &InvalidInputError{"detail.input is null, so the lock's place is unknown; the lease ends by itself"}
	}
	execution := Execution{
		ID: in.Detail.ExecutionARN, Name: in.Detail.Name, RedriveCount: in.Detail.RedriveCount, Input: json.RawMessage(*in.Detail.Input),
	}
	r, err := s.begin(execution)
	if refused := (*InvalidConfigError)(nil); errors.As(err, &refused) {
		// Its failure is reported as well; an error here would be tried again and
		// then raise an alarm of its own.
		out := ReleaseOutput{Reason: "the execution was refused before it touched the lock: " + refused.Error()}
		s.log.Info("release", "released", false, "run", in.Detail.Name, "reason", out.Reason)
		return out, nil
	}
	if err != nil {
		return ReleaseOutput{}, err
	}
	return r.stop(ctx, 0, false, "execution "+in.Detail.Status)
}

// stop ends the life, and lets its lease run out.
func (r *run) stop(ctx context.Context, token int64, finished bool, why string) (ReleaseOutput, error) {
	stopped, err := r.lock.Stop(ctx, r.execution.owner(), why)
	if err != nil {
		return ReleaseOutput{}, fmt.Errorf("stop at lock %s: %w", r.lockURL(), err)
	}
	r.measureRelease(stopped, token, finished)
	out := ReleaseOutput{Reason: why + "; this execution held no lock"}
	if !stopped.Ends.IsZero() {
		out.Reason = fmt.Sprintf("%s; its lease is not renewed any more and ends at %s", why, stopped.Ends.UTC().Format(time.RFC3339))
	}
	r.log.Info("release", "released", out.Released, "reason", out.Reason)
	return out, nil
}
