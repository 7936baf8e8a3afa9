package buckettest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var conditions = []rule{
	{"a known version is not read again", func(t *testing.T, s Store) {
		written := put(t, s, "a", "one")
		_, err := s.Get(t.Context(), "a", bucket.Condition{IfNoneMatch: written.ETag})
		if !errors.Is(err, bucket.ErrNotModified) {
			t.Fatalf("got %v", err)
		}
		if _, ok := bucket.ServerTime(err); !ok {
			t.Errorf("no server time in %v", err)
		}
		put(t, s, "a", "two")
		object, err := s.Get(t.Context(), "a", bucket.Condition{IfNoneMatch: written.ETag})
		if err != nil {
			t.Fatalf("after a change: %v", err)
		}
		object.Body.Close()
	}},
	{"a pinned version is read or refused", func(t *testing.T, s Store) {
		written := put(t, s, "a", "one")
		object, err := s.Get(t.Context(), "a", bucket.Condition{IfMatch: written.ETag})
		if err != nil {
			t.Fatal(err)
		}
		object.Body.Close()
		put(t, s, "a", "two")
		_, err = s.Get(t.Context(), "a", bucket.Condition{IfMatch: written.ETag})
		refusedWithTime(t, err, bucket.ErrPrecondition)
	}},
	{"a listed version can be pinned", func(t *testing.T, s Store) {
		put(t, s, "a", "one")
		entry := list(t, s, bucket.ListOptions{})[0].Entries[0]
		object, err := s.Get(t.Context(), "a", bucket.Condition{IfMatch: entry.ETag})
		if err != nil {
			t.Fatal(err)
		}
		object.Body.Close()
		if entry.ETag != object.ETag || entry.Size != object.Size {
			t.Errorf("listed as %s of %d bytes, read as %s of %d bytes", entry.ETag, entry.Size, object.ETag, object.Size)
		}
	}},
	{"create only creates", func(t *testing.T, s Store) {
		create := bucket.Condition{IfNoneMatch: "*"}
		if _, err := swap(t, s, "a", "one", create); err != nil {
			t.Fatal(err)
		}
		_, err := swap(t, s, "a", "two", create)
		refusedWithTime(t, err, bucket.ErrPrecondition)
		holds(t, s, "a", "one")
	}},
	{"swap replaces only the version it names", func(t *testing.T, s Store) {
		first := put(t, s, "a", "one")
		second, err := swap(t, s, "a", "two", bucket.Condition{IfMatch: first.ETag})
		if err != nil {
			t.Fatal(err)
		}
		_, err = swap(t, s, "a", "three", bucket.Condition{IfMatch: first.ETag})
		refusedWithTime(t, err, bucket.ErrPrecondition)
		holds(t, s, "a", "two")
		if _, err := swap(t, s, "a", "three", bucket.Condition{IfMatch: second.ETag}); err != nil {
			t.Error(err)
		}
	}},
	{"swap of a missing object creates nothing", func(t *testing.T, s Store) {
		written := put(t, s, "a", "one")
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		_, err := swap(t, s, "a", "two", bucket.Condition{IfMatch: written.ETag})
		refusedWithTime(t, err, bucket.ErrNotFound)
		if _, err := s.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("get: %v", err)
		}
	}},
	{"a condition that S3 does not implement is refused", func(t *testing.T, s Store) {
		written := put(t, s, "a", "one")
		for _, c := range []bucket.Condition{
			{IfNoneMatch: written.ETag}, {IfMatch: "*"}, {IfMatch: written.ETag, IfNoneMatch: "*"},
		} {
			if _, err := swap(t, s, "a", "two", c); err == nil || bucket.Transient(err) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		holds(t, s, "a", "one")
	}},
}

// races are between clients of one store; the store has to order them.
var races = []rule{
	{"of many creators one wins", func(t *testing.T, s Store) {
		oneWins(t, s, bucket.Condition{IfNoneMatch: "*"})
	}},
	{"of many swappers one wins", func(t *testing.T, s Store) {
		written := put(t, s, "a", "start")
		oneWins(t, s, bucket.Condition{IfMatch: written.ETag})
	}},
}

func oneWins(t *testing.T, s Store, c bucket.Condition) {
	const rivals = 8
	errs := make([]error, rivals)
	var group sync.WaitGroup
	for i := range rivals {
		group.Go(func() { _, errs[i] = swap(t, s, "a", fmt.Sprint("rival ", i), c) })
	}
	group.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("rivals %d and %d both won", winner, i)
		case !errors.Is(err, bucket.ErrPrecondition) && !errors.Is(err, bucket.ErrConflict):
			t.Errorf("rival %d: %v", i, err)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	holds(t, s, "a", fmt.Sprint("rival ", winner))
}

func swap(t *testing.T, s Store, key, content string, c bucket.Condition) (bucket.Written, error) {
	return s.Put(t.Context(), key, strings.NewReader(content), "", c)
}

func holds(t *testing.T, s Store, key, want string) {
	t.Helper()
	if _, content := get(t, s, key); content != want {
		t.Errorf("%q holds %q, want %q", key, content, want)
	}
}

func refusedWithTime(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	if _, ok := bucket.ServerTime(err); !ok {
		t.Errorf("no server time in %v", err)
	}
}
