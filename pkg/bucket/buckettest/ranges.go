package buckettest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var ranges = []rule{
	{"a range is exactly that part", func(t *testing.T, s Store) {
		const content = "0123456789"
		written := put(t, s, "a", content)
		for _, test := range []struct {
			name           string
			offset, length int64
			want           string
		}{
			{"the first byte", 0, 1, "0"},
			{"the first bytes", 0, 4, "0123"},
			{"the middle", 3, 4, "3456"},
			{"the last byte", 9, 1, "9"},
			{"the last bytes", 6, 4, "6789"},
			{"the whole", 0, 10, content},
			{"the whole, without saying how long it is", 0, 0, content},
			{"from the middle to the end", 7, 0, "789"},
			{"from the last byte to the end", 9, 0, "9"},
		} {
			t.Run(test.name, func(t *testing.T) {
				object, part := getRange(t, s, "a", bucket.Condition{}, test.offset, test.length)
				if part != test.want || object.Size != int64(len(test.want)) {
					t.Errorf("got %q of size %d, want %q", part, object.Size, test.want)
				}
				if object.Key != "a" || object.ETag != written.ETag || object.ServerTime.IsZero() || object.LastModified.IsZero() {
					t.Errorf("got %+v, of the object with ETag %s", object, written.ETag)
				}
			})
		}
	}},
	{"a range that the object does not have is refused", func(t *testing.T, s Store) {
		put(t, s, "a", "0123456789")
		put(t, s, "empty", "")
		for _, test := range []struct {
			key            string
			offset, length int64
		}{
			{"a", 10, 0}, {"a", 10, 1}, {"a", 11, 5}, {"a", 9, 2}, {"a", 0, 11}, {"a", 1 << 40, 1 << 40},
			{"empty", 0, 1}, {"empty", 1, 0},
		} {
			err := rangeError(t, s, test.key, bucket.Condition{}, test.offset, test.length)
			if !errors.Is(err, bucket.ErrRange) || errors.Is(err, bucket.ErrNotFound) || bucket.Transient(err) {
				t.Errorf("%d bytes of %q from %d on: %v", test.length, test.key, test.offset, err)
			}
		}
	}},
	{"a range that cannot be is refused", func(t *testing.T, s Store) {
		put(t, s, "a", "0123456789")
		for _, test := range [][2]int64{{-1, 0}, {-1, 5}, {0, -1}, {5, -5}, {1 << 62, 1 << 62}} {
			if err := rangeError(t, s, "a", bucket.Condition{}, test[0], test[1]); err == nil || bucket.Transient(err) {
				t.Errorf("%d bytes from %d on: %v", test[1], test[0], err)
			}
		}
	}},
	{"an empty object has an empty whole", func(t *testing.T, s Store) {
		put(t, s, "empty", "")
		if object, part := getRange(t, s, "empty", bucket.Condition{}, 0, 0); part != "" || object.Size != 0 {
			t.Errorf("got %q of size %d", part, object.Size)
		}
	}},
	{"a range of a pinned version is read or refused", func(t *testing.T, s Store) {
		written := put(t, s, "a", "0123456789")
		if _, part := getRange(t, s, "a", bucket.Condition{IfMatch: written.ETag}, 2, 3); part != "234" {
			t.Errorf("got %q", part)
		}
		refusedWithTime(t, rangeError(t, s, "a", bucket.Condition{IfNoneMatch: written.ETag}, 2, 3), bucket.ErrNotModified)
		put(t, s, "a", "changed, and longer")
		refusedWithTime(t, rangeError(t, s, "a", bucket.Condition{IfMatch: written.ETag}, 2, 3), bucket.ErrPrecondition)
		if _, part := getRange(t, s, "a", bucket.Condition{IfNoneMatch: written.ETag}, 2, 3); part != "ang" {
			t.Errorf("got %q", part)
		}
	}},
	{"a range of an object that is not there tells the time", func(t *testing.T, s Store) {
		refusedWithTime(t, rangeError(t, s, "a", bucket.Condition{}, 2, 3), bucket.ErrNotFound)
	}},
	{"a range of many pieces is the whole", func(t *testing.T, s Store) {
		content := make([]byte, 300_000)
		for i := range content {
			content[i] = byte(i % 251)
		}
		put(t, s, "a", string(content))
		const piece = 70_000
		var got []byte
		for offset := int64(0); offset < int64(len(content)); offset += piece {
			_, part := getRange(t, s, "a", bucket.Condition{}, offset, min(piece, int64(len(content))-offset))
			got = append(got, part...)
		}
		if string(got) != string(content) {
			t.Errorf("%d bytes of %d came, or others", len(got), len(content))
		}
	}},
	{"a cancelled range says why", func(t *testing.T, s Store) {
		put(t, s, "a", "0123456789")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.GetRange(ctx, "a", bucket.Condition{}, 2, 3); !errors.Is(err, context.Canceled) || bucket.Transient(err) {
			t.Errorf("got %v", err)
		}
	}},
}

// getRange reads a part of the object at key, which must succeed.
func getRange(t *testing.T, s Store, key string, c bucket.Condition, offset, length int64) (*bucket.Object, string) {
	t.Helper()
	object, err := s.GetRange(t.Context(), key, c, offset, length)
	if err != nil {
		t.Fatalf("get %d bytes of %q from %d on: %v", length, key, offset, err)
	}
	defer object.Body.Close()
	part, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	return object, string(part)
}

// rangeError asks for a part of an object, which should fail.
func rangeError(t *testing.T, s Store, key string, c bucket.Condition, offset, length int64) error {
	t.Helper()
	object, err := s.GetRange(t.Context(), key, c, offset, length)
	if err != nil {
		return err
	}
	defer object.Body.Close()
	part, err := io.ReadAll(object.Body)
	t.Logf("the answer is %.40q, %v", part, err)
	return nil
}
