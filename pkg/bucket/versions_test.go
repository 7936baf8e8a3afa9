package bucket_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// versioned is a bucket that keeps versions, in memory or behind a client.
type versioned interface {
	Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error)
	Head(ctx context.Context, key string) (*bucket.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error)
	Delete(ctx context.Context, key string) error
	Versions(ctx context.Context, key string) ([]bucket.Version, error)
	GetVersion(ctx context.Context, key, versionID string) (*bucket.Object, error)
	DeleteVersion(ctx context.Context, key, versionID string) error
}

func TestVersionsOfAnObject(t *testing.T) {
	for _, wire := range []bool{false, true} {
		for _, refuses := range []bool{false, true} {
			memory := bucket.NewMemory("b", nil)
			memory.KeepVersions(refuses)
			var b versioned = memory
			if wire {
				client, err := bucket.New(s3test.New(t, memory).Client(), "b", bucket.Options{})
				if err != nil {
					t.Fatal(err)
				}
				b = client
			}
			checkVersions(t, b, refuses)
		}
	}
}

func checkVersions(t *testing.T, b versioned, refuses bool) {
	ctx := t.Context()
	put := func(content string, c bucket.Condition) error {
		_, err := b.Put(ctx, "k", strings.NewReader(content), "", c)
		return err
	}
	for _, content := range []string{"one", "two"} {
		if err := put(content, bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"get": second(b.Get(ctx, "k", bucket.Condition{})), "head": second(b.Head(ctx, "k"))} {
		if !errors.Is(err, bucket.ErrNotFound) || !errors.Is(err, bucket.ErrDeleteMarker) {
			t.Errorf("%s of a deleted object: %v", name, err)
		}
	}
	if _, err := b.Get(ctx, "other", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) || errors.Is(err, bucket.ErrDeleteMarker) {
		t.Errorf("get of what never was: %v", err)
	}
	versions, err := b.Versions(ctx, "k")
	if err != nil || len(versions) != 3 || !versions[0].DeleteMarker || !versions[0].IsLatest || versions[1].DeleteMarker || versions[1].IsLatest {
		t.Fatalf("%+v, %v", versions, err)
	}
	old, err := b.GetVersion(ctx, "k", versions[1].VersionID)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(old.Body); string(content) != "two" || err != nil || old.ETag != versions[1].ETag {
		t.Errorf("the version before is %q, %v", content, err)
	}
	if err := put("three", bucket.Condition{IfNoneMatch: "*"}); refuses != errors.Is(err, bucket.ErrPrecondition) || !refuses && err != nil {
		t.Errorf("a create over a delete marker: %v", err)
	}
	if !refuses {
		return
	}
	if err := b.DeleteVersion(ctx, "k", versions[0].VersionID); err != nil {
		t.Fatal(err)
	}
	if object, err := b.Head(ctx, "k"); err != nil || object.ETag != versions[1].ETag {
		t.Errorf("without its marker: %+v, %v", object, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestOutOfServiceIsNotAboutTheObject(t *testing.T) {
	for code, want := range map[string]bool{
		"NoSuchBucket": true, "ExpiredToken": true, "InvalidAccessKeyId": true, "RequestTimeTooSkewed": true,
		"KMS.DisabledException": true, "KMS.NotFoundException": true, "SignatureDoesNotMatch": true,
		"AccessDenied": false, "InvalidObjectState": false, "NoSuchKey": false, "InvalidRange": false,
	} {
		if got := bucket.OutOfService(&bucket.CallError{Op: "get", Status: 403, Code: code}); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if bucket.OutOfService(errors.New("no call")) {
		t.Error("an error of no call is")
	}
}
