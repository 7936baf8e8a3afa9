package s3lock_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// Stores that are wrong, each in one way, as failures of the honest one.

var forbidden = s3test.Answer(403, "AccessDenied")

// served is next, behind a failure.
func served(f s3test.Failure, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, next) })
}

// without ignores a condition.
func without(condition string) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del(condition)
		next.ServeHTTP(w, r)
	}
}

func onKey(part string, f s3test.Failure) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, part) {
			next = served(f, next)
		}
		next.ServeHTTP(w, r)
	}
}

func onlyIf(condition string, f s3test.Failure) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get(condition) != "" {
			next = served(f, next)
		}
		next.ServeHTTP(w, r)
	}
}

func conditional(f s3test.Failure) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		onlyIf("If-Match", f)(w, r, served(onlyIf("If-None-Match", f), next))
	}
}

// with304 knows every version to be the present one.
func with304(w http.ResponseWriter, r *http.Request, next http.Handler) {
	onlyIf("If-None-Match", s3test.Answer(304, "NotModified"))(w, r, next)
}

// holds reports whether the store is where a condition wants it.
func (p *probed) holds(r *http.Request) bool {
	object, err := p.memory.Get(r.Context(), keyOf(r), bucket.Condition{})
	if r.Header.Get("If-None-Match") != "" {
		return errors.Is(err, bucket.ErrNotFound)
	}
	return err == nil && object.ETag == r.Header.Get("If-Match")
}

func keyOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/bucket/") }

// inTwoSteps checks a condition, and writes a moment later without one.
func (p *probed) inTwoSteps(condition string) s3test.Failure {
	return onlyIf(condition, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if p.holds(r) {
			time.Sleep(time.Millisecond)
			r.Header.Del(condition)
		}
		next.ServeHTTP(w, r)
	})
}

// refusedYetWritten answers 412 and keeps the body.
func (p *probed) refusedYetWritten(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if p.holds(r) {
		next.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
	p.write(r, body)
}

func (p *probed) write(r *http.Request, body []byte) {
	if _, err := p.memory.Put(p.Context(), keyOf(r), bytes.NewReader(body), "", bucket.Condition{}); err != nil {
		p.Error(err)
	}
}

// acceptedYetLost answers 200, and the object is what it was.
func (p *probed) acceptedYetLost(w http.ResponseWriter, r *http.Request, next http.Handler) {
	before, err := p.memory.Get(p.Context(), keyOf(r), bucket.Condition{})
	next.ServeHTTP(w, r)
	body := []byte("something else")
	if err == nil {
		body, _ = io.ReadAll(before.Body)
	}
	p.write(r, body)
}

// writtenLater keeps the body of one write that it refused in round 0, and
// writes it during round 4.
func (p *probed) writtenLater() s3test.Failure {
	var mu sync.Mutex
	var late func()
	return onlyIf("If-Match", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "race-0000") && !p.holds(r):
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			late = func() { p.write(r, body) }
		case strings.HasSuffix(r.URL.Path, "race-0004") && late != nil:
			late()
			late = nil
		}
		next.ServeHTTP(w, r)
	})
}

// changeReply rewrites one header of the reply.
func changeReply(name string, change func(string) string) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		reply := httptest.NewRecorder()
		next.ServeHTTP(reply, r)
		for key, values := range reply.Header() {
			w.Header()[key] = values
		}
		if value := change(w.Header().Get(name)); value != "" {
			w.Header()[name] = []string{value}
		} else {
			w.Header()[name] = nil // net/http adds a Date of its own otherwise
		}
		w.WriteHeader(reply.Code)
		w.Write(reply.Body.Bytes())
	}
}

// withDate changes the server's clock, or hides it where change is nil.
func (p *probed) withDate(change func(time.Time) time.Time) s3test.Failure {
	return changeReply("Date", func(string) string {
		if change == nil {
			return ""
		}
		return change(p.memory.Now()).UTC().Format(http.TimeFormat)
	})
}

func changeETags(change func(string) string) s3test.Failure {
	return changeReply("Etag", func(etag string) string {
		if etag == "" {
			return ""
		}
		return change(etag)
	})
}

func changeCondition(change func(string) string) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		for _, condition := range []string{"If-Match", "If-None-Match"} {
			if value := r.Header.Get(condition); value != "" && value != "*" {
				r.Header.Set(condition, change(value))
			}
		}
		next.ServeHTTP(w, r)
	}
}

// changeListed replaces text in listings.
func changeListed(old, new string) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		reply := httptest.NewRecorder()
		next.ServeHTTP(reply, r)
		for key, values := range reply.Header() {
			w.Header()[key] = values
		}
		body := strings.ReplaceAll(reply.Body.String(), old, new)
		w.Header().Del("Content-Length")
		w.WriteHeader(reply.Code)
		io.WriteString(w, body)
	}
}

func bare(etag string) string   { return strings.Trim(etag, `"`) }
func quoted(etag string) string { return `"` + etag + `"` }
