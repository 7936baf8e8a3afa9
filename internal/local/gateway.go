package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// gateway is a stack's one server. It tells the protocols apart and stands
// between the stack's clients and the emulator that all stacks share.
type gateway struct {
	server   *http.Server
	listener net.Listener
	done     chan struct{} // closed when the server has stopped serving
}

// newGateway listens on a free loopback port; serve starts it.
func newGateway(ctx context.Context, logger *slog.Logger) (*gateway, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on a loopback port: %w", err)
	}
	return &gateway{
		listener: listener,
		server:   &http.Server{ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)},
		done:     make(chan struct{}),
	}, nil
}

func (g *gateway) address() string { return g.listener.Addr().String() }

func (g *gateway) url() string { return "http://" + g.address() }

// serve answers requests until close.
func (g *gateway) serve(s3, runtime, states http.Handler) {
	g.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, runtimePath):
			runtime.ServeHTTP(w, r)
		case strings.HasPrefix(r.Header.Get("X-Amz-Target"), statesTarget):
			states.ServeHTTP(w, r)
		default:
			s3.ServeHTTP(w, r)
		}
	})
	go func() {
		defer close(g.done)
		_ = g.server.Serve(g.listener) // always ErrServerClosed: the listener is ours
	}()
}

// close waits a moment for the requests under way, and cuts those that are left.
func (g *gateway) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestGrace)
	defer cancel()
	err := g.server.Shutdown(ctx)
	if err != nil {
		err = g.server.Close()
	}
	<-g.done
	return err
}

// requestGrace is how long a request may go on after the stack was closed.
const requestGrace = time.Second

// passOn returns a handler that sends a request to the emulator under another
// path and query, and lets see look at the response, and change it, before the
// client gets it. see may be nil.
func passOn(emulator *url.URL, transport http.RoundTripper, path, query string, see func(*http.Response) error) http.Handler {
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(emulator)
			r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = path, "", query
		},
		ModifyResponse: see,
		ErrorLog:       quiet,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(err, context.Canceled) { // the client is still there to be told
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		},
	}
}

// quiet drops what ReverseProxy says about clients that went away in the
// middle of a body: function processes are killed all the time.
var quiet = log.New(io.Discard, "", 0)
