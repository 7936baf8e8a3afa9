package step

import (
	"context"
	"fmt"

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
	if err := r.readJSON(ctx, keys.discovery(), &found); err != nil {
		return CommitOutput{}, err
	}
	summary := r.newSummary(in.Token, in.Discovered.Cutoff, found)
	rows, err := r.tally(ctx, keys, in.Discovered.Manifest, &summary)
	if err != nil {
		return CommitOutput{}, err
	}
	if err := r.record(ctx, in, rows, found.Upkeep); err != nil {
		return CommitOutput{}, err
	}
	if err := r.writeJSON(ctx, keys.summary(), summary); err != nil {
		return CommitOutput{}, err
	}
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

// tally counts the results into the summary and returns what the ledger is to
// be told. Where one failure spoils the run it takes the outputs back first:
// nothing is told of files whose outputs may still be seen.
func (r *run) tally(ctx context.Context, keys runKeys, manifest ObjectRef, summary *Summary) ([]ledger.Row, error) {
	allOrNothing := r.config.Failure.Atomicity == AtomicityRun
	var done, failed []ledger.Row
	var results []FileResult // kept only where they may be needed again
	err := r.eachResult(ctx, keys, manifest, func(f FileResult) {
		summary.count(f, r.config.Failure.MaxAttempts)
		switch f.Outcome {
		case OutcomeDone:
			done = append(done, f.Row(ledger.Done))
		case OutcomeFailed:
			failed = append(failed, f.Row(ledger.Failed))
		}
		if allOrNothing {
			results = append(results, f)
		}
	})
	if err != nil {
		return nil, err
	}
	if allOrNothing && summary.notDone() > 0 {
		summary.undo()
		return failed, r.takeBack(ctx, results)
	}
	return append(done, failed...), nil
}

// record tells the ledger. A merge that failed is a matter for the log: the
// commit stands, and a later one merges.
func (r *run) record(ctx context.Context, in CommitInput, rows []ledger.Row, upkeep ledger.Upkeep) error {
	books, err := r.ledger()
	if err != nil {
		return err
	}
	committed, err := books.Commit(ctx, ledger.Commit{
		Run: r.execution.Name, Token: in.Token, At: in.Discovered.Cutoff,
		Rows: rows, MaxAttempts: r.config.Failure.MaxAttempts, Upkeep: upkeep,
	})
	if err != nil {
		return fmt.Errorf("commit ledger s3://%s/%s: %w", r.state.Name(), LedgerPrefix(r.config), err)
	}
	if committed.MergeErr != nil {
		r.log.Warn("ledger segments not merged; a later commit tries again", "token", in.Token, "error", committed.MergeErr)
	}
	return nil
}
