package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// server is an S3 endpoint that runs for as long as its test.
type server struct{ url string }

// The credentials of all servers. They open nothing else.
const (
	accessKey = "interop"
	secretKey = "interop-secret"
)

func (s server) client() *s3.Client {
	return s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: &s.url,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		// What config.LoadDefaultConfig gives a client in production.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	})
}

func (s server) create(t *testing.T, name string) {
	t.Helper()
	if _, err := s.client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatalf("create bucket %s: %v", name, err)
	}
}

// open returns the bucket called name, behind a client that nobody else has.
func (s server) open(t *testing.T, name string) *bucket.Bucket {
	t.Helper()
	b, err := bucket.New(s.client(), name, bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run starts a server's process on a free port and waits until it answers.
func run(t *testing.T, command func(port string) *exec.Cmd) server {
	t.Helper()
	port := freePort(t)
	cmd := command(port)
	logName := filepath.Join(t.TempDir(), "server.log")
	log, err := os.Create(logName)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it ends by the signal below, or too early, which is seen as silence
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		log.Close()
		if t.Failed() {
			tail(t, logName)
		}
	})
	s := server{"http://127.0.0.1:" + port}
	if err := s.answers(t.Context(), ended); err != nil {
		tail(t, logName)
		t.Fatalf("%s: %v", cmd, err)
	}
	return s
}

// answers waits until the server lists its buckets.
func (s server) answers(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		_, err := s.client().ListBuckets(ctx, &s3.ListBucketsInput{})
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("the server ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// tail shows the end of a server's log.
func tail(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("the end of its log:\n%s", text[max(0, len(text)-4000):])
}
