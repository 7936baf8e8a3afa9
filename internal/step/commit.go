package step

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Commit compares the manifest with the results, decides which files are to
// blame, commits to the ledger under the run's fencing token, and writes the
// run's summary. It may be repeated: a commit that landed is recognised. A run
// that did too little ends in an error named after the cause, once everything is
// safe.
func (s *Steps) Commit(ctx context.Context, in CommitInput) (CommitOutput, error) {
	r, err := s.begin(in.Execution)
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
	found, err := r.readDiscovery(ctx, keys, in.Discovered.Manifest)
	if err != nil {
		return CommitOutput{}, err
	}
	if err := r.createJSON(ctx, keys.closed(), struct{}{}); err != nil {
		return CommitOutput{}, err
	}
	proof, err := r.anyDone(ctx, keys, in.Discovered.Manifest)
	if err != nil {
		return CommitOutput{}, err
	}
	summary := r.newSummary(in.Token, in.Discovered, found)
	already, err := r.record(ctx, in, r.outcomes(ctx, keys, in.Discovered.Manifest, proof, &summary), found.Upkeep)
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
		"superseded", summary.Superseded, "archived", summary.Archived, "deferred", summary.Deferred, "causes", summary.Causes,
		"rows", summary.Rows, "rejected", summary.Rejected, "unanswered", summary.Unanswered, "summary", url)
	if err := summary.verdict(r.config.Failure, url); err != nil {
		return CommitOutput{}, err
	}
	return CommitOutput{
		Done: summary.Done, Failed: summary.Failed, Quarantined: summary.Quarantined,
		Superseded: summary.Superseded, Archived: summary.Archived, Deferred: summary.Deferred,
		Rows: summary.Rows, Rejected: summary.Rejected, Unanswered: summary.Unanswered, Summary: url,
	}, nil
}

// readDiscovery reads what the call of Discover that wrote the manifest found.
func (r *run) readDiscovery(ctx context.Context, keys runKeys, manifest ObjectRef) (found ledger.Discovery, err error) {
	call, ok := callOf(manifest.Key)
	if !ok {
		return found, &InvalidInputError{fmt.Sprintf("discovered.manifest.key %q is not the key of a manifest", manifest.Key)}
	}
	return found, r.readJSON(ctx, keys.discovery(call), &found)
}

// anyDone reports whether a file of the run was done: it got through the same
// bucket and processor that others failed in, which is the proof against them.
func (r *run) anyDone(ctx context.Context, keys runKeys, manifest ObjectRef) (done bool, err error) {
	err = r.eachResult(ctx, keys, manifest, func(b batchResults) error {
		for _, f := range b.files {
			if f.Outcome == OutcomeDone {
				done = true
				return errStopped
			}
		}
		return nil
	})
	if err == errStopped {
		err = nil
	}
	return done, err
}

// decided is the result once it is known whether another file of the run was done.
func (f FileResult) decided(proof bool) FileResult {
	if f.Outcome == OutcomeUnproven {
		f.Outcome = OutcomeDeferred
		if proof {
			f.Outcome = OutcomeFailed
		}
	}
	return f
}

// outcomes yields what the ledger records of each file, and counts the files
// into the summary on the way: a million results are never in memory together.
func (r *run) outcomes(ctx context.Context, keys runKeys, manifest ObjectRef, proof bool, summary *Summary) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		err := r.eachResult(ctx, keys, manifest, func(b batchResults) error {
			summary.Unanswered += b.unanswered
			for _, f := range b.files {
				f = f.decided(proof)
				summary.count(f)
				if !yield(f.row(), nil) {
					return errStopped
				}
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

// record commits to the ledger, unless this commit has landed. A merge that
// failed is a matter for the log: the commit stands, and a later one merges.
func (r *run) record(ctx context.Context, in CommitInput, rows iter.Seq2[ledger.Row, error], upkeep ledger.Upkeep) (already bool, err error) {
	books, err := r.ledger()
	if err != nil {
		return false, err
	}
	committed, err := books.Commit(ctx, ledger.Commit{
		Run: r.execution.Name, Token: in.Token, At: in.Discovered.Cutoff,
		Rows: rows, MaxAttempts: r.config.Failure.MaxAttempts, Settings: r.settings, Upkeep: upkeep,
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
