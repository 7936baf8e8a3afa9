package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
)

// ErrListing means that a listing broke its own rules: it was cut without a
// token, went in circles, came out of order, or did not say whether it was
// done. What was read so far is not the whole and must not be taken for it.
var ErrListing = errors.New("the listing is not complete")

// List yields the pages of a listing in key order (UTF-8 bytes). It ends with
// a page whose Last is true, or with an error and no further page.
//
// Directory buckets list in no order and are therefore refused here, at the
// first pair of keys that shows it.
func (b *Bucket) List(ctx context.Context, o ListOptions) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		in := &s3.ListObjectsV2Input{
			Bucket:              &b.name,
			Prefix:              optional(o.Prefix),
			StartAfter:          optional(o.StartAfter),
			EncodingType:        types.EncodingTypeUrl, // XML cannot carry control characters
			ExpectedBucketOwner: optional(b.options.ExpectedOwner),
			RequestPayer:        b.options.payer(),
			// Other servers than S3 leave it out.
			OptionalObjectAttributes: []types.OptionalObjectAttributes{types.OptionalObjectAttributesRestoreStatus},
		}
		if o.PageSize > 0 {
			in.MaxKeys = &o.PageSize
		}
		last := o.StartAfter
		for number := 1; ; number++ {
			page, token, err := b.page(ctx, in)
			if err == nil {
				last, err = checkEntries(page.Entries, o.Prefix, last)
			}
			if err == nil && !page.Last {
				err = checkToken(aws.ToString(in.ContinuationToken), token)
			}
			if err != nil {
				yield(Page{}, fmt.Errorf("page %d of listing %s: %w", number, location(b.name, o.Prefix), err))
				return
			}
			if !yield(page, nil) || page.Last {
				return
			}
			in.ContinuationToken = &token
		}
	}
}

// page asks for one page and returns it with the token of the next one.
func (b *Bucket) page(ctx context.Context, in *s3.ListObjectsV2Input) (Page, string, error) {
	prefix := aws.ToString(in.Prefix)
	reader := pageReaders.Get().(*pageReader)
	defer pageReaders.Put(reader)
	out, err := b.client.ListObjectsV2(ctx, in, reader.use)
	if err != nil {
		return Page{}, "", callError("list", b.name, prefix, err)
	}
	now, err := b.serverTime("list", prefix, out.ResultMetadata)
	if err != nil {
		return Page{}, "", err
	}
	read := reader.page
	if read == nil {
		read = readBySDK(out)
	}
	// The SDK takes an empty body, or any other document, for an empty page.
	if read.isTruncated == nil {
		return Page{}, "", fmt.Errorf("%w: the answer does not say whether there is more", ErrListing)
	}
	err = decodeKeys(read)
	page := Page{Entries: read.entries, ServerTime: now, SlowDowns: slowDowns(out.ResultMetadata), Last: !*read.isTruncated}
	return page, read.token, err
}

// slowDowns counts the attempts at a call that were refused with "slow down".
func slowDowns(metadata middleware.Metadata) int {
	attempts, _ := retry.GetAttemptResults(metadata)
	n := 0
	for _, attempt := range attempts.Results {
		if attempt.Err != nil && callError("list", "", "", attempt.Err).nature == ErrSlowDown {
			n++
		}
	}
	return n
}

// readBySDK returns what the SDK read of an answer.
func readBySDK(out *s3.ListObjectsV2Output) *rawPage {
	read := &rawPage{
		encoding:    string(out.EncodingType),
		isTruncated: out.IsTruncated,
		token:       aws.ToString(out.NextContinuationToken),
		entries:     make([]Entry, 0, len(out.Contents)),
	}
	for _, object := range out.Contents {
		read.entries = append(read.entries, Entry{
			Key:          aws.ToString(object.Key),
			ETag:         aws.ToString(object.ETag),
			StorageClass: string(object.StorageClass),
			Restored:     hasCopy(object.RestoreStatus),
			Size:         aws.ToInt64(object.Size),
			LastModified: aws.ToTime(object.LastModified),
		})
	}
	return read
}

// decodeKeys undoes the encoding of keys. The server says whether it encoded
// them; some answer the request with raw keys.
func decodeKeys(read *rawPage) error {
	if read.encoding != string(types.EncodingTypeUrl) {
		return nil
	}
	for i := range read.entries {
		key := &read.entries[i].Key
		decoded, err := url.QueryUnescape(*key)
		if err != nil {
			return fmt.Errorf("%w: key %q is not URL-encoded as announced: %w", ErrListing, *key, err)
		}
		*key = decoded
	}
	return nil
}

func hasCopy(s *types.RestoreStatus) bool {
	return s != nil && restored(aws.ToBool(s.IsRestoreInProgress), s.RestoreExpiryDate != nil)
}

// restored tells whether the copy of an archived object is there. While it is
// being made there is no date at which it goes.
// Source: S3 API reference, RestoreStatus.
func restored(isRestoring, expires bool) bool { return expires && !isRestoring }

// checkEntries holds a page to the listing's rules and returns its last key.
func checkEntries(entries []Entry, prefix, last string) (string, error) {
	for _, e := range entries {
		if !strings.HasPrefix(e.Key, prefix) {
			return last, fmt.Errorf("%w: key %q is not below the prefix %q that was asked for", ErrListing, e.Key, prefix)
		}
		if e.Key <= last {
			return last, fmt.Errorf("%w: key %q came after %q; a bucket that does not list in key order (a directory bucket) cannot be used as a source", ErrListing, e.Key, last)
		}
		last = e.Key
	}
	return last, nil
}

func checkToken(previous, next string) error {
	if next == "" {
		return fmt.Errorf("%w: it says there is more and gives no token to continue", ErrListing)
	}
	if previous == next {
		return fmt.Errorf("%w: it gave the same continuation token twice", ErrListing)
	}
	return nil
}
