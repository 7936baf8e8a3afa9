package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// Explained is all that can be known of one key.
type Explained struct {
	Key     string        `json:"key"`
	Source  *SourceObject `json:"source"`  // what S3 has now; null for nothing
	Row     *ledger.Row   `json:"ledger"`  // what the ledger knows; null for nothing
	Next    Next          `json:"next"`    // what the next run does with it
	Failure *LastFailure  `json:"failure"` // of the row that failed, if its run's records are there; else null
	Outputs []Output      `json:"outputs"` // of the versions that S3 and the ledger have
	// Gaps are what could not be found out, and why.
	Gaps []string `json:"gaps"`
}

// SourceObject is an object as the source's listing has it.
type SourceObject struct {
	ETag         string    `json:"etag"`
	Size         int64     `json:"size"` // bytes
	LastModified time.Time `json:"lastModified"`
	StorageClass string    `json:"storageClass"` // "" is STANDARD
}

// Next says whether the next run takes a file, were it to list the source now.
type Next struct {
	Takes bool `json:"takes"`
	// Kind is new, changed, retried or reprocessed; "" if it is not taken.
	Kind string `json:"kind"`
	// Reason is why it is not taken; "" if it is.
	Reason ledger.Reason `json:"reason"`
}

// Reasons of Next that no listing gives.
const (
	ReasonNotThere      ledger.Reason = "notThere"      // the source has no such object
	ReasonOutsidePrefix ledger.Reason = "outsidePrefix" // the key is not below source.prefix
)

// LastFailure is why a file failed, as the run says that committed the failure.
type LastFailure struct {
	Run     string `json:"run"`
	Token   int64  `json:"token"`
	Error   string `json:"error"`
	Summary string `json:"summary"` // S3 URL
}

// Output is an object in the destination, and what its metadata says.
type Output struct {
	Key          string    `json:"key"`
	ETag         string    `json:"etag"`  // of the source version that it is of; "" where it does not say
	Token        int64     `json:"token"` // of the run that published it
	Rows         int64     `json:"rows"`
	Size         int64     `json:"size"` // bytes
	LastModified time.Time `json:"lastModified"`
}

// Explain finds out what there is to know of one key. It fails where source or
// ledger cannot be read; what else it does not find is a gap.
func (o *Operator) Explain(ctx context.Context, key string) (Explained, error) {
	e := Explained{Key: key, Outputs: []Output{}, Gaps: []string{}}
	if _, err := o.books.Begun(ctx); err != nil {
		return Explained{}, o.inLedger("read", err)
	}
	entry, now, err := o.listed(ctx, key)
	if err != nil {
		return Explained{}, err
	}
	if e.Row, err = o.books.Row(ctx, key); err != nil {
		return Explained{}, o.inLedger("read", err)
	}
	if entry != nil {
		e.Source = &SourceObject{ETag: entry.ETag, Size: entry.Size, LastModified: entry.LastModified, StorageClass: entry.StorageClass}
	}
	if e.Next, err = o.next(ctx, key, entry, now); err != nil {
		return Explained{}, err
	}
	if e.Row != nil && e.Row.Outcome != ledger.Done && e.Row.Attempts > 0 {
		if e.Failure, err = o.failure(ctx, *e.Row); err != nil {
			e.Gaps = append(e.Gaps, fmt.Sprintf("why it failed: %v", err))
		}
	}
	if err := o.outputs(ctx, &e); err != nil {
		e.Gaps = append(e.Gaps, fmt.Sprintf("its outputs: %v", err))
	}
	return e, nil
}

// listed is the source's entry of one key, nil if there is none.
func (o *Operator) listed(ctx context.Context, key string) (*bucket.Entry, time.Time, error) {
	for page, err := range o.run.source.List(ctx, bucket.ListOptions{Prefix: key, PageSize: 1}) {
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("look for the file: %w", err)
		}
		// Of what begins with the key, the key itself comes first.
		if len(page.Entries) > 0 && page.Entries[0].Key == key {
			return &page.Entries[0], page.ServerTime, nil
		}
		return nil, page.ServerTime, nil
	}
	return nil, time.Time{}, errors.Join(fmt.Errorf("look for the file: %w", bucket.ErrListing), ctx.Err())
}

func (o *Operator) next(ctx context.Context, key string, entry *bucket.Entry, now time.Time) (Next, error) {
	switch {
	case !strings.HasPrefix(key, o.run.config.Source.Prefix):
		return Next{Reason: ReasonOutsidePrefix}, nil
	case entry == nil:
		return Next{Reason: ReasonNotThere}, nil
	}
	verdict, err := o.books.Explain(ctx, *entry, o.run.selection(), now)
	if err != nil {
		return Next{}, o.inLedger("read", err)
	}
	return Next{Takes: verdict.Reason == "", Kind: verdict.Kind.String(), Reason: verdict.Reason}, nil
}

// failure looks for a row's failure in the records of its run: among the first
// hundred of the summary, else in the result of its batch.
func (o *Operator) failure(ctx context.Context, row ledger.Row) (*LastFailure, error) {
	grants, err := o.run.grants(ctx, row.Run)
	if err != nil {
		return nil, err
	}
	for _, a := range slices.Backward(grants) {
		if !a.summary {
			continue
		}
		keys := keysOf(o.run.config, a.run, a.token)
		var summary Summary
		if err := o.run.readJSON(ctx, keys.summary(), &summary); err != nil {
			return nil, err
		}
		why, err := o.whyFailed(ctx, keys, summary, row)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return &LastFailure{Run: a.run, Token: a.token, Error: why, Summary: "s3://" + o.run.state.Name() + "/" + keys.summary()}, nil
		}
	}
	return nil, fmt.Errorf("no records of run %s tell of it", row.Run)
}

func (o *Operator) whyFailed(ctx context.Context, keys runKeys, summary Summary, row ledger.Row) (why string, err error) {
	for _, f := range summary.Failures {
		if f.Key == row.Key {
			return f.Error, nil
		}
	}
	if len(summary.Failures) < maxFailuresListed {
		return "", nil
	}
	err = readManifest(ctx, o.run.state, summary.Manifest, func(batch Batch) error {
		at := slices.IndexFunc(batch.Files, func(f ledger.Candidate) bool { return f.Key == row.Key })
		if at < 0 {
			return nil
		}
		results, err := o.run.findBatch(ctx, keys, batch)
		if err != nil {
			return err
		}
		why = results.files[at].Error
		return errStopped
	})
	if err == errStopped {
		err = nil
	}
	return why, err
}

// outputs looks for what there is of the version that the ledger has, of the
// one that S3 has, and of the one that was published last.
func (o *Operator) outputs(ctx context.Context, e *Explained) error {
	if !strings.HasPrefix(e.Key, o.run.config.Source.Prefix) {
		return nil
	}
	visible, versions := process.OutputName, []string{}
	if e.Row != nil && e.Row.Published != (ledger.Published{}) {
		visible, versions = e.Row.Published.Name, append(versions, e.Row.Published.ETag)
	}
	if e.Row != nil && e.Row.ETag != "" {
		versions = append(versions, e.Row.ETag)
	}
	if e.Source != nil {
		versions = append(versions, e.Source.ETag)
	}
	seen := map[string]bool{}
	for _, etag := range versions {
		for _, name := range []string{visible, process.RejectedName} {
			key, err := outputKey(o.run.config, ledger.File{Key: e.Key, ETag: etag}, name)
			if err != nil || seen[key] {
				continue
			}
			seen[key] = true
			object, err := o.run.destination.Head(ctx, key)
			if errors.Is(err, bucket.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			e.Outputs = append(e.Outputs, newOutput(object))
		}
	}
	return nil
}

// newOutput says what an object's metadata says.
func newOutput(object *bucket.Object) Output {
	out := Output{Key: object.Key, Size: object.Size, LastModified: object.LastModified}
	if p, ok := readMetadata(object.Metadata); ok {
		out.ETag, out.Token, out.Rows = p.etag(), p.token, p.rows
	}
	return out
}
