package step

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var errKilled = errors.New("the function was killed")

// call is one invocation of a function, with troubles of its own: it may be
// killed at a request, stand still at one, and have answers lost. Like a real
// one it outlives its execution.
type call struct {
	d     *drill
	stage string
	token int64
	ctx   context.Context
	kill  context.CancelCauseFunc

	killAt, freezeAt int // number of the request; 0 is never
	freezeFor        time.Duration

	mu    sync.Mutex
	n     int
	dead  bool
	until time.Time // it stands still until then

	stood chan struct{} // closed when it begins to stand still
	ended chan struct{}
	then  func() // what the driver makes of the answer, once it has ended
}

func (c *call) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// enter is the way of each request out of the function.
func (c *call) enter(op, bucketName, key string) error {
	c.mu.Lock()
	c.n++
	if c.n == c.killAt && !c.dead {
		c.dead = true
		c.d.note("killed")
		c.kill(errKilled)
	}
	if c.n == c.freezeAt {
		c.until = time.Now().Add(c.freezeFor)
		c.d.note("frozen")
		close(c.stood)
	}
	dead, wait := c.dead, time.Until(c.until)
	c.mu.Unlock()
	if dead {
		return errKilled
	}
	if wait > 0 {
		time.Sleep(wait) // whoever asks for this function waits, its keeper as well
	}
	return c.d.trouble(op, bucketName, key)
}

// leave is the way of each answer back.
func (c *call) leave(op, bucketName, key string) error {
	if op != "list" && c.d.chance2(8, 1000) {
		c.d.note("lost reply")
		return answer(op, bucketName, key, http.StatusInternalServerError, "InternalError")
	}
	return nil
}

func answer(op, bucketName, key string, status int, code string) error {
	return &bucket.CallError{Op: op, Bucket: bucketName, Key: key, Status: status, Code: code}
}

// callStore is a bucket as one call sees it.
type callStore struct {
	Store
	c *call
}

// do sends a request. Once it has left, the end of the function's context does
// not take it back.
func do[T any](s callStore, op, key string, send func(context.Context) (T, error)) (T, error) {
	var none T
	if err := s.c.enter(op, s.Name(), key); err != nil {
		return none, err
	}
	answer, err := send(context.WithoutCancel(s.c.ctx))
	if err != nil {
		return none, err
	}
	if err := s.c.leave(op, s.Name(), key); err != nil {
		return none, err
	}
	return answer, nil
}

func (s callStore) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	return do(s, "get", key, func(ctx context.Context) (*bucket.Object, error) { return s.Store.Get(ctx, key, c) })
}

func (s callStore) GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error) {
	return do(s, "get", key, func(ctx context.Context) (*bucket.Object, error) {
		return s.Store.GetRange(ctx, key, c, offset, length)
	})
}

func (s callStore) Head(ctx context.Context, key string) (*bucket.Object, error) {
	return do(s, "head", key, func(ctx context.Context) (*bucket.Object, error) { return s.Store.Head(ctx, key) })
}

func (s callStore) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error) {
	return do(s, "put", key, func(ctx context.Context) (bucket.Written, error) {
		text := readAll(body)
		written, err := s.Store.Put(ctx, key, bytes.NewReader(text), contentType, c)
		switch {
		case err != nil:
		case strings.HasSuffix(key, "/lock.json"):
			s.c.d.lockWritten(text)
		case strings.HasSuffix(key, begunSuffix):
			s.c.d.begun(s.c)
		}
		return written, err
	})
}

func (s callStore) PutWith(ctx context.Context, key string, body io.ReadSeeker, o bucket.PutOptions) (bucket.Written, error) {
	return do(s, "put", key, func(ctx context.Context) (bucket.Written, error) {
		written, err := s.Store.PutWith(ctx, key, body, o)
		if err == nil && s.Name() == "lake" {
			s.c.d.publishedBy(s.c, key, o)
		}
		return written, err
	})
}

func (s callStore) Upload(ctx context.Context, key string, body io.Reader, contentType string) (bucket.Written, error) {
	if err := s.c.enter("put", s.Name(), key); err != nil {
		_, _ = io.Copy(io.Discard, body)
		return bucket.Written{}, err
	}
	return s.Store.Upload(ctx, key, body, contentType)
}

func (s callStore) List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	return func(yield func(bucket.Page, error) bool) {
		if err := s.c.enter("list", s.Name(), o.Prefix); err != nil {
			yield(bucket.Page{}, err)
			return
		}
		for page, err := range s.Store.List(context.WithoutCancel(ctx), o) {
			if !yield(page, err) {
				return
			}
		}
	}
}

// trouble is the weather: answers that any request may get at this time.
func (d *drill) trouble(op, bucketName, key string) error {
	if d.isQuiet() {
		return nil
	}
	if code := d.weatherAt(bucketName); code != "" && !strings.Contains(key, "lock.json") {
		d.note("weather")
		if bucketName == "source" && op == "get" {
			d.refuse(key)
		}
		status := http.StatusForbidden
		switch code {
		case "NoSuchBucket":
			status = http.StatusNotFound
		case "ExpiredToken", "KMS.DisabledException":
			status = http.StatusBadRequest
		}
		return answer(op, bucketName, key, status, code)
	}
	switch n := d.rand.IntN(1000); {
	case n < 8:
		d.note("fault")
		return answer(op, bucketName, key, http.StatusInternalServerError, "InternalError")
	case n < 12:
		d.note("fault")
		return answer(op, bucketName, key, http.StatusServiceUnavailable, "SlowDown")
	}
	return nil
}
