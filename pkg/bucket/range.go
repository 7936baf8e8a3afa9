package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// GetRange opens length bytes of the object at key from offset on; length 0
// means all that follow. The Object's Size is that of the part.
//
// It gives exactly that part or an error: ErrRange when the object ends before
// the part does, or when the endpoint answers with anything else (some ignore
// the Range header and send the whole object). From offset 0, length 0 is the
// whole object, which may be empty. c is as in Get.
func (b *Bucket) GetRange(ctx context.Context, key string, c Condition, offset, length int64) (*Object, error) {
	if err := checkRange(offset, length); err != nil {
		return nil, callError("get", b.name, key, err)
	}
	if offset == 0 && length == 0 {
		return b.Get(ctx, key, c) // S3 has no range of an empty object
	}
	object, out, err := b.get(ctx, key, getOptions{condition: c, byteRange: rangeHeader(offset, length)})
	if err != nil {
		return nil, err
	}
	if err := isRange(out, offset, length); err != nil {
		object.Body.Close()
		return nil, &CallError{
			Op: "get", Bucket: b.name, Key: key, Status: statusOf(out), ServerTime: object.ServerTime, err: err,
		}
	}
	return object, nil
}

func checkRange(offset, length int64) error {
	switch {
	case offset < 0:
		return fmt.Errorf("a range starts at 0 or later, not at %d", offset)
	case length < 0:
		return fmt.Errorf("a range has 0 bytes (all that follow) or more, not %d", length)
	case offset+length < 0:
		return errors.New("a range ends before 2^63 bytes")
	}
	return nil
}

func rangeHeader(offset, length int64) string {
	if length == 0 {
		return fmt.Sprintf("bytes=%d-", offset)
	}
	return fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
}

// isRange checks that an answer is the part from offset on.
func isRange(out *s3.GetObjectOutput, offset, length int64) error {
	got := aws.ToString(out.ContentRange)
	wrong := func(what string) error {
		return fmt.Errorf("%w: asked for %q, the answer is %s", ErrRange, rangeHeader(offset, length), what)
	}
	if status := statusOf(out); status != http.StatusPartialContent {
		return wrong(fmt.Sprintf("%d with %d bytes: the endpoint, or a proxy before it, does not serve ranges", status, aws.ToInt64(out.ContentLength)))
	}
	var first, last, whole int64
	if n, err := fmt.Sscanf(got, "bytes %d-%d/%d", &first, &last, &whole); err != nil || n != 3 {
		return wrong(fmt.Sprintf("206 with Content-Range %q", got))
	}
	want := offset + length - 1
	if length == 0 {
		want = whole - 1
	}
	if first != offset || last != want || aws.ToInt64(out.ContentLength) != last-first+1 {
		return wrong(fmt.Sprintf("206 with %q of %d bytes", got, aws.ToInt64(out.ContentLength)))
	}
	return nil
}

func statusOf(out *s3.GetObjectOutput) int {
	if response, ok := middleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		return response.StatusCode
	}
	return 0
}
