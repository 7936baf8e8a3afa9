package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// Region and Account are where everything in a stack claims to live.
const (
	Region  = "us-east-1"
	Account = "000000000000"
)

var (
	// ErrNoProcess means that a pid is not one of the stack's living processes.
	ErrNoProcess = errors.New("no such function process in this stack")
	// ErrNoFunction means that a function is not in the stack.
	ErrNoFunction = errors.New("no such function in this stack")
	// ErrNoMachine means that the stack was started without a definition.
	ErrNoMachine = errors.New("this stack has no state machine")
	// ErrExecutionExists means that the name of an execution was given before: to
	// one with another input, or to one that has ended.
	ErrExecutionExists = errors.New("an execution of this name exists")
	// ErrClosed means that the stack was closed.
	ErrClosed = errors.New("the stack is closed")
)

// Process is a function process that is alive.
type Process struct {
	Function  string
	PID       int
	RequestID string // of the invocation it works on; empty while idle
}

// Stack is a running local AWS. Its methods may be called concurrently.
type Stack struct {
	gateway    *gateway
	transport  *http.Transport
	launcher   *launcher
	pools      map[string]*pool // by function name
	order      []string         // of functions, as given
	s3         *s3.Client
	executions *executions
	closing    sync.Once
	closed     error // what Close returns
}

// stackNumber keeps the buckets of stacks apart in their one emulator.
var stackNumber atomic.Int64

// Start brings a stack up. ctx bounds the start alone; end the stack with Close.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, fmt.Errorf("start the local AWS: %w", err)
	}
	gateway, err := newGateway(ctx, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("start the local AWS: %w", err)
	}
	emulator, transport := emulatorURL(), loopbackTransport()
	client := newS3Client(gateway.url(), transport)
	pools := map[string]*pool{}
	machine, err := cfg.machine(functions{pools}, objects{client})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the local AWS: %w", err), gateway.listener.Close())
	}
	runtime := newRuntimeFront(emulator, transport)
	s := &Stack{
		gateway:   gateway,
		transport: transport,
		launcher:  newLauncher(),
		pools:     pools,
		s3:        client,
	}
	stderr := &lines{to: cfg.Stderr}
	lambda := newEmulatedLambda(emulator, transport)
	for _, f := range cfg.Functions {
		s.order = append(s.order, f.Name)
		s.pools[f.Name] = &pool{
			fn:       f,
			lambda:   lambda,
			runtime:  runtime,
			gateway:  gateway.address(),
			launcher: s.launcher,
			stderr:   stderr,
			logger:   cfg.Logger,
			slots:    make(chan struct{}, f.Concurrency),
		}
	}
	buckets := &s3Front{
		emulator:  emulator,
		transport: transport,
		prefix:    fmt.Sprintf("stack-%d.", stackNumber.Add(1)),
	}
	var rule *statusRule
	if cfg.OnStatusChange != "" {
		rule = &statusRule{target: pools[cfg.OnStatusChange], scale: cfg.WaitScale, logger: cfg.Logger}
	}
	s.executions = newExecutions(machine, rule)
	gateway.serve(buckets, runtime, &statesAPI{s.executions})
	return s, nil
}

func newS3Client(endpoint string, transport *http.Transport) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       Region,
		Credentials:  staticCredentials,
		UsePathStyle: true,
		HTTPClient:   &http.Client{Transport: transport},
		Logger:       logging.Nop{},
		// kumo sends no checksums with objects.
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
}

// Endpoint returns the URL of S3, the Lambda Runtime API and Step Functions.
func (s *Stack) Endpoint() string { return s.gateway.url() }

// S3 returns a client for the stack's buckets.
func (s *Stack) S3() *s3.Client { return s.s3 }

// CreateBucket creates an empty bucket.
func (s *Stack) CreateBucket(ctx context.Context, name string) error {
	if _, err := s.s3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name}); err != nil {
		return fmt.Errorf("create bucket %s: %w", name, err)
	}
	return nil
}

// Invoke calls a function and waits for its end. An error means that the
// function was not run to an end that Lambda would report: ErrNoFunction,
// ErrClosed, a fault of the emulator, or the end of ctx. The function itself
// goes on when ctx ends, as it does on Lambda.
func (s *Stack) Invoke(ctx context.Context, function string, payload []byte) (Invocation, error) {
	p, ok := s.pools[function]
	if !ok {
		return Invocation{}, fmt.Errorf("invoke %s: %w", function, ErrNoFunction)
	}
	return p.invoke(ctx, payload)
}

// StartExecution begins an execution of the state machine. An empty name means
// a new UUID, an empty input {}.
//
// As on AWS a name is used once: with the same input it returns the execution
// of that name while it runs; anything else is ErrExecutionExists.
func (s *Stack) StartExecution(name string, input []byte) (*asl.Execution, error) {
	return s.executions.start(name, input)
}

// Processes lists the function processes that are alive, by function in the
// order of Config, oldest first.
func (s *Stack) Processes() []Process {
	var list []Process
	for _, name := range s.order {
		for _, p := range s.pools[name].processes() {
			item := Process{Function: name, PID: p.cmd.Process.Pid}
			if work := p.work(); work.open {
				item.RequestID = work.request
			}
			list = append(list, item)
		}
	}
	return list
}

// Kill sends SIGKILL to a function process of this stack, and to what it
// started. It returns ErrNoProcess for any other pid.
func (s *Stack) Kill(pid int) error {
	for _, pool := range s.pools {
		processes := pool.processes()
		i := slices.IndexFunc(processes, func(p *process) bool { return p.cmd.Process.Pid == pid })
		if i >= 0 {
			processes[i].kill()
			return nil
		}
	}
	return fmt.Errorf("kill %d: %w", pid, ErrNoProcess)
}

// drainLimit is how long Close lets the status-change rule go on.
const drainLimit = 15 * time.Second

// Close ends the stack: it aborts the executions that run, lets the
// status-change rule tell of them (for 15 s at most, or until ctx ends), stops
// every function process (TERM, and KILL after 2 s) and waits for all of it.
func (s *Stack) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closed = s.close(ctx) })
	return s.closed
}

func (s *Stack) close(ctx context.Context) error {
	drain, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	s.executions.close(drain)
	var pools sync.WaitGroup
	for _, p := range s.pools {
		pools.Go(p.close)
	}
	pools.Wait()
	s.launcher.close()
	s.transport.CloseIdleConnections() // or the server would take them for clients
	err := s.gateway.close()
	s.transport.CloseIdleConnections()
	return err
}
