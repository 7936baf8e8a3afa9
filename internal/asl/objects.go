package asl

import (
	"context"
	"errors"
)

// Objects is the S3 that ItemReader and ResultWriter use.
type Objects interface {
	// Get returns an object's content; an error that tells [ErrNoObject] says that there is none.
	Get(ctx context.Context, bucket, key string) ([]byte, error)
	Put(ctx context.Context, bucket, key string, body []byte) error
}

// ErrNoObject tells of an object or a bucket that does not exist.
var ErrNoObject = errors.New("no such object")
