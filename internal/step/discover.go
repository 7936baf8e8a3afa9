package step

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Discover compares the listing of the source with the ledger and writes the
// manifest of what is new, under a name of this call's own. The ledger's head
// names the manifest before anything of it is processed: should the run die, the
// next one takes its files again, whatever became of them.
func (s *Steps) Discover(ctx context.Context, in DiscoverInput) (DiscoverOutput, error) {
	r, err := s.begin(in.Execution)
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
	before, err := r.beginLedger(ctx, books, token)
	if err != nil {
		return DiscoverOutput{}, err
	}
	keys, call := keysOf(r.config, r.execution.Name, token), newCallName()
	manifest := startManifest(ctx, r.state, keys.manifest(call), r.config.Batch)
	defer manifest.abandon()
	found, err := books.Discover(ctx, r.source, r.selection(), cutoff, manifest.add)
	if err != nil {
		err = fmt.Errorf("discover files below s3://%s/%s: %w", r.source.Name(), r.config.Source.Prefix, err)
		if refusesListing(err) {
			err = hinderedBy(CauseSource, err)
		}
		return DiscoverOutput{}, err
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
	if err := r.writeJSON(ctx, keys.discovery(call), found); err != nil {
		return DiscoverOutput{}, err
	}
	if manifest.batches > 0 {
		open := ledger.OpenManifest{Run: r.execution.Name, Token: token, Key: keys.manifest(call), ETag: etag}
		if err := books.OpenManifest(ctx, open); err != nil {
			return DiscoverOutput{}, err
		}
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
		Manifest:                   ObjectRef{Bucket: r.state.Name(), Key: keys.manifest(call), ETag: etag},
		MaxConcurrency:             r.config.Batch.MaxConcurrency,
		ToleratedFailurePercentage: 100,
	}
	r.measureDiscovery(token, out, found, before)
	return out, nil
}

// refusesListing reports an answer by which the source cannot be listed now or
// later. The source is all that a discovery lists.
func refusesListing(err error) bool {
	var call *bucket.CallError
	return errors.As(err, &call) && call.Op == "list" && !transient(err)
}

// identity is what all runs of a ledger have in common.
func (c RunConfig) identity() ledger.Identity {
	return ledger.Identity{
		Source:      "s3://" + c.Source.Bucket + "/" + c.Source.Prefix,
		Destination: "s3://" + c.Destination.Bucket + "/" + c.Destination.Prefix,
		Layout:      string(c.Destination.Versions),
	}
}

// beginLedger fences older runs, holds the pipeline to the places of the runs
// before it, and makes due what runs that died had in hand. It returns the head
// as the discovery finds it.
func (r *run) beginLedger(ctx context.Context, books *ledger.Ledger, token int64) (ledger.Head, error) {
	before, err := books.Head(ctx)
	if err != nil {
		return ledger.Head{}, err
	}
	if before.Identity == (ledger.Identity{}) {
		if err := r.checkLayout(ctx); err != nil {
			return ledger.Head{}, err
		}
	}
	head, err := books.Begin(ctx, ledger.Beginning{Token: token, Identity: r.config.identity(), Landed: r.landed})
	if err != nil {
		return ledger.Head{}, err
	}
	var dead []ledger.OpenManifest
	for _, open := range head.Open {
		if open.Token < token {
			dead = append(dead, open)
		}
	}
	if len(dead) == 0 {
		return head, nil
	}
	recovered, err := books.Recover(ctx, ledger.Recovery{
		Run: r.execution.Name, Token: token, Open: dead, Keys: r.keysOfManifests(ctx, dead),
	})
	if err != nil {
		return ledger.Head{}, fmt.Errorf("make the files of a run that died due: %w", err)
	}
	r.log.Warn("files of runs that died are due again", "token", token, "manifests", dead, "files", recovered.Due)
	return books.Head(ctx)
}

// landed reports whether the run committed under that token: its summary is
// written after its commit.
func (r *run) landed(ctx context.Context, run string, token int64) (bool, error) {
	_, err := r.state.Head(ctx, keysOf(r.config, run, token).summary())
	if errors.Is(err, bucket.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// keysOfManifests yields the keys of the files in manifests. Of one whose record
// was removed nothing is known any more. No ETag is asked for: the object was
// created once, and has another one after it was copied or brought back.
func (r *run) keysOfManifests(ctx context.Context, manifests []ledger.OpenManifest) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, m := range manifests {
			err := readManifest(ctx, r.state, ObjectRef{Bucket: r.state.Name(), Key: m.Key}, func(b Batch) error {
				for _, f := range b.Files {
					if !yield(f.Key, nil) {
						return errStopped
					}
				}
				return nil
			})
			switch {
			case errors.Is(err, bucket.ErrNotFound):
				r.log.Warn("the manifest of a run that died is gone; should that run have published a version that is not current, `lockstep outputs check` finds it", "run", m.Run, "token", m.Token, "manifest", m.Key)
			case err == errStopped:
				return
			case err != nil:
				yield("", err)
				return
			}
		}
	}
}

// checkLayout refuses a destination with outputs of an older program, before the
// first run of a ledger: their names differ from those of the outputs to come, so
// that readers of the folder would count their files twice.
func (r *run) checkLayout(ctx context.Context) error {
	const mostLooked = 20 // outputs of the older program lie side by side
	looked := 0
	for page, err := range r.destination.List(ctx, bucket.ListOptions{Prefix: r.config.Destination.Prefix}) {
		if err != nil {
			return hinderedBy(CauseDestination, fmt.Errorf("look for outputs of an older program: %w", err))
		}
		for _, e := range page.Entries {
			if !formerOutput.MatchString(e.Key) {
				continue
			}
			if looked++; looked > mostLooked {
				break
			}
			ours, err := r.hasMetadata(ctx, e.Key)
			if err != nil {
				return hinderedBy(CauseDestination, fmt.Errorf("look for outputs of an older program: %w", err))
			}
			if !ours {
				return hinderedBy(CauseDestinationTaken, fmt.Errorf("%q looks like the output of an older lockstep, which this one would write again under another name; choose a new destination.prefix, or remove what is there (see docs/upgrade.md)",
					"s3://"+r.destination.Name()+"/"+e.Key))
			}
		}
		break // a page shows it
	}
	return nil
}

// hasMetadata reports whether an object is an output of this program: those of
// an older one may have such names, and have no metadata.
func (r *run) hasMetadata(ctx context.Context, key string) (bool, error) {
	there, err := r.destination.Head(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return true, nil // gone meanwhile
	}
	if err != nil {
		return false, err
	}
	_, ours := readMetadata(there.Metadata)
	return ours, nil
}
