// Package s3lock keeps a lease in one S3 object.
//
// Two clients that give the same owner are one owner, and hold the lock together.
// Whoever is to exclude others takes lease.UniqueOwner. Open is the shortest way
// to a lock.
//
// It promises compare and swap by conditional PUT: If-None-Match: * to create,
// If-Match with the ETag exactly as received to replace. The lease's clock is
// the Date of S3's answers.
//
// It never deletes or copies the object and never asks for If-Match: *,
// because several S3-compatible stores ignore conditions there. Whether an
// endpoint enforces the others is found out by Probe, and only when asked.
package s3lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Bucket is what a lock needs of a bucket; *bucket.Bucket and *bucket.Memory
// have it. Put must send a conditional request once.
type Bucket interface {
	Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error)
}

const (
	// maxKey is S3's limit in bytes.
	// Source: S3 User Guide, "Naming Amazon S3 objects".
	maxKey = 1024
	// maxBody is read of an object and no more: what is bigger is not a lock.
	maxBody = 1<<20 + 1
)

// Register is a lease.Register over one object.
type Register struct {
	bucket Bucket
	key    string
}

// New returns the register at key. It does not dial.
func New(b Bucket, key string) (*Register, error) {
	if b == nil {
		return nil, errors.New("s3lock: no bucket given")
	}
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("s3lock: key %q: %w", key, err)
	}
	return &Register{bucket: b, key: key}, nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("it is empty; name one object, such as locks/nightly.json")
	case len(key) > maxKey:
		return fmt.Errorf("it has %d bytes; S3 takes at most %d", len(key), maxKey)
	case strings.HasSuffix(key, "/"):
		return errors.New("it ends in \"/\" and so names a folder; name one object, such as locks/nightly.json")
	case !utf8.ValidString(key):
		return errors.New("it is not UTF-8")
	}
	return nil
}

// String is the object's URL, which errors and logs call the lock by.
func (r *Register) String() string {
	if named, ok := r.bucket.(interface{ Name() string }); ok {
		return fmt.Sprintf("s3://%s/%s", named.Name(), r.key)
	}
	return r.key
}

// Load is lease.Register, by a GET that is conditional where known is given.
func (r *Register) Load(ctx context.Context, known string) (lease.Reading, error) {
	object, err := r.bucket.Get(ctx, r.key, bucket.Condition{IfNoneMatch: known})
	if err != nil {
		now, _ := bucket.ServerTime(err)
		switch {
		case errors.Is(err, bucket.ErrNotModified):
			return lease.Reading{Version: known, Now: now, Unchanged: true}, nil
		case errors.Is(err, bucket.ErrNotFound):
			return lease.Reading{Now: now, Deleted: errors.Is(err, bucket.ErrDeleteMarker)}, nil
		case ctx.Err() == nil && !passing(err):
			return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrRefused, err)
		}
		return lease.Reading{}, err
	}
	defer object.Body.Close()
	value, err := io.ReadAll(io.LimitReader(object.Body, maxBody))
	if err != nil {
		return lease.Reading{}, fmt.Errorf("read %s: %w", r, err)
	}
	if object.ETag == "" {
		return lease.Reading{}, fmt.Errorf("%w: %s came without an ETag; this endpoint cannot keep a lock", lease.ErrRefused, r)
	}
	return lease.Reading{Value: value, Version: object.ETag, Now: object.ServerTime}, nil
}

// RemoveDeleteMark is lease.MarkRemover, where the bucket gives access to versions.
func (r *Register) RemoveDeleteMark(ctx context.Context) error {
	versions, ok := r.bucket.(interface {
		Versions(ctx context.Context, key string) ([]bucket.Version, error)
		DeleteVersion(ctx context.Context, key, versionID string) error
	})
	if !ok {
		return errors.New("this bucket gives no access to versions: remove the delete marker of the lock's object by other means")
	}
	all, err := versions.Versions(ctx, r.key)
	if err != nil {
		return fmt.Errorf("look for the delete marker: %w", err)
	}
	for _, v := range all {
		if v.IsLatest && v.DeleteMarker {
			return versions.DeleteVersion(ctx, r.key, v.VersionID)
		}
	}
	return nil
}

// Swap is lease.Register, by a conditional PUT.
func (r *Register) Swap(ctx context.Context, version string, value []byte) (lease.Reading, error) {
	condition := bucket.Condition{IfMatch: version}
	if version == "" {
		condition = bucket.Condition{IfNoneMatch: "*"}
	}
	written, err := r.bucket.Put(ctx, r.key, bytes.NewReader(value), "application/json", condition)
	switch {
	case err == nil:
		return lease.Reading{Version: written.ETag, Now: written.ServerTime}, nil
	case errors.Is(err, bucket.ErrPrecondition), errors.Is(err, bucket.ErrConflict),
		// The object that If-Match named is gone.
		errors.Is(err, bucket.ErrNotFound):
		return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrConflict, err)
	case turnedDown(err):
		return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrRefused, err)
	}
	return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrUncertain, err)
}

// passing reports whether a GET is worth repeating after err.
func passing(err error) bool { return bucket.Transient(err) || aboutThisAttempt(err) }

// turnedDown reports whether S3 certainly did not write, and would not on
// another attempt. It takes an answer to be certain: a PUT that ends without
// one, for whatever reason, may have landed.
func turnedDown(err error) bool {
	var call *bucket.CallError
	if !errors.As(err, &call) || call.Status < 300 || passing(err) {
		return false
	}
	return call.Status < 500
}

// aboutThisAttempt knows the answers below 500 that say nothing about the next
// attempt.
// Source: S3 API reference, "Error responses".
func aboutThisAttempt(err error) bool {
	var call *bucket.CallError
	if !errors.As(err, &call) {
		return false
	}
	switch call.Code {
	case "RequestTimeout", "RequestTimeTooSkewed", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "ExpiredToken":
		return true
	}
	return call.Status == http.StatusTemporaryRedirect || call.Status == http.StatusRequestTimeout
}
