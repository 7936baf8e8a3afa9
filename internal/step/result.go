package step

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Outcome is what became of one file in one run.
type Outcome string

// The outcomes. In the ledger, a file that is neither done nor failed is due.
const (
	OutcomeDone       Outcome = "done"
	OutcomeFailed     Outcome = "failed"     // its own fault; counts as an attempt
	OutcomeUnproven   Outcome = "unproven"   // CommitLedger makes it failed or deferred
	OutcomeSuperseded Outcome = "superseded" // changed or deleted since it was listed
	OutcomeArchived   Outcome = "archived"   // in an archive, and not restored
	OutcomeDeferred   Outcome = "deferred"   // not processed, and not its fault
)

// CauseTime: the time of the processing call was over. It hinders no run: the
// next one goes on.
const CauseTime Cause = "time"

// FileResult is what became of one file.
type FileResult struct {
	ledger.Candidate
	Outcome   Outcome          `json:"outcome"`
	Cause     Cause            `json:"cause,omitempty"` // of an unproven or deferred outcome
	Rows      int64            `json:"rows"`
	Rejected  int64            `json:"rejected"`
	Outputs   []string         `json:"outputs"`            // keys in the destination bucket
	Published ledger.Published `json:"published,omitzero"` // the visible output
	Error     string           `json:"error"`              // why it is not done; "" where there is nothing to say
}

// row is what the ledger records of the file. A file without an outcome of its
// own is due at any version: this run, or an earlier one, may have published it.
func (f FileResult) row() ledger.Row {
	switch f.Outcome {
	case OutcomeDone:
		row := f.Row(ledger.Done)
		row.Suspect, row.Published = false, f.Published
		return row
	case OutcomeFailed:
		return f.Row(ledger.Failed)
	}
	return f.Row(ledger.Due)
}

// Begun is the mark that a processing call began with a batch.
type Begun struct {
	Batch int `json:"batch"`
}

// BatchResult is the object that Process leaves for Commit.
type BatchResult struct {
	Batch int          `json:"batch"`
	Files []FileResult `json:"files"`
}

func (b BatchResult) output() ProcessOutput {
	out := ProcessOutput{Batch: b.Batch}
	for _, f := range b.Files {
		switch f.Outcome {
		case OutcomeDone:
			out.Done++
		case OutcomeFailed, OutcomeUnproven:
			out.Failed++
		}
	}
	return out
}

// batchAttempts are the calls that worked on one batch.
type batchAttempts struct {
	batch   int
	begun   []string // names of the calls that began
	results []string // names of those that left a result
}

// unanswered counts the calls that began and left no result. They crashed, or
// are still at work.
func (a batchAttempts) unanswered() (n int64) {
	for _, call := range a.begun {
		if !slices.Contains(a.results, call) {
			n++
		}
	}
	return n
}

// batchResults is what became of a batch by all attempts at it.
type batchResults struct {
	files      []FileResult
	unanswered int64
}

// resultReaders is how many batches are read at a time: one after the other,
// those of a million files would take longer than a function lives.
const resultReaders = 16

// eachResult calls each with the results of every batch of the manifest, in the
// manifest's order, until it returns an error.
func (r *run) eachResult(ctx context.Context, keys runKeys, manifest ObjectRef, each func(batchResults) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	readers, ctx := errgroup.WithContext(ctx)
	inOrder := make(chan chan batchResults, resultReaders)
	readers.Go(func() error {
		defer close(inOrder)
		attempts := r.listAttempts(ctx, keys)
		defer attempts.stop()
		return readManifest(ctx, r.state, manifest, func(batch Batch) error {
			at, err := attempts.of(batch.Number)
			if err != nil {
				return err
			}
			answer := make(chan batchResults, 1)
			select {
			case inOrder <- answer:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			readers.Go(func() error {
				defer close(answer)
				results, err := r.readBatch(ctx, keys, batch, at)
				answer <- results
				return err
			})
			return nil
		})
	})
	var failed error
	for answer := range inOrder {
		if results := <-answer; failed == nil && ctx.Err() == nil {
			failed = each(results)
		}
		if failed != nil {
			cancel(failed) // the readers end, and with them this loop
		}
	}
	return cmp.Or(failed, readers.Wait())
}

// attemptListing yields the attempts at the batches in the order of their numbers.
type attemptListing struct {
	next  func() (attemptName, error, bool)
	stop  func()
	ahead attemptName
	err   error
	more  bool
}

func (r *run) listAttempts(ctx context.Context, keys runKeys) *attemptListing {
	l := &attemptListing{}
	l.next, l.stop = iter.Pull2(r.attemptNames(ctx, keys, keys.results()))
	l.ahead, l.err, l.more = l.next()
	return l
}

// attemptNames lists the result objects below a prefix.
func (r *run) attemptNames(ctx context.Context, keys runKeys, prefix string) iter.Seq2[attemptName, error] {
	return func(yield func(attemptName, error) bool) {
		for page, err := range r.state.List(ctx, bucket.ListOptions{Prefix: prefix}) {
			if err != nil {
				yield(attemptName{}, fmt.Errorf("list results: %w", err))
				return
			}
			for _, e := range page.Entries {
				if name, ok := keys.attemptOf(e.Key); ok && !yield(name, nil) {
					return
				}
			}
			if page.Last {
				return
			}
		}
		yield(attemptName{}, fmt.Errorf("list results: %w", cmp.Or(context.Cause(ctx), bucket.ErrListing)))
	}
}

// of returns the attempts at a batch, whose number is above those asked for before.
func (l *attemptListing) of(batch int) (a batchAttempts, err error) {
	a.batch = batch
	for l.err == nil && l.more && l.ahead.batch <= batch {
		if l.ahead.batch == batch {
			a.add(l.ahead)
		}
		l.ahead, l.err, l.more = l.next()
	}
	return a, l.err
}

func (a *batchAttempts) add(name attemptName) {
	if name.begun {
		a.begun = append(a.begun, name.attempt)
	} else {
		a.results = append(a.results, name.attempt)
	}
}

// findBatch reads the results of one batch.
func (r *run) findBatch(ctx context.Context, keys runKeys, batch Batch) (batchResults, error) {
	at := batchAttempts{batch: batch.Number}
	for name, err := range r.attemptNames(ctx, keys, keys.batch(batch.Number)) {
		if err != nil {
			return batchResults{}, err
		}
		at.add(name)
	}
	return r.readBatch(ctx, keys, batch, at)
}

// readBatch returns the best outcome of each file of a batch, in their order.
func (r *run) readBatch(ctx context.Context, keys runKeys, batch Batch, at batchAttempts) (batchResults, error) {
	out := batchResults{unanswered: at.unanswered()}
	for _, call := range at.results {
		var result BatchResult
		if err := r.readJSON(ctx, keys.result(batch.Number, call), &result); err != nil {
			return batchResults{}, err
		}
		if !sameFiles(batch, result) {
			continue
		}
		if out.files == nil {
			out.files = result.Files
			continue
		}
		for i, f := range result.Files {
			if better(f.Outcome, out.files[i].Outcome) {
				out.files[i] = f
			}
		}
	}
	if out.files == nil {
		out.files = withoutResult(batch, len(at.begun) > 0)
	}
	return out, nil
}

// ranks are the outcomes, the one that says most first.
var ranks = []Outcome{OutcomeDone, OutcomeFailed, OutcomeSuperseded, OutcomeArchived, OutcomeUnproven, OutcomeDeferred}

func better(a, b Outcome) bool { return slices.Index(ranks, a) < slices.Index(ranks, b) }

// withoutResult is what became of a batch that has no result. A call that never
// began says nothing of its files. One that began crashed: if it had one file,
// that is what crashed it, unless every call crashes; of several each is suspect,
// and gets a call of its own next time.
func withoutResult(batch Batch, begun bool) []FileResult {
	results := make([]FileResult, len(batch.Files))
	for i, f := range batch.Files {
		results[i] = FileResult{Candidate: f, Outcome: OutcomeDeferred, Cause: CauseFunction}
		switch {
		case !begun:
			results[i].Error = "its processing call never began; see the Map Run of this execution"
		case len(batch.Files) == 1:
			results[i].Outcome, results[i].Suspect = OutcomeUnproven, true
			results[i].Error = "its processing call left no result: it crashed, timed out or ran out of memory with this file alone; see the Map Run of this execution"
		default:
			results[i].Suspect = true
			results[i].Error = "its processing call left no result: it crashed, timed out or ran out of memory; the next run processes each of its files alone"
		}
	}
	return results
}

func sameFiles(batch Batch, result BatchResult) bool {
	return slices.EqualFunc(batch.Files, result.Files, func(f ledger.Candidate, got FileResult) bool {
		return f.Key == got.Key && f.ETag == got.ETag
	})
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
