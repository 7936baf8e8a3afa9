package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// statusChangeType is the detail-type of EventBridge's event.
const statusChangeType = "Step Functions Execution Status Change"

// Release gives the run's lock back. Releasing what is not held is no error:
// it may have been released before, and a later holder keeps the lock.
func (s *Steps) Release(ctx context.Context, in ReleaseInput) (ReleaseOutput, error) {
	if in.DetailType != "" {
		return s.releaseStopped(ctx, in)
	}
	r, err := s.begin(in.Execution, in.Config)
	if err != nil {
		return ReleaseOutput{}, err
	}
	why := "run finished"
	if in.Failure != nil {
		why = "run failed: " + in.Failure.Error
	}
	released, err := r.lock.Release(ctx, r.execution.ID, in.Token, why)
	if err != nil {
		return ReleaseOutput{}, fmt.Errorf("release lock %s: %w", r.lockURL(), err)
	}
	r.measureRelease(released, in.Token, in.Failure == nil)
	return r.released(released, why), nil
}

// releaseStopped frees the lock of an execution that ended where no Catch sees
// it: aborted, timed out, or failed by States.Runtime. While a Map Run of that
// execution is still running, its children keep the lease alive and must not
// lose it: it ends by itself after them.
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
	if in.Detail.StopDate == nil {
		return ReleaseOutput{}, &InvalidInputError{"detail.stopDate is null although the execution ended"}
	}
	if s.mapRuns == nil {
		return ReleaseOutput{}, &InvalidInputError{"this function was given no way to look at Map Runs"}
	}
	r, err := s.begin(Execution{ID: in.Detail.ExecutionARN, Name: in.Detail.Name}, json.RawMessage(*in.Detail.Input))
	if refused := (*InvalidConfigError)(nil); errors.As(err, &refused) {
		// Its failure is told of as well; an error here would be tried again and
		// then raise an alarm of its own.
		out := ReleaseOutput{Reason: "the execution was refused before it touched the lock: " + refused.Error()}
		s.log.Info("release", "released", false, "run", in.Detail.Name, "reason", out.Reason)
		return out, nil
	}
	if err != nil {
		return ReleaseOutput{}, err
	}
	running, err := s.mapRuns.AnyRunning(ctx, in.Detail.ExecutionARN)
	if err != nil {
		return ReleaseOutput{}, fmt.Errorf("look at the Map Runs of %s: %w", in.Detail.ExecutionARN, err)
	}
	if running {
		out := ReleaseOutput{Reason: "a Map Run of this execution is still running; its children keep the lease, which ends by itself after them"}
		r.log.Info("release", "released", false, "reason", out.Reason)
		return out, nil
	}
	why := "execution " + in.Detail.Status
	released, err := r.lock.ReleaseStopped(ctx, in.Detail.ExecutionARN, time.Time(*in.Detail.StopDate), why)
	if err != nil {
		return ReleaseOutput{}, fmt.Errorf("release lock %s: %w", r.lockURL(), err)
	}
	r.measureRelease(released, 0, false)
	return r.released(released, why), nil
}

func (r *run) released(released lease.Released, why string) ReleaseOutput {
	out := ReleaseOutput{Released: released.Held, Reason: why}
	if !released.Held {
		out.Reason = why + "; this execution held no lock"
	}
	r.log.Info("release", "released", out.Released, "reason", out.Reason)
	return out
}
