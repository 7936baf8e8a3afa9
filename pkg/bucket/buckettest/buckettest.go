// Package buckettest is what every bucket has to do, whoever serves it: one
// suite for bucket.Memory, for an SDK client against a test server, and for
// any S3-compatible store.
//
// It checks what a working store does. What a client makes of a broken one is
// tested beside the client, with s3test's faults.
package buckettest

import (
	"context"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Store is a bucket under test.
type Store interface {
	Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error)
	GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error)
	Head(ctx context.Context, key string) (*bucket.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error)
	PutWith(ctx context.Context, key string, body io.ReadSeeker, o bucket.PutOptions) (bucket.Written, error)
	Upload(ctx context.Context, key string, body io.Reader, contentType string) (bucket.Written, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error]
}

type rule struct {
	name  string
	check func(t *testing.T, s Store)
}

// Run holds the stores that open returns to the rules. Each call of open must
// return an empty bucket.
func Run(t *testing.T, open func(t *testing.T) Store) {
	groups := []struct {
		name  string
		rules []rule
	}{
		{"objects", objects}, {"metadata", metadata}, {"ranges", ranges}, {"uploads", uploads}, {"conditions", conditions}, {"races", races},
		{"listings", listings}, {"keys", keys},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, r := range group.rules {
				t.Run(r.name, func(t *testing.T) { r.check(t, open(t)) })
			}
		})
	}
}

// put writes content at key, which must succeed.
func put(t *testing.T, s Store, key, content string) bucket.Written {
	t.Helper()
	written, err := s.Put(t.Context(), key, strings.NewReader(content), "text/plain", bucket.Condition{})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return written
}

// get reads the object at key, which must succeed.
func get(t *testing.T, s Store, key string) (*bucket.Object, string) {
	t.Helper()
	object, err := s.Get(t.Context(), key, bucket.Condition{})
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	defer object.Body.Close()
	content, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	return object, string(content)
}

// list returns every page of a listing, which must succeed.
func list(t *testing.T, s Store, o bucket.ListOptions) []bucket.Page {
	t.Helper()
	var pages []bucket.Page
	for page, err := range s.List(t.Context(), o) {
		if err != nil {
			t.Fatalf("list %+v: %v", o, err)
		}
		if page.ServerTime.IsZero() {
			t.Errorf("list %+v: a page without the server's time", o)
		}
		pages = append(pages, page)
	}
	for i, page := range pages {
		if page.Last != (i == len(pages)-1) {
			t.Errorf("list %+v: page %d of %d has Last %t", o, i+1, len(pages), page.Last)
		}
	}
	if len(pages) == 0 {
		t.Fatalf("list %+v: no page", o)
	}
	return pages
}

func keysOf(pages ...bucket.Page) []string {
	var keys []string
	for _, page := range pages {
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
	}
	return keys
}
