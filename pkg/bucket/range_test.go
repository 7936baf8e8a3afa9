package bucket_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// What an endpoint answers instead of the part must not pass for the part.
func TestAnAnswerThatIsNotThePartIsAnError(t *testing.T) {
	const content = "0123456789"
	answer := func(status int, contentRange, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if contentRange != "" {
				w.Header().Set("Content-Range", contentRange)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	tests := []struct {
		name           string
		offset, length int64
		handle         http.HandlerFunc
		says           string
	}{
		{"the whole object", 3, 4, answer(200, "", content), "does not serve ranges"},
		{"the whole object, where all that follows was asked for", 3, 0, answer(200, "", content), "does not serve ranges"},
		{"the whole object, where all of it was asked for", 0, 10, answer(200, "", content), "does not serve ranges"},
		{"the part with the status of a whole", 3, 4, answer(200, "bytes 3-6/10", "3456"), "does not serve ranges"},
		{"another start", 3, 4, answer(206, "bytes 2-6/10", "23456"), "bytes 2-6/10"},
		{"another end", 3, 4, answer(206, "bytes 3-7/10", "34567"), "bytes 3-7/10"},
		{"less than all that follows", 3, 0, answer(206, "bytes 3-6/10", "3456"), "bytes 3-6/10"},
		{"an object that ends within the part", 8, 4, answer(206, "bytes 8-9/10", "89"), "bytes 8-9/10"},
		{"another length than its own range", 3, 4, answer(206, "bytes 3-6/10", "34"), "of 2 bytes"},
		{"no Content-Range", 3, 4, answer(206, "", "3456"), `Content-Range ""`},
		{"a range of other units", 3, 4, answer(206, "lines 3-6/10", "3456"), "lines"},
		{"a range that does not say of how many", 3, 0, answer(206, "bytes 3-9/*", "3456789"), "bytes 3-9/*"},
		{"no such range", 3, 4, answer(416, "bytes */2", "<Error><Code>InvalidRange</Code></Error>"), "shorter than its reader expects"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := serve(t, test.handle)
			object, err := b.GetRange(t.Context(), "dir/a", bucket.Condition{}, test.offset, test.length)
			if err == nil {
				part, _ := io.ReadAll(object.Body)
				t.Fatalf("got %q", part)
			}
			var failed *bucket.CallError
			if !errors.As(err, &failed) || failed.Op != "get" || failed.Status == 0 || failed.ServerTime.IsZero() {
				t.Errorf("got %+v", failed)
			}
			if !errors.Is(err, bucket.ErrRange) || bucket.Transient(err) {
				t.Errorf("is ErrRange: %t, transient: %t", errors.Is(err, bucket.ErrRange), bucket.Transient(err))
			}
			for _, part := range []string{"get s3://files/dir/a", test.says} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestACutRangeIsNotThePart(t *testing.T) {
	b, server := open(t, bucket.Options{})
	if _, err := b.Put(t.Context(), "a", strings.NewReader("0123456789"), "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	server.Fail(s3test.Fault{Op: "get", Do: s3test.CutReply(2)})
	object, err := b.GetRange(t.Context(), "a", bucket.Condition{}, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	if part, err := io.ReadAll(object.Body); !errors.Is(err, io.ErrUnexpectedEOF) || object.Size != 4 {
		t.Errorf("read %q of %d bytes, %v", part, object.Size, err)
	}
}

func TestARangeIsAskedForAgainAfterAPassingFailure(t *testing.T) {
	for _, test := range passing {
		t.Run(test.name, func(t *testing.T) {
			b, server := open(t, bucket.Options{})
			if _, err := b.Put(t.Context(), "a", strings.NewReader("0123456789"), "", bucket.Condition{}); err != nil {
				t.Fatal(err)
			}
			server.Fail(s3test.Fault{Op: "get", Do: test.do})
			object, err := b.GetRange(t.Context(), "a", bucket.Condition{}, 3, 4)
			if err != nil {
				t.Fatal(err)
			}
			defer object.Body.Close()
			if part, err := io.ReadAll(object.Body); string(part) != "3456" || err != nil {
				t.Errorf("got %q, %v", part, err)
			}
		})
	}
}
