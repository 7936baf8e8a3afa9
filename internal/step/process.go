package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// wrapUp is kept back from the function's time for writing the result. A file
// that is not finished by then is put off, instead of dying with the call and
// taking the finished ones along.
const wrapUp = 30 * time.Second

// Process works through one batch under the run's lease and leaves a result
// object. A file's own fault is an outcome of that file. Trouble of the moment
// (throttling, a lost connection) puts a file off and, after the others had
// their turn, is the call's error, so that the state machine repeats the batch;
// every output is written again under the same key. Should it give up, the
// result of the last attempt stands, and no file is blamed.
func (s *Steps) Process(ctx context.Context, in ProcessInput) (ProcessOutput, error) {
	r, err := s.begin(in.Execution, in.Config)
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
	result := BatchResult{Batch: in.Batch.Number, Files: make([]FileResult, 0, len(in.Batch.Files))}
	out := ProcessOutput{Batch: in.Batch.Number}
	working, cancel := workingTime(ctx)
	defer cancel()
	var trouble error
	for i, file := range in.Batch.Files {
		outcome, err := r.attempt(ctx, working, s.processor, file, i == 0)
		switch {
		case err != nil && (ctx.Err() != nil || !transient(err)):
			return ProcessOutput{}, whyEnded(ctx, err)
		case err != nil:
			trouble = cmp.Or(trouble, err)
			outcome = FileResult{Candidate: file, Outcome: OutcomeDeferred, Error: brief(err)}
		}
		switch outcome.Outcome {
		case OutcomeDone:
			out.Done++
		case OutcomeFailed:
			out.Failed++
		}
		r.log.Info("process", "token", in.Token, "batch", in.Batch.Number, "key", file.Key, "outcome", outcome.Outcome,
			"rows", outcome.Rows, "rejected", outcome.Rejected, "error", outcome.Error)
		result.Files = append(result.Files, outcome)
	}
	if err := r.writeJSON(ctx, keysOf(r.config, r.execution.Name, in.Token).result(result.Batch), result); err != nil {
		return ProcessOutput{}, whyEnded(ctx, err)
	}
	r.reportProgress(ctx, in.Token, StageProcessing)
	return out, trouble
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

// attempt processes a file within the working time. One that is not finished
// by then is deferred, unless it was first and had the whole time to itself: it
// would never be finished, and keep others waiting for ever.
func (r *run) attempt(ctx, working context.Context, processor process.Processor, file ledger.Candidate, first bool) (FileResult, error) {
	if working.Err() != nil && ctx.Err() == nil {
		return FileResult{Candidate: file, Outcome: OutcomeDeferred}, nil
	}
	published := &publisher{run: r, file: file.File, holding: func() error { return stillHolding(ctx) }}
	outcome, err := r.processFile(working, processor, file, published)
	switch {
	case err == nil:
		return outcome, nil
	case working.Err() == nil || ctx.Err() != nil:
		return FileResult{}, fmt.Errorf("process s3://%s/%s: %w", r.source.Name(), file.Key, err)
	case first:
		return FileResult{
			Candidate: file, Outcome: OutcomeFailed, Outputs: published.keys,
			Error: "not finished within the time of one processing call; give the function more memory, which is also more CPU, or split the file",
		}, nil
	}
	return FileResult{Candidate: file, Outcome: OutcomeDeferred, Outputs: published.keys}, nil
}

// processFile returns the file's outcome, or an error for what is not the
// file's fault.
func (r *run) processFile(ctx context.Context, processor process.Processor, file ledger.Candidate, published *publisher) (FileResult, error) {
	result := FileResult{Candidate: file, Outcome: OutcomeDone}
	object, err := r.source.Get(ctx, file.Key, bucket.Condition{IfMatch: file.ETag})
	switch {
	case errors.Is(err, bucket.ErrPrecondition), errors.Is(err, bucket.ErrNotFound):
		result.Outcome = OutcomeSuperseded
		return result, nil
	case err != nil && !transient(err) && ctx.Err() == nil:
		result.Outcome, result.Error = OutcomeFailed, brief(err)
		return result, nil
	case err != nil:
		return FileResult{}, err
	}
	body := newWireBody(object.Body, file.Size)
	defer body.Close()
	outcome, err := processor.Process(ctx, process.File{
		Key: file.Key, ETag: file.ETag, Size: file.Size, LastModified: file.LastModified, Body: body,
	}, published)
	result.Outputs = published.keys
	switch {
	case ctx.Err() != nil:
		return FileResult{}, context.Cause(ctx)
	case body.err != nil:
		return FileResult{}, body.err
	case err != nil && transient(err):
		return FileResult{}, err
	case err != nil:
		result.Outcome, result.Error = OutcomeFailed, brief(err)
		return result, nil
	}
	result.Rows, result.Rejected = outcome.Rows, outcome.Rejected
	return result, nil
}

// publisher puts whole outputs in their place, under the run's lease.
type publisher struct {
	run     *run
	file    ledger.File
	holding func() error // why the run may not publish any more, or nil
	keys    []string     // what was published or, if a reply got lost, may have been
}

// Publish asks for the lease itself: the processor's context may be its own,
// and the lease may have ended while the output was made.
func (p *publisher) Publish(ctx context.Context, name, contentType string, body io.ReadSeeker) error {
	key, err := outputKey(p.run.config, p.file, name)
	if err != nil {
		return err
	}
	if err := p.holding(); err != nil {
		return err
	}
	if !slices.Contains(p.keys, key) {
		p.keys = append(p.keys, key)
	}
	if _, err := p.run.destination.Put(ctx, key, body, contentType, bucket.Condition{}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}
