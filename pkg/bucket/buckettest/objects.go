package buckettest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var objects = []rule{
	{"an object is read as it was written", func(t *testing.T, s Store) {
		written := put(t, s, "a", "content")
		object, content := get(t, s, "a")
		if content != "content" || object.Size != 7 || object.Key != "a" {
			t.Errorf("got %q of size %d at %q", content, object.Size, object.Key)
		}
		if object.ETag == "" || object.ETag != written.ETag {
			t.Errorf("put said ETag %s, get said %s", written.ETag, object.ETag)
		}
		for what, at := range map[string]time.Time{"put": written.ServerTime, "get": object.ServerTime} {
			if at.IsZero() || at.Nanosecond() != 0 {
				t.Errorf("%s said server time %v", what, at)
			}
		}
		if age := object.ServerTime.Sub(object.LastModified); age < -time.Second || age > time.Minute {
			t.Errorf("modified at %v, by a server whose clock says %v", object.LastModified, object.ServerTime)
		}
	}},
	{"an empty object is an object", func(t *testing.T, s Store) {
		put(t, s, "empty", "")
		if object, content := get(t, s, "empty"); content != "" || object.Size != 0 {
			t.Errorf("got %q of size %d", content, object.Size)
		}
	}},
	{"a body is written from where it stands", func(t *testing.T, s Store) {
		body := strings.NewReader("head-tail")
		if _, err := body.Seek(5, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), "a", body, "", bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, content := get(t, s, "a"); content != "tail" {
			t.Errorf("got %q", content)
		}
	}},
	{"a second write replaces the first", func(t *testing.T, s Store) {
		first, second := put(t, s, "a", "one"), put(t, s, "a", "two")
		if _, content := get(t, s, "a"); content != "two" {
			t.Errorf("got %q", content)
		}
		if first.ETag == second.ETag {
			t.Errorf("both versions have ETag %s", first.ETag)
		}
	}},
	{"an object that is not there tells the time", func(t *testing.T, s Store) {
		_, err := s.Get(t.Context(), "a", bucket.Condition{})
		if !errors.Is(err, bucket.ErrNotFound) {
			t.Fatalf("got %v", err)
		}
		if at, ok := bucket.ServerTime(err); !ok || at.IsZero() {
			t.Errorf("no server time in %v", err)
		}
	}},
	{"a deleted object is not there, and may be deleted again", func(t *testing.T, s Store) {
		put(t, s, "a", "content")
		for range 2 {
			if err := s.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}},
	{"a cancelled call does nothing and says why", func(t *testing.T, s Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, putErr := s.Put(ctx, "a", strings.NewReader("content"), "", bucket.Condition{})
		_, getErr := s.Get(ctx, "a", bucket.Condition{})
		calls := map[string]error{"put": putErr, "get": getErr, "delete": s.Delete(ctx, "a")}
		for page, err := range s.List(ctx, bucket.ListOptions{}) {
			calls["list"] = err
			if page.Last {
				t.Error("a cancelled listing gave its last page")
			}
		}
		for _, op := range []string{"put", "get", "delete", "list"} {
			if err := calls[op]; !errors.Is(err, context.Canceled) || bucket.Transient(err) {
				t.Errorf("%s: got %v, transient %t", op, err, bucket.Transient(err))
			}
		}
		if _, err := s.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("the cancelled put: %v", err)
		}
	}},
}
