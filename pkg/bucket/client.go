package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

// Bucket is one bucket behind an S3 client. Its methods may be called
// concurrently.
type Bucket struct {
	client  *s3.Client
	uploads *transfermanager.Client
	name    string
	options Options
}

// New returns the bucket called name behind client. It does not dial.
func New(client *s3.Client, name string, options Options) (*Bucket, error) {
	if client == nil {
		return nil, errors.New("bucket: no S3 client given")
	}
	if name == "" {
		return nil, errors.New("bucket: no bucket name given")
	}
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	uploads := newUploads(client, client.Options().RequestChecksumCalculation)
	return &Bucket{client: client, uploads: uploads, name: name, options: options}, nil
}

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.name }

// Get opens the object at key. With c.IfMatch it returns ErrPrecondition when
// the object has moved on, with c.IfNoneMatch ErrNotModified while it has not.
func (b *Bucket) Get(ctx context.Context, key string, c Condition) (*Object, error) {
	object, _, err := b.get(ctx, key, getOptions{condition: c})
	return object, err
}

// getOptions say what of an object is asked for. The zero value is its current
// version, whole.
type getOptions struct {
	condition Condition
	byteRange string // a Range header
	versionID string
}

// get asks for the object, and returns the SDK's answer as well.
func (b *Bucket) get(ctx context.Context, key string, o getOptions) (*Object, *s3.GetObjectOutput, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		VersionId:           optional(o.versionID),
		Range:               optional(o.byteRange),
		IfMatch:             optional(o.condition.IfMatch),
		IfNoneMatch:         optional(o.condition.IfNoneMatch),
		ExpectedBucketOwner: optional(b.options.ExpectedOwner),
		RequestPayer:        b.options.payer(),
	}, func(client *s3.Options) {
		// Most source files were stored without a checksum; a warning for each
		// of them would bury the log.
		client.DisableLogOutputChecksumValidationSkipped = true
		if o.byteRange != "" {
			// A checksum is of the whole object, and proves nothing about a part.
			client.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	if err != nil {
		return nil, nil, callError("get", b.name, key, err)
	}
	now, err := b.serverTime("get", key, out.ResultMetadata)
	if err != nil {
		out.Body.Close()
		return nil, nil, err
	}
	return &Object{
		Body:         out.Body,
		Key:          key,
		ETag:         aws.ToString(out.ETag),
		VersionID:    aws.ToString(out.VersionId),
		Size:         aws.ToInt64(out.ContentLength),
		LastModified: aws.ToTime(out.LastModified),
		ServerTime:   now,
		Metadata:     lowerNames(out.Metadata),
	}, out, nil
}

// lowerNames is metadata as S3 keeps it; some stores send names in other letters.
func lowerNames(metadata map[string]string) map[string]string {
	lower := make(map[string]string, len(metadata))
	for name, value := range metadata {
		lower[strings.ToLower(name)] = value
	}
	return lower
}

// Head returns what is known of the object at key without its content: Body is
// nil. The answer to a HEAD has no document, so that a missing bucket cannot be
// told from a missing object; both are ErrNotFound.
func (b *Bucket) Head(ctx context.Context, key string) (*Object, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		ExpectedBucketOwner: optional(b.options.ExpectedOwner),
		RequestPayer:        b.options.payer(),
	})
	if err != nil {
		failed := callError("head", b.name, key, err)
		if failed.Status == http.StatusNotFound {
			failed.kind = ErrNotFound
		}
		return nil, failed
	}
	now, err := b.serverTime("head", key, out.ResultMetadata)
	if err != nil {
		return nil, err
	}
	return &Object{
		Key: key, ETag: aws.ToString(out.ETag), VersionID: aws.ToString(out.VersionId), Size: aws.ToInt64(out.ContentLength),
		LastModified: aws.ToTime(out.LastModified), ServerTime: now, Metadata: lowerNames(out.Metadata),
	}, nil
}

// Put writes body, from where it stands to its end, to key in one request.
// Where c is set, the request is sent exactly once; an error that is none of
// ErrPrecondition, ErrConflict and ErrNotFound (IfMatch on an object that is
// gone) then means that the write may have landed. Without c the SDK repeats a
// request that got no answer or a passing one.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c Condition) (Written, error) {
	return b.PutWith(ctx, key, body, PutOptions{ContentType: contentType, Condition: c})
}

// PutWith is Put with metadata.
func (b *Bucket) PutWith(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (Written, error) {
	if err := o.check(); err != nil {
		return Written{}, callError("put", b.name, key, err)
	}
	c := o.Condition
	out, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket:               &b.name,
		Key:                  &key,
		Body:                 body,
		ContentType:          optional(o.ContentType),
		Metadata:             o.Metadata,
		IfMatch:              optional(c.IfMatch),
		IfNoneMatch:          optional(c.IfNoneMatch),
		ChecksumAlgorithm:    types.ChecksumAlgorithm(b.options.Checksum),
		ServerSideEncryption: b.options.encryption(),
		SSEKMSKeyId:          optional(b.options.KMSKeyID),
		ExpectedBucketOwner:  optional(b.options.ExpectedOwner),
		RequestPayer:         b.options.payer(),
	}, func(o *s3.Options) {
		if !c.isZero() {
			o.Retryer = aws.NopRetryer{}
		}
	})
	if err != nil {
		return Written{}, callError("put", b.name, key, err)
	}
	now, err := b.serverTime("put", key, out.ResultMetadata)
	if err != nil {
		return Written{}, err
	}
	return Written{ETag: aws.ToString(out.ETag), VersionID: aws.ToString(out.VersionId), ServerTime: now}, nil
}

// Delete removes the object at key; a key that is not there is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		ExpectedBucketOwner: optional(b.options.ExpectedOwner),
		RequestPayer:        b.options.payer(),
	})
	if err == nil {
		return nil
	}
	failed := callError("delete", b.name, key, err)
	if failed.kind == ErrNotFound { // S3 says 204, some stores 404
		return nil
	}
	return failed
}

// serverTime is the answer's Date as the SDK recorded it. A zero time would
// make every lease either live for ever or over at once, so there is none.
func (b *Bucket) serverTime(op, key string, metadata smithymiddleware.Metadata) (time.Time, error) {
	if t, ok := middleware.GetServerTime(metadata); ok {
		return t, nil
	}
	return time.Time{}, &CallError{Op: op, Bucket: b.name, Key: key, Status: http.StatusOK, err: ErrNoServerTime}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
