package bucket

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// pageReader stands between the connection and the SDK's decoder for one call.
// Most of what a listing costs is reading XML as the SDK does, with
// encoding/xml. So a page that is written as plainly as S3 writes it is read
// here, and any other one by the SDK, which also decides what is an error.
type pageReader struct {
	body bytes.Buffer
	page *rawPage // nil where the SDK read it
}

// pageReaders are kept for their buffers.
var pageReaders = sync.Pool{New: func() any { return new(pageReader) }}

// ID makes a pageReader a middleware.
func (*pageReader) ID() string { return "Lockstep:PageReader" }

// use makes a call use r.
func (r *pageReader) use(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Insert(r, "OperationDeserializer", middleware.After)
	})
}

// HandleDeserialize leaves nothing of a plain page to the SDK's decoder, which
// takes that for a page without anything in it.
func (r *pageReader) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	r.page = nil // of an earlier attempt
	out, metadata, err := next.HandleDeserialize(ctx, in)
	response, ok := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !ok || response.StatusCode != http.StatusOK {
		return out, metadata, err
	}
	r.body.Reset()
	if _, err := r.body.ReadFrom(response.Body); err != nil {
		return out, metadata, &smithy.DeserializationError{Err: err}
	}
	left := r.body.Bytes()
	if page, ok := readPlain(left); ok {
		r.page, left = page, nil
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(left), response.Body}
	return out, metadata, nil
}
