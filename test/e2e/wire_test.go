package e2e_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// wire stands between the functions and S3: it knows who asks for what, and
// breaks, holds or loses what a test tells it to.
type wire struct {
	server *httptest.Server
	target atomic.Pointer[url.URL]
	proxy  *httputil.ReverseProxy

	ahead atomic.Int64 // by which S3's clock is ahead of this machine's, in seconds

	mu    sync.Mutex
	rules []*rule
	holds []*held
	calls []call
}

// call is one request of a function.
type call struct {
	function string
	op       string // get, put, delete, list
	place    string // bucket/key; for a listing bucket/prefix
}

// rule is what happens to certain requests.
type rule struct {
	function, op string // "" is any
	part         string // of call.place
	after        int    // so many matching requests pass first
	times        int    // so many are hit; s3test.Always is all
	do           s3test.Failure
}

func newWire(t *testing.T) *wire {
	w := &wire{}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	w.proxy = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			to := w.target.Load()
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, ""
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		ModifyResponse: w.stamp,
		ErrorLog:       log.New(io.Discard, "", 0), // clients are killed all the time
	}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.server.Start()
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		transport.CloseIdleConnections()
	})
	return w
}

// stamp gives a reply the time of S3's clock.
func (w *wire) stamp(reply *http.Response) error {
	date, err := http.ParseTime(reply.Header.Get("Date"))
	if err == nil {
		reply.Header.Set("Date", date.Add(time.Duration(w.ahead.Load())*time.Second).Format(http.TimeFormat))
	}
	return err
}

func (w *wire) url() string { return w.server.URL }

func (w *wire) connect(endpoint string) {
	to, err := url.Parse(endpoint)
	if err != nil {
		panic(err)
	}
	w.target.Store(to)
}

func (w *wire) serve(reply http.ResponseWriter, r *http.Request) {
	c := describe(r)
	w.mu.Lock()
	w.calls = append(w.calls, c)
	do := w.next(c)
	w.mu.Unlock()
	if do == nil {
		w.proxy.ServeHTTP(reply, r)
		return
	}
	do(reply, r, w.proxy)
}

// next takes the rule for a call: the first that was given. The caller holds mu.
func (w *wire) next(c call) s3test.Failure {
	for _, r := range w.rules {
		switch {
		case r.function != "" && r.function != c.function, r.op != "" && r.op != c.op,
			!strings.Contains(c.place, r.part), r.times == 0:
		case r.after > 0:
			r.after--
		default:
			if r.times > 0 {
				r.times--
			}
			return r.do
		}
	}
	return nil
}

func describe(r *http.Request) call {
	c := call{op: strings.ToLower(r.Method), place: strings.TrimPrefix(r.URL.Path, "/")}
	if query := r.URL.Query(); query.Get("list-type") != "" {
		c.op, c.place = "list", c.place+"/"+query.Get("prefix")
	}
	for word := range strings.FieldsSeq(r.UserAgent()) {
		if name, ok := strings.CutPrefix(word, "app/"); ok {
			c.function = name
		}
	}
	return c
}

func (w *wire) add(r rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, &r)
}

// heal takes all rules back.
func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
}

// seen returns the calls so far that a function made to a place.
func (w *wire) seen(function, op, part string) []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(c call) bool {
		return c.function != function || c.op != op || !strings.Contains(c.place, part)
	})
}

// point is a place in the traffic of a function: the next such call, before
// it takes effect or after.
type point struct {
	op, part string // as in rule
	after    bool
}

func request(op, part string) point { return point{op: op, part: part} }
func reply(op, part string) point   { return point{op: op, part: part, after: true} }

// answered returns a channel that is closed once the next such call has been
// answered.
func (w *wire) answered(function string, at point) <-chan struct{} {
	done := make(chan struct{})
	w.add(rule{function: function, op: at.op, part: at.part, times: 1, do: func(reply http.ResponseWriter, r *http.Request, next http.Handler) {
		defer close(done)
		next.ServeHTTP(reply, r)
	}})
	return done
}

// held is one request that stands still on its way to S3, or whose reply does
// on its way back.
type held struct {
	reached chan struct{} // it stands still
	over    chan struct{} // it was let go or dropped, and nothing is left of it
	on      chan struct{}
	dropped chan struct{}
	decide  sync.Once
}

// letGo sends the request, or its reply, on its way, even if its sender is dead.
func (h *held) letGo() { h.decide.Do(func() { close(h.on) }) }

// drop breaks the connection.
func (h *held) drop() { h.decide.Do(func() { close(h.dropped) }) }

// hold stops the next such call of a function at the point.
func (w *wire) hold(function string, at point) *held {
	h := &held{reached: make(chan struct{}), over: make(chan struct{}), on: make(chan struct{}), dropped: make(chan struct{})}
	w.mu.Lock()
	w.holds = append(w.holds, h)
	w.mu.Unlock()
	w.add(rule{function: function, op: at.op, part: at.part, times: 1, do: func(reply http.ResponseWriter, r *http.Request, next http.Handler) {
		defer close(h.over)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		// Its sender may die while it is held, and it takes effect all the same.
		r = r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !at.after {
			h.wait()
			next.ServeHTTP(reply, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		h.wait()
		maps.Copy(reply.Header(), answer.Header())
		reply.WriteHeader(answer.Code)
		reply.Write(answer.Body.Bytes())
	}})
	return h
}

func (h *held) wait() {
	close(h.reached)
	select {
	case <-h.on:
	case <-h.dropped:
		panic(http.ErrAbortHandler)
	}
}

func (w *wire) dropAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
	for _, h := range w.holds {
		h.drop()
	}
}
