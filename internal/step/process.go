package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// wrapUp is kept back from the function's time for writing the result; a file
// not begun by then is deferred to the next run instead of dying with the call.
const wrapUp = 30 * time.Second

// Process works through one batch under the run's lease and leaves a result
// object. A file's own fault is an outcome of that file; throttling and lost
// connections are errors, so that the state machine repeats the batch (every
// output is written again under the same key).
func (s *Steps) Process(ctx context.Context, in ProcessInput) (ProcessOutput, error) {
	r, err := s.begin(in.Execution, in.Config)
	if err != nil {
		return ProcessOutput{}, err
	}
	if s.processor == nil {
		return ProcessOutput{}, errors.New("step: no processor given")
	}
	begun := s.now()
	ctx, stop, err := r.holding(ctx, in.Token)
	if err != nil {
		return ProcessOutput{}, err
	}
	defer stop()
	result := BatchResult{Batch: in.Batch.Number, Files: make([]FileResult, 0, len(in.Batch.Files))}
	out := ProcessOutput{Batch: in.Batch.Number}
	for _, file := range in.Batch.Files {
		outcome := FileResult{Candidate: file, Outcome: OutcomeDeferred}
		if s.timeLeft(ctx, begun) {
			if outcome, err = r.processFile(ctx, s.processor, file); err != nil {
				return ProcessOutput{}, whyEnded(ctx, fmt.Errorf("process s3://%s/%s: %w", r.source.Name(), file.Key, err))
			}
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
	keys := keysOf(r.config, r.execution.Name, in.Token)
	if err := r.writeResult(ctx, keys, result); err != nil {
		return ProcessOutput{}, whyEnded(ctx, err)
	}
	return out, nil
}

// timeLeft reports whether another file may be begun: some of the call's time
// must remain, or, in a call too short for that, half of it.
func (s *Steps) timeLeft(ctx context.Context, begun time.Time) bool {
	deadline, limited := ctx.Deadline()
	if !limited {
		return true
	}
	reserve := min(wrapUp, deadline.Sub(begun)/2)
	return s.now().Before(deadline.Add(-reserve))
}

// processFile returns the file's outcome, or an error for what is not the
// file's fault.
func (r *run) processFile(ctx context.Context, processor process.Processor, file ledger.Candidate) (FileResult, error) {
	result := FileResult{Candidate: file, Outcome: OutcomeDone}
	object, err := r.source.Get(ctx, file.Key, bucket.Condition{IfMatch: file.ETag})
	switch {
	case errors.Is(err, bucket.ErrPrecondition), errors.Is(err, bucket.ErrNotFound):
		result.Outcome = OutcomeSuperseded
		return result, nil
	case err != nil && !bucket.Transient(err) && ctx.Err() == nil:
		result.Outcome, result.Error = OutcomeFailed, err.Error()
		return result, nil
	case err != nil:
		return FileResult{}, err
	}
	defer object.Body.Close()
	body := &sourceBody{body: object.Body}
	published := &publisher{run: r, file: file.File}
	outcome, err := processor.Process(ctx, process.File{
		Key: file.Key, ETag: file.ETag, Size: file.Size, LastModified: file.LastModified, Body: body,
	}, published)
	switch {
	case ctx.Err() != nil:
		return FileResult{}, context.Cause(ctx)
	case body.err != nil:
		return FileResult{}, &TransientError{fmt.Errorf("read: %w", body.err)}
	case bucket.Transient(err):
		return FileResult{}, err
	case err != nil:
		result.Outcome, result.Error = OutcomeFailed, err.Error()
		return result, nil
	}
	result.Rows, result.Rejected, result.Outputs = outcome.Rows, outcome.Rejected, published.keys
	return result, nil
}

// sourceBody remembers that reading from S3 failed, so that a cut connection
// is not taken for a cut file.
type sourceBody struct {
	body io.Reader
	err  error
}

func (b *sourceBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// publisher puts whole outputs in their place, under the run's lease.
type publisher struct {
	run  *run
	file ledger.File
	keys []string
}

func (p *publisher) Publish(ctx context.Context, name, contentType string, body io.ReadSeeker) error {
	key, err := outputKey(p.run.config, p.file, name)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the lease may have ended while the output was made
		return context.Cause(ctx)
	}
	if _, err := p.run.destination.Put(ctx, key, body, contentType, bucket.Condition{}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	p.keys = append(p.keys, key)
	return nil
}
