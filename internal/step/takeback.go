package step

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// takeBackers is how many files' outputs are removed at a time.
const takeBackers = 16

// takeBack removes the run's outputs. It is safe to repeat, and while the run
// holds its lease no other run writes the same keys.
func (r *run) takeBack(ctx context.Context, keys runKeys, manifest ObjectRef) error {
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(takeBackers)
	err := r.eachResult(working, keys, manifest, func(f FileResult) error {
		work.Go(func() error {
			outputs, err := r.outputsOf(working, f)
			if err != nil {
				return err
			}
			for _, key := range outputs {
				if err := stillHolding(ctx); err != nil {
					return err
				}
				if err := r.destination.Delete(working, key); err != nil {
					return err
				}
			}
			return nil
		})
		return nil
	})
	if err := cmp.Or(work.Wait(), err); err != nil {
		return fmt.Errorf("remove the run's outputs (failure.atomicity is %q): %w", AtomicityRun, err)
	}
	return nil
}

// outputsOf returns what a file may have left behind. A result says it all of
// files that were brought to an end; of others (their call crashed, or an
// earlier attempt at the batch got further) only the bucket knows.
func (r *run) outputsOf(ctx context.Context, f FileResult) ([]string, error) {
	if f.Outcome == OutcomeDone || f.Outcome == OutcomeFailed && !f.crashed {
		return f.Outputs, nil
	}
	entries, err := r.listOutputs(ctx, f.File)
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	return keys, err
}

// listOutputs lists what the destination has of a file at its version.
func (r *run) listOutputs(ctx context.Context, f ledger.File) ([]bucket.Entry, error) {
	var found []bucket.Entry
	outputs, asides := outputStems(r.config, f)
	for _, stem := range []string{outputs, asides} {
		for page, err := range r.destination.List(ctx, bucket.ListOptions{Prefix: stem}) {
			if err != nil {
				return nil, err
			}
			found = append(found, page.Entries...)
		}
	}
	return found, nil
}
