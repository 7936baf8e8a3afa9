package asl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"math/rand/v2"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

const (
	waiting = `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":60,"End":true}}}`
	calling = `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:lambda:us-east-1:123456789012:function:f","End":true}}}`
)

// lambda is a function in place of a Lambda.
type lambda func(ctx context.Context, call asl.Call) (asl.Invocation, error)

func (f lambda) Invoke(ctx context.Context, call asl.Call) (asl.Invocation, error) {
	return f(ctx, call)
}

// start begins an execution in real time, which a synctest bubble fakes.
func start(t *testing.T, definition, input string, cfg asl.Config) *asl.Execution {
	t.Helper()
	def, err := asl.Load([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.RoleARN, cfg.Random = "M", "arn:aws:iam::123456789012:role/R", rand.NewPCG(1, 2)
	m, err := asl.NewMachine(def, cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Start(t.Context(), asl.Input{Name: "N", JSON: input})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAbortEndsAWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, waiting, "{}", asl.Config{})
		time.Sleep(10 * time.Second)
		if !e.Abort("", "") {
			t.Error("Abort says that the execution had ended")
		}
		if e.Abort("late", "") {
			t.Error("a second Abort counts")
		}
		e.Wait()
		compareLines(t, `1<-0 ExecutionStarted input={} roleArn=arn:aws:iam::123456789012:role/R
2<-0 WaitStateEntered input={} name=W
3<-0 ExecutionAborted {}
ABORTED`, compact(t, e))
		d := e.Describe()
		if took := time.Time(*d.StopDate).Sub(time.Time(d.StartDate)); took != 10*time.Second {
			t.Errorf("the execution took %v", took)
		}
	})
}

func TestAbortKeepsErrorAndCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, waiting, "{}", asl.Config{})
		synctest.Wait()
		e.Abort("Why", "because")
		e.Wait()
		got := compact(t, e)
		compareLines(t, "3<-0 ExecutionAborted cause=because error=Why\nABORTED error=Why cause=because", got[2:])
	})
}

func TestAbortTellsTheFunctionThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned atomic.Bool
		e := start(t, calling, "{}", asl.Config{Lambda: lambda(func(ctx context.Context, _ asl.Call) (asl.Invocation, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // a function is slow to notice
			returned.Store(true)
			return asl.Invocation{}, ctx.Err()
		})})
		synctest.Wait()
		e.Abort("", "")
		<-e.Ended()
		if returned.Load() {
			t.Error("the status waited for the function")
		}
		e.Wait()
		if !returned.Load() {
			t.Error("Wait did not")
		}
	})
}

func TestTheCallersContextAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def, err := asl.Load([]byte(waiting))
		if err != nil {
			t.Fatal(err)
		}
		m, err := asl.NewMachine(def, asl.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		e, err := m.Start(ctx, asl.Input{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		<-e.Ended()
		if status := e.Wait(); status != asl.StatusAborted {
			t.Errorf("status %s", status)
		}
	})
}

func TestMachineTimeoutStopsExactlyThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, `{"TimeoutSeconds":3,`+waiting[1:], "{}", asl.Config{})
		if status := e.Wait(); status != asl.StatusTimedOut {
			t.Fatalf("status %s", status)
		}
		d := e.Describe()
		if took := time.Time(*d.StopDate).Sub(time.Time(d.StartDate)); took != 3*time.Second {
			t.Errorf("stopDate is %v after startDate", took)
		}
		if d.Error != nil || d.Cause != nil {
			t.Error("DescribeExecution shows an error")
		}
		if d.RedriveStatus != "REDRIVABLE" || d.RedriveStatusReason != "" {
			t.Errorf("redrive: %s, %q", d.RedriveStatus, d.RedriveStatusReason)
		}
	})
}

func TestTaskTimeoutInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, strings.Replace(calling, `"End"`, `"TimeoutSeconds":5,"End"`, 1), "{}", asl.Config{
			Lambda: lambda(func(ctx context.Context, _ asl.Call) (asl.Invocation, error) {
				<-ctx.Done()
				return asl.Invocation{}, ctx.Err()
			}),
		})
		begun := time.Now()
		e.Wait()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		compareLines(t, "5<-4 LambdaFunctionTimedOut error=States.Timeout\n6<-5 ExecutionFailed error=States.Timeout\nFAILED error=States.Timeout", compact(t, e)[4:])
	})
}

func TestWaitsAreScaled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scale, err := asl.ScaleWaits(0.01)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		start(t, waiting, "{}", asl.Config{WaitScale: scale}).Wait()
		if took := time.Since(begun); took != 600*time.Millisecond {
			t.Errorf("a minute took %v", took)
		}
	})
	for _, by := range []float64{-1, 1001} {
		if _, err := asl.ScaleWaits(by); err == nil {
			t.Errorf("a scale of %v is accepted", by)
		}
	}
}

// attempts runs a task that fails until its retries are used up, and returns the delays between its attempts.
func attempts(t *testing.T, retrier string) (delays []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		e := start(t, strings.Replace(calling, `"End"`, `"Retry":[`+retrier+`],"End"`, 1), "{}", asl.Config{
			Lambda: lambda(func(context.Context, asl.Call) (asl.Invocation, error) {
				if !last.IsZero() {
					delays = append(delays, time.Since(last))
				}
				last = time.Now()
				return asl.Invocation{}, &asl.FunctionError{Type: "E", Body: "b"}
			}),
		})
		e.Wait()
	})
	return delays
}

func TestRetryDelays(t *testing.T) {
	s := time.Second
	for name, test := range map[string]struct {
		retrier string
		want    []time.Duration
	}{
		"defaults": {`{"ErrorEquals":["States.ALL"]}`, []time.Duration{1 * s, 2 * s, 4 * s}},
		"the fifth is 16 s": {`{"ErrorEquals":["States.TaskFailed"],"MaxAttempts":5}`,
			[]time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s}},
		"interval and rate": {`{"ErrorEquals":["E"],"IntervalSeconds":10,"BackoffRate":1.5}`,
			[]time.Duration{10 * s, 15 * s, 22500 * time.Millisecond}},
		"cap":      {`{"ErrorEquals":["E"],"IntervalSeconds":2,"MaxDelaySeconds":3,"MaxAttempts":3}`, []time.Duration{2 * s, 3 * s, 3 * s}},
		"never":    {`{"ErrorEquals":["E"],"MaxAttempts":0}`, nil},
		"no match": {`{"ErrorEquals":["States.Timeout"]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := attempts(t, test.retrier); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestJitterStaysBelowTheDelay(t *testing.T) {
	got := attempts(t, `{"ErrorEquals":["E"],"IntervalSeconds":10,"BackoffRate":1,"MaxAttempts":20,"JitterStrategy":"FULL"}`)
	if len(got) != 20 {
		t.Fatalf("%d retries", len(got))
	}
	for _, d := range got {
		if d < 0 || d > 10*time.Second {
			t.Errorf("a delay of %v", d)
		}
	}
	if slices.Max(got) == slices.Min(got) {
		t.Error("all delays are the same")
	}
}

func TestTheHistoryEndsAt25000Events(t *testing.T) {
	e := run(t, `{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{"Variable":"$.x","IsPresent":true,"Next":"S"}],"Default":"C"},"S":{"Type":"Succeed"}}}`, "{}", "")
	events := e.History()
	last := events[len(events)-1]
	name, cause := last.Failure()
	if last.ID != 25000 || last.PreviousEventID != 24999 || last.Type != asl.ExecutionFailed || name != "States.Runtime" ||
		cause != "The execution reached the maximum number of history events (25000)." {
		t.Errorf("the last event is %+v: %s, %s", last, name, cause)
	}
	if e.Status() != asl.StatusFailed {
		t.Errorf("status %s", e.Status())
	}
}

func TestDataLimits(t *testing.T) {
	const cause = "The state/task '%s' returned a result with a size exceeding the maximum number of bytes service limit."
	big := fmt.Sprintf(`{"f":{"return":%q}}`, strings.Repeat("x", 256*1024))
	t.Run("plain function, caught by States.ALL", func(t *testing.T) {
		e := run(t, strings.Replace(calling, `"End":true}`, `"Catch":[{"ErrorEquals":["States.ALL"],"Next":"S"}],"End":true},"S":{"Type":"Succeed"}`, 1), "{}", big)
		f := "cause=" + fmt.Sprintf(cause, "arn:aws:lambda:us-east-1:123456789012:function:f") + " error=States.DataLimitExceeded"
		if got := compact(t, e); got[4] != "5<-4 LambdaFunctionFailed "+f || e.Status() != asl.StatusSucceeded {
			t.Errorf("got %s; %s", got[4], e.Status())
		}
	})
	t.Run("lambda:invoke", func(t *testing.T) {
		e := run(t, `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f"},"End":true}}}`, "{}", big)
		f := "cause=" + fmt.Sprintf(cause, "lambda") + " error=States.DataLimitExceeded"
		compareLines(t, "5<-4 TaskFailed "+f+" resource=invoke resourceType=lambda\n6<-5 ExecutionFailed "+f, compact(t, e)[4:6])
	})
	t.Run("Pass", func(t *testing.T) {
		e := run(t, `{"StartAt":"State_1","States":{"State_1":{"Type":"Pass","ResultPath":"$.more","End":true}}}`,
			fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 200*1024)), "")
		compareLines(t, "3<-2 ExecutionFailed cause="+fmt.Sprintf(cause, "State_1")+" error=States.DataLimitExceeded", compact(t, e)[2:3])
	})
}

// story records what an observer is told.
type story struct {
	mu    sync.Mutex
	lines []string
	on    func(e *asl.Execution, event asl.Event)
}

func (s *story) Event(e *asl.Execution, event asl.Event) {
	s.mu.Lock()
	s.lines = append(s.lines, fmt.Sprintf("%s %d %s", e.Name(), event.ID, event.Type))
	s.mu.Unlock()
	if s.on != nil {
		s.on(e, event)
	}
}

func (s *story) Status(e *asl.Execution, status asl.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%s %s", e.Name(), status))
}

func TestAnObserverIsToldInOrderAndMayAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{on: func(e *asl.Execution, event asl.Event) {
			if event.Type == "WaitStateEntered" {
				e.Abort("", "")
			}
		}}
		e := start(t, waiting, "{}", asl.Config{Observer: s})
		e.Wait()
		want := []string{"N RUNNING", "N 1 ExecutionStarted", "N 2 WaitStateEntered", "N 3 ExecutionAborted", "N ABORTED"}
		if !slices.Equal(s.lines, want) {
			t.Errorf("got %q, want %q", s.lines, want)
		}
	})
}

func TestAnObserverHoldsTheMachineAndAbortDoesNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &story{on: func(_ *asl.Execution, event asl.Event) {
			if event.Type == "LambdaFunctionSucceeded" {
				<-release
			}
		}}
		e := start(t, calling, "{}", asl.Config{Observer: s, Lambda: lambda(func(context.Context, asl.Call) (asl.Invocation, error) {
			return asl.Invocation{Payload: []byte("1")}, nil
		})})
		synctest.Wait()
		if n := len(e.History()); n != 5 {
			t.Errorf("the machine went on to event %d", n)
		}
		e.Abort("", "")
		if e.Status() != asl.StatusAborted {
			t.Errorf("status %s", e.Status())
		}
		close(release)
		e.Wait()
		want := []string{"N 5 LambdaFunctionSucceeded", "N 6 ExecutionAborted", "N ABORTED"}
		if got := s.lines[len(s.lines)-3:]; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestEventsHaveTheShapeOfGetExecutionHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock starts with the year 2000
		e := start(t, `{"StartAt":"P","States":{"P":{"Type":"Pass","Result":"<&>","End":true}}}`, `{ "a": 1 }`, asl.Config{})
		e.Wait()
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(e.History()); err != nil {
			t.Fatal(err)
		}
		const want = `[{"timestamp":"2000-01-01T00:00:00.000Z","type":"ExecutionStarted","id":1,"previousEventId":0,"executionStartedEventDetails":{"input":"{ \"a\": 1 }","inputDetails":{"truncated":false},"roleArn":"arn:aws:iam::123456789012:role/R"}},` +
			`{"timestamp":"2000-01-01T00:00:00.000Z","type":"PassStateEntered","id":2,"previousEventId":0,"stateEnteredEventDetails":{"name":"P","input":"{ \"a\": 1 }","inputDetails":{"truncated":false}}},` +
			`{"timestamp":"2000-01-01T00:00:00.000Z","type":"PassStateExited","id":3,"previousEventId":2,"stateExitedEventDetails":{"name":"P","output":"\"<&>\"","outputDetails":{"truncated":false}}},` +
			`{"timestamp":"2000-01-01T00:00:00.000Z","type":"ExecutionSucceeded","id":4,"previousEventId":3,"executionSucceededEventDetails":{"output":"\"<&>\"","outputDetails":{"truncated":false}}}]`
		if got := strings.TrimSpace(b.String()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		text, err := json.Marshal(e.Describe())
		const description = `{"executionArn":"arn:aws:states:us-east-1:123456789012:execution:M:N","stateMachineArn":"arn:aws:states:us-east-1:123456789012:stateMachine:M","name":"N","status":"SUCCEEDED","startDate":"2000-01-01T00:00:00.000Z","stopDate":"2000-01-01T00:00:00.000Z","input":"{ \"a\": 1 }","inputDetails":{"included":true},"output":"\"\u003c\u0026\u003e\"","outputDetails":{"included":true},"redriveCount":0,"redriveStatus":"NOT_REDRIVABLE","redriveStatusReason":"Execution is SUCCEEDED and cannot be redriven"}`
		if err != nil || string(text) != description {
			t.Errorf("got\n%s, %v\nwant\n%s", text, err, description)
		}
	})
}

func TestStartRefusesBadInput(t *testing.T) {
	m := machine(t, waiting, asl.Config{})
	for _, in := range []asl.Input{{JSON: "not"}, {JSON: "{} {}"}, {JSON: `"` + strings.Repeat("x", 256*1024) + `"`}} {
		if _, err := m.Start(t.Context(), in); !errors.Is(err, asl.ErrInvalidInput) {
			t.Errorf("%.20q: %v", in.JSON, err)
		}
	}
	for _, name := range []string{"a b", "a/b", strings.Repeat("x", 81)} {
		if _, err := m.Start(t.Context(), asl.Input{Name: name}); err == nil {
			t.Errorf("the name %.20q is accepted", name)
		}
	}
}

func TestErrorsOfALambdaThatAreNotItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, calling, "{}", asl.Config{Lambda: lambda(func(context.Context, asl.Call) (asl.Invocation, error) {
			return asl.Invocation{}, errors.New("connection refused")
		})})
		e.Wait()
		compareLines(t, "5<-4 LambdaFunctionFailed cause=connection refused error=Lambda.SdkClientException", compact(t, e)[4:5])
	})
}

func TestACallNamesItsFunction(t *testing.T) {
	for name, want := range map[string][2]string{
		"f":                 {"arn:aws:lambda:us-east-1:123456789012:function:f", ""},
		"f:7":               {"arn:aws:lambda:us-east-1:123456789012:function:f", "7"},
		"999:function:f":    {"arn:aws:lambda:us-east-1:999:function:f", ""},
		"999:function:f:v1": {"arn:aws:lambda:us-east-1:999:function:f", "v1"},
		"arn:aws:lambda:eu-west-1:999:function:f:v1": {"arn:aws:lambda:eu-west-1:999:function:f", "v1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got asl.Call
			start(t, `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName.$":"$"},"End":true}}}`,
				`"`+name+`"`, asl.Config{Lambda: lambda(func(_ context.Context, call asl.Call) (asl.Invocation, error) {
					got = call
					return asl.Invocation{}, nil
				})}).Wait()
			if got.FunctionARN != want[0] || got.Qualifier != want[1] || got.Function() != "f" || got.State != "T" || string(got.Payload) != "{}" {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}
