// Package s3test serves a bucket.Memory over the S3 protocol, so that tests
// run a real SDK client against real HTTP and break it where they like.
//
// It promises S3's answers to GetObject (the whole, one range, or one version),
// HeadObject, PutObject with metadata, DeleteObject, ListObjectsV2,
// ListObjectVersions and the four calls of a multipart upload as this project
// sends them: exact keys in both addressing styles, conditions,
// pagination by opaque tokens, encoding-type=url, aws-chunked bodies, error
// documents with AWS's codes, and a Date header from the memory's clock. Connections are pipes within the
// process: nothing leaves it, and a test may run in a testing/synctest bubble.
//
// It does not check signatures or checksums, and answers 501 to any other operation, so that a test that begins
// to use one says so.
package s3test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Server is an S3 endpoint with one bucket. It is an http.Handler, for tests
// that want it behind a listener of their own (TLS, another process).
type Server struct {
	memory    *bucket.Memory
	transport *http.Transport

	mu       sync.Mutex
	requests []Request
	faults   []*Fault
	uploads  map[string]*upload // by id
	created  int                // uploads so far
}

// Request is one request as it arrived, retries of the SDK included.
type Request struct {
	Op     string // as in Fault; "" for what is not served
	Key    string // the prefix for a listing
	Header http.Header
	Query  url.Values
}

// New serves memory until the test ends.
func New(t testing.TB, memory *bucket.Memory) *Server {
	t.Helper()
	listener := newPipeListener()
	s := &Server{memory: memory, transport: &http.Transport{DialContext: listener.dial}, uploads: map[string]*upload{}}
	server := &http.Server{Handler: s}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("s3test: serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	return s
}

// Client returns an SDK client whose connections end at the server whatever
// host they name. It retries as the SDK does, without the SDK's pauses.
func (s *Server) Client(options ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://s3.test"),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   &http.Client{Transport: s.transport},
		// What config.LoadDefaultConfig gives a client in production.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxBackoff = time.Nanosecond
			o.RateLimiter = ratelimit.None
		}),
	}, options...)
}

// Requests returns the requests with this Op so far, in order of arrival.
func (s *Server) Requests(op string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool { return r.Op != op })
}

// ServeHTTP answers one S3 request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away in the middle of its body
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.stamp(w)

	if bucketName, _ := address(r, s.memory.Name()); bucketName != s.memory.Name() {
		writeError(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	op, key := s.operation(r)
	s.mu.Lock()
	s.requests = append(s.requests, Request{Op: op, Key: key, Header: r.Header.Clone(), Query: r.URL.Query()})
	failure := s.nextFailure(op, key)
	s.mu.Unlock()
	if failure != nil {
		failure(w, r, http.HandlerFunc(s.serve))
		return
	}
	s.serve(w, r)
}

// stamp gives an answer the headers that S3 puts on every one. A call that was
// held up is stamped again, since Date is the time of the answer.
func (s *Server) stamp(w http.ResponseWriter) {
	w.Header().Set("Date", s.memory.Now().Format(http.TimeFormat))
	w.Header().Set("X-Amz-Request-Id", "S3TEST")
}

// address splits a request's target into bucket and key, in either style:
// the bucket in the host or at the start of the path. The path is taken as it
// arrived, decoded once and never cleaned: "a//../b" is a key.
func address(r *http.Request, bucketName string) (name, key string) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if strings.HasPrefix(r.Host, bucketName+".") {
		return bucketName, path
	}
	name, key, _ = strings.Cut(path, "/")
	return name, key
}

// operation names the call that a request stands for, as bucket.CallError
// does, and the key (or prefix) that it is about.
func (s *Server) operation(r *http.Request) (op, key string) {
	_, key = address(r, s.memory.Name())
	query := r.URL.Query()
	if key == "" && r.Method == http.MethodGet && query.Get("list-type") == "2" {
		return "list", query.Get("prefix")
	}
	if key == "" && r.Method == http.MethodGet && query.Has("versions") {
		return "versions", query.Get("prefix")
	}
	query.Del("x-id") // the SDK's note of the operation's name
	if key == "" || r.Header.Get("X-Amz-Copy-Source") != "" {
		return "", key
	}
	return operations[r.Method+" "+strings.Join(slices.Sorted(maps.Keys(query)), " ")], key
}

// operations are the calls about an object by their method and the names of
// their parameters.
var operations = map[string]string{
	"GET ":                    "get",
	"GET versionId":           "get",
	"HEAD ":                   "head",
	"DELETE versionId":        "delete",
	"PUT ":                    "put",
	"DELETE ":                 "delete",
	"POST uploads":            "create",
	"PUT partNumber uploadId": "part",
	"POST uploadId":           "complete",
	"DELETE uploadId":         "abort",
}
