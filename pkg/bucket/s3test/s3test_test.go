package s3test_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

func open(t *testing.T) (*bucket.Bucket, *s3test.Server) {
	t.Helper()
	server := s3test.New(t, bucket.NewMemory("files", nil))
	b, err := bucket.New(server.Client(), "files", bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b, server
}

func put(ctx context.Context, b *bucket.Bucket, key, content string, c bucket.Condition) error {
	_, err := b.Put(ctx, key, strings.NewReader(content), "", c)
	return err
}

func TestTimeInABubbleIsTheServersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := open(t)
		written, err := b.Put(t.Context(), "a", strings.NewReader("one"), "", bucket.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour) // by the bubble's clock
		object, err := b.Get(t.Context(), "a", bucket.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		object.Body.Close()
		if passed := object.ServerTime.Sub(written.ServerTime); passed != 3*time.Hour {
			t.Errorf("%v passed for the server", passed)
		}
	})
}

func TestAHeldWriteLandsAfterItsClientGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := open(t)
		release := make(chan struct{})
		server.Fail(s3test.Fault{Op: "put", Do: s3test.Hold(release)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := put(ctx, b, "a", "late", bucket.Condition{IfNoneMatch: "*"}); !errors.Is(err, context.DeadlineExceeded) || !bucket.Transient(err) {
			t.Errorf("put: %v", err)
		}
		if _, err := b.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("get while the put is held: %v", err)
		}
		close(release)
		synctest.Wait()
		if err := put(t.Context(), b, "a", "next", bucket.Condition{IfNoneMatch: "*"}); !errors.Is(err, bucket.ErrPrecondition) {
			t.Errorf("put after the held one: %v", err)
		}
	})
}

func TestFaultsHitTheRequestsTheyName(t *testing.T) {
	b, server := open(t)
	conflict := s3test.Answer(409, "ConditionalRequestConflict")
	server.Fail(s3test.Fault{Op: "put", Key: "a", After: 1, Times: 2, Do: conflict})
	create := bucket.Condition{IfNoneMatch: "*"}
	for i, test := range []struct {
		key  string
		want error
	}{
		{"b", nil}, {"a", nil}, {"a", bucket.ErrConflict}, {"c", nil}, {"a", bucket.ErrConflict}, {"a", bucket.ErrPrecondition},
	} {
		if err := put(t.Context(), b, test.key, "x", create); !errors.Is(err, test.want) {
			t.Errorf("put %d, %s: %v, want %v", i, test.key, err, test.want)
		}
	}
	server.Fail(s3test.Fault{Times: s3test.Always, Do: conflict})
	server.Heal()
	if err := b.Delete(t.Context(), "a"); err != nil {
		t.Errorf("after healing: %v", err)
	}
	if got := server.Requests("put"); len(got) != 6 || got[0].Key != "b" || got[0].Header.Get("If-None-Match") != "*" {
		t.Errorf("recorded %+v", got)
	}
}

func TestTheMemorysOwnFaultsCrossTheWire(t *testing.T) {
	memory := bucket.NewMemory("files", nil)
	server := s3test.New(t, memory)
	b, err := bucket.New(server.Client(), "files", bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	memory.Fault(nil, func(string, string) error { return errors.New("reply lost") })
	if err := put(t.Context(), b, "a", "x", bucket.Condition{IfNoneMatch: "*"}); err == nil || !bucket.Transient(err) {
		t.Errorf("lost reply: %v", err)
	}
	memory.Fault(func(string, string) error { return bucket.ErrConflict }, nil)
	if err := put(t.Context(), b, "a", "x", bucket.Condition{IfNoneMatch: "*"}); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("conflict: %v", err)
	}
}

func TestWhatIsNotServedSaysSo(t *testing.T) {
	_, server := open(t)
	for _, test := range []struct {
		method, target, header string
		status                 int
		code                   string
	}{
		{"GET", "/files", "", 501, "NotImplemented"},
		{"GET", "/files?list-type=2&delimiter=/", "", 501, "NotImplemented"},
		{"GET", "/files?list-type=2&max-keys=many", "", 400, "InvalidArgument"},
		{"GET", "/files?list-type=2&continuation-token=%21", "", 400, "InvalidArgument"},
		{"GET", "/files/a?versionId=1", "", 404, "NoSuchVersion"},
		{"POST", "/files/a?restore", "", 501, "NotImplemented"},
		{"GET", "/files/a?uploadId=1", "", 501, "NotImplemented"},
		{"GET", "/files?uploads", "", 501, "NotImplemented"},
		{"PUT", "/files/a?partNumber=1&uploadId=upload-7", "", 404, "NoSuchUpload"},
		{"PUT", "/files/a?partNumber=0&uploadId=upload-7", "", 400, "InvalidArgument"},
		{"DELETE", "/files/a?uploadId=upload-7", "", 404, "NoSuchUpload"},
		{"POST", "/files/a?uploadId=upload-7", "", 400, "MalformedXML"},
		{"PUT", "/files/a", "X-Amz-Copy-Source", 501, "NotImplemented"},
		{"PUT", "/files/a", "If-None-Match", 501, "NotImplemented"},
		{"GET", "/other/a", "", 404, "NoSuchBucket"},
		{"GET", "/files/a", "", 404, "NoSuchKey"},
	} {
		r := httptest.NewRequest(test.method, test.target, http.NoBody)
		if test.header != "" {
			r.Header.Set(test.header, `"x"`)
		}
		reply := httptest.NewRecorder()
		server.ServeHTTP(reply, r)
		if want := fmt.Sprintf("<Code>%s</Code>", test.code); reply.Code != test.status || !strings.Contains(reply.Body.String(), want) {
			t.Errorf("%s %s: %d %s, want %d %s", test.method, test.target, reply.Code, reply.Body, test.status, test.code)
		}
	}
}
