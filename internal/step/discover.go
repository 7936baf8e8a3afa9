package step

import (
	"context"
	"fmt"
)

// Discover compares the listing of the source with the ledger and writes the
// manifest of what is new. The ledger is told only that this run's token came
// by: a listing that breaks leaves no other trace than an error.
func (s *Steps) Discover(ctx context.Context, in DiscoverInput) (DiscoverOutput, error) {
	r, err := s.begin(in.Execution, in.Config)
	if err != nil {
		return DiscoverOutput{}, err
	}
	ctx, stop, err := r.holding(ctx, in.Token)
	if err != nil {
		return DiscoverOutput{}, err
	}
	defer stop()
	out, err := r.discover(ctx, in.Token)
	return out, whyEnded(ctx, err)
}

func (r *run) discover(ctx context.Context, token int64) (DiscoverOutput, error) {
	status, err := r.lock.Inspect(ctx)
	if err != nil {
		return DiscoverOutput{}, fmt.Errorf("read the server's time: %w", err)
	}
	cutoff := status.Now
	books, err := r.ledger()
	if err != nil {
		return DiscoverOutput{}, err
	}
	if err := books.Fence(ctx, token); err != nil {
		return DiscoverOutput{}, err
	}
	before, err := books.Head(ctx)
	if err != nil {
		return DiscoverOutput{}, err
	}
	keys := keysOf(r.config, r.execution.Name, token)
	manifest := startManifest(ctx, r.state, keys.manifest(), r.config.Batch)
	defer manifest.abandon()
	found, err := books.Discover(ctx, r.source, r.config.selection(), cutoff, manifest.add)
	if err != nil {
		return DiscoverOutput{}, fmt.Errorf("discover files below s3://%s/%s: %w", r.source.Name(), r.config.Source.Prefix, err)
	}
	if mark := found.Upkeep.Mark; mark != nil && found.Taken() == 0 {
		if err := books.Settle(ctx, token, *mark); err != nil {
			return DiscoverOutput{}, err
		}
	}
	etag, err := manifest.publish()
	if err != nil {
		return DiscoverOutput{}, err
	}
	if err := r.writeJSON(ctx, keys.discovery(), found); err != nil {
		return DiscoverOutput{}, err
	}
	if err := r.writeJSON(ctx, keys.progress(), Progress{
		Run: r.execution.Name, Token: token, Stage: StageProcessing, Files: manifest.files, Bytes: manifest.bytes,
		Batches: manifest.batches, Started: cutoff, Updated: cutoff,
	}); err != nil {
		return DiscoverOutput{}, err
	}
	r.log.Info("discover", "token", token, "batches", manifest.batches, "files", manifest.files, "bytes", manifest.bytes, "skipped", found.Skipped, "left", found.Left)
	out := DiscoverOutput{
		Batches:                    manifest.batches,
		Files:                      manifest.files,
		Bytes:                      manifest.bytes,
		Left:                       found.Left,
		Cutoff:                     cutoff,
		Manifest:                   ObjectRef{Bucket: r.state.Name(), Key: keys.manifest(), ETag: etag},
		MaxConcurrency:             r.config.Batch.MaxConcurrency,
		ToleratedFailurePercentage: 100,
	}
	r.measureDiscovery(token, out, found, before)
	return out, nil
}
