package step

import (
	"context"
	"errors"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Progress is how far the run of that name is that got this token; nil where
// nothing is to be processed, or not yet.
func (o *Operator) Progress(ctx context.Context, run string, token int64) (*Progress, error) {
	return recordOf[Progress](ctx, o, keysOf(o.run.config, run, token).progress())
}

// Summary is the audit record of the run of that name that got this token; nil
// where it committed nothing.
func (o *Operator) Summary(ctx context.Context, run string, token int64) (*Summary, error) {
	return recordOf[Summary](ctx, o, keysOf(o.run.config, run, token).summary())
}

// SummaryURL is where that record is, for people.
func (o *Operator) SummaryURL(run string, token int64) string {
	return "s3://" + o.run.state.Name() + "/" + keysOf(o.run.config, run, token).summary()
}

func recordOf[T any](ctx context.Context, o *Operator, key string) (*T, error) {
	var record T
	err := o.run.readJSON(ctx, key, &record)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &record, nil
}
