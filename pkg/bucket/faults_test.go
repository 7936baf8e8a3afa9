package bucket_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// passing are failures that the SDK would repeat a request for.
var passing = []struct {
	name   string
	do     s3test.Failure
	landed bool // the write took effect all the same
}{
	{"500", s3test.Answer(500, "InternalError"), false},
	{"502", s3test.Answer(502, "BadGateway"), false},
	{"503", s3test.Answer(503, "SlowDown"), false},
	{"429", s3test.Answer(429, "TooManyRequests"), false},
	{"400 RequestTimeout", s3test.Answer(400, "RequestTimeout"), false},
	{"request lost", s3test.LoseRequest, false},
	{"reply lost", s3test.LoseReply, true},
}

func TestConditionalPutIsSentOnce(t *testing.T) {
	for _, test := range passing {
		t.Run(test.name, func(t *testing.T) {
			memory := bucket.NewMemory("files", nil)
			server := s3test.New(t, memory)
			b := bucketOf(t, server.Client(func(o *s3.Options) { o.RetryMaxAttempts = 5 }), bucket.Options{})
			// A kept-alive connection is one that net/http itself may retry on.
			if _, err := b.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
				t.Fatal(err)
			}
			server.Fail(s3test.Fault{Op: "put", Do: test.do})

			_, err := b.Put(t.Context(), "a", strings.NewReader("mine"), "", bucket.Condition{IfNoneMatch: "*"})
			if err == nil || !bucket.Transient(err) {
				t.Errorf("put: %v, transient %t", err, bucket.Transient(err))
			}
			for _, verdict := range []error{bucket.ErrNotFound, bucket.ErrPrecondition, bucket.ErrConflict} {
				if errors.Is(err, verdict) {
					t.Errorf("an uncertain write was reported as certain: %v", err)
				}
			}
			if sent := len(server.Requests("put")); sent != 1 {
				t.Errorf("sent %d times", sent)
			}
			_, err = memory.Get(t.Context(), "a", bucket.Condition{})
			if landed := err == nil; landed != test.landed {
				t.Errorf("landed: %t", landed)
			}
		})
	}
}

func TestOtherCallsAreRepeatedBySDK(t *testing.T) {
	for _, op := range everyOp {
		for _, test := range passing {
			t.Run(op+" "+test.name, func(t *testing.T) {
				b, server := open(t, bucket.Options{})
				server.Fail(s3test.Fault{Op: op, Do: test.do})
				everyCall(t, b)
				if sent := len(server.Requests(op)); sent != 2 {
					t.Errorf("sent %d times", sent)
				}
			})
		}
	}
}

func TestARepeatedPutSendsTheWholeBodyAgain(t *testing.T) {
	memory := bucket.NewMemory("files", nil)
	server := s3test.New(t, memory)
	b := bucketOf(t, server.Client(), bucket.Options{})
	server.Fail(s3test.Fault{Op: "put", Times: 2, Do: s3test.Answer(503, "SlowDown")})
	body := strings.NewReader("skipped" + strings.Repeat("content", 1000))
	if _, err := body.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "a", body, "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	object, err := memory.Get(t.Context(), "a", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	if content, _ := io.ReadAll(object.Body); string(content) != strings.Repeat("content", 1000) {
		t.Errorf("stored %d bytes that begin %.20q", len(content), content)
	}
}

func TestAnswersHaveTheirMeaning(t *testing.T) {
	verdicts := []error{bucket.ErrNotFound, bucket.ErrNotModified, bucket.ErrPrecondition, bucket.ErrConflict}
	tests := []struct {
		op        string
		status    int
		code      string
		want      error // one of verdicts, or nil for none of them
		transient bool
		says      string
	}{
		{"get", 404, "NoSuchKey", bucket.ErrNotFound, false, "object not found"},
		{"get", 404, "NoSuchBucket", nil, false, "check the bucket's name"},
		{"get", 404, "", nil, false, "404"}, // a proxy's page, not S3's answer
		{"get", 304, "", bucket.ErrNotModified, false, "not modified"},
		{"get", 412, "PreconditionFailed", bucket.ErrPrecondition, false, "another version"},
		{"get", 403, "AccessDenied", nil, false, "s3:ListBucket"},
		{"get", 403, "InvalidObjectState", nil, false, "restore it"},
		{"get", 301, "PermanentRedirect", nil, false, "set AWS_REGION"},
		{"put", 412, "PreconditionFailed", bucket.ErrPrecondition, false, "another version"},
		{"put", 409, "ConditionalRequestConflict", bucket.ErrConflict, true, "conflicting"},
		{"put", 409, "OperationAborted", bucket.ErrConflict, true, "conflicting"},
		{"put", 404, "NoSuchKey", bucket.ErrNotFound, false, "object not found"},
		{"put", 404, "NoSuchBucket", nil, false, "check the bucket's name"},
		{"put", 403, "AccessDenied", nil, false, "bucket policy"},
		{"put", 400, "EntityTooLarge", nil, false, "EntityTooLarge"},
		{"put", 429, "TooManyRequests", nil, true, "429"},
		{"put", 503, "SlowDown", nil, true, "SlowDown"},
		{"delete", 403, "AccessDenied", nil, false, "allow the caller"},
		{"delete", 404, "NoSuchBucket", nil, false, "check the bucket's name"},
		{"list", 404, "NoSuchBucket", nil, false, "check the bucket's name"},
		{"list", 404, "", nil, false, "404"},
		{"list", 403, "AccessDenied", nil, false, "allow the caller"},
		{"list", 500, "InternalError", nil, true, "InternalError"},
	}
	for _, test := range tests {
		t.Run(strings.Join([]string{test.op, http.StatusText(test.status), test.code}, " "), func(t *testing.T) {
			b, server := open(t, bucket.Options{})
			answer := s3test.Answer(test.status, test.code)
			if test.code == "" {
				answer = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
					w.WriteHeader(test.status)
					if test.status != http.StatusNotModified {
						io.WriteString(w, "<html><body>nothing here</body></html>")
					}
				}
			}
			server.Fail(s3test.Fault{Op: test.op, Times: s3test.Always, Do: answer})
			err := call(t.Context(), b, test.op)

			var failed *bucket.CallError
			if !errors.As(err, &failed) {
				t.Fatalf("got %v", err)
			}
			if failed.Op != test.op || failed.Bucket != "files" || failed.Key != "dir/a" || failed.Status != test.status ||
				failed.ServerTime.IsZero() || test.code != "" && failed.Code != test.code {
				t.Errorf("got %+v", failed)
			}
			for _, verdict := range verdicts {
				if errors.Is(err, verdict) != (verdict == test.want) {
					t.Errorf("is %q: %t", verdict, errors.Is(err, verdict))
				}
			}
			if bucket.Transient(err) != test.transient {
				t.Errorf("transient: %t", bucket.Transient(err))
			}
			for _, part := range []string{test.op, "s3://files/dir/a", test.says} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// call makes a call of this kind on "dir/a", conditional where it can be.
func call(ctx context.Context, b *bucket.Bucket, op string) error {
	var err error
	switch op {
	case "get":
		_, err = b.Get(ctx, "dir/a", bucket.Condition{IfNoneMatch: `"known"`})
	case "put":
		_, err = b.Put(ctx, "dir/a", strings.NewReader("x"), "", bucket.Condition{IfMatch: `"known"`})
	case "delete":
		err = b.Delete(ctx, "dir/a")
	case "list":
		for _, err = range b.List(ctx, bucket.ListOptions{Prefix: "dir/a"}) {
		}
	}
	return err
}

func TestAStoreMaySayThatADeletedObjectWasMissing(t *testing.T) {
	b, server := open(t, bucket.Options{})
	server.Fail(s3test.Fault{Op: "delete", Do: s3test.Answer(404, "NoSuchKey")})
	if err := b.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// Real documents of a 404 echo the key, and a reference to a control character
// makes them unreadable.
func TestAMissingObjectWithAControlCharacterIsMissing(t *testing.T) {
	tests := []struct{ key, document string }{
		{"bell\a", "<Error><Code>NoSuchKey</Code><Key>bell&#x7;</Key></Error>"},
		{"bell\a", "<Error><Code>NoSuchKey</Code><Key>bell\a</Key></Error>"},
		{"\uffff", "<Error><Code>NoSuchKey</Code><Key>\uffff</Key></Error>"},
	}
	for _, test := range tests {
		b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, test.document)
		})
		if _, err := b.Get(t.Context(), test.key, bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("%s: %v", test.document, err)
		}
		if err := call(t.Context(), b, "list"); errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("a listing: %v", err)
		}
	}
	// Any other key's document can be read, so one that cannot is not S3's.
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<!doctype html><p class=x>not found")
	})
	if _, err := b.Get(t.Context(), "new\nline", bucket.Condition{}); err == nil || errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("a page of a proxy: %v", err)
	}
}

func TestACutBodyIsNotAWholeObject(t *testing.T) {
	b, server := open(t, bucket.Options{})
	if _, err := b.Put(t.Context(), "a", strings.NewReader("content"), "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	server.Fail(s3test.Fault{Op: "get", Do: s3test.CutReply(3)})
	object, err := b.Get(t.Context(), "a", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	if content, err := io.ReadAll(object.Body); !errors.Is(err, io.ErrUnexpectedEOF) || object.Size != 7 {
		t.Errorf("read %q of %d bytes, %v", content, object.Size, err)
	}
}

func TestAnErrorNamesItsKeyOnOneLine(t *testing.T) {
	b, _ := open(t, bucket.Options{})
	_, err := b.Get(t.Context(), "a\nlevel=INFO msg=\"all is well\"", bucket.Condition{})
	if text := err.Error(); strings.ContainsAny(text, "\n") || !strings.Contains(text, `a\nlevel=INFO`) {
		t.Errorf("got %s", text)
	}
}

// A write that was held up on the way must meet the condition when it arrives,
// not when it was sent.
func TestALatePutMeetsTheNewVersion(t *testing.T) {
	b, server := open(t, bucket.Options{})
	first, err := b.Put(t.Context(), "a", strings.NewReader("one"), "", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	rival := func() {
		if _, err := b.Put(t.Context(), "a", strings.NewReader("two"), "", bucket.Condition{IfMatch: first.ETag}); err != nil {
			t.Error(err)
		}
	}
	server.Fail(s3test.Fault{Op: "put", Do: s3test.Before(rival)})
	_, err = b.Put(t.Context(), "a", strings.NewReader("late"), "", bucket.Condition{IfMatch: first.ETag})
	if !errors.Is(err, bucket.ErrPrecondition) {
		t.Errorf("got %v", err)
	}
}
