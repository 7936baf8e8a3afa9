package local

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// runtimePath is where the Runtime API of every process begins; its name follows.
const runtimePath = "/_runtime/"

// The headers of the Runtime API's "next",
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
const (
	requestIDHeader   = "Lambda-Runtime-Aws-Request-Id"
	functionARNHeader = "Lambda-Runtime-Invoked-Function-Arn"
)

// runtimeFront passes the Runtime API on to kumo and tells each process's
// record what the process did: asked for work, took a request, answered it, or
// failed to start.
type runtimeFront struct {
	emulator  *url.URL
	transport http.RoundTripper
	mux       *http.ServeMux

	mu        sync.Mutex
	processes map[string]*process // by name
}

func newRuntimeFront(emulator *url.URL, transport http.RoundTripper) *runtimeFront {
	f := &runtimeFront{emulator: emulator, transport: transport, processes: map[string]*process{}}
	f.mux = http.NewServeMux()
	const api = runtimePath + "{process}/2018-06-01/runtime/"
	f.mux.HandleFunc("GET "+api+"invocation/next", f.withProcess(f.next))
	f.mux.HandleFunc("POST "+api+"invocation/{request}/response", f.withProcess(f.answer))
	f.mux.HandleFunc("POST "+api+"invocation/{request}/error", f.withProcess(f.answer))
	f.mux.HandleFunc("POST "+api+"init/error", f.withProcess(f.initError))
	return f
}

func (f *runtimeFront) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

func (f *runtimeFront) add(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes[p.name] = p
}

func (f *runtimeFront) remove(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.processes, p.name)
}

func (f *runtimeFront) withProcess(handle func(http.ResponseWriter, *http.Request, *process)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		p := f.processes[r.PathValue("process")]
		f.mu.Unlock()
		if p == nil {
			refuseRuntime(w, http.StatusForbidden, "Forbidden", "no such process")
			return
		}
		handle(w, r, p)
	}
}

// next waits for the process's next request.
func (f *runtimeFront) next(w http.ResponseWriter, r *http.Request, p *process) {
	p.asked()
	f.pass(w, r, func(resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			p.took(resp.Header.Get(requestIDHeader))
			// kumo knows the process's name alone; the handler sees its function.
			resp.Header.Set(functionARNHeader, functionARN(p.function))
		}
		return nil
	})
}

// answer takes the reply, or the error, of the request that the process works
// on. Lambda answers 400 to anything else, such as a reply after the time limit.
func (f *runtimeFront) answer(w http.ResponseWriter, r *http.Request, p *process) {
	id := r.PathValue("request")
	if work := p.work(); work.request != id || !work.open {
		refuseRuntime(w, http.StatusBadRequest, "InvalidRequestID", "the request is not in progress")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process died while it answered
	}
	// kumo hands the answer to the invoker before it confirms it to the process,
	// so the answer counts from here: whole, and not yet passed on.
	p.answered(id)
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	f.pass(w, r, nil)
}

// initError keeps why the process could not start.
func (f *runtimeFront) initError(w http.ResponseWriter, r *http.Request, p *process) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process is gone
	}
	p.failedToStart(body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"OK"}`)
}

func (f *runtimeFront) pass(w http.ResponseWriter, r *http.Request, see func(*http.Response) error) {
	passOn(f.emulator, f.transport, r.URL.Path, "", see).ServeHTTP(w, r)
}

func refuseRuntime(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errorMessage":%q,"errorType":%q}`, message, kind)
}
