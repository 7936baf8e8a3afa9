package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/lockstep-pipeline/lockstep/internal/local"
)

// handlerVariable makes this test binary a Lambda function: its value names
// one of handlers.
const handlerVariable = "LOCAL_TEST_HANDLER"

// zoneVariable moves the tests to a time zone this far east of UTC.
const zoneVariable = "LOCAL_TEST_ZONE"

func TestMain(m *testing.M) {
	if east, err := time.ParseDuration(os.Getenv(zoneVariable)); err == nil {
		time.Local = time.FixedZone("elsewhere", int(east.Seconds()))
	}
	if order := os.Getenv(orphanVariable); order != "" {
		bearOrphan(order)
	}
	name := os.Getenv(handlerVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	log.SetFlags(0)
	handler, ok := handlers[name]
	if !ok {
		log.Fatalf("no handler %q", name)
	}
	lambda.Start(handler)
}

// A refusal is an error with a type of its own, which is what aws-lambda-go reports.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// order is what the test handlers understand.
type order struct {
	Tell string `json:"tell,omitempty"` // a pipe or file that the handler opens to say that it has begun
	Wait string `json:"wait,omitempty"` // a pipe that the handler reads to its end before it returns
	Exit bool   `json:"exit,omitempty"` // the process ends instead of returning
}

// held keeps a file from being closed by the garbage collector.
var held atomic.Pointer[os.File]

// attempts counts the invocations of a process.
var attempts atomic.Int64

// reportVariable names the pipe of the report handlers.
const reportVariable = "LOCAL_TEST_REPORT"

// handlers are what lambda.Start takes.
var handlers = map[string]any{
	"echo": func(_ context.Context, in json.RawMessage) (any, error) { return in, nil },
	"fail": func(context.Context, json.RawMessage) (any, error) { return nil, &refusal{`not today: <"&">`} },
	"panic": func(context.Context, json.RawMessage) (any, error) {
		panic("out of cheese")
	},
	"exit": func(context.Context, json.RawMessage) (any, error) {
		os.Exit(3)
		return nil, nil
	},
	// hang says that it has begun and never returns.
	"hang": func(_ context.Context, in json.RawMessage) (any, error) {
		if err := begin(in); err != nil {
			return nil, err
		}
		select {}
	},
	// hold keeps the pipe open for as long as its process lives.
	"hold": func(_ context.Context, in json.RawMessage) (any, error) {
		var o order
		if err := json.Unmarshal(in, &o); err != nil {
			return nil, err
		}
		pipe, err := os.OpenFile(o.Tell, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(pipe, os.Getpid())
		held.Store(pipe)
		select {}
	},
	// gate says that it has begun and returns when the test opens the gate.
	"gate": func(_ context.Context, in json.RawMessage) (any, error) {
		if err := begin(in); err != nil {
			return nil, err
		}
		var o order
		if err := json.Unmarshal(in, &o); err != nil {
			return nil, err
		}
		if _, err := os.ReadFile(o.Wait); err != nil {
			return nil, err
		}
		return os.Getpid(), nil
	},
	// whoami describes the environment that the function sees.
	"whoami": func(ctx context.Context, _ json.RawMessage) (any, error) {
		lc, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		return map[string]any{
			"pid":       os.Getpid(),
			"env":       os.Environ(),
			"request":   lc.AwsRequestID,
			"arn":       lc.InvokedFunctionArn,
			"remaining": time.Until(deadline).Seconds(),
		}, nil
	},
	// report writes its event into the pipe that the environment names.
	"report": func(_ context.Context, in json.RawMessage) (any, error) {
		return nil, os.WriteFile(os.Getenv(reportVariable), in, 0o600)
	},
	// report-later does so at the third attempt and fails before.
	"report-later": func(_ context.Context, in json.RawMessage) (any, error) {
		if attempts.Add(1) < 3 {
			return nil, &refusal{"later"}
		}
		return nil, os.WriteFile(os.Getenv(reportVariable), in, 0o600)
	},
	// double doubles every number of its input.
	"double": func(_ context.Context, in struct{ Numbers []int }) (any, error) {
		for i, n := range in.Numbers {
			if n < 0 {
				return nil, &refusal{"negative"}
			}
			in.Numbers[i] = 2 * n
		}
		return in.Numbers, nil
	},
	// client uses S3 and Step Functions with nothing but its environment, as our functions do.
	"client": func(ctx context.Context, in struct{ Bucket, Key, Execution string }) (any, error) {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, err
		}
		objects := s3.NewFromConfig(cfg, func(o *s3.Options) {
			o.UsePathStyle = os.Getenv("LOCKSTEP_S3_PATH_STYLE") == "true"
		})
		if _, err := objects.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &in.Bucket, Key: &in.Key, Body: strings.NewReader("from a function"),
		}); err != nil {
			return nil, err
		}
		runs, err := sfn.NewFromConfig(cfg).ListMapRuns(ctx, &sfn.ListMapRunsInput{ExecutionArn: &in.Execution})
		if err != nil {
			return nil, err
		}
		return len(runs.MapRuns), nil
	},
	// spawn leaves a process of its own behind, which holds the pipe open.
	"spawn": func(_ context.Context, in json.RawMessage) (any, error) {
		var o order
		if err := json.Unmarshal(in, &o); err != nil {
			return nil, err
		}
		pipe, err := os.OpenFile(o.Tell, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		child := exec.Command("sleep", "600")
		child.Stdout, child.Stderr = pipe, os.Stderr
		if err := child.Start(); err != nil {
			return nil, err
		}
		if o.Exit {
			os.Exit(0)
		}
		return os.Getpid(), nil
	},
}

// begin tells the test that an invocation is under way.
func begin(in json.RawMessage) error {
	var o order
	if err := json.Unmarshal(in, &o); err != nil {
		return err
	}
	if o.Tell == "" {
		return errors.New("the order names no pipe to tell")
	}
	return os.WriteFile(o.Tell, []byte(fmt.Sprint(os.Getpid(), "\n")), 0o600)
}

// function is served by this test binary with the handler of that name.
func function(name, handler string) local.Function {
	executable, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return local.Function{
		Name:    name,
		Argv:    []string{executable},
		Env:     []string{handlerVariable + "=" + handler},
		Timeout: 60 * time.Second,
	}
}

// start brings a stack up and closes it with the test.
func start(t *testing.T, cfg local.Config) *local.Stack {
	t.Helper()
	if cfg.Stderr == nil {
		cfg.Stderr = t.Output()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	stack, err := local.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return stack
}

func invoke(t *testing.T, stack *local.Stack, function, payload string) local.Invocation {
	t.Helper()
	inv, err := stack.Invoke(t.Context(), function, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// body decodes an error body.
func body(t *testing.T, inv local.Invocation) (errorType, message string) {
	t.Helper()
	var b struct{ ErrorType, ErrorMessage string }
	if err := json.Unmarshal(inv.Payload, &b); err != nil {
		t.Fatalf("error body %q: %v", inv.Payload, err)
	}
	return b.ErrorType, b.ErrorMessage
}

// pipes makes an order whose pipes the test holds the other ends of.
type pipes struct{ order }

func newPipes(t *testing.T) pipes {
	t.Helper()
	dir := t.TempDir()
	p := pipes{order{Tell: filepath.Join(dir, "tell"), Wait: filepath.Join(dir, "wait")}}
	for _, name := range []string{p.Tell, p.Wait} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p pipes) payload(t *testing.T) []byte {
	t.Helper()
	payload, err := json.Marshal(p.order)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// begun waits until the handler has begun, and returns its process's id.
func (p pipes) begun(t *testing.T) int {
	t.Helper()
	told, err := os.ReadFile(p.Tell)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(told)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// open lets the handler go on.
func (p pipes) open(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(p.Wait, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// alive tells whether a process exists.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// async runs an invocation beside the test.
func async(t *testing.T, stack *local.Stack, function string, payload []byte) <-chan local.Invocation {
	t.Helper()
	result := make(chan local.Invocation, 1)
	go func() {
		inv, err := stack.Invoke(context.WithoutCancel(t.Context()), function, payload)
		if err != nil {
			inv = local.Invocation{ErrorType: "test: " + err.Error()}
		}
		result <- inv
	}()
	return result
}
