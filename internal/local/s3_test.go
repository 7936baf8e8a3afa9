package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/buckettest"
)

// newBucket creates an empty bucket in the stack.
func newBucket(t *testing.T, stack *local.Stack, name string) *bucket.Bucket {
	t.Helper()
	if err := stack.CreateBucket(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	b, err := bucket.New(stack.S3(), name, bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLocalS3IsABucketLikeAnyOther(t *testing.T) {
	stack := start(t, local.Config{})
	var number atomic.Int64
	buckettest.Run(t, func(t *testing.T) buckettest.Store {
		return newBucket(t, stack, fmt.Sprintf("bucket-%d", number.Add(1)))
	})
}

func TestOneOfManyConcurrentCreatesWins(t *testing.T) {
	stack := start(t, local.Config{})
	b := newBucket(t, stack, "locks")
	for round := range 5 {
		key := fmt.Sprint("lock-", round)
		var winners atomic.Int64
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				switch _, err := b.Put(t.Context(), key, strings.NewReader("mine"), "", bucket.Condition{IfNoneMatch: "*"}); {
				case err == nil:
					winners.Add(1)
				case !errors.Is(err, bucket.ErrPrecondition):
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := winners.Load(); n != 1 {
			t.Errorf("round %d: %d creates won", round, n)
		}
	}
}

func TestStacksDoNotSeeEachOthersObjects(t *testing.T) {
	one, two := start(t, local.Config{}), start(t, local.Config{})
	first, second := newBucket(t, one, "state"), newBucket(t, two, "state")
	put(t, first, "a", "1")
	if _, err := second.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("the other stack's object: %v", err)
	}
}

func TestBucketNamesThatTheEmulatorKeepsForItself(t *testing.T) {
	stack := start(t, local.Config{})
	for _, name := range []string{"buckets", "jobs", "apps", "kumo", "service", "health"} {
		b := newBucket(t, stack, name)
		put(t, b, "a/b", name)
		if got := get(t, b, "a/b"); got != name {
			t.Errorf("bucket %s: got %q", name, got)
		}
	}
}

func TestListedTimesAreUTCWhereverWeAre(t *testing.T) {
	if os.Getenv(zoneVariable) == "" {
		inAnotherZone(t)
		return
	}
	stack := start(t, local.Config{})
	b := newBucket(t, stack, "times")
	put(t, b, "now", "")
	object, err := b.Get(t.Context(), "now", bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	object.Body.Close()
	for page, err := range b.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got := page.Entries[0].LastModified.Truncate(time.Second); !got.Equal(object.LastModified) {
			t.Errorf("listed as of %s, read as of %s", got, object.LastModified)
		}
	}
}

// inAnotherZone runs the test in a process that lives in another time zone.
func inAnotherZone(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(executable, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), zoneVariable+"=5h30m")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestListingWithoutURLEncoding(t *testing.T) {
	stack := start(t, local.Config{})
	b := newBucket(t, stack, "plain")
	put(t, b, "a b+c%/é", "")
	out, err := stack.S3().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("plain"), Prefix: aws.String("a b+")})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Contents) != 1 || aws.ToString(out.Contents[0].Key) != "a b+c%/é" ||
		aws.ToString(out.Name) != "plain" || aws.ToString(out.Prefix) != "a b+" || out.EncodingType != "" {
		t.Errorf("listing %+v", out)
	}
}

func TestOperationsThatTheLocalS3DoesNotHaveAreRefused(t *testing.T) {
	stack := start(t, local.Config{})
	newBucket(t, stack, "state")
	client := stack.S3()
	bucketName, key := aws.String("state"), aws.String("key")
	for name, call := range map[string]func() error{
		"list of parts": func() error {
			_, err := client.ListParts(t.Context(), &s3.ListPartsInput{Bucket: bucketName, Key: key, UploadId: aws.String("1")})
			return err
		},
		"list of uploads": func() error {
			_, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: bucketName})
			return err
		},
		"copy of a part": func() error {
			_, err := client.UploadPartCopy(t.Context(), &s3.UploadPartCopyInput{
				Bucket: bucketName, Key: key, UploadId: aws.String("1"), PartNumber: aws.Int32(1), CopySource: aws.String("state/other"),
			})
			return err
		},
		"copy": func() error {
			_, err := client.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: bucketName, Key: key, CopySource: aws.String("state/other")})
			return err
		},
		"versioning": func() error {
			_, err := client.GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: bucketName})
			return err
		},
		"delimiter": func() error {
			_, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: bucketName, Delimiter: aws.String("/")})
			return err
		},
		"version 1 listing": func() error {
			_, err := client.ListObjects(t.Context(), &s3.ListObjectsInput{Bucket: bucketName})
			return err
		},
	} {
		wantCode(t, name, "NotImplemented", call())
	}
	wantCode(t, "bucket name", "InvalidBucketName", stack.CreateBucket(t.Context(), "Not_A_Bucket"))
	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucketName, Key: aws.String(strings.Repeat("k", 1025))})
	wantCode(t, "long key", "KeyTooLongError", err)
	_, err = client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("nobody-made-this")})
	wantCode(t, "missing bucket", "NoSuchBucket", err)
}

func wantCode(t *testing.T, what, code string, err error) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

func TestLargeObjectMakesTheRoundTrip(t *testing.T) {
	stack := start(t, local.Config{})
	b := newBucket(t, stack, "large")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB: the SDK waits for 100-continue
	if _, err := b.Put(t.Context(), "big", bytes.NewReader(content), "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, "big"); got != string(content) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(content))
	}
}

func TestRangesAreAnsweredAsS3Does(t *testing.T) {
	stack := start(t, local.Config{})
	put(t, newBucket(t, stack, "ranges"), "a", "0123456789")
	put(t, newBucket(t, stack, "empty"), "a", "")
	for _, test := range []struct {
		bucket, asked string
		status        int
		contentRange  string
		body          string // "" where it is an error document
	}{
		{"ranges", "bytes=2-4", 206, "bytes 2-4/10", "234"},
		{"ranges", "bytes=7-", 206, "bytes 7-9/10", "789"},
		{"ranges", "bytes=-2", 206, "bytes 8-9/10", "89"},
		{"ranges", "bytes=8-99", 206, "bytes 8-9/10", "89"},
		{"ranges", "bytes=10-", 416, "bytes */10", ""},
		{"ranges", "bytes=10-12", 416, "bytes */10", ""},
		{"ranges", "bytes=99999999999999999999-", 416, "bytes */10", ""},
		{"empty", "bytes=0-", 416, "bytes */0", ""},
		{"ranges", "lines=1-2", 200, "", "0123456789"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, stack.Endpoint()+"/"+test.bucket+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Range", test.asked)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != test.status || resp.Header.Get("Content-Range") != test.contentRange || resp.Header.Get("Date") == "" {
			t.Errorf("%s of %s: %s, Content-Range %q, %v", test.asked, test.bucket, resp.Status, resp.Header.Get("Content-Range"), err)
		}
		if test.status == 416 && !strings.Contains(string(body), "<Code>InvalidRange</Code>") || test.status != 416 && string(body) != test.body {
			t.Errorf("%s of %s: %s", test.asked, test.bucket, body)
		}
	}
}

// An upload made call by call: what the answers name, and what is refused.
func TestMultipartUploadsNameWhatTheyAreAbout(t *testing.T) {
	stack := start(t, local.Config{})
	b := newBucket(t, stack, "uploads")
	client := stack.S3()
	bucketName, key := aws.String("uploads"), aws.String("dir//a b.json")
	begun, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucketName, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(begun.Bucket) != *bucketName || aws.ToString(begun.Key) != *key || aws.ToString(begun.UploadId) == "" {
		t.Errorf("begun %+v", begun)
	}
	var parts []types.CompletedPart
	for number, content := range []string{"", strings.Repeat("one", 5<<20), "two"} {
		if number == 0 {
			continue
		}
		sent, err := client.UploadPart(t.Context(), &s3.UploadPartInput{
			Bucket: bucketName, Key: key, UploadId: begun.UploadId, PartNumber: aws.Int32(int32(number)), Body: strings.NewReader(content),
		})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, types.CompletedPart{PartNumber: aws.Int32(int32(number)), ETag: sent.ETag})
	}
	complete := func(upload *string, parts ...types.CompletedPart) (*s3.CompleteMultipartUploadOutput, error) {
		return client.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
			Bucket: bucketName, Key: key, UploadId: upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
	}
	_, err = complete(begun.UploadId, parts[1], parts[0])
	wantCode(t, "parts out of order", "InvalidPartOrder", err)
	_, err = complete(begun.UploadId, types.CompletedPart{PartNumber: aws.Int32(1), ETag: parts[1].ETag})
	wantCode(t, "another part", "InvalidPart", err)
	_, err = complete(aws.String("nobody-began-this"), parts...)
	wantCode(t, "another upload", "NoSuchUpload", err)
	if _, err := b.Get(t.Context(), *key, bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("before the end: %v", err)
	}
	ended, err := complete(begun.UploadId, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(ended.Bucket) != *bucketName || aws.ToString(ended.Key) != *key ||
		!strings.HasSuffix(aws.ToString(ended.Location), "/uploads/dir//a%20b.json") || !strings.HasSuffix(aws.ToString(ended.ETag), `-2"`) {
		t.Errorf("ended %+v", ended)
	}
	if got := get(t, b, *key); len(got) != 3*5<<20+3 || !strings.HasSuffix(got, "onetwo") {
		t.Errorf("%d bytes came back", len(got))
	}
	_, err = complete(begun.UploadId, parts...)
	wantCode(t, "the same upload again", "NoSuchUpload", err)
}

func TestClosedStackAnswersNobody(t *testing.T) {
	stack, err := local.Start(t.Context(), local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(stack.Endpoint()); err == nil {
		resp.Body.Close()
		t.Error("the endpoint still answers")
	}
}

func put(t *testing.T, b *bucket.Bucket, key, content string) {
	t.Helper()
	if _, err := b.Put(t.Context(), key, strings.NewReader(content), "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, b *bucket.Bucket, key string) string {
	t.Helper()
	object, err := b.Get(context.WithoutCancel(t.Context()), key, bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	content, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
