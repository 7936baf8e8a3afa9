package local

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Region and Account are where everything in a stack claims to live.
const (
	Region  = "us-east-1"
	Account = "000000000000"
)

// Config describes one stack.
type Config struct {
	// Functions are the Lambda functions of the stack.
	Functions []Function
	// OnStatusChange names the function that is invoked with the EventBridge
	// event when an execution ends ABORTED, TIMED_OUT or FAILED. Empty means
	// that there is no such rule.
	OnStatusChange string
	// Substitutions are the ${Name} values of the definition beside the
	// functions' own: a function "acquire" is ${AcquireFunctionArn}.
	Substitutions map[string]string
	// Logger receives the stack's own decisions; nil means slog.Default.
	Logger *slog.Logger
	// Stderr receives what the functions print, whole lines at a time; nil
	// discards it.
	Stderr io.Writer
}

// Function is one Lambda function and the command that serves it.
type Function struct {
	Name string
	// Argv is the command; it must speak the Lambda Runtime API, as every
	// binary that calls lambda.Start does.
	Argv []string
	// Env is added to the environment that Lambda gives, as NAME=value.
	Env []string
	// Timeout is the function's time limit, whole seconds from 1 s to 15 min.
	// Zero means Lambda's default, 3 s.
	Timeout time.Duration
	// Concurrency is the most processes that serve the function at a time; more
	// invocations wait in line. Zero means 1.
	Concurrency int
}

// Process is a function process that is alive.
type Process struct {
	Function  string
	PID       int
	RequestID string // of the invocation it works on; empty while idle
}

// ErrNoProcess means that a pid is not one of the stack's living processes.
var ErrNoProcess = errors.New("no such function process in this stack")

// Stack is a running local AWS. Its methods may be called concurrently.
type Stack struct{}

// Start brings a stack up. ctx bounds the start alone; end the stack with Close.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	return nil, errors.New("not yet")
}

// Endpoint returns the URL of S3, the Lambda Runtime API and Step Functions.
func (s *Stack) Endpoint() string { return "" }

// S3 returns a client for the stack's buckets.
func (s *Stack) S3() *s3.Client { return nil }

// CreateBucket creates an empty bucket.
func (s *Stack) CreateBucket(ctx context.Context, name string) error { return nil }

// Invocation is how an invocation ended, as Lambda's Invoke reports it.
type Invocation struct {
	RequestID string
	// ErrorType is empty when the function returned normally.
	ErrorType string
	// Payload is the function's reply, or the error body, verbatim.
	Payload []byte
}

// Invoke calls a function and waits for its end. An error means that the
// function was not run to an end that Lambda would report: it is unknown, or
// ctx or the stack ended first.
func (s *Stack) Invoke(ctx context.Context, function string, payload []byte) (Invocation, error) {
	return Invocation{}, nil
}

// Processes lists the function processes that are alive, oldest first.
func (s *Stack) Processes() []Process { return nil }

// Kill sends SIGKILL to a function process of this stack. It returns
// ErrNoProcess for any other pid.
func (s *Stack) Kill(pid int) error { return nil }

// Close ends the stack: it aborts running executions, lets the status-change
// rule finish (for a short while), stops every function process (TERM, then
// KILL) and waits for all of it.
func (s *Stack) Close(ctx context.Context) error { return nil }
