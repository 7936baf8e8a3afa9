package s3lock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// answers notes the method and status of each answer from now on.
func (w *wire) answers() (since func() []string) {
	var noted []string
	w.server.Fail(s3test.Fault{Times: s3test.Always, Do: func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		reply := httptest.NewRecorder()
		next.ServeHTTP(reply, r)
		noted = append(noted, fmt.Sprint(r.Method, " ", reply.Code))
		for name, values := range reply.Header() {
			rw.Header()[name] = values
		}
		rw.WriteHeader(reply.Code)
		rw.Write(reply.Body.Bytes())
	}})
	return func() []string {
		all := noted
		noted = nil
		return all
	}
}

// What each call costs on the wire, answer by answer: the prices in
// docs/lease.md follow from it.
func TestAnswersThatEachCallNeeds(t *testing.T) {
	onTheWire(t, func(w *wire) {
		since := w.answers()
		costs := func(what string, want ...string) {
			w.Helper()
			if got := since(); !slices.Equal(got, want) {
				w.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		ask := func(l *lease.Lock, owner string, want lease.Decision) {
			w.Helper()
			if a, err := l.Ask(w.Context(), owner); err != nil || a.Decision != want {
				w.Fatalf("ask %s: %+v, %v", owner, a, err)
			}
		}
		g := w.try(w.a, "P1")
		costs("the first acquire ever", "GET 404", "PUT 200")
		ask(w.b, "P2", lease.Wait)
		costs("queueing", "GET 200", "PUT 200")
		for range 3 {
			ask(w.b, "P2", lease.Wait)
			costs("a poll while nothing changes", "GET 304")
		}
		g, err := w.a.Renew(w.Context(), g)
		if err != nil {
			w.Fatal(err)
		}
		costs("a renewal when another wrote since", "PUT 412", "GET 200", "PUT 200")
		if g, err = w.a.Renew(w.Context(), g); err != nil {
			w.Fatal(err)
		}
		costs("a renewal", "PUT 200")
		ask(w.b, "P2", lease.Wait)
		costs("a poll after a change", "GET 200")
		ask(w.b, "P2", lease.Wait)
		costs("the poll after it", "GET 304")
		if _, err := w.a.RenewIfOlder(w.Context(), g, time.Minute); err != nil {
			w.Fatal(err)
		}
		costs("a renewal that is not due", "GET 304")
		if _, err := w.a.Release(w.Context(), g.Owner, g.Token, "done"); err != nil {
			w.Fatal(err)
		}
		costs("a release", "PUT 200")
		ask(w.b, "P2", lease.Held)
		costs("the turn that takes over", "GET 200", "PUT 200")
		if _, err := w.b.Release(w.Context(), "P2", 0, "done"); err != nil {
			w.Fatal(err)
		}
		costs("a release", "PUT 200")
		w.try(w.b, "P3")
		costs("an acquire by a client that knows the lock", "PUT 200")
	})
}
