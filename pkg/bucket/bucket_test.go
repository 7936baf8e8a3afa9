package bucket_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/buckettest"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

func TestMemoryIsABucket(t *testing.T) {
	buckettest.Run(t, func(*testing.T) buckettest.Store { return bucket.NewMemory("files", nil) })
}

func TestClientWithPathStyleIsABucket(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) buckettest.Store {
		store, _ := open(t, bucket.Options{})
		return store
	})
}

// AWS itself is addressed with the bucket's name in the host.
func TestClientWithVirtualHostStyleIsABucket(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) buckettest.Store {
		server := s3test.New(t, bucket.NewMemory("files", nil))
		return bucketOf(t, server.Client(func(o *s3.Options) {
			o.UsePathStyle = false
			o.BaseEndpoint = aws.String("http://s3.us-east-1.test")
		}), bucket.Options{})
	})
}

// open returns the bucket "files" behind an SDK client, and its server.
func open(t *testing.T, options bucket.Options) (*bucket.Bucket, *s3test.Server) {
	t.Helper()
	server := s3test.New(t, bucket.NewMemory("files", nil))
	return bucketOf(t, server.Client(), options), server
}

func bucketOf(t *testing.T, client *s3.Client, options bucket.Options) *bucket.Bucket {
	t.Helper()
	b, err := bucket.New(client, "files", options)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
