package s3lock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

const key = "locks/nightly.json"

func register(t testing.TB, b s3lock.Bucket) *s3lock.Register {
	t.Helper()
	r, err := s3lock.New(b, key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func inMemory(t *testing.T) func() lease.Register {
	b := bucket.NewMemory("bucket", nil)
	return func() lease.Register { return register(t, b) }
}

// overHTTP is a real S3 client of its own for each client of the lock.
func overHTTP(t *testing.T) func() lease.Register {
	server := s3test.New(t, bucket.NewMemory("bucket", nil))
	return func() lease.Register { return register(t, client(t, server)) }
}

func client(t testing.TB, server *s3test.Server) *bucket.Bucket {
	t.Helper()
	b, err := bucket.New(server.Client(), "bucket", bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRegisterInMemory(t *testing.T) { leasetest.TestRegister(t, inMemory) }
func TestRegisterOverHTTP(t *testing.T) { leasetest.TestRegister(t, overHTTP) }
func TestLockInMemory(t *testing.T)     { leasetest.TestLock(t, inMemory) }
func TestLockOverHTTP(t *testing.T)     { leasetest.TestLock(t, overHTTP) }

func TestKeysThatNameNoObjectAreRefused(t *testing.T) {
	b := bucket.NewMemory("bucket", nil)
	for bad, says := range map[string]string{
		"": "empty", "locks/": "folder", strings.Repeat("k", 1025): "1024", "locks/\xff": "UTF-8",
	} {
		if _, err := s3lock.New(b, bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("key %.20q: error %v, want one that says %q", bad, err, says)
		}
	}
	for _, good := range []string{"l", strings.Repeat("k", 1024), "locks/a b#?%+é", "/leading"} {
		if _, err := s3lock.New(b, good); err != nil {
			t.Errorf("key %.20q: %v", good, err)
		}
	}
	if _, err := s3lock.New(nil, key); err == nil {
		t.Error("no bucket is taken")
	}
}

// wire is one S3 endpoint with two clients, in a bubble of its own time.
type wire struct {
	*testing.T
	server *s3test.Server
	memory *bucket.Memory
	a, b   *lease.Lock
}

func onTheWire(t *testing.T, f func(w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory := bucket.NewMemory("bucket", nil)
		w := &wire{T: t, memory: memory, server: s3test.New(t, memory)}
		w.a, w.b = w.lock(1), w.lock(2)
		f(w)
	})
}

func (w *wire) lock(seed uint64) *lease.Lock {
	w.Helper()
	l, err := lease.New(register(w, client(w, w.server)), lease.Config{Rand: leasetest.Seeded(seed)})
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *wire) try(l *lease.Lock, owner string) lease.Grant {
	w.Helper()
	g, err := l.TryAcquire(w.Context(), owner)
	if err != nil {
		w.Fatal(err)
	}
	return g
}

func (w *wire) refused(l *lease.Lock, owner string) {
	w.Helper()
	var held *lease.HeldError
	if _, err := l.TryAcquire(w.Context(), owner); !errors.As(err, &held) {
		w.Fatalf("try %s: %v, want a HeldError", owner, err)
	}
}

func (w *wire) failPuts(failures ...s3test.Failure) {
	for _, f := range failures {
		w.server.Fail(s3test.Fault{Op: "put", Do: f})
	}
}

// troubles is what can happen to a PUT that is to be repeated.
var troubles = map[string]s3test.Failure{
	"lost request":        s3test.LoseRequest,
	"lost reply":          s3test.LoseReply, // case 1
	"409":                 s3test.Answer(409, "ConditionalRequestConflict"),
	"409 of a kind":       s3test.Answer(409, "OperationAborted"),
	"412 by a stale node": s3test.Answer(412, "PreconditionFailed"),
	"429":                 s3test.Answer(429, "TooManyRequests"),
	"500":                 s3test.Answer(500, "InternalError"),
	"503":                 s3test.Answer(503, "SlowDown"),
	"timeout":             s3test.Answer(400, "RequestTimeout"),
	"skewed clock":        s3test.Answer(403, "RequestTimeTooSkewed"),
	"500, yet it landed": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		s3test.Answer(500, "InternalError")(w, r, next)
	},
}

// Cases 1, 2 and 3.
func TestTroubleOnTheWireIsOvercome(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			onTheWire(t, func(w *wire) {
				w.failPuts(trouble, trouble)
				g := w.try(w.a, "P1")
				w.refused(w.b, "P2")
				w.server.Heal()

				w.failPuts(trouble)
				time.Sleep(20 * time.Second)
				g, err := w.a.Renew(w.Context(), g)
				if err != nil {
					w.Fatal(err)
				}
				w.server.Heal()

				w.failPuts(trouble, trouble)
				w.server.Fail(s3test.Fault{Op: "get", Do: s3test.Answer(503, "SlowDown")})
				r, err := w.a.Release(w.Context(), g.Owner, g.Token, "done")
				if err != nil || !r.Held {
					w.Fatalf("release: %+v, %v", r, err)
				}
				w.server.Heal()
				if next := w.try(w.b, "P2"); next.Token != g.Token+1 {
					w.Errorf("token %d after %d: a lost write was taken for another's", next.Token, g.Token)
				}
			})
		})
	}
}

// What S3 answers to a PUT, in the register's terms.
func TestAnswersToAPut(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer s3test.Failure
		want   error
	}{
		{"412", s3test.Answer(412, "PreconditionFailed"), lease.ErrConflict},
		{"409", s3test.Answer(409, "ConditionalRequestConflict"), lease.ErrConflict},
		{"404", s3test.Answer(404, "NoSuchKey"), lease.ErrConflict},
		{"403", s3test.Answer(403, "AccessDenied"), lease.ErrRefused},
		{"no bucket", s3test.Answer(404, "NoSuchBucket"), lease.ErrRefused},
		{"429", s3test.Answer(429, "TooManyRequests"), lease.ErrUncertain},
		{"500", s3test.Answer(500, "InternalError"), lease.ErrUncertain},
		{"501", s3test.Answer(501, "NotImplemented"), lease.ErrUncertain},
		{"503", s3test.Answer(503, "SlowDown"), lease.ErrUncertain},
		{"skewed clock", s3test.Answer(403, "RequestTimeTooSkewed"), lease.ErrUncertain},
		{"none", s3test.LoseReply, lease.ErrUncertain},
	} {
		t.Run(c.name, func(t *testing.T) {
			onTheWire(t, func(w *wire) {
				w.failPuts(c.answer)
				_, err := register(w, client(w, w.server)).Swap(w.Context(), `"etag"`, []byte("value"))
				for _, kind := range []error{lease.ErrConflict, lease.ErrRefused, lease.ErrUncertain} {
					if errors.Is(err, kind) != (kind == c.want) {
						w.Errorf("%v is %q: %v", err, kind, errors.Is(err, kind))
					}
				}
				if n := len(w.server.Requests("put")); n != 1 {
					w.Errorf("sent %d times", n)
				}
			})
		})
	}
}

// Case 14 on the wire: the delayed PUT of a release meets 412.
func TestADelayedReleaseLeavesTheNewHolderAlone(t *testing.T) {
	onTheWire(t, func(w *wire) {
		g := w.try(w.a, "P1")
		arrive := make(chan struct{})
		w.failPuts(s3test.Hold(arrive))
		if r, err := w.a.Release(w.Context(), g.Owner, g.Token, "done"); err != nil || !r.Held {
			w.Fatalf("%+v, %v", r, err)
		}
		next := w.try(w.b, "P2")
		close(arrive)
		synctest.Wait()
		if _, err := w.b.Renew(w.Context(), next); err != nil {
			w.Error(err)
		}
		w.refused(w.a, "P1")
	})
}

// Case 7: conditions carry the ETag as it came.
func TestETagsAreSentBackAsReceived(t *testing.T) {
	onTheWire(t, func(w *wire) {
		g := w.try(w.a, "P1")
		time.Sleep(20 * time.Second)
		if _, err := w.a.Renew(w.Context(), g); err != nil {
			w.Fatal(err)
		}
		w.refused(w.a, "P2")
		puts, gets := w.server.Requests("put"), w.server.Requests("get")
		if len(puts) != 2 || puts[0].Header.Get("If-None-Match") != "*" || puts[0].Header.Get("If-Match") != "" {
			w.Fatalf("first put: %v", puts)
		}
		object, err := w.memory.Get(w.Context(), key, bucket.Condition{})
		if err != nil {
			w.Fatal(err)
		}
		if match := puts[1].Header.Get("If-Match"); match == "" || match == object.ETag || puts[1].Header.Get("If-None-Match") != "" {
			w.Errorf("second put has If-Match %q", match)
		}
		if last := gets[len(gets)-1]; last.Header.Get("If-None-Match") != object.ETag {
			w.Errorf("poll has If-None-Match %q, the object %q", last.Header.Get("If-None-Match"), object.ETag)
		}
		if n := len(w.server.Requests("delete")) + len(w.server.Requests("")); n > 0 {
			w.Errorf("%d requests that are neither GET nor PUT", n)
		}
	})
}

func TestRequestsOnTheWire(t *testing.T) {
	onTheWire(t, func(w *wire) {
		before := 0
		costs := func(what string, want int) {
			w.Helper()
			now := len(w.server.Requests("get")) + len(w.server.Requests("put"))
			if now-before != want {
				w.Errorf("%s took %d requests, want %d", what, now-before, want)
			}
			before = now
		}
		g := w.try(w.a, "P1")
		costs("acquire, cold", 2)
		g, err := w.a.Renew(w.Context(), g)
		if err != nil {
			w.Fatal(err)
		}
		costs("renew", 1)
		w.refused(w.a, "P2")
		costs("poll", 1)
		if _, err := w.a.Release(w.Context(), g.Owner, g.Token, "done"); err != nil {
			w.Fatal(err)
		}
		costs("release", 1)
		w.try(w.a, "P2")
		costs("acquire, warm", 1)
	})
}

func TestWhatS3TurnsDownIsNotRepeated(t *testing.T) {
	for _, op := range []string{"get", "put"} {
		for code, answer := range map[string]s3test.Failure{
			"AccessDenied":                 s3test.Answer(403, "AccessDenied"),
			"NoSuchBucket":                 s3test.Answer(404, "NoSuchBucket"),
			"AuthorizationHeaderMalformed": s3test.Answer(400, "AuthorizationHeaderMalformed"),
			"PermanentRedirect":            s3test.Answer(301, "PermanentRedirect"),
		} {
			t.Run(op+" "+code, func(t *testing.T) {
				onTheWire(t, func(w *wire) {
					w.server.Fail(s3test.Fault{Op: op, Times: s3test.Always, Do: answer})
					_, err := w.a.Acquire(w.Context(), "P1")
					if !errors.Is(err, lease.ErrRefused) || !strings.Contains(err.Error(), "s3://bucket/"+key) {
						w.Errorf("error %v, want ErrRefused that names the object", err)
					}
					if n := len(w.server.Requests(op)); n != 1 {
						w.Errorf("%d requests", n)
					}
				})
			})
		}
	}
}

func TestAnAnswerWithoutDateIsRefused(t *testing.T) {
	onTheWire(t, func(w *wire) {
		w.server.Fail(s3test.Fault{Times: s3test.Always, Do: func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			reply := httptest.NewRecorder()
			next.ServeHTTP(reply, r)
			rw.Header()["Date"] = nil
			rw.Header()["Etag"] = reply.Header()["Etag"]
			rw.WriteHeader(reply.Code)
			rw.Write(reply.Body.Bytes())
		}})
		_, err := w.a.TryAcquire(w.Context(), "P1")
		if !errors.Is(err, lease.ErrRefused) {
			w.Errorf("error %v, want ErrRefused", err)
		}
	})
}

// Case 8 on the wire: S3 keeps what a broken tool put there.
func TestACutObjectIsHeldUntilItIsBroken(t *testing.T) {
	for _, content := range []string{"", `{"schema":1,"lim`, strings.Repeat("x", 2<<20)} {
		onTheWire(t, func(w *wire) {
			if _, err := w.memory.Put(w.Context(), key, strings.NewReader(content), "", bucket.Condition{}); err != nil {
				w.Fatal(err)
			}
			var corrupt *lease.CorruptError
			if _, err := w.a.Acquire(w.Context(), "P1"); !errors.As(err, &corrupt) {
				w.Fatalf("error %v", err)
			}
			if err := w.b.Break(w.Context(), lease.BreakRequest{By: "ana", Reason: "cut"}); err != nil {
				w.Fatal(err)
			}
			w.try(w.a, "P1")
		})
	}
}

func TestAReplyThatIsCutIsReadAgain(t *testing.T) {
	onTheWire(t, func(w *wire) {
		w.try(w.a, "P1")
		w.server.Fail(s3test.Fault{Op: "get", Do: s3test.CutReply(20)})
		w.refused(w.b, "P2")
	})
}

func TestADeletedObjectIsAConflictForItsHolder(t *testing.T) {
	onTheWire(t, func(w *wire) {
		g := w.try(w.a, "P1")
		if err := w.memory.Delete(w.Context(), key); err != nil {
			w.Fatal(err)
		}
		if _, err := w.a.Renew(w.Context(), g); !errors.Is(err, lease.ErrLost) {
			w.Errorf("renew: %v", err)
		}
		if next := w.try(w.a, "P1"); next.Token <= g.Token {
			w.Errorf("token %d after %d", next.Token, g.Token)
		}
	})
}

// Case 13 on the wire.
func TestACutLineEndsTheWorkBeforeAnotherCanHold(t *testing.T) {
	onTheWire(t, func(w *wire) {
		line := &lineCut{Bucket: client(w, w.server)}
		l, err := lease.New(register(w, line), lease.Config{Rand: leasetest.Seeded(3)})
		if err != nil {
			w.Fatal(err)
		}
		kept, stop := l.Keep(w.Context(), w.try(l, "P1"))
		defer stop()
		time.Sleep(5 * time.Minute)
		if kept.Err() != nil {
			w.Fatal(context.Cause(kept))
		}
		line.cut.Store(true)
		stopped := make(chan time.Time, 1)
		context.AfterFunc(kept, func() { stopped <- time.Now() })
		if _, err := w.b.Acquire(w.Context(), "P2"); err != nil {
			w.Fatal(err)
		}
		if first := <-stopped; !first.Before(time.Now()) {
			w.Errorf("stopped at %v, the next came in at %v", first, time.Now())
		}
		if !errors.Is(context.Cause(kept), lease.ErrLost) {
			w.Error(context.Cause(kept))
		}
	})
}
