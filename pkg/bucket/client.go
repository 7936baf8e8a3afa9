package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

// Options rides on every request to the bucket.
type Options struct {
	// KMSKeyID asks for SSE-KMS with this key on every write.
	KMSKeyID string
	// ExpectedOwner is the account id that must own the bucket; S3 answers 403
	// when somebody else does.
	ExpectedOwner string
	// Checksum names the algorithm sent with every write ("CRC32", "SHA256", …);
	// empty leaves the SDK's default.
	Checksum string
	// RequesterPays accepts the charges of a requester-pays bucket.
	RequesterPays bool
}

func (o Options) validate() error {
	if o.Checksum == "" {
		return nil
	}
	for _, known := range types.ChecksumAlgorithm("").Values() {
		if o.Checksum == string(known) {
			return nil
		}
	}
	return fmt.Errorf("checksum %q is not one of %v", o.Checksum, types.ChecksumAlgorithm("").Values())
}

// Bucket is one bucket behind an S3 client. Its methods may be called
// concurrently.
type Bucket struct {
	client  *s3.Client
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
	return &Bucket{client: client, name: name, options: options}, nil
}

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.name }

// Get opens the object at key. With c.IfMatch it returns ErrPrecondition when
// the object has moved on, with c.IfNoneMatch ErrNotModified while it has not.
func (b *Bucket) Get(ctx context.Context, key string, c Condition) (*Object, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		IfMatch:             optional(c.IfMatch),
		IfNoneMatch:         optional(c.IfNoneMatch),
		ExpectedBucketOwner: optional(b.options.ExpectedOwner),
		RequestPayer:        b.payer(),
	})
	if err != nil {
		return nil, callError("get", b.name, key, err)
	}
	return &Object{
		Body:         out.Body,
		Key:          key,
		ETag:         aws.ToString(out.ETag),
		VersionID:    aws.ToString(out.VersionId),
		Size:         aws.ToInt64(out.ContentLength),
		LastModified: aws.ToTime(out.LastModified),
		ServerTime:   serverTime(out.ResultMetadata),
	}, nil
}

// Put writes body to key in one request. Where c is set, the request is sent
// exactly once; an error other than ErrPrecondition and ErrConflict then means
// that the write may have landed.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c Condition) (Written, error) {
	in := &s3.PutObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		Body:                body,
		ContentType:         optional(contentType),
		IfMatch:             optional(c.IfMatch),
		IfNoneMatch:         optional(c.IfNoneMatch),
		ChecksumAlgorithm:   types.ChecksumAlgorithm(b.options.Checksum),
		ExpectedBucketOwner: optional(b.options.ExpectedOwner),
		RequestPayer:        b.payer(),
	}
	if b.options.KMSKeyID != "" {
		in.ServerSideEncryption = types.ServerSideEncryptionAwsKms
		in.SSEKMSKeyId = &b.options.KMSKeyID
	}
	out, err := b.client.PutObject(ctx, in, func(o *s3.Options) {
		if !c.isZero() {
			o.Retryer = aws.NopRetryer{}
		}
	})
	if err != nil {
		return Written{}, callError("put", b.name, key, err)
	}
	return Written{
		ETag:       aws.ToString(out.ETag),
		VersionID:  aws.ToString(out.VersionId),
		ServerTime: serverTime(out.ResultMetadata),
	}, nil
}

// Delete removes the object at key; a key that is not there is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		ExpectedBucketOwner: optional(b.options.ExpectedOwner),
		RequestPayer:        b.payer(),
	})
	if err != nil {
		if err = callError("delete", b.name, key, err); errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}
	return nil
}

func (b *Bucket) payer() types.RequestPayer {
	if b.options.RequesterPays {
		return types.RequestPayerRequester
	}
	return ""
}

// serverTime is the response's Date header as the SDK recorded it.
func serverTime(metadata smithymiddleware.Metadata) time.Time {
	t, _ := middleware.GetServerTime(metadata)
	return t
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
