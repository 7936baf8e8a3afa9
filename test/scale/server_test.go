package scale

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// tallyPath is where the servers say what was asked of them since they were
// last asked that.
const tallyPath = "/-/tally"

// tally is what was asked of the servers.
type tally struct {
	Listings map[string]listingTally // by bucket
	State    map[string]traffic      // by method and place, as in "PUT segment"
}

func (t tally) sent() (n int64) {
	for _, seen := range t.State {
		n += seen.In
	}
	return n
}

func (t tally) received() (n int64) {
	for _, seen := range t.State {
		n += seen.Out
	}
	return n
}

func (t tally) requests() (n int64) {
	for _, seen := range t.State {
		n += seen.Requests
	}
	return n
}

// serve is the process of the servers: the source, and the state. It prints its
// URL and serves until ended is closed.
func serve(out io.Writer, ended <-chan struct{}) error {
	source, state := &listings{}, newStates()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == tallyPath:
			writeJSON(w, tally{source.take(), state.take()})
		case isFiles(r.URL.Path):
			source.ServeHTTP(w, r)
		default:
			state.ServeHTTP(w, r)
		}
	})}
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	go func() {
		<-ended
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// isFiles tells requests to the source from those to the state.
func isFiles(path string) bool { return strings.HasPrefix(path, "/files-") }
