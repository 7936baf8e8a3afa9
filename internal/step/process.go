package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// wrapUp is kept back from the function's time for writing the result. A file
// that is not finished by then is deferred, instead of dying with the call and
// taking the finished ones along.
const wrapUp = 30 * time.Second

// Process works through one batch under the run's lease. It leaves a mark that
// it began and then a result object; both have a name of this call's own, so
// that calls for the same batch never replace what another one wrote.
//
// What a file ends with is an outcome of that file, see blame.go. After trouble
// of the moment (throttling, a lost connection) the call ends in an error once
// the other files had their turn, so that the state machine repeats the batch.
func (s *Steps) Process(ctx context.Context, in ProcessInput) (ProcessOutput, error) {
	r, err := s.begin(in.Execution)
	if err != nil {
		return ProcessOutput{}, err
	}
	if s.processor == nil {
		return ProcessOutput{}, errors.New("step: no processor given")
	}
	ctx, stop, err := r.holding(ctx, in.Token)
	if err != nil {
		return ProcessOutput{}, err
	}
	defer stop()
	keys, call := keysOf(r.config, r.execution.Name, in.Token), newCallName()
	if err := r.createJSON(ctx, keys.begun(in.Batch.Number, call), Begun{Batch: in.Batch.Number}); err != nil {
		return ProcessOutput{}, whyEnded(ctx, err)
	}
	if err := r.checkOpen(ctx, keys); err != nil {
		return ProcessOutput{}, whyEnded(ctx, err)
	}
	b := &batchCall{run: r, processor: s.processor, token: in.Token}
	result, trouble := b.work(ctx, in.Batch)
	if err := stillHolding(ctx); err != nil {
		return ProcessOutput{}, err
	}
	if err := r.createJSON(ctx, keys.result(in.Batch.Number, call), result); err != nil {
		return ProcessOutput{}, whyEnded(ctx, err)
	}
	r.reportProgress(ctx, in.Token, StageProcessing)
	return result.output(), trouble
}

// checkOpen refuses a call that comes after the run's commit began. The commit
// leaves its mark and then lists the calls that began: either it sees this call,
// or this call sees the mark. So no call works that the commit does not know of,
// and a lock that is freed after it has no call of this run behind it.
func (r *run) checkOpen(ctx context.Context, keys runKeys) error {
	switch err := r.readJSON(ctx, keys.closed(), &struct{}{}); {
	case errors.Is(err, bucket.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: the commit of this run has begun, and this call came after it", lease.ErrLost)
}

// batchCall is one call's work on a batch.
type batchCall struct {
	*run
	processor process.Processor
	token     int64

	wide *FileResult // a file that met what all others would meet
}

// work processes the files one after the other. trouble is why the batch should
// be repeated. Where the lease is lost, the result is not to be used.
func (b *batchCall) work(ctx context.Context, batch Batch) (result BatchResult, trouble error) {
	result = BatchResult{Batch: batch.Number, Files: make([]FileResult, 0, len(batch.Files))}
	working, cancel := workingTime(ctx)
	defer cancel()
	for i, file := range batch.Files {
		f, err := b.attempt(ctx, working, file, i == 0)
		if stillHolding(ctx) != nil {
			return result, nil
		}
		trouble = cmp.Or(trouble, err)
		b.log.Info("process", "token", b.token, "batch", batch.Number, "key", file.Key, "outcome", f.Outcome, "cause", f.Cause,
			"rows", f.Rows, "rejected", f.Rejected, "error", f.Error)
		result.Files = append(result.Files, f)
	}
	return result, trouble
}

// workingTime ends early enough to write the result: wrapUp before the call
// does, or, in a call too short for that, halfway.
func workingTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(wrapUp, time.Until(deadline)/2)))
}

// attempt processes a file within the working time. trouble is an error of the
// moment, after which the batch is worth repeating.
func (b *batchCall) attempt(ctx, working context.Context, file ledger.Candidate, first bool) (result FileResult, trouble error) {
	result = FileResult{Candidate: file}
	switch {
	case b.wide != nil:
		result.Outcome, result.Cause = OutcomeDeferred, b.wide.Cause
		result.Error = "not tried: " + b.wide.Error
		return result, nil
	case working.Err() != nil:
		result.Outcome, result.Cause = OutcomeDeferred, CauseTime
		return result, nil
	}
	out := &publisher{run: b.run, token: b.token, file: file.File, holding: func() error { return stillHolding(ctx) }}
	outcome, err := b.processFile(working, file, out)
	result.Outputs = out.keys
	if err == nil {
		result.Outcome, result.Published = OutcomeDone, out.row()
		result.Rows, result.Rejected = outcome.Rows, outcome.Rejected
		if out.found != nil {
			result.Rows, result.Rejected = out.found.rows, out.found.rejected
		}
		return result, nil
	}
	found := b.judge(working, err, first)
	result.Outcome, result.Cause, result.Error = found.outcome, found.cause, brief(err)
	switch {
	case found == superseded, found.outcome == OutcomeArchived:
		result.Error = ""
	case working.Err() != nil && first:
		result.Error = "not finished within the time of one processing call; give the function more memory, which is also more CPU, or split the file"
	case found.cause == CauseTime:
		result.Error = ""
	}
	if found.wide {
		b.wide = &result
	}
	if found.cause == CauseTransient && found.outcome == OutcomeDeferred {
		trouble = &TransientError{fmt.Errorf("process s3://%s/%s: %w", b.source.Name(), file.Key, err)}
	}
	return result, trouble
}

// fileError is an error of one file's processing, and what it says of the file.
type fileError struct {
	error
	finding finding
}

func (e *fileError) Unwrap() error { return e.error }

// judge returns what an error says of the file. One that is not finished within
// the working time is deferred. If it was the first and had the whole time to
// itself, it may never be finished and keep others waiting: that is not proven.
func (b *batchCall) judge(working context.Context, err error, first bool) finding {
	var told *fileError
	switch {
	case working.Err() != nil && first:
		return unproven(CauseFunction)
	case working.Err() != nil:
		return deferredBy(CauseTime)
	case errors.As(err, &told):
		return told.finding
	}
	return judgeProcessor(err)
}

// processFile opens the file at its version and has the processor work on it.
func (b *batchCall) processFile(ctx context.Context, file ledger.Candidate, out *publisher) (process.Outcome, error) {
	object, err := b.source.Get(ctx, file.Key, bucket.Condition{IfMatch: file.ETag})
	if err != nil {
		return process.Outcome{}, &fileError{err, judgeSource(err)}
	}
	body := newWireBody(object.Body, file.Size)
	defer body.Close()
	in := process.File{
		Key: file.Key, ETag: file.ETag, Size: file.Size, LastModified: file.LastModified, Token: b.token, Body: body,
	}
	outcome, err := b.processor.Process(ctx, in, out)
	if err == nil && body.err == nil && out.err == nil {
		err = out.showEmpty(ctx, b.processor, in)
	}
	switch {
	case ctx.Err() != nil:
		return process.Outcome{}, context.Cause(ctx)
	case body.err != nil: // whatever the processor made of it
		return process.Outcome{}, &fileError{body.err, deferredBy(CauseTransient)}
	case out.err != nil:
		return process.Outcome{}, &fileError{out.err, judgePublisher(out.err)}
	}
	return outcome, err
}
