package bucket

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// The answers of S3 that callers decide on. Any other error is about the
// request's fate, not about the object: see RetryAfterRead in the callers.
var (
	// ErrNotFound: no such object (404), or its newest version is a delete marker.
	ErrNotFound = errors.New("object not found")
	// ErrNotModified: a conditional GET found the version the caller knows (304).
	ErrNotModified = errors.New("object not modified")
	// ErrPrecondition: the object is not at the version the request named (412).
	ErrPrecondition = errors.New("object is at another version")
	// ErrConflict: a concurrent write or delete got in between (409); nothing
	// was written by this request.
	// Source: S3 API reference, PutObject, ConditionalRequestConflict.
	ErrConflict = errors.New("conflicting concurrent request")
)

// CallError is a failed S3 call: which call, on what, why, and what the
// server's clock said when it answered.
type CallError struct {
	Op         string // "get", "put", "delete", "list"
	Bucket     string
	Key        string // the prefix for a listing
	Status     int    // HTTP status, 0 when no answer came
	Code       string // S3 error code, "" when no answer came
	ServerTime time.Time
	kind       error // one of the sentinels above, or nil
	err        error
}

func (e *CallError) Error() string {
	what := e.err
	if e.kind != nil {
		what = e.kind
	}
	return fmt.Sprintf("%s s3://%s/%s: %v", e.Op, e.Bucket, e.Key, what)
}

func (e *CallError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// ServerTime returns the server's clock from an error that came with an
// answer: a 304 or a 404 tells the time as well as a 200.
func ServerTime(err error) (time.Time, bool) {
	var call *CallError
	if errors.As(err, &call) && !call.ServerTime.IsZero() {
		return call.ServerTime, true
	}
	return time.Time{}, false
}

// Transient reports whether the same call may well succeed later: no answer
// came, or the answer was a 429 or a 5xx.
func Transient(err error) bool {
	var call *CallError
	if !errors.As(err, &call) {
		return false
	}
	return call.Status == 0 || call.Status == http.StatusTooManyRequests || call.Status >= 500
}

func callError(op, bucket, key string, err error) error {
	e := &CallError{Op: op, Bucket: bucket, Key: key, err: err}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.Response != nil {
		e.Status = response.HTTPStatusCode()
		if date, parseErr := http.ParseTime(response.Response.Header.Get("Date")); parseErr == nil {
			e.ServerTime = date
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code = api.ErrorCode()
	}
	e.kind = kindOf(e.Status, e.Code)
	return e
}

// kindOf maps an answer to a sentinel. A missing bucket is a 404 too, but not
// a missing object: taking it for one would make an empty ledger of a typo.
func kindOf(status int, code string) error {
	switch status {
	case http.StatusNotFound:
		if code == "NoSuchBucket" {
			return nil
		}
		return ErrNotFound
	case http.StatusNotModified:
		return ErrNotModified
	case http.StatusPreconditionFailed:
		return ErrPrecondition
	case http.StatusConflict:
		return ErrConflict
	}
	return nil
}
