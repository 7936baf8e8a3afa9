package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
)

const (
	// partBytes is the size of an uploaded part. S3 takes 10,000 of them, so an
	// upload may have 78 GiB. A body shorter than a part is one PUT.
	partBytes = 8 << 20
	// partsInFlight is how many parts are sent at once. With one more that fills
	// and the first, which has a buffer of its own, an upload holds four parts.
	partsInFlight = 2
	// abortTime bounds the cleanup after a failed upload, whose own context may
	// be over.
	abortTime = 10 * time.Second
)

// Upload writes body, of any length, to key while it is read: in parts of
// 8 MiB, two of them at once, so that it holds up to 32 MiB of memory. A body
// of less than 8 MiB is sent as one PUT. The object appears, or is replaced,
// when all of it has arrived. The SDK repeats a request that got no answer or a
// passing one. Written is about the whole object; its ETag is no digest of it.
//
// An error of body ends the upload with that error, as body gave it. After any
// error the parts are discarded, within ten seconds even if ctx is over, and
// key is as it was; but an error of the very last request, like that of a Put,
// may stand for a write that landed, and then all of it did. A process that
// dies leaves parts that cost money and are not listed: give the bucket a
// lifecycle rule that ends incomplete multipart uploads.
//
// Upload does not interrupt a Read of body: who feeds it from a pipe closes
// the pipe when ctx ends.
func (b *Bucket) Upload(ctx context.Context, key string, body io.Reader, contentType string) (Written, error) {
	watched := &watchedBody{body: body}
	out, err := b.uploads.UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket:               &b.name,
		Key:                  &key,
		Body:                 watched,
		ContentType:          optional(contentType),
		ChecksumAlgorithm:    types.ChecksumAlgorithm(b.options.Checksum),
		ServerSideEncryption: types.ServerSideEncryption(b.options.encryption()),
		SSEKMSKeyID:          optional(b.options.KMSKeyID),
		ExpectedBucketOwner:  optional(b.options.ExpectedOwner),
		RequestPayer:         types.RequestPayer(b.options.payer()),
	})
	switch {
	case err != nil && watched.err != nil:
		return Written{}, bodyError(b.name, key, watched.err)
	case err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		// The library reports a failed cleanup in place of what led to it.
		return Written{}, callError("put", b.name, key, fmt.Errorf("%w: %w", ctx.Err(), err))
	case err != nil:
		return Written{}, callError("put", b.name, key, err)
	}
	now, err := b.serverTime("put", key, out.ResultMetadata)
	if err != nil {
		return Written{}, err
	}
	return Written{ETag: aws.ToString(out.ETag), VersionID: aws.ToString(out.VersionID), ServerTime: now}, nil
}

// newUploads returns the client's transfer manager, which has settings of its
// own beside those of the client.
func newUploads(client transfermanager.S3APIClient, checksums aws.RequestChecksumCalculation) *transfermanager.Client {
	if checksums == aws.RequestChecksumCalculationUnset {
		checksums = aws.RequestChecksumCalculationWhenRequired // what it means to a client
	}
	return transfermanager.New(client, func(o *transfermanager.Options) {
		o.PartSizeBytes = partBytes
		o.MultipartUploadThreshold = partBytes
		o.Concurrency = partsInFlight
		o.FailTimeout = abortTime
		o.RequestChecksumCalculation = checksums
	})
}

// bodyError keeps what a body's reader said apart from what S3 said: it is no
// CallError, and Transient goes by the reader's own error.
func bodyError(bucket, key string, err error) error {
	return fmt.Errorf("put %s: read what is to be written: %w", location(bucket, key), err)
}

// watchedBody remembers the error that ended a body. It hides what else the
// reader can do: the library would ask a Seeker for its length, and then
// choose other parts.
type watchedBody struct {
	body io.Reader
	err  error // read once the upload has returned
}

// Read is io.Reader.Read.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}
