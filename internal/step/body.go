package step

import (
	"context"
	"fmt"
	"io"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// wireBody is an object's body on its way here. It tells a cut connection from
// a cut file: its read errors are *TransientError, and it remembers the first
// one for readers that do not hand it on.
type wireBody struct {
	io.ReadCloser
	size, read int64
	err        error
}

// newWireBody expects so many bytes; 0 means that nobody knows.
func newWireBody(body io.ReadCloser, size int64) *wireBody {
	return &wireBody{ReadCloser: body, size: size}
}

func (b *wireBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch {
	case err == nil, err == io.EOF && (b.size <= 0 || b.read == b.size):
		return n, err
	case err == io.EOF:
		err = fmt.Errorf("%d of %d bytes came: %w", b.read, b.size, io.ErrUnexpectedEOF)
	}
	if b.err == nil {
		b.err = &TransientError{fmt.Errorf("read: %w", err)}
	}
	return n, b.err
}

// wired is a Store whose objects have a wireBody, so that whoever reads run
// records or the ledger through it fails with a *TransientError when the
// connection does.
type wired struct{ Store }

func (w wired) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	object, err := w.Store.Get(ctx, key, c)
	if err != nil {
		return nil, err
	}
	object.Body = newWireBody(object.Body, object.Size)
	return object, nil
}

func (w wired) GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error) {
	object, err := w.Store.GetRange(ctx, key, c, offset, length)
	if err != nil {
		return nil, err
	}
	object.Body = newWireBody(object.Body, object.Size)
	return object, nil
}
