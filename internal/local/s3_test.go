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
		"multipart": func() error {
			_, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucketName, Key: key})
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
