package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// ErrListing means that a listing broke its own rules: it was cut without a
// token, went in circles, or came out of order. What was read so far is not
// the whole and must not be taken for it.
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
			RequestPayer:        b.payer(),
		}
		if o.PageSize > 0 {
			in.MaxKeys = &o.PageSize
		}
		last := o.StartAfter
		for number := 1; ; number++ {
			out, err := b.client.ListObjectsV2(ctx, in)
			if err != nil {
				yield(Page{}, fmt.Errorf("page %d: %w", number, callError("list", b.name, o.Prefix, err)))
				return
			}
			page, err := toPage(out)
			if err == nil {
				last, err = checkOrder(page.Entries, last)
			}
			if err == nil && !page.Last {
				err = checkToken(in.ContinuationToken, out.NextContinuationToken)
			}
			if err != nil {
				yield(Page{}, fmt.Errorf("list s3://%s/%s: page %d: %w", b.name, o.Prefix, number, err))
				return
			}
			if !yield(page, nil) || page.Last {
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}

func toPage(out *s3.ListObjectsV2Output) (Page, error) {
	page := Page{
		Entries:    make([]Entry, 0, len(out.Contents)),
		ServerTime: serverTime(out.ResultMetadata),
		Last:       !aws.ToBool(out.IsTruncated),
	}
	for _, object := range out.Contents {
		key := aws.ToString(object.Key)
		// The server says whether it encoded; some answer the request with raw keys.
		if out.EncodingType == types.EncodingTypeUrl {
			decoded, err := url.QueryUnescape(key)
			if err != nil {
				return Page{}, fmt.Errorf("%w: key %q is not URL-encoded as announced: %w", ErrListing, key, err)
			}
			key = decoded
		}
		page.Entries = append(page.Entries, Entry{
			Key:          key,
			ETag:         aws.ToString(object.ETag),
			StorageClass: string(object.StorageClass),
			Size:         aws.ToInt64(object.Size),
			LastModified: aws.ToTime(object.LastModified),
		})
	}
	return page, nil
}

func checkOrder(entries []Entry, last string) (string, error) {
	for _, e := range entries {
		if e.Key <= last && last != "" {
			return last, fmt.Errorf("%w: key %q came after %q; a bucket that does not list in key order (a directory bucket) cannot be used as a source", ErrListing, e.Key, last)
		}
		last = e.Key
	}
	return last, nil
}

func checkToken(previous, next *string) error {
	if aws.ToString(next) == "" {
		return fmt.Errorf("%w: it says there is more and gives no token to continue", ErrListing)
	}
	if aws.ToString(previous) == aws.ToString(next) {
		return fmt.Errorf("%w: it gave the same continuation token twice", ErrListing)
	}
	return nil
}
