package scale

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// stateBucket holds the ledgers.
const stateBucket = "state"

// states serves a bucket in memory and counts what goes over the wire.
type states struct {
	bucket http.Handler

	mu   sync.Mutex
	seen map[string]traffic
}

// traffic counts requests of one kind, and the bytes of their bodies.
type traffic struct {
	Requests int64
	In, Out  int64 // to the server, from the server
}

func newStates() *states {
	return &states{bucket: s3test.New(lasting{}, bucket.NewMemory(stateBucket, nil)), seen: map[string]traffic{}}
}

// lasting is what s3test asks of a test where there is only a process: it ends
// with the process.
type lasting struct{ testing.TB }

func (lasting) Helper()        {}
func (lasting) Cleanup(func()) {}

func (s *states) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := &countingBody{ReadCloser: r.Body}
	out := &countingWriter{ResponseWriter: w}
	r.Body = in
	s.bucket.ServeHTTP(out, r)
	kind := r.Method + " " + place(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.seen[kind]
	s.seen[kind] = traffic{Requests: t.Requests + 1, In: t.In + in.n, Out: t.Out + out.n}
}

// place is what a request is about: "head", "segment" or "other".
func place(r *http.Request) string {
	switch {
	case strings.HasSuffix(r.URL.Path, "/head.json"):
		return "head"
	case strings.HasSuffix(r.URL.Path, ".seg"):
		return "segment"
	}
	return "other"
}

// take returns what was counted since it was last called.
func (s *states) take() map[string]traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = map[string]traffic{}
	return seen
}

type countingBody struct {
	io.ReadCloser
	n int64
}

func (c *countingBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n += int64(n)
	return n, err
}

type countingWriter struct {
	http.ResponseWriter
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	return n, err
}
