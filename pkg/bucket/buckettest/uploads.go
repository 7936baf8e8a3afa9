package buckettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// uploadPart is how much of an upload goes into one of its parts.
const uploadPart = 8 << 20

var uploads = []rule{
	{"an upload is read as it was written", func(t *testing.T, s Store) {
		for _, size := range []int{0, 1, uploadPart, 2*uploadPart + 12345} {
			key, content := fmt.Sprint("size/", size), contentOf(size)
			written := upload(t, s, key, strings.NewReader(content))
			object, got := get(t, s, key)
			if got != content || object.Size != int64(size) {
				t.Errorf("%d bytes were sent, %d came back, or others", size, len(got))
			}
			if written.ETag == "" || written.ETag != object.ETag || written.ServerTime.IsZero() {
				t.Errorf("%d bytes: written %+v, read with ETag %s", size, written, object.ETag)
			}
			entry := list(t, s, bucket.ListOptions{Prefix: key})[0].Entries[0]
			if entry.ETag != written.ETag || entry.Size != int64(size) {
				t.Errorf("%d bytes: listed as %+v, written as %s", size, entry, written.ETag)
			}
		}
		if got := keysOf(list(t, s, bucket.ListOptions{})...); len(got) != 4 {
			t.Errorf("the bucket holds %q", got)
		}
	}},
	{"an upload has ranges across its parts", func(t *testing.T, s Store) {
		content := contentOf(uploadPart + 1000)
		written := upload(t, s, "a", strings.NewReader(content))
		for _, r := range [][2]int64{{0, 10}, {uploadPart - 5, 10}, {uploadPart, 1000}, {uploadPart + 999, 1}, {uploadPart - 1, 0}} {
			end := r[0] + r[1]
			if r[1] == 0 {
				end = int64(len(content))
			}
			if _, got := getRange(t, s, "a", bucket.Condition{IfMatch: written.ETag}, r[0], r[1]); got != content[r[0]:end] {
				t.Errorf("%d bytes from %d on: %d bytes, or others", r[1], r[0], len(got))
			}
		}
	}},
	{"an upload is a version like any other", func(t *testing.T, s Store) {
		first := put(t, s, "a", "one")
		second := upload(t, s, "a", strings.NewReader(contentOf(uploadPart)))
		refusedWithTime(t, getError(t, s, "a", bucket.Condition{IfMatch: first.ETag}), bucket.ErrPrecondition)
		refusedWithTime(t, getError(t, s, "a", bucket.Condition{IfNoneMatch: second.ETag}), bucket.ErrNotModified)
		if _, err := swap(t, s, "a", "three", bucket.Condition{IfMatch: second.ETag}); err != nil {
			t.Errorf("swap of an upload: %v", err)
		}
		third := upload(t, s, "a", strings.NewReader("small"))
		if _, err := swap(t, s, "a", "four", bucket.Condition{IfMatch: third.ETag}); err != nil {
			t.Errorf("swap of a small upload: %v", err)
		}
		holds(t, s, "a", "four")
	}},
	{"uploads with other contents have other ETags", func(t *testing.T, s Store) {
		one := upload(t, s, "a", strings.NewReader(contentOf(uploadPart)+"one"))
		two := upload(t, s, "a", strings.NewReader(contentOf(uploadPart)+"two"))
		if one.ETag == two.ETag {
			t.Errorf("both have %s", one.ETag)
		}
	}},
	{"an upload takes its body as it comes", func(t *testing.T, s Store) {
		content := contentOf(uploadPart + 77)
		upload(t, s, "halves", iotest.HalfReader(strings.NewReader(content)))
		upload(t, s, "end with the data", iotest.DataErrReader(strings.NewReader(content)))
		body := strings.NewReader(content)
		if _, err := body.Seek(uploadPart, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		upload(t, s, "from where it stands", body)
		for key, want := range map[string]string{"halves": content, "end with the data": content, "from where it stands": content[uploadPart:]} {
			if _, got := get(t, s, key); got != want {
				t.Errorf("%s: %d bytes of %d, or others", key, len(got), len(want))
			}
		}
	}},
	{"an upload from a pipe ends with what was written", func(t *testing.T, s Store) {
		content := contentOf(uploadPart + 77)
		reader, writer := io.Pipe()
		go func() {
			_, err := io.Copy(writer, strings.NewReader(content))
			writer.CloseWithError(err)
		}()
		upload(t, s, "a", reader)
		if _, got := get(t, s, "a"); got != content {
			t.Errorf("%d bytes of %d, or others", len(got), len(content))
		}
	}},
	{"an upload whose body fails changes nothing", func(t *testing.T, s Store) {
		boom := errors.New("boom")
		put(t, s, "old", "content")
		for _, good := range []int{0, 5, uploadPart, 2*uploadPart + 5} {
			for _, key := range []string{"old", "new"} {
				body := io.MultiReader(strings.NewReader(contentOf(good)), iotest.ErrReader(boom))
				if _, err := s.Upload(t.Context(), key, body, ""); !errors.Is(err, boom) || bucket.Transient(err) {
					t.Errorf("%s, after %d bytes: %v", key, good, err)
				}
			}
		}
		holds(t, s, "old", "content")
		if got := keysOf(list(t, s, bucket.ListOptions{})...); len(got) != 1 {
			t.Errorf("the bucket holds %q", got)
		}
	}},
	{"a cancelled upload changes nothing and says why", func(t *testing.T, s Store) {
		for _, good := range []int{0, 5, uploadPart + 5} {
			ctx, cancel := context.WithCancel(t.Context())
			cancelling := readerFunc(func([]byte) (int, error) {
				cancel()
				return 0, io.EOF
			})
			body := io.MultiReader(strings.NewReader(contentOf(good)), cancelling)
			if _, err := s.Upload(ctx, "a", body, ""); !errors.Is(err, context.Canceled) || bucket.Transient(err) {
				t.Errorf("after %d bytes: %v", good, err)
			}
		}
		if _, err := s.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}},
	{"uploads to one key do not mix", func(t *testing.T, s Store) {
		const rivals = 3
		etags := make([]string, rivals)
		var group sync.WaitGroup
		for i := range rivals {
			group.Go(func() {
				written, err := s.Upload(t.Context(), "a", strings.NewReader(strings.Repeat(fmt.Sprint(i), uploadPart+i)), "")
				if err != nil {
					t.Errorf("rival %d: %v", i, err)
				}
				etags[i] = written.ETag
			})
		}
		group.Wait()
		object, got := get(t, s, "a")
		winner := len(got) - uploadPart
		if winner < 0 || winner >= rivals || got != strings.Repeat(fmt.Sprint(winner), uploadPart+winner) || object.ETag != etags[winner] {
			t.Errorf("%d bytes with ETag %s, of uploads with %q", len(got), object.ETag, etags)
		}
	}},
	{"an upload to a hostile key makes the round trip", func(t *testing.T, s Store) {
		content := contentOf(uploadPart)
		for _, key := range []string{"/a//b/../c/ 😀", "a b+c%2F?d&e#f;g=h\n\x01"} {
			upload(t, s, key, strings.NewReader(content))
			if _, got := get(t, s, key); got != content {
				t.Errorf("%q: %d bytes, or others", key, len(got))
			}
		}
	}},
	{"an upload without a key is refused", func(t *testing.T, s Store) {
		if _, err := s.Upload(t.Context(), "", strings.NewReader("x"), ""); err == nil || bucket.Transient(err) {
			t.Errorf("got %v", err)
		}
	}},
}

// upload writes all of body to key, which must succeed.
func upload(t *testing.T, s Store, key string, body io.Reader) bucket.Written {
	t.Helper()
	written, err := s.Upload(t.Context(), key, body, "text/plain")
	if err != nil {
		t.Fatalf("upload %q: %v", key, err)
	}
	return written
}

func getError(t *testing.T, s Store, key string, c bucket.Condition) error {
	t.Helper()
	object, err := s.Get(t.Context(), key, c)
	if err == nil {
		object.Body.Close()
	}
	return err
}

// contentOf is size bytes, no two parts of which are the same.
func contentOf(size int) string { return longContent()[:size] }

var longContent = sync.OnceValue(func() string {
	b := make([]byte, 3*uploadPart)
	rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
})

type readerFunc func(p []byte) (int, error)

// Read is io.Reader.Read.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
