package step

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Commit compares the manifest with the results, tells the ledger under the
// run's fencing token, and writes the run's summary. It may be repeated: a
// commit that landed is recognised. A run in which too much failed ends in
// *TooManyFilesFailedError once everything is safe.
func (s *Steps) Commit(ctx context.Context, in CommitInput) (CommitOutput, error) {
	r, err := s.begin(in.Execution, in.Config)
	if err != nil {
		return CommitOutput{}, err
	}
	ctx, stop, err := r.holding(ctx, in.Token)
	if err != nil {
		return CommitOutput{}, err
	}
	defer stop()
	out, err := r.commit(ctx, in)
	return out, whyEnded(ctx, err)
}

func (r *run) commit(ctx context.Context, in CommitInput) (CommitOutput, error) {
	keys := keysOf(r.config, r.execution.Name, in.Token)
	var found ledger.Discovery
	err := r.readJSON(ctx, keys.discovery(), &found)
	if err != nil {
		return CommitOutput{}, err
	}
	summary := r.newSummary(in.Token, in.Discovered, found)
	outcomes := r.outcomes(ctx, keys, in.Discovered.Manifest, &summary)
	if r.config.Failure.Atomicity == AtomicityRun {
		if outcomes, err = r.allOrNothing(ctx, keys, in.Discovered.Manifest, &summary); err != nil {
			return CommitOutput{}, err
		}
	}
	already, err := r.record(ctx, in, outcomes, found.Upkeep)
	if err != nil {
		return CommitOutput{}, err
	}
	if !already {
		r.measureCommit(in.Token, summary, found)
	}
	if err := r.writeJSON(ctx, keys.summary(), summary); err != nil {
		return CommitOutput{}, err
	}
	r.reportProgress(ctx, in.Token, StageCommitted)
	url := "s3://" + r.state.Name() + "/" + keys.summary()
	r.log.Info("commit", "token", in.Token, "done", summary.Done, "failed", summary.Failed, "quarantined", summary.Quarantined,
		"superseded", summary.Superseded, "deferred", summary.Deferred, "rows", summary.Rows, "rejected", summary.Rejected, "summary", url)
	if err := summary.verdict(r.config, url); err != nil {
		return CommitOutput{}, err
	}
	return CommitOutput{
		Done: summary.Done, Failed: summary.Failed, Quarantined: summary.Quarantined,
		Superseded: summary.Superseded, Deferred: summary.Deferred,
		Rows: summary.Rows, Rejected: summary.Rejected, Summary: url,
	}, nil
}

// outcomes yields what the ledger is to be told of each file, and counts the
// files into the summary on the way: a million results are never in memory
// together.
func (r *run) outcomes(ctx context.Context, keys runKeys, manifest ObjectRef, summary *Summary) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		err := r.eachResult(ctx, keys, manifest, func(f FileResult) error {
			summary.count(f, r.config.Failure.MaxAttempts)
			if row, told := f.row(); told && !yield(row, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && err != errStopped {
			yield(ledger.Row{}, err)
		}
	}
}

// errStopped: the ledger reads no further rows, and has its own reason.
var errStopped = errors.New("the reader of the rows stopped")

// allOrNothing counts the results first. Where one failure spoils the run it
// takes the outputs back, and the ledger is told of the failures alone: nothing
// is told of files whose outputs may still be seen.
func (r *run) allOrNothing(ctx context.Context, keys runKeys, manifest ObjectRef, summary *Summary) (iter.Seq2[ledger.Row, error], error) {
	for _, err := range r.outcomes(ctx, keys, manifest, summary) {
		if err != nil {
			return nil, err
		}
	}
	spoilt := summary.notDone() > 0
	if spoilt {
		summary.undo()
		if err := r.takeBack(ctx, keys, manifest); err != nil {
			return nil, err
		}
	}
	again := *summary // counted already
	outcomes := r.outcomes(ctx, keys, manifest, &again)
	return func(yield func(ledger.Row, error) bool) {
		for row, err := range outcomes {
			if spoilt && row.Outcome == ledger.Done {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}, nil
}

// record tells the ledger, unless it was told already. A merge that failed is a
// matter for the log: the commit stands, and a later one merges.
func (r *run) record(ctx context.Context, in CommitInput, rows iter.Seq2[ledger.Row, error], upkeep ledger.Upkeep) (already bool, err error) {
	books, err := r.ledger()
	if err != nil {
		return false, err
	}
	committed, err := books.Commit(ctx, ledger.Commit{
		Run: r.execution.Name, Token: in.Token, At: in.Discovered.Cutoff,
		Rows: rows, MaxAttempts: r.config.Failure.MaxAttempts, Upkeep: upkeep,
	})
	if err != nil {
		return false, fmt.Errorf("commit ledger s3://%s/%s: %w", r.state.Name(), LedgerPrefix(r.config), err)
	}
	if committed.Already { // nothing was read, so nothing was counted
		for _, err := range rows {
			if err != nil {
				return false, err
			}
		}
	}
	if committed.MergeErr != nil {
		r.log.Warn("ledger segments not merged; a later commit tries again", "token", in.Token, "error", committed.MergeErr)
	}
	return committed.Already, nil
}
