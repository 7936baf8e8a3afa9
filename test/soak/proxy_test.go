package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy is one client's way to the server and to the fenced resource, and the
// place where things go wrong.
type proxy struct {
	slot     int
	upstream string
	fence    *fence
	trouble  *trouble
	// blind makes the server one that ignores the conditions of a PUT, to see
	// the soak find it.
	blind bool
	late  *sync.WaitGroup // writes that are still to land
}

// transport leads from all proxies to the server.
var transport = &http.Transport{MaxIdleConnsPerHost: 4 * clients}

// open listens on a loopback port until the test ends.
func (p *proxy) open(t *testing.T) string {
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server.URL
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away
	}
	kind := read
	switch {
	case strings.HasPrefix(r.URL.Path, fencePath):
		kind = stamp
	case r.Method == http.MethodPut:
		kind = write
	}
	b := p.trouble.deal(p.slot, kind)
	if b.fault != none && b.fault != lineDown {
		p.trouble.did(b.fault)
	}
	switch b.fault {
	case loseRequest, lineDown:
		panic(http.ErrAbortHandler)
	case lateWrite:
		p.late.Go(func() {
			time.Sleep(b.delay)
			p.forward(context.Background(), r, body)
		})
		panic(http.ErrAbortHandler)
	case answer409:
		p.refuse(w, http.StatusConflict, "ConditionalRequestConflict")
	case answer412:
		p.refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case answer500:
		p.refuse(w, http.StatusInternalServerError, "InternalError")
	case answer503:
		p.refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case slowRequest:
		// The client may give up; the request is under way and will arrive.
		time.Sleep(b.delay)
		p.answer(w, p.forward(context.WithoutCancel(r.Context()), r, body))
	case slowReply:
		reply := p.forward(r.Context(), r, body)
		time.Sleep(b.delay)
		p.answer(w, reply)
	case loseReply:
		p.forward(context.WithoutCancel(r.Context()), r, body)
		panic(http.ErrAbortHandler)
	case hiddenWrite:
		p.forward(context.WithoutCancel(r.Context()), r, body)
		p.refuse(w, http.StatusInternalServerError, "InternalError")
	case doubleWrite:
		p.forward(r.Context(), r, body)
		p.answer(w, p.forward(r.Context(), r, body))
	case cutReply:
		cut(w, p.forward(r.Context(), r, body))
	default:
		p.answer(w, p.forward(r.Context(), r, body))
	}
}

// forward carries a request out. A reply that could not be had, because the
// client went away meanwhile, is nil.
func (p *proxy) forward(ctx context.Context, r *http.Request, body []byte) *httptest.ResponseRecorder {
	out := r.Clone(ctx)
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	reply := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Path, fencePath) {
		p.fence.ServeHTTP(reply, out)
		return reply
	}
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = "http", strings.TrimPrefix(p.upstream, "http://")
	if p.blind && r.Method == http.MethodPut {
		out.Header.Del("If-Match")
		out.Header.Del("If-None-Match")
	}
	resp, err := transport.RoundTrip(out)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		reply.Header()[name] = values
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		reply.Header().Set("Date", p.trouble.date(date).Format(http.TimeFormat))
	}
	reply.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(reply, resp.Body); err != nil {
		return nil
	}
	p.trouble.saw(fmt.Sprintf("%s %d", r.Method, resp.StatusCode))
	return reply
}

func (p *proxy) answer(w http.ResponseWriter, reply *httptest.ResponseRecorder) {
	if reply == nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range reply.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.Code)
	_, _ = w.Write(reply.Body.Bytes()) // to a client that may have gone
}

// refuse answers in the server's place.
func (p *proxy) refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Date", p.trouble.date(time.Now().UTC()).Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>the soak's proxy says so</Message></Error>", code)
}

// cut ends the reply in its middle: of the body where it has one, else of the
// headers.
func cut(w http.ResponseWriter, reply *httptest.ResponseRecorder) {
	if reply == nil {
		panic(http.ErrAbortHandler)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	reply.Header().Set("Content-Length", strconv.Itoa(reply.Body.Len()))
	fmt.Fprintf(buffered, "HTTP/1.1 %d %s\r\n", reply.Code, http.StatusText(reply.Code))
	if reply.Body.Len() > 0 {
		_ = reply.Header().Write(buffered)
		buffered.WriteString("\r\n")
		buffered.Write(reply.Body.Bytes()[:reply.Body.Len()/2])
	}
	_ = buffered.Flush()
}
