package bucket_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// everyCall makes one call of each kind.
func everyCall(t *testing.T, b *bucket.Bucket) {
	t.Helper()
	if _, err := b.Put(t.Context(), "a", strings.NewReader("content"), "text/plain", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	object, err := b.Get(t.Context(), "a", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	object.Body.Close()
	for _, err := range b.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

var everyOp = []string{"put", "get", "list", "delete"}

func TestOptionsRideOnEveryCall(t *testing.T) {
	const (
		encryption = "X-Amz-Server-Side-Encryption"
		kmsKey     = "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
		owner      = "X-Amz-Expected-Bucket-Owner"
		payer      = "X-Amz-Request-Payer"
		sha256     = "X-Amz-Checksum-Sha256"
		crc32      = "X-Amz-Checksum-Crc32"
	)
	tests := []struct {
		name       string
		options    bucket.Options
		everywhere map[string]string // headers of every call
		put        map[string]string // headers of a write, and of no other call; "any" is any value
		absent     []string          // headers of no call
	}{
		{name: "none", put: map[string]string{crc32: "any"}, absent: []string{encryption, kmsKey, owner, payer, sha256}},
		{name: "KMS key", options: bucket.Options{KMSKeyID: "alias/lock"},
			put: map[string]string{encryption: "aws:kms", kmsKey: "alias/lock"}},
		{name: "KMS with the account's own key", options: bucket.Options{Encryption: "aws:kms"},
			put: map[string]string{encryption: "aws:kms"}, absent: []string{kmsKey}},
		{name: "two layers of KMS", options: bucket.Options{Encryption: "aws:kms:dsse", KMSKeyID: "k"},
			put: map[string]string{encryption: "aws:kms:dsse", kmsKey: "k"}},
		{name: "AES256", options: bucket.Options{Encryption: "AES256"},
			put: map[string]string{encryption: "AES256"}, absent: []string{kmsKey}},
		{name: "owner", options: bucket.Options{ExpectedOwner: "111122223333"},
			everywhere: map[string]string{owner: "111122223333"}},
		{name: "requester pays", options: bucket.Options{RequesterPays: true},
			everywhere: map[string]string{payer: "requester"}},
		{name: "checksum", options: bucket.Options{Checksum: "SHA256"},
			// echo -n content | openssl dgst -sha256 -binary | base64
			put: map[string]string{sha256: "7XACtDnprIRfIjV9giusFERzD722AW0+yUMil7nsn3M="}, absent: []string{crc32}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			memory := bucket.NewMemory("files", nil)
			server := s3test.New(t, memory)
			b := bucketOf(t, server.Client(), test.options)
			if _, err := memory.Put(t.Context(), "range", strings.NewReader("content"), "", bucket.Condition{}); err != nil {
				t.Fatal(err)
			}
			object, err := b.GetRange(t.Context(), "range", bucket.Condition{}, 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			object.Body.Close()
			everyCall(t, b)
			for _, op := range everyOp {
				for _, request := range server.Requests(op) {
					for name, want := range test.everywhere {
						if got := request.Header.Get(name); got != want {
							t.Errorf("%s: %s is %q, want %q", op, name, got, want)
						}
					}
					for name, want := range test.put {
						got := request.Header.Get(name)
						if op != "put" && got != "" || op == "put" && got != want && (want != "any" || got == "") {
							t.Errorf("%s: %s is %q, want %q on writes", op, name, got, want)
						}
					}
					for _, name := range test.absent {
						if got := request.Header.Get(name); got != "" {
							t.Errorf("%s: %s is %q", op, name, got)
						}
					}
				}
			}
		})
	}
}

func TestOptionsThatNoCallCanMeetAreRefused(t *testing.T) {
	client := s3.New(s3.Options{})
	for name, options := range map[string]bucket.Options{
		"checksum that the SDK does not compute": {Checksum: "XXHASH3"},
		"checksum in another spelling":           {Checksum: "sha256"},
		"unknown encryption":                     {Encryption: "aes256"},
		"a KMS key without KMS":                  {Encryption: "AES256", KMSKeyID: "k"},
	} {
		if _, err := bucket.New(client, "files", options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := bucket.New(nil, "files", bucket.Options{}); err == nil {
		t.Error("no client: accepted")
	}
	if _, err := bucket.New(client, "", bucket.Options{}); err == nil {
		t.Error("no name: accepted")
	}
}

// The one place where the SDK's behaviour differs by transport: over TLS the
// checksum follows the body. Both doors of Options.Checksum are tried.
func TestChecksumOverTLS(t *testing.T) {
	tests := []struct {
		name     string
		checksum string
		when     aws.RequestChecksumCalculation
		chunked  bool
		header   string
	}{
		{"default", "", aws.RequestChecksumCalculationWhenSupported, true, "X-Amz-Checksum-Crc32"},
		{"only when required", "", aws.RequestChecksumCalculationWhenRequired, false, ""},
		{"CRC32", "CRC32", aws.RequestChecksumCalculationWhenRequired, true, "X-Amz-Checksum-Crc32"},
		{"CRC32C", "CRC32C", aws.RequestChecksumCalculationWhenSupported, true, "X-Amz-Checksum-Crc32c"},
		{"CRC64NVME", "CRC64NVME", aws.RequestChecksumCalculationWhenSupported, true, "X-Amz-Checksum-Crc64nvme"},
		{"SHA1", "SHA1", aws.RequestChecksumCalculationWhenSupported, true, "X-Amz-Checksum-Sha1"},
		{"SHA256", "SHA256", aws.RequestChecksumCalculationWhenSupported, true, "X-Amz-Checksum-Sha256"},
		{"SHA512", "SHA512", aws.RequestChecksumCalculationWhenSupported, true, "X-Amz-Checksum-Sha512"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := s3test.New(t, bucket.NewMemory("files", nil))
			tls := httptest.NewTLSServer(server)
			t.Cleanup(tls.Close)
			b := bucketOf(t, server.Client(func(o *s3.Options) {
				o.BaseEndpoint = &tls.URL
				o.HTTPClient = tls.Client()
				o.RequestChecksumCalculation = test.when
			}), bucket.Options{Checksum: test.checksum})
			everyCall(t, b)
			header := server.Requests("put")[0].Header
			if got := strings.Contains(header.Get("Content-Encoding"), "aws-chunked"); got != test.chunked {
				t.Errorf("Content-Encoding is %q", header.Get("Content-Encoding"))
			}
			var sums []string
			for name := range header {
				if strings.HasPrefix(name, "X-Amz-Checksum-") {
					sums = append(sums, name)
				}
			}
			if want := slices.DeleteFunc([]string{test.header}, isEmpty); !slices.Equal(sums, want) {
				t.Errorf("checksums %q, want %q", sums, want)
			}
		})
	}
}

func isEmpty(s string) bool { return s == "" }

func TestETagsGoBackAsTheyCame(t *testing.T) {
	for _, etag := range []string{`"d41d8cd9-2"`, `d41d8cd9`, `W/"weak"`, `"a b"`, `""`} {
		t.Run(etag, func(t *testing.T) {
			var conditions []string
			b := serve(t, func(w http.ResponseWriter, r *http.Request) {
				conditions = append(conditions, r.Header.Values("If-Match")...)
				conditions = append(conditions, r.Header.Values("If-None-Match")...)
				w.Header().Set("ETag", etag)
			})
			object, err := b.Get(t.Context(), "a", bucket.Condition{})
			if err != nil {
				t.Fatal(err)
			}
			object.Body.Close()
			written, err := b.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{IfMatch: object.ETag})
			if err != nil {
				t.Fatal(err)
			}
			object, err = b.Get(t.Context(), "a", bucket.Condition{IfNoneMatch: written.ETag})
			if err != nil {
				t.Fatal(err)
			}
			object.Body.Close()
			if want := []string{etag, etag}; !slices.Equal(conditions, want) {
				t.Errorf("sent %q, want %q", conditions, want)
			}
		})
	}
}

func TestStoredBytesAreNotDecoded(t *testing.T) {
	const stored = "\x1f\x8b these are the object's bytes"
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, stored)
	})
	object, err := b.Get(t.Context(), "a.csv.gz", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	if content, err := io.ReadAll(object.Body); string(content) != stored || err != nil {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestServerTimeIsTheServersClock(t *testing.T) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 789, time.UTC) // years from the client's
	want := now.Truncate(time.Second)
	server := s3test.New(t, bucket.NewMemory("files", func() time.Time { return now }))
	b := bucketOf(t, server.Client(), bucket.Options{})
	times := map[string]time.Time{}

	_, err := b.Get(t.Context(), "a", bucket.Condition{})
	times["404"], _ = bucket.ServerTime(err)
	written, err := b.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{IfNoneMatch: "*"})
	if err != nil {
		t.Fatal(err)
	}
	times["put"] = written.ServerTime
	object, err := b.Get(t.Context(), "a", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	object.Body.Close()
	times["get"], times["modified"] = object.ServerTime, object.LastModified
	_, err = b.Get(t.Context(), "a", bucket.Condition{IfNoneMatch: object.ETag})
	times["304"], _ = bucket.ServerTime(err)
	_, err = b.Put(t.Context(), "a", strings.NewReader("y"), "", bucket.Condition{IfNoneMatch: "*"})
	times["412"], _ = bucket.ServerTime(err)
	for page, err := range b.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		times["list"] = page.ServerTime
	}
	for what, got := range times {
		if !got.Equal(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

func TestAnAnswerWithoutDateIsAnError(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil // net/http adds none then
		if r.URL.Query().Has("list-type") {
			io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		}
	})
	_, getErr := b.Get(t.Context(), "a", bucket.Condition{})
	_, putErr := b.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{})
	errs := map[string]error{"get": getErr, "put": putErr}
	for page, err := range b.List(t.Context(), bucket.ListOptions{}) {
		errs["list"] = err
		if page.Last {
			t.Error("list gave its last page")
		}
	}
	for _, op := range []string{"get", "put", "list"} {
		if err := errs[op]; !errors.Is(err, bucket.ErrNoServerTime) || bucket.Transient(err) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// serve returns a bucket whose every request ends in handle.
func serve(t *testing.T, handle http.HandlerFunc) *bucket.Bucket {
	t.Helper()
	server := s3test.New(t, bucket.NewMemory("files", nil))
	server.Fail(s3test.Fault{Times: s3test.Always, Do: func(w http.ResponseWriter, r *http.Request, _ http.Handler) { handle(w, r) }})
	return bucketOf(t, server.Client(), bucket.Options{})
}
