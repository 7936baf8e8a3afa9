package s3test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
)

// Fault makes chosen requests fail.
type Fault struct {
	Op    string // "get", "put", "delete", "list", or of an upload "create", "part", "complete", "abort"; "" is any
	Key   string // exact key, for a listing the prefix; "" is any
	After int    // so many matching requests pass first
	Times int    // so many requests are hit: 0 is 1, Always is all
	Do    Failure
}

// Always is a Fault's Times without an end.
const Always = -1

// Failure answers in place of next, which is the honest server. Write one as a
// closure where those below do not fit.
type Failure func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Fail adds a fault. Of several that match a request, the one added first hits.
func (s *Server) Fail(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// nextFailure takes the failure for a request, if any. The caller holds mu.
func (s *Server) nextFailure(op, key string) Failure {
	for _, f := range s.faults {
		if f.Op != "" && f.Op != op || f.Key != "" && f.Key != key || f.Times == 0 {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return f.Do
	}
	return nil
}

// Answer gives an error document in place of the call, as in
// Answer(503, "SlowDown") or Answer(409, "ConditionalRequestConflict").
func Answer(status int, code string) Failure {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { writeError(w, status, code) }
}

// LoseRequest breaks the connection before the call takes effect.
func LoseRequest(http.ResponseWriter, *http.Request, http.Handler) {
	panic(http.ErrAbortHandler)
}

// LoseReply breaks the connection after the call took effect.
func LoseReply(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// CutReply breaks the connection after n bytes of the reply's body.
func CutReply(n int) Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		reply := record(w, r, next)
		w.Header().Set("Content-Length", strconv.Itoa(reply.Body.Len()))
		w.WriteHeader(reply.Code)
		w.Write(reply.Body.Bytes()[:min(n, reply.Body.Len())])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// ShortReply ends the reply's body after n bytes as if that were all of it: a
// cut that only the content can tell.
func ShortReply(n int) Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		reply := record(w, r, next)
		content := reply.Body.Bytes()[:min(n, reply.Body.Len())]
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.WriteHeader(reply.Code)
		w.Write(content)
	}
}

// Hold keeps the request until release is closed and then carries it out, even
// when the client has long given up: a write that is late. Close release
// before the test ends.
func Hold(release <-chan struct{}) Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		<-release
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	}
}

// Before runs a function ahead of the call: a rival's write, a clock's jump.
func Before(f func()) Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		f()
		next.ServeHTTP(w, r)
	}
}

// record runs the call and copies its headers, so that they can be changed.
func record(w http.ResponseWriter, r *http.Request, next http.Handler) *httptest.ResponseRecorder {
	reply := httptest.NewRecorder()
	next.ServeHTTP(reply, r)
	for name, values := range reply.Header() {
		w.Header()[name] = values
	}
	return reply
}
