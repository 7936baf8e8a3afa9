package bucket_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/buckettest"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

func TestAPageCountsHowOftenTheServerAskedToSlowDown(t *testing.T) {
	b, server := open(t, bucket.Options{})
	fill(t, b, 6)
	// Of three pages the second is refused twice, and the third meets other trouble.
	server.Fail(s3test.Fault{Op: "list", After: 1, Times: 2, Do: s3test.Answer(503, "SlowDown")})
	server.Fail(s3test.Fault{Op: "list", After: 2, Do: s3test.Answer(500, "InternalError")})
	var got []int
	for page, err := range b.List(t.Context(), bucket.ListOptions{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.SlowDowns)
	}
	if want := []int{0, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if sent := len(server.Requests("list")); sent != 6 {
		t.Errorf("sent %d times: not every fault hit", sent)
	}
}

func TestACallThatWasRefusedToTheEndSaysSlowDown(t *testing.T) {
	page := func(status int) s3test.Failure {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(status)
			io.WriteString(w, "<html><body>too busy</body></html>")
		}
	}
	tests := []struct {
		name string
		do   s3test.Failure
		slow bool
	}{
		{"503 SlowDown", s3test.Answer(503, "SlowDown"), true},
		{"503 ServiceUnavailable", s3test.Answer(503, "ServiceUnavailable"), true},
		{"503 of a proxy", page(503), true},
		{"429 TooManyRequests", s3test.Answer(429, "TooManyRequests"), true},
		{"400 ThrottlingException", s3test.Answer(400, "ThrottlingException"), true},
		{"500 InternalError", s3test.Answer(500, "InternalError"), false},
		{"502 of a proxy", page(502), false},
		{"no answer", s3test.LoseRequest, false},
		{"403 AccessDenied", s3test.Answer(403, "AccessDenied"), false},
		{"409 OperationAborted", s3test.Answer(409, "OperationAborted"), false},
	}
	for _, test := range tests {
		for _, op := range everyOp {
			t.Run(test.name+" "+op, func(t *testing.T) {
				b, server := open(t, bucket.Options{})
				server.Fail(s3test.Fault{Op: op, Times: s3test.Always, Do: test.do})
				err := call(t.Context(), b, op)
				if errors.Is(err, bucket.ErrSlowDown) != test.slow {
					t.Errorf("slow down: %t, %v", !test.slow, err)
				}
				if test.slow && !bucket.Transient(err) {
					t.Errorf("not transient: %v", err)
				}
				for _, verdict := range []error{bucket.ErrNotFound, bucket.ErrPrecondition} {
					if errors.Is(err, verdict) {
						t.Errorf("reported as certain: %v", err)
					}
				}
			})
		}
	}
}

func TestAMemorysHookMaySaySlowDown(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	m.Fault(func(op, _ string) error {
		if op == "list" {
			return bucket.ErrSlowDown
		}
		return nil
	}, nil)
	for name, b := range map[string]buckettest.Store{"memory": m, "wire": bucketOf(t, s3test.New(t, m).Client(), bucket.Options{})} {
		for _, err := range b.List(t.Context(), bucket.ListOptions{}) {
			if !errors.Is(err, bucket.ErrSlowDown) || !bucket.Transient(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
