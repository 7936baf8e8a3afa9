package step

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Outcomes of a file in one run.
const (
	OutcomeDone       = "done"
	OutcomeFailed     = "failed"     // its own fault; counts as an attempt
	OutcomeSuperseded = "superseded" // changed or deleted since it was listed
	OutcomeDeferred   = "deferred"   // put off for want of time, or by trouble of the moment
)

// FileResult is what became of one file.
type FileResult struct {
	ledger.Candidate
	Outcome  string   `json:"outcome"`
	Rows     int64    `json:"rows"`
	Rejected int64    `json:"rejected"`
	Outputs  []string `json:"outputs"` // keys in the destination bucket
	Error    string   `json:"error"`   // why it failed, or which trouble put it off; "" otherwise

	crashed bool // there is no result, so Outputs may not be all
}

// row is what the ledger is told of the file, if anything.
func (f FileResult) row() (row ledger.Row, told bool) {
	switch f.Outcome {
	case OutcomeDone:
		return f.Row(ledger.Done), true
	case OutcomeFailed:
		return f.Row(ledger.Failed), true
	}
	return ledger.Row{}, false
}

// BatchResult is the object that Process leaves for Commit.
type BatchResult struct {
	Batch int          `json:"batch"`
	Files []FileResult `json:"files"`
}

// resultReaders is how many results are read at a time: one after the other,
// those of a million files would take longer than a function lives.
const resultReaders = 16

// eachResult calls each with the outcomes of every file of the manifest, batch
// by batch and in the manifest's order, until each returns an error.
func (r *run) eachResult(ctx context.Context, keys runKeys, manifest ObjectRef, each func(FileResult) error) error {
	return r.eachBatch(ctx, manifest, func(ctx context.Context, batch Batch) ([]FileResult, error) {
		return r.readResult(ctx, keys, batch)
	}, each)
}

// eachBatch is eachResult for those who read a batch's results in another way.
func (r *run) eachBatch(ctx context.Context, manifest ObjectRef, read func(context.Context, Batch) ([]FileResult, error), each func(FileResult) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	readers, ctx := errgroup.WithContext(ctx)
	inOrder := make(chan chan []FileResult, resultReaders)
	readers.Go(func() error {
		defer close(inOrder)
		return readManifest(ctx, r.state, manifest, func(batch Batch) error {
			answer := make(chan []FileResult, 1)
			select {
			case inOrder <- answer:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			readers.Go(func() error {
				defer close(answer)
				results, err := read(ctx, batch)
				answer <- results
				return err
			})
			return nil
		})
	})
	var failed error
	for answer := range inOrder {
		for _, result := range <-answer {
			if failed == nil {
				failed = each(result)
			}
		}
		if failed != nil {
			cancel(failed) // the readers end, and with them this loop
		}
	}
	return cmp.Or(failed, readers.Wait())
}

// readResult returns the outcomes of a batch, one for each of its files and in
// their order. A batch without a result (its call crashed or was never run)
// is a failed attempt of every file in it.
func (r *run) readResult(ctx context.Context, keys runKeys, batch Batch) ([]FileResult, error) {
	var result BatchResult
	err := r.readJSON(ctx, keys.result(batch.Number), &result)
	if errors.Is(err, bucket.ErrNotFound) {
		return crashed(batch, "its batch left no result: the processing call crashed, timed out or ran out of memory; see the Map Run of this execution"), nil
	}
	if err != nil {
		return nil, err
	}
	if !sameFiles(batch, result) {
		return crashed(batch, "the result of its batch is about other files"), nil
	}
	return result.Files, nil
}

func crashed(batch Batch, why string) []FileResult {
	results := make([]FileResult, len(batch.Files))
	for i, f := range batch.Files {
		results[i] = FileResult{Candidate: f, Outcome: OutcomeFailed, Error: why, crashed: true}
	}
	return results
}

func sameFiles(batch Batch, result BatchResult) bool {
	if len(batch.Files) != len(result.Files) {
		return false
	}
	for i, f := range batch.Files {
		if got := result.Files[i]; got.Key != f.Key || got.ETag != f.ETag {
			return false
		}
	}
	return true
}

// brief is an error's text for a record: what a processor quotes of a file may
// be long.
func brief(err error) string {
	const most = 1000
	text := err.Error()
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
