package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// part is the size of the parts that an upload is sent in.
const part = 8 << 20

// text is n bytes, no two parts of which are the same.
func text(n int) string { return longText()[:n] }

var longText = sync.OnceValue(func() string {
	b := make([]byte, 3*part)
	rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
})

// uploadTo uploads content and returns what was written.
func uploadTo(t *testing.T, b *bucket.Bucket, key, content string) bucket.Written {
	t.Helper()
	written, err := b.Upload(t.Context(), key, strings.NewReader(content), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// sent counts the requests of an upload by kind.
func sent(server *s3test.Server) string {
	var counts []string
	for _, op := range []string{"put", "create", "part", "complete", "abort"} {
		if n := len(server.Requests(op)); n > 0 {
			counts = append(counts, fmt.Sprint(n, " ", op))
		}
	}
	return strings.Join(counts, ", ")
}

func TestAnUploadHasAsManyPartsAsItNeeds(t *testing.T) {
	for _, test := range []struct {
		size int
		sent string
	}{
		{0, "1 put"},
		{1, "1 put"},
		{part - 1, "1 put"},
		{part, "1 create, 1 part, 1 complete"},
		{part + 1, "1 create, 2 part, 1 complete"},
		{3 * part, "1 create, 3 part, 1 complete"},
	} {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			b, server := open(t, bucket.Options{})
			content := text(test.size)
			written := uploadTo(t, b, "dir/a", content)
			if got := sent(server); got != test.sent {
				t.Errorf("sent %s, want %s", got, test.sent)
			}
			for _, op := range []string{"put", "create"} {
				for _, r := range server.Requests(op) {
					if r.Key != "dir/a" || r.Header.Get("Content-Type") != "text/plain" {
						t.Errorf("%s: of %q, %v", op, r.Key, r.Header)
					}
				}
			}
			object, err := b.Get(t.Context(), "dir/a", bucket.Condition{IfMatch: written.ETag})
			if err != nil {
				t.Fatal(err)
			}
			defer object.Body.Close()
			got, err := io.ReadAll(object.Body)
			if err != nil || string(got) != content {
				t.Errorf("%d bytes of %d came back, or others; %v", len(got), len(content), err)
			}
			if written.ServerTime.IsZero() {
				t.Error("no server time")
			}
		})
	}
}

func TestOptionsRideOnEveryRequestOfAnUpload(t *testing.T) {
	const (
		encryption = "X-Amz-Server-Side-Encryption"
		kmsKey     = "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
		owner      = "X-Amz-Expected-Bucket-Owner"
		payer      = "X-Amz-Request-Payer"
		algorithm  = "X-Amz-Checksum-Algorithm"
		crc32      = "X-Amz-Checksum-Crc32"
		sha256     = "X-Amz-Checksum-Sha256"
	)
	// S3 takes the encryption where an upload begins, and a checksum with each
	// part. "any" is any value; a header that is not named must be on no request.
	type headers map[string]string
	everywhere := func(name, value string) map[string]headers {
		h := headers{name: value}
		return map[string]headers{"create": h, "part": h, "complete": h, "abort": h}
	}
	tests := []struct {
		name    string
		options bucket.Options
		want    []map[string]headers
	}{
		{"none", bucket.Options{}, []map[string]headers{{"create": {algorithm: "CRC32"}, "part": {crc32: "any"}}}},
		{"all", bucket.Options{KMSKeyID: "alias/lock", ExpectedOwner: "111122223333", RequesterPays: true, Checksum: "SHA256"}, []map[string]headers{
			{"create": {encryption: "aws:kms", kmsKey: "alias/lock", algorithm: "SHA256"}, "part": {sha256: "any"}},
			everywhere(owner, "111122223333"), everywhere(payer, "requester"),
		}},
		{"two layers of KMS", bucket.Options{Encryption: "aws:kms:dsse"}, []map[string]headers{
			{"create": {encryption: "aws:kms:dsse", algorithm: "CRC32"}, "part": {crc32: "any"}},
		}},
		{"AES256", bucket.Options{Encryption: "AES256"}, []map[string]headers{
			{"create": {encryption: "AES256", algorithm: "CRC32"}, "part": {crc32: "any"}},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, server := open(t, test.options)
			// An upload that fails at its end makes every kind of request.
			server.Fail(s3test.Fault{Op: "complete", Do: s3test.Answer(403, "AccessDenied")})
			if _, err := b.Upload(t.Context(), "a", strings.NewReader(text(part+1)), ""); err == nil {
				t.Fatal("the upload was to fail")
			}
			for op, count := range map[string]int{"create": 1, "part": 2, "complete": 1, "abort": 1} {
				want := headers{}
				for _, h := range test.want {
					maps.Copy(want, h[op])
				}
				requests := server.Requests(op)
				if len(requests) != count {
					t.Errorf("%d %s", len(requests), op)
				}
				for _, r := range requests {
					for _, name := range []string{encryption, kmsKey, owner, payer, algorithm, crc32, sha256} {
						if got := r.Header.Get(name); got != want[name] && (want[name] != "any" || got == "") {
							t.Errorf("%s: %s is %q, want %q", op, name, got, want[name])
						}
					}
				}
			}
		})
	}
}

// An upload heeds the client's setting, as a PUT does, and over TLS a part's
// checksum follows its bytes.
func TestChecksumsOfAnUploadOverTLS(t *testing.T) {
	for _, test := range []struct {
		name     string
		checksum string
		when     aws.RequestChecksumCalculation
		want     string
	}{
		{"default", "", aws.RequestChecksumCalculationWhenSupported, "X-Amz-Checksum-Crc32"},
		{"only when required", "", aws.RequestChecksumCalculationWhenRequired, ""},
		{"unset", "", aws.RequestChecksumCalculationUnset, ""},
		{"SHA256", "SHA256", aws.RequestChecksumCalculationWhenRequired, "X-Amz-Checksum-Sha256"},
		{"CRC64NVME", "CRC64NVME", aws.RequestChecksumCalculationWhenSupported, "X-Amz-Checksum-Crc64nvme"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := s3test.New(t, bucket.NewMemory("files", nil))
			tls := httptest.NewTLSServer(server)
			t.Cleanup(tls.Close)
			b := bucketOf(t, server.Client(func(o *s3.Options) {
				o.BaseEndpoint = &tls.URL
				o.HTTPClient = tls.Client()
				o.RequestChecksumCalculation = test.when
			}), bucket.Options{Checksum: test.checksum})
			content := text(part + 5)
			uploadTo(t, b, "a", content)
			object, err := b.Get(t.Context(), "a", bucket.Condition{})
			if err != nil {
				t.Fatal(err)
			}
			defer object.Body.Close()
			if got, err := io.ReadAll(object.Body); string(got) != content || err != nil {
				t.Errorf("%d bytes came back, or others; %v", len(got), err)
			}
			for _, r := range server.Requests("part") {
				var sums []string
				for name := range r.Header {
					if strings.HasPrefix(name, "X-Amz-Checksum-") {
						sums = append(sums, name)
					}
				}
				if got := strings.Join(sums, " "); got != test.want {
					t.Errorf("part %s has checksums %q, want %q", r.Query.Get("partNumber"), got, test.want)
				}
			}
		})
	}
}

func TestAnUploadIsRepeatedInItsPiecesBySDK(t *testing.T) {
	for _, op := range []string{"create", "part", "complete"} {
		for _, test := range passing {
			if op == "complete" && test.landed {
				continue // has a test of its own
			}
			if op != "part" && strings.HasPrefix(test.name, "5") && test.name != "503" {
				continue // to the SDK all 5xx are one
			}
			t.Run(op+" "+test.name, func(t *testing.T) {
				memory := bucket.NewMemory("files", nil)
				server := s3test.New(t, memory)
				b := bucketOf(t, server.Client(), bucket.Options{})
				server.Fail(s3test.Fault{Op: op, Do: test.do})
				content := text(part)
				uploadTo(t, b, "a", content)
				holds(t, memory, "a", content)
				if len(server.Requests("abort")) != 0 {
					t.Errorf("sent %s", sent(server))
				}
			})
		}
	}
}

// holds checks an object behind the wire; "" is none.
func holds(t *testing.T, memory *bucket.Memory, key, want string) {
	t.Helper()
	object, err := memory.Get(t.Context(), key, bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) && want == "" {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(object.Body); string(got) != want {
		t.Errorf("%s holds %d bytes that begin %.20q, want %d bytes that begin %.20q", key, len(got), got, len(want), want)
	}
}

func TestAFailedUploadLeavesNothing(t *testing.T) {
	complete200 := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		// S3 begins to answer before it knows how it ends.
		io.WriteString(w, "<Error><Code>InternalError</Code><Message>try again</Message></Error>")
	}
	tests := []struct {
		name      string
		fault     s3test.Fault
		aborts    int
		status    int
		transient bool
	}{
		{"not allowed to begin", s3test.Fault{Op: "create", Do: s3test.Answer(403, "AccessDenied")}, 0, 403, false},
		{"no answer to the beginning", s3test.Fault{Op: "create", Times: s3test.Always, Do: s3test.LoseRequest}, 0, 0, true},
		{"the first part fails", s3test.Fault{Op: "part", Do: s3test.Answer(403, "AccessDenied")}, 1, 403, false},
		{"a part fails for good", s3test.Fault{Op: "part", After: 1, Times: s3test.Always, Do: s3test.Answer(500, "InternalError")}, 1, 500, true},
		{"a part meets slow down to the end", s3test.Fault{Op: "part", After: 1, Times: s3test.Always, Do: s3test.Answer(503, "SlowDown")}, 1, 503, true},
		{"a part gets no answer", s3test.Fault{Op: "part", After: 1, Times: s3test.Always, Do: s3test.LoseRequest}, 1, 0, true},
		{"a part's replies are lost", s3test.Fault{Op: "part", After: 1, Times: s3test.Always, Do: s3test.LoseReply}, 1, 0, true},
		{"not completed", s3test.Fault{Op: "complete", Times: s3test.Always, Do: s3test.Answer(500, "InternalError")}, 1, 500, true},
		{"not completed, by an answer that began as a success", s3test.Fault{Op: "complete", Times: s3test.Always, Do: complete200}, 1, 500, true},
		{"a part got lost in the store", s3test.Fault{Op: "complete", Do: s3test.Answer(400, "InvalidPart")}, 1, 400, false},
	}
	for i, test := range tests {
		before := []string{"", "what was there before"}[i%2]
		t.Run(test.name, func(t *testing.T) {
			memory := bucket.NewMemory("files", nil)
			server := s3test.New(t, memory)
			b := bucketOf(t, server.Client(), bucket.Options{})
			if before != "" {
				if _, err := memory.Put(t.Context(), "dir/a", strings.NewReader(before), "", bucket.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			server.Fail(test.fault)
			_, err := b.Upload(t.Context(), "dir/a", strings.NewReader(text(2*part)), "")
			var failed *bucket.CallError
			if !errors.As(err, &failed) || failed.Op != "put" || failed.Key != "dir/a" || failed.Status != test.status {
				t.Errorf("got %v (%+v)", err, failed)
			}
			if bucket.Transient(err) != test.transient || errors.Is(err, bucket.ErrSlowDown) != (test.status == 503) {
				t.Errorf("transient %t, slow down %t: %v", bucket.Transient(err), errors.Is(err, bucket.ErrSlowDown), err)
			}
			if !strings.Contains(err.Error(), "put s3://files/dir/a") {
				t.Errorf("%q does not say of what", err)
			}
			if got := server.Requests("abort"); len(got) != test.aborts {
				t.Errorf("sent %s, want %d abort", sent(server), test.aborts)
			}
			leavesNothing(t, memory, server, "dir/a", before)
		})
	}
}

// leavesNothing checks that key is as it was before a failed upload.
func leavesNothing(t *testing.T, memory *bucket.Memory, server *s3test.Server, key, before string) {
	t.Helper()
	if got := server.Uploads(); len(got) != 0 {
		t.Errorf("unfinished uploads: %q", got)
	}
	holds(t, memory, key, before)
}

func TestABodysErrorEndsItsUpload(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		good int
		ends int // uploads begun and ended
	}{
		{"at once", 0, 0},
		{"in the first part", part - 1, 0},
		{"between parts", 2 * part, 1},
		{"in the third part", 2*part + 5, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory := bucket.NewMemory("files", nil)
			server := s3test.New(t, memory)
			b := bucketOf(t, server.Client(), bucket.Options{})
			body := io.MultiReader(strings.NewReader(text(test.good)), failingReader{boom})
			_, err := b.Upload(t.Context(), "a", body, "")
			if !errors.Is(err, boom) || bucket.Transient(err) || !strings.Contains(err.Error(), "s3://files/a") {
				t.Errorf("got %v, transient %t", err, bucket.Transient(err))
			}
			if len(server.Requests("create")) != test.ends || len(server.Requests("abort")) != test.ends {
				t.Errorf("sent %s", sent(server))
			}
			leavesNothing(t, memory, server, "a", "")
		})
	}
}

// The reader knows best whether trying again helps.
func TestABodysErrorKeepsItsNature(t *testing.T) {
	b, server := open(t, bucket.Options{})
	server.Fail(s3test.Fault{Op: "list", Times: s3test.Always, Do: s3test.Answer(503, "SlowDown")})
	var listed error
	for _, err := range b.List(t.Context(), bucket.ListOptions{}) {
		listed = err
	}
	for name, upload := range map[string]func(context.Context, string, io.Reader, string) (bucket.Written, error){
		"wire": b.Upload, "memory": bucket.NewMemory("files", nil).Upload,
	} {
		body := io.MultiReader(strings.NewReader(text(part)), failingReader{listed})
		_, err := upload(t.Context(), "a", body, "")
		var failed *bucket.CallError
		if !errors.Is(err, bucket.ErrSlowDown) || !bucket.Transient(err) || !errors.As(err, &failed) || failed.Op != "list" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestACancelledUploadLeavesNothing(t *testing.T) {
	for _, op := range []string{"create", "part", "complete"} {
		t.Run("at "+op, func(t *testing.T) {
			memory := bucket.NewMemory("files", nil)
			server := s3test.New(t, memory)
			b := bucketOf(t, server.Client(), bucket.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The request does not arrive, and its sender learns that by its own context.
			server.Fail(s3test.Fault{Op: op, Do: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
				cancel()
				<-r.Context().Done()
			}})
			_, err := b.Upload(ctx, "a", strings.NewReader(text(3*part)), "")
			if !errors.Is(err, context.Canceled) || bucket.Transient(err) {
				t.Errorf("got %v, transient %t", err, bucket.Transient(err))
			}
			leavesNothing(t, memory, server, "a", "")
		})
	}
}

func TestACancelledUploadWhoseCleanupFailsSaysBoth(t *testing.T) {
	b, server := open(t, bucket.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server.Fail(s3test.Fault{Op: "part", Do: s3test.Before(cancel)})
	server.Fail(s3test.Fault{Op: "abort", Times: s3test.Always, Do: s3test.Answer(403, "AccessDenied")})
	_, err := b.Upload(ctx, "a", strings.NewReader(text(3*part)), "")
	if !errors.Is(err, context.Canceled) || bucket.Transient(err) || !strings.Contains(err.Error(), "abort") {
		t.Errorf("got %v, transient %t", err, bucket.Transient(err))
	}
}

func TestACleanupThatHangsEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := open(t, bucket.Options{})
		hang := make(chan struct{})
		defer close(hang)
		server.Fail(s3test.Fault{Op: "part", Do: s3test.Answer(403, "AccessDenied")})
		server.Fail(s3test.Fault{Op: "abort", Times: s3test.Always, Do: s3test.Hold(hang)})
		// Without a bound of its own this would never return: the bubble would deadlock.
		if _, err := b.Upload(t.Context(), "a", strings.NewReader(text(2*part)), ""); err == nil {
			t.Error("no error")
		}
	})
}

// A lost reply to the last request: the object is there, whole, and the caller
// is told that it may be.
func TestALostReplyToTheEndOfAnUploadMayHaveLanded(t *testing.T) {
	memory := bucket.NewMemory("files", nil)
	server := s3test.New(t, memory)
	b := bucketOf(t, server.Client(), bucket.Options{})
	server.Fail(s3test.Fault{Op: "complete", Do: s3test.LoseReply})
	content := text(part + 1)
	if _, err := b.Upload(t.Context(), "a", strings.NewReader(content), ""); err == nil || !bucket.Transient(err) {
		t.Errorf("got %v, transient %t", err, bucket.Transient(err))
	}
	leavesNothing(t, memory, server, "a", content)
}

// While nothing is acknowledged, an upload takes four parts of its body and no more.
func TestAnUploadHoldsFewParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := open(t, bucket.Options{})
		release := make(chan struct{})
		server.Fail(s3test.Fault{Op: "part", Times: 2, Do: s3test.Hold(release)})
		var read atomic.Int64
		const size = 6 * part
		body := io.TeeReader(io.LimitReader(zeros{}, size), countingWriter{&read})
		done := make(chan error)
		go func() {
			_, err := b.Upload(t.Context(), "a", body, "")
			done <- err
		}()
		synctest.Wait()
		if got := read.Load(); got > 4*part || got < 2*part {
			t.Errorf("%d bytes were read, which is %.2f parts", got, float64(got)/part)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := read.Load(); got != size {
			t.Errorf("%d bytes were read in the end", got)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type countingWriter struct{ n *atomic.Int64 }

func (w countingWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return len(p), nil
}

func TestMemorysUploadGivesTheETagsOfS3(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	wire := bucketOf(t, s3test.New(t, bucket.NewMemory("files", nil)).Client(), bucket.Options{})
	for _, size := range []int{0, 5, part, 2*part + 1} {
		content := bytes.Repeat([]byte("x"), size)
		got, err := m.Upload(t.Context(), "a", bytes.NewReader(content), "")
		if err != nil {
			t.Fatal(err)
		}
		want, err := wire.Upload(t.Context(), "a", bytes.NewReader(content), "")
		if err != nil {
			t.Fatal(err)
		}
		if parts := (size + part - 1) / part; got.ETag != want.ETag || strings.HasSuffix(got.ETag, fmt.Sprintf(`-%d"`, parts)) != (size >= part) {
			t.Errorf("%d bytes: memory says %s, the wire %s", size, got.ETag, want.ETag)
		}
	}
}
