package step

import (
	"context"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Commit compares the manifest with the results, writes the run's summary and
// tells the ledger, under the run's fencing token. It may be repeated: a commit
// that landed is recognised. A run in which too much failed ends in
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
	var rows []ledger.Row
	var outputs []string
	err := readManifest(ctx, r.state, in.Discovered.Manifest, func(batch Batch) error {
		results, err := r.readResult(ctx, keys, batch)
		for _, f := range results {
			summary.count(f, r.config.Failure.MaxAttempts)
			switch f.Outcome {
			case OutcomeDone:
				rows = append(rows, f.Row(ledger.Done))
				outputs = append(outputs, f.Outputs...)
			case OutcomeFailed:
				rows = append(rows, f.Row(ledger.Failed))
			}
		}
		return err
	})
	if err != nil {
		return CommitOutput{}, err
	}
	if r.config.Failure.Atomicity == AtomicityRun && summary.Failed > 0 {
		summary.undo()
		rows = onlyFailed(rows)
		if err := r.remove(ctx, outputs); err != nil {
			return CommitOutput{}, err
		}
	}
	if err := r.writeJSON(ctx, keys.summary(), summary); err != nil {
		return CommitOutput{}, err
	}
	if err := r.record(ctx, in, rows, found.Upkeep); err != nil {
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
		return fmt.Errorf("commit ledger s3://%s/%s: %w", r.state.Name(), ledgerPrefix(r.config), err)
	}
	if committed.MergeErr != nil {
		r.log.Warn("ledger segments not merged; a later commit tries again", "token", in.Token, "error", committed.MergeErr)
	}
	return nil
}

func onlyFailed(rows []ledger.Row) []ledger.Row {
	var failed []ledger.Row
	for _, row := range rows {
		if row.Outcome == ledger.Failed {
			failed = append(failed, row)
		}
	}
	return failed
}

// remove takes the run's outputs back. It is safe to repeat, and under the
// lease no other run is writing the same keys.
func (r *run) remove(ctx context.Context, outputs []string) error {
	for _, key := range outputs {
		if err := r.destination.Delete(ctx, key); err != nil {
			return fmt.Errorf("remove the run's outputs (failure.atomicity is %q): %w", AtomicityRun, err)
		}
	}
	return nil
}
