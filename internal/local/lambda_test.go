package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/local"
)

func TestReplyComesBackAsTheHandlerWroteIt(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("echo", "echo")}})
	for _, payload := range []string{`null`, `0`, `0.0`, `"Hello"`, `[]`, `{"a":[1,2.50],"b":"<&>"}`} {
		inv := invoke(t, stack, "echo", payload)
		if inv.ErrorType != "" || string(inv.Payload) != payload {
			t.Errorf("echo of %s: %+v", payload, inv)
		}
		if inv.RequestID == "" {
			t.Error("no request id")
		}
	}
}

func TestHandlersErrorKeepsItsTypeAndItsBody(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("fail", "fail")}})
	inv := invoke(t, stack, "fail", `{}`)
	if inv.ErrorType != "refusal" {
		t.Errorf("error type %q", inv.ErrorType)
	}
	const want = `{"errorMessage":"not today: \u003c\"\u0026\"\u003e","errorType":"refusal"}`
	if string(inv.Payload) != want {
		t.Errorf("body\n%s, want\n%s", inv.Payload, want)
	}
}

func TestProcessIsReusedWhileWarm(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("whoami", "whoami")}})
	first, second := pidOf(t, invoke(t, stack, "whoami", `{}`)), pidOf(t, invoke(t, stack, "whoami", `{}`))
	if first != second {
		t.Errorf("the second invocation ran in process %d, the first in %d", second, first)
	}
	if list := stack.Processes(); len(list) != 1 || list[0].PID != first || list[0].RequestID != "" {
		t.Errorf("processes %+v", list)
	}
}

func pidOf(t *testing.T, inv local.Invocation) int {
	t.Helper()
	var who struct{ PID int }
	if err := json.Unmarshal(inv.Payload, &who); err != nil {
		t.Fatalf("%s: %v", inv.Payload, err)
	}
	return who.PID
}

func TestPanicIsTheHandlersErrorAndEndsTheProcess(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("panic", "panic")}})
	for range 2 { // the second one needs a new process
		inv := invoke(t, stack, "panic", `{}`)
		kind, message := body(t, inv)
		if inv.ErrorType != "string" || kind != "string" || message != "out of cheese" {
			t.Errorf("panic gave %s: %s", inv.ErrorType, inv.Payload)
		}
		if !bytes.Contains(inv.Payload, []byte("stackTrace")) {
			t.Errorf("no stack trace in %s", inv.Payload)
		}
	}
}

func TestKilledProcessEndsItsInvocationAtOnceAndIsReplaced(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("gate", "gate")}})
	gate := newPipes(t)
	result := async(t, stack, "gate", gate.payload(t))
	pid := gate.begun(t)
	list := stack.Processes()
	if len(list) != 1 || list[0].PID != pid || list[0].RequestID == "" {
		t.Fatalf("processes %+v, want %d at work", list, pid)
	}
	if err := stack.Kill(pid); err != nil {
		t.Fatal(err)
	}
	inv := <-result
	want := `{"errorType":"Runtime.ExitError","errorMessage":"RequestId: ` + list[0].RequestID +
		` Error: Runtime exited with error: signal: killed"}`
	if inv.ErrorType != "Runtime.ExitError" || string(inv.Payload) != want {
		t.Errorf("got %s: %s, want %s", inv.ErrorType, inv.Payload, want)
	}
	again := newPipes(t)
	result = async(t, stack, "gate", again.payload(t))
	if next := again.begun(t); next == pid {
		t.Error("the dead process serves again")
	}
	again.open(t)
	if inv := <-result; inv.ErrorType != "" {
		t.Errorf("after the kill: %s", inv.Payload)
	}
	if err := stack.Kill(pid); !errors.Is(err, local.ErrNoProcess) {
		t.Errorf("killing it again: %v", err)
	}
}

func TestProcessThatIsKilledWhileIdleCostsNobodyAnything(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("whoami", "whoami")}})
	last := pidOf(t, invoke(t, stack, "whoami", `{}`))
	for range 10 { // each time the next invocation comes while the process dies
		if err := stack.Kill(last); err != nil {
			t.Fatal(err)
		}
		inv := invoke(t, stack, "whoami", `{}`)
		if inv.ErrorType != "" {
			t.Fatalf("after the kill: %s", inv.Payload)
		}
		next := pidOf(t, inv)
		if next == last {
			t.Fatal("the dead process serves again")
		}
		last = next
	}
}

func TestKillTouchesNobodyElsesProcess(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("echo", "echo")}})
	if err := stack.Kill(os.Getpid()); !errors.Is(err, local.ErrNoProcess) {
		t.Errorf("kill of the test itself: %v", err)
	}
}

func TestExitInTheMiddleOfAnInvocation(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("exit", "exit")}})
	inv := invoke(t, stack, "exit", `{}`)
	_, message := body(t, inv)
	if inv.ErrorType != "Runtime.ExitError" || !strings.HasSuffix(message, "Error: Runtime exited with error: exit status 3") {
		t.Errorf("got %s: %s", inv.ErrorType, inv.Payload)
	}
}

func TestExitAtStartIsToldWithWhatTheProcessPrinted(t *testing.T) {
	var logs syncBuffer
	stack := start(t, local.Config{
		Functions: []local.Function{function("broken", "nobody wrote this handler")},
		Stderr:    &logs,
	})
	inv := invoke(t, stack, "broken", `{}`)
	_, message := body(t, inv)
	if inv.ErrorType != "Runtime.ExitError" ||
		!strings.HasSuffix(message, "Runtime exited with error: exit status 1\nno handler \"nobody wrote this handler\"") {
		t.Errorf("got %s: %s", inv.ErrorType, inv.Payload)
	}
	if got := logs.String(); got != "no handler \"nobody wrote this handler\"\n" {
		t.Errorf("log %q", got)
	}
}

func TestCommandThatDoesNotExist(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{{Name: "ghost", Argv: []string{"./no-such-command"}}}})
	inv := invoke(t, stack, "ghost", `{}`)
	if inv.ErrorType != "Runtime.InvalidEntrypoint" || !bytes.Contains(inv.Payload, []byte("no-such-command")) {
		t.Errorf("got %s: %s", inv.ErrorType, inv.Payload)
	}
}

func TestTimeLimitEndsTheInvocationAndTheProcess(t *testing.T) {
	hang := function("hang", "hang")
	hang.Timeout = time.Second
	stack := start(t, local.Config{Functions: []local.Function{hang}})
	pipe := newPipes(t)
	result := async(t, stack, "hang", pipe.payload(t))
	pid := pipe.begun(t)
	request := stack.Processes()[0].RequestID
	inv := <-result
	want := `{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: ` + request + ` Error: Task timed out after 1.00 seconds"}`
	if inv.ErrorType != "Sandbox.Timedout" || string(inv.Payload) != want {
		t.Errorf("got %s: %s, want %s", inv.ErrorType, inv.Payload, want)
	}
	// The slot is free once the process has been waited for.
	again := newPipes(t)
	result = async(t, stack, "hang", again.payload(t))
	if next := again.begun(t); next == pid {
		t.Error("the process was used again")
	}
	if alive(pid) {
		t.Errorf("process %d survived its time limit", pid)
	}
	<-result
}

func TestMoreInvocationsThanConcurrencyWaitInLine(t *testing.T) {
	gate := function("gate", "gate")
	gate.Concurrency = 2
	stack := start(t, local.Config{Functions: []local.Function{gate}})
	const count = 6
	orders := make([]pipes, count)
	results := make([]<-chan local.Invocation, count)
	began := make(chan int, count)
	for i := range count {
		orders[i] = newPipes(t)
		results[i] = async(t, stack, "gate", orders[i].payload(t))
		go func() {
			orders[i].begun(t)
			began <- i
		}()
	}
	pids := map[string]bool{}
	for range count / 2 {
		a, b := <-began, <-began
		if working := len(stack.Processes()); working != 2 {
			t.Errorf("%d processes, want 2", working)
		}
		select {
		case extra := <-began:
			t.Fatalf("invocation %d began beside %d and %d", extra, a, b)
		default:
		}
		for _, i := range []int{a, b} {
			orders[i].open(t)
			inv := <-results[i]
			if inv.ErrorType != "" {
				t.Errorf("invocation %d: %s", i, inv.Payload)
			}
			pids[string(inv.Payload)] = true
		}
	}
	if len(pids) != 2 {
		t.Errorf("served by processes %v, want two", pids)
	}
}

func TestInvokerThatLeavesDoesNotStopTheFunction(t *testing.T) {
	stack := start(t, local.Config{Functions: []local.Function{function("gate", "gate")}})
	gate := newPipes(t)
	ctx, leave := context.WithCancelCause(t.Context())
	failed := make(chan error)
	go func() {
		_, err := stack.Invoke(ctx, "gate", gate.payload(t))
		failed <- err
	}()
	pid := gate.begun(t)
	why := errors.New("the state timed out")
	leave(why)
	if err := <-failed; !errors.Is(err, why) {
		t.Errorf("the invoker got %v", err)
	}
	// While it goes on, its process is taken: with a concurrency of 1 the next waits in line,
	waiting, giveUp := context.WithCancel(t.Context())
	go func() {
		_, err := stack.Invoke(waiting, "gate", gate.payload(t))
		failed <- err
	}()
	giveUp()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("in line: %v", err)
	}
	// and when it has ended, the same process serves again.
	gate.open(t)
	again := newPipes(t)
	result := async(t, stack, "gate", again.payload(t))
	if next := again.begun(t); next != pid {
		t.Errorf("process %d served after %d", next, pid)
	}
	again.open(t)
	<-result
}

func TestWhatTheFunctionStartedDiesWithIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a function's whole process group")
	}
	stack := start(t, local.Config{Functions: []local.Function{function("spawn", "spawn")}})
	for _, exits := range []bool{false, true} {
		pipe := newPipes(t)
		pipe.Exit = exits
		result := async(t, stack, "spawn", pipe.payload(t))
		held, err := os.Open(pipe.Tell)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		inv := <-result
		if exits {
			_, message := body(t, inv)
			if !strings.HasSuffix(message, "Error: Runtime exited without providing a reason") {
				t.Errorf("the function that exits: %s", inv.Payload)
			}
		} else {
			pid, err := strconv.Atoi(string(inv.Payload))
			if err != nil {
				t.Fatalf("%s: %v", inv.Payload, err)
			}
			if err := stack.Kill(pid); err != nil {
				t.Fatal(err)
			}
		}
		// The pipe ends when nobody holds it any more.
		if _, err := held.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the pipe says %v", err)
		}
	}
}

func TestFunctionSeesLambdasEnvironmentAndNotOurs(t *testing.T) {
	t.Setenv("AWS_PROFILE", "production")
	t.Setenv("SECRET_OF_THE_PARENT", "1")
	whoami := function("who-am_i", "whoami")
	whoami.Env = append(whoami.Env, "STATE_BUCKET=state")
	whoami.Timeout = 20 * time.Second
	stack := start(t, local.Config{Functions: []local.Function{whoami}})
	inv := invoke(t, stack, "who-am_i", `{}`)
	var got struct {
		Env          []string
		Request, ARN string
		Remaining    float64
	}
	if err := json.Unmarshal(inv.Payload, &got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"AWS_LAMBDA_FUNCTION_NAME=who-am_i", "TZ=UTC", "AWS_REGION=us-east-1", "STATE_BUCKET=state",
		"AWS_ENDPOINT_URL_S3=" + stack.Endpoint(), "AWS_ENDPOINT_URL_SFN=" + stack.Endpoint(), "LOCKSTEP_S3_PATH_STYLE=true",
		"PATH=" + os.Getenv("PATH"),
	} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, v := range got.Env {
		if strings.HasPrefix(v, "AWS_PROFILE=") || strings.HasPrefix(v, "SECRET_OF_THE_PARENT=") {
			t.Errorf("the function sees the parent's %s", v)
		}
	}
	if got.ARN != "arn:aws:lambda:us-east-1:000000000000:function:who-am_i" {
		t.Errorf("invoked ARN %s", got.ARN)
	}
	if got.Request != inv.RequestID {
		t.Errorf("request id %s in the function, %s outside", got.Request, inv.RequestID)
	}
	if got.Remaining <= 0 || got.Remaining > 20 {
		t.Errorf("%v s remain of 20", got.Remaining)
	}
}

func TestUnknownFunction(t *testing.T) {
	stack := start(t, local.Config{})
	if _, err := stack.Invoke(t.Context(), "nobody", nil); !errors.Is(err, local.ErrNoFunction) {
		t.Errorf("got %v", err)
	}
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	ok := local.Function{Name: "a", Argv: []string{"true"}}
	with := func(change func(*local.Function)) local.Config {
		f := ok
		change(&f)
		return local.Config{Functions: []local.Function{f}}
	}
	for name, c := range map[string]struct {
		cfg  local.Config
		want string
	}{
		"no command":       {with(func(f *local.Function) { f.Argv = nil }), "no command"},
		"odd name":         {with(func(f *local.Function) { f.Name = "a/b" }), `"a/b"`},
		"half a second":    {with(func(f *local.Function) { f.Timeout = 500 * time.Millisecond }), "500ms"},
		"an hour":          {with(func(f *local.Function) { f.Timeout = time.Hour }), "1h0m0s"},
		"no concurrency":   {with(func(f *local.Function) { f.Concurrency = -1 }), "-1"},
		"twice":            {local.Config{Functions: []local.Function{ok, ok}}, "twice"},
		"rule for nothing": {local.Config{Functions: []local.Function{ok}, OnStatusChange: "b"}, `"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			stack, err := local.Start(t.Context(), c.cfg)
			if err == nil {
				_ = stack.Close(context.Background())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not name %s", err, c.want)
			}
		})
	}
}

// syncBuffer is a buffer that processes and the test share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
