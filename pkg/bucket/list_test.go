package bucket_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// fill writes n objects below "p/".
func fill(t *testing.T, b *bucket.Bucket, n int) {
	t.Helper()
	for i := range n {
		if _, err := b.Put(t.Context(), fmt.Sprintf("p/%02d", i), strings.NewReader(""), "", bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// incomplete reads a listing that has to end in an error, and returns its keys
// and the error.
func incomplete(t *testing.T, b *bucket.Bucket, o bucket.ListOptions) ([]string, error) {
	t.Helper()
	var keys []string
	var failed error
	pages := 0
	for page, err := range b.List(t.Context(), o) {
		if pages++; pages > 100 {
			t.Fatal("the listing does not end")
		}
		if failed != nil {
			t.Errorf("the listing went on after %v", failed)
		}
		if page.Last {
			t.Errorf("the listing claims to be complete with %d keys", len(keys)+len(page.Entries))
		}
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
		failed = err
	}
	if failed == nil {
		t.Error("the listing ended without an error")
	}
	return keys, failed
}

func TestAListingThatFailsOnPageSevenIsNotComplete(t *testing.T) {
	faults := map[string]s3test.Failure{
		"500":          s3test.Answer(500, "InternalError"),
		"503":          s3test.Answer(503, "SlowDown"),
		"403":          s3test.Answer(403, "AccessDenied"),
		"request lost": s3test.LoseRequest,
		"body cut":     s3test.CutReply(100),
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			b, server := open(t, bucket.Options{})
			fill(t, b, 20)
			server.Fail(s3test.Fault{Op: "list", After: 6, Times: s3test.Always, Do: fault})
			keys, err := incomplete(t, b, bucket.ListOptions{Prefix: "p/", PageSize: 2})
			if len(keys) != 12 {
				t.Errorf("%d keys before the error", len(keys))
			}
			var failed *bucket.CallError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), "page 7") {
				t.Errorf("got %v", err)
			}
			if transient := name != "403"; bucket.Transient(err) != transient {
				t.Errorf("transient: %t, %v", !transient, err)
			}
		})
	}
}

// Wherever a page ends before its time, and even when HTTP calls it whole, it
// must not pass for the end of the listing.
func TestAPageCutAnywhereIsNotTheLast(t *testing.T) {
	memory := bucket.NewMemory("files", nil)
	server := s3test.New(t, memory)
	b := bucketOf(t, server.Client(), bucket.Options{})
	fill(t, b, 1)
	reply := httptest.NewRecorder()
	server.ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/files?list-type=2&encoding-type=url", nil))
	whole := reply.Body.Bytes()
	if !bytes.Contains(whole, []byte("<IsTruncated>false</IsTruncated>")) {
		t.Fatalf("not one whole page: %s", whole)
	}
	for n := range len(whole) {
		server.Fail(s3test.Fault{Op: "list", Times: s3test.Always, Do: s3test.ShortReply(n)})
		if _, err := incomplete(t, b, bucket.ListOptions{}); t.Failed() {
			t.Fatalf("cut after %q: %v", whole[:n], err)
		}
		server.Heal()
	}
}

func TestAListingThatBreaksItsRulesIsNotComplete(t *testing.T) {
	page := func(truncated, token string, keys ...string) string {
		var b strings.Builder
		b.WriteString("<ListBucketResult>")
		if truncated != "" {
			fmt.Fprintf(&b, "<IsTruncated>%s</IsTruncated>", truncated)
		}
		if token != "" {
			fmt.Fprintf(&b, "<NextContinuationToken>%s</NextContinuationToken>", token)
		}
		for _, key := range keys {
			fmt.Fprintf(&b, "<Contents><Key>%s</Key></Contents>", key)
		}
		return b.String() + "</ListBucketResult>"
	}
	encoded := func(page string) string {
		return strings.Replace(page, "<IsTruncated>", "<EncodingType>url</EncodingType><IsTruncated>", 1)
	}
	tests := []struct {
		name    string
		options bucket.ListOptions
		pages   []string
		says    string
	}{
		{"truncated without a token", bucket.ListOptions{}, []string{page("true", "", "a")}, "no token"},
		{"token repeated", bucket.ListOptions{}, []string{page("true", "t", "a"), page("true", "t", "b")}, "token twice"},
		{"token repeated on empty pages", bucket.ListOptions{}, []string{page("true", "t"), page("true", "t")}, "token twice"},
		{"tokens in a circle", bucket.ListOptions{},
			[]string{page("true", "t", "a"), page("true", "u", "b"), page("true", "t", "a")}, "came after"},
		{"out of order in a page", bucket.ListOptions{}, []string{page("false", "", "b", "a")}, "came after"},
		{"out of order between pages", bucket.ListOptions{}, []string{page("true", "t", "b"), page("false", "", "a")}, "came after"},
		{"a key twice", bucket.ListOptions{}, []string{page("true", "t", "a"), page("false", "", "a")}, "came after"},
		{"StartAfter ignored", bucket.ListOptions{StartAfter: "b"}, []string{page("false", "", "a")}, "came after"},
		{"prefix ignored", bucket.ListOptions{Prefix: "b"}, []string{page("false", "", "a")}, "not below the prefix"},
		{"a key without a name", bucket.ListOptions{}, []string{page("false", "", "")}, "came after"},
		{"an encoding that is none", bucket.ListOptions{}, []string{encoded(page("false", "", "100%"))}, "not URL-encoded"},
		{"silent about the rest", bucket.ListOptions{}, []string{page("", "", "a")}, "whether there is more"},
		{"an empty body", bucket.ListOptions{}, []string{""}, "whether there is more"},
		{"another document", bucket.ListOptions{}, []string{"<html><body>Welcome</body></html>"}, "whether there is more"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			next := 0
			b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, test.pages[min(next, len(test.pages)-1)])
				next++
			})
			_, err := incomplete(t, b, test.options)
			if !errors.Is(err, bucket.ErrListing) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if where := fmt.Sprint("page ", len(test.pages)); !strings.Contains(err.Error(), where) {
				t.Errorf("%q does not say %q", err, where)
			}
		})
	}
}

func TestAListingThatWasNotEncodedIsTakenAsItIs(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a+b%20&amp;c</Key></Contents></ListBucketResult>")
	})
	for page, err := range b.List(t.Context(), bucket.ListOptions{}) {
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Key != "a+b%20&c" {
			t.Errorf("got %+v, %v", page, err)
		}
	}
}

func TestAListingTellsOfRestoredCopies(t *testing.T) {
	var asked string
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("X-Amz-Optional-Object-Attributes")
		io.WriteString(w, `<ListBucketResult><IsTruncated>false</IsTruncated>
			<Contents><Key>a</Key><StorageClass>GLACIER</StorageClass></Contents>
			<Contents><Key>b</Key><StorageClass>GLACIER</StorageClass><RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress></RestoreStatus></Contents>
			<Contents><Key>c</Key><StorageClass>GLACIER</StorageClass><RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress><RestoreExpiryDate>2026-12-20T00:00:00.000Z</RestoreExpiryDate></RestoreStatus></Contents>
			<Contents><Key>d</Key><StorageClass>GLACIER</StorageClass><RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress><RestoreExpiryDate>2026-12-20T00:00:00.000Z</RestoreExpiryDate></RestoreStatus></Contents>
		</ListBucketResult>`)
	})
	for page, err := range b.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range page.Entries {
			if e.Restored != (i == 2) {
				t.Errorf("%s is restored: %v", e.Key, e.Restored)
			}
		}
	}
	if asked != "RestoreStatus" {
		t.Errorf("asked for %q", asked)
	}
}

func TestAListingGoesOnByToken(t *testing.T) {
	b, server := open(t, bucket.Options{})
	fill(t, b, 5)
	for _, err := range b.List(t.Context(), bucket.ListOptions{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	requests := server.Requests("list")
	if len(requests) != 3 {
		t.Fatalf("%d requests", len(requests))
	}
	for i, r := range requests {
		if r.Query.Get("encoding-type") != "url" || r.Query.Has("continuation-token") != (i > 0) {
			t.Errorf("page %d: %v", i+1, r.Query)
		}
	}
}
