package s3lock_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// lineCut is one client's line to the bucket; the others' stay up.
type lineCut struct {
	*bucket.Bucket
	cut atomic.Bool
}

var errCut = errors.New("the line is cut")

func (l *lineCut) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	if l.cut.Load() {
		return nil, errCut
	}
	return l.Bucket.Get(ctx, key, c)
}

func (l *lineCut) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error) {
	if l.cut.Load() {
		return bucket.Written{}, errCut
	}
	return l.Bucket.Put(ctx, key, body, contentType, c)
}
