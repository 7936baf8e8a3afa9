package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/local"
)

// crowd is a Map over more children than are shown: every third succeeds, the
// others fail, but for one that is too slow.
const crowd = `{"StartAt": "Each", "States": {"Each": {
  "Type": "Map", "Label": "Each", "ItemsPath": "$.items", "ToleratedFailurePercentage": 100, "ResultPath": null, "End": true,
  "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Which", "States": {
    "Which": {"Type": "Choice", "Choices": [{"Variable": "$.kind", "StringEquals": "good", "Next": "Good"}], "Default": "Bad"},
    "Good": {"Type": "Succeed"},
    "Bad": {"Type": "Fail", "ErrorPath": "$.kind", "Cause": "too\nbad"}}}}}}`

// long goes round until its history has some thousands of events.
const long = `{"StartAt": "Begin", "States": {
  "Begin": {"Type": "Pass", "Parameters": {"n": 0}, "Next": "Count"},
  "Count": {"Type": "Pass", "Parameters": {"n.$": "States.MathAdd($.n, 1)"}, "Next": "More"},
  "More": {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericLessThan": 700, "Next": "Count"}], "Default": "End"},
  "End": {"Type": "Fail", "Error": "Tired", "Cause": "of <counting> & \"more\""}}}`

func items(n int) string {
	var kinds []string
	for i := range n {
		kind := fmt.Sprint("Bad", i)
		if i%3 == 0 {
			kind = "good"
		}
		kinds = append(kinds, fmt.Sprintf(`{"kind": %q}`, kind))
	}
	return `{"items": [` + strings.Join(kinds, ", ") + `]}`
}

// What is printed of a local execution is printed of a deployed one, too, byte
// for byte.
func TestAHistoryIsPrintedAsALocalOneIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   local.Config
		input string
		want  []string
	}{
		"map":   {local.Config{Definition: []byte(crowd)}, items(9), []string{"3 of 9 children succeeded\n", ": FAILED: Bad1: too\nbad\n", "\nSUCCEEDED: {"}},
		"crowd": {local.Config{Definition: []byte(crowd)}, items(60), []string{"20 of 60 children succeeded\n", "  and 20 more\n"}},
		"long":  {local.Config{Definition: []byte(long)}, `{"caller's": "text"}`, []string{"\n2805  2804  ", "\nFAILED: Tired: of <counting> & \"more\"\n"}},
		"wait":  {local.Config{Definition: []byte(waiting)}, `{}`, []string{"WaitStateEntered", "\nRUNNING\n"}},
	} {
		d := deployConfig(t, c.cfg)
		execution, err := d.stack.StartExecution(name, []byte(c.input))
		if err != nil {
			t.Fatal(err)
		}
		if name == "wait" {
			d.seen.until(t, name, "WaitStateEntered")
		} else {
			execution.Wait()
		}
		var text, document bytes.Buffer
		if err := writeTable(&text, pastOf(execution)); err != nil {
			t.Fatal(err)
		}
		contains(t, text.String(), c.want...)
		if err := writeJSON(&document, map[string]any{"events": execution.History()}); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--stack", "lockstep", name}, {execution.ARN()}} {
			out, stderr, code := d.run(t, append([]string{"history"}, args...)...)
			if code != 0 || stderr != "" || out != text.String() {
				t.Errorf("%v: code %d, %s\n%.3000s\nwant\n%.3000s", args, code, stderr, out, &text)
			}
		}
		out, stderr, code := d.run(t, "history", "-o", "json", execution.ARN())
		if code != 0 || out != document.String() {
			t.Errorf("%s as JSON: code %d, %s\n%.3000s\nwant\n%.3000s", name, code, stderr, out, &document)
		}
	}
}

// A run of the pipeline has the events of tasks and of a Map over a manifest.
func TestAHistoryOfThePipelineIsPrintedAsALocalOneIs(t *testing.T) {
	t.Parallel()
	d := deployPipeline(t)
	d.upload(t, "incoming/a.csv", "a\n1\n")
	execution, err := d.stack.StartExecution("one", []byte(scheduled))
	if err != nil {
		t.Fatal(err)
	}
	execution.Wait()
	var text, document bytes.Buffer
	if err := writeTable(&text, pastOf(execution)); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(&document, map[string]any{"events": execution.History()}); err != nil {
		t.Fatal(err)
	}
	contains(t, text.String(), "MapRunStarted", "CommitLedger", "\nSUCCEEDED: ")
	if out, stderr, code := d.run(t, "history", "--stack", "lockstep", "one"); code != 0 || out != text.String() {
		t.Errorf("code %d, %s\n%s\nwant\n%s", code, stderr, out, &text)
	}
	if out, stderr, code := d.run(t, "history", "--stack", "lockstep", "one", "-o", "json"); code != 0 || out != document.String() {
		t.Errorf("code %d, %s\n%s\nwant\n%s", code, stderr, out, &document)
	}
}

func TestHistoryListsExecutions(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	out, stderr, code := d.run(t, "history", "--stack", "lockstep")
	if code != 0 || stderr != "" || out != "no executions of "+theMachine+"\n" {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	for _, name := range []string{"one", "two", "three"} {
		execution, err := d.stack.StartExecution(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if name == "two" {
			execution.Abort("", "")
		}
	}
	const at, took = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, `[\dm.]+s`
	for args, lines := range map[string][]string{
		"":                 {"NAME STATUS STARTED TOOK", "three RUNNING " + at + " -", "two ABORTED " + at + " " + took, "one RUNNING " + at + " -"},
		"--limit 1":        {"NAME STATUS STARTED TOOK", "three RUNNING " + at + " -"},
		"--status ABORTED": {"NAME STATUS STARTED TOOK", "two ABORTED " + at + " " + took},
	} {
		out, stderr, code := d.run(t, append([]string{"history", "--stack", "lockstep"}, strings.Fields(args)...)...)
		if code != 0 || stderr != "" {
			t.Errorf("code %d: %s", code, stderr)
		}
		matches(t, "the list "+args, out, strings.ReplaceAll(strings.Join(lines, "\n"), " ", " +")+"\n")
	}
	out, _, _ = d.run(t, "history", "--stack", "lockstep", "-o", "json")
	var report struct {
		Executions []struct {
			Name, ExecutionArn, Status string
			StartDate                  time.Time
			StopDate                   *time.Time
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Executions) != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	if e := report.Executions[1]; e.Name != "two" || e.ExecutionArn != executionARN(theMachine, "two") || e.Status != "ABORTED" || e.StopDate == nil || e.StopDate.Before(e.StartDate) {
		t.Errorf("%+v", e)
	}
	if e := report.Executions[0]; e.Status != "RUNNING" || e.StopDate != nil {
		t.Errorf("%+v", e)
	}
}

func TestHistoryRefuses(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	nobody := executionARN(theMachine, "nobody")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitUsage, "say what to look at: --stack, or the ARN of an execution"},
		{"one", exitUsage, "say what to look at: --stack, or the ARN of an execution"},
		{"--stack lockstep " + nobody, exitUsage, "an ARN says where the execution is: leave out --stack"},
		{"--pipeline weather " + nobody, exitUsage, "give --stack, too"},
		{"--stack lockstep --limit 0", exitUsage, "--limit: 0 is less than one"},
		{"--stack lockstep --status FAILED one", exitUsage, "--status is for a list"},
		{"--stack lockstep nobody", exitUnavailable, "Execution Does Not Exist: '" + nobody + "'"},
		{"-o json " + nobody, exitUnavailable, "Execution Does Not Exist: '" + nobody + "'"},
		{"--stack nobody", exitUnavailable, "Stack with id nobody does not exist"},
	} {
		out, stderr, code := d.run(t, append([]string{"history"}, strings.Fields(c.args)...)...)
		if code != c.code || out != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, want %d; %s%s, want %s", c.args, code, c.code, out, stderr, c.want)
		}
	}
}

// What AWS records and the local engine does not is kept as well.
func TestEventsOfTheAPIAreKeptWhole(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 122_999_999, time.UTC) // as a fraction of seconds becomes
	for want, event := range map[string]types.HistoryEvent{
		`{"timestamp":"2026-03-01T12:00:00.123Z","type":"TaskSubmitted","id":5,"previousEventId":4,"taskSubmittedEventDetails":{"resource":"startQuery","resourceType":"athena","output":"{}","outputDetails":{"truncated":true}}}`: {
			Id: 5, PreviousEventId: 4, Type: types.HistoryEventTypeTaskSubmitted, Timestamp: &at,
			TaskSubmittedEventDetails: &types.TaskSubmittedEventDetails{
				Resource: aws.String("startQuery"), ResourceType: aws.String("athena"), Output: aws.String("{}"),
				OutputDetails: &types.HistoryEventExecutionDataDetails{Truncated: true},
			},
		},
		`{"timestamp":"2026-03-01T12:00:00.123Z","type":"ExecutionRedriven","id":5,"previousEventId":0,"executionRedrivenEventDetails":{"redriveCount":2}}`: {
			Id: 5, Type: types.HistoryEventTypeExecutionRedriven, Timestamp: &at,
			ExecutionRedrivenEventDetails: &types.ExecutionRedrivenEventDetails{RedriveCount: aws.Int32(2)},
		},
		`{"timestamp":"2026-03-01T12:00:00.123Z","type":"PassStateExited","id":5,"previousEventId":4,"stateExitedEventDetails":{"name":"P","assignedVariables":{"Upper":"1"},"output":"{}"}}`: {
			Id: 5, PreviousEventId: 4, Type: types.HistoryEventTypePassStateExited, Timestamp: &at,
			StateExitedEventDetails: &types.StateExitedEventDetails{Name: aws.String("P"), Output: aws.String("{}"), AssignedVariables: map[string]string{"Upper": "1"}},
		},
		`{"timestamp":"2026-03-01T12:00:00.123Z","type":"MapIterationStarted","id":5,"previousEventId":4,"mapIterationStartedEventDetails":{"name":"M","index":0}}`: {
			Id: 5, PreviousEventId: 4, Type: types.HistoryEventTypeMapIterationStarted, Timestamp: &at,
			MapIterationStartedEventDetails: &types.MapIterationEventDetails{Name: aws.String("M")},
		},
	} {
		got, err := eventOf(event)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := json.Marshal(got)
		if err != nil || !sameJSON(t, string(text), want) {
			t.Errorf("%v: got\n%s, want\n%s", err, text, want)
		}
	}
	event, err := eventOf(types.HistoryEvent{
		Id: 5, PreviousEventId: 4, Type: types.HistoryEventTypeTaskSubmitted, Timestamp: &at,
		TaskSubmittedEventDetails: &types.TaskSubmittedEventDetails{Resource: aws.String("startQuery"), ResourceType: aws.String("athena")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := writeTable(&table, pastExecution{Description: asl.Description{Status: asl.StatusRunning}, Events: []asl.Event{event}}); err != nil {
		t.Fatal(err)
	}
	contains(t, table.String(), `5   4     +0.000s  TaskSubmitted         {"resource":"startQuery","resourceType":"athena"}`)
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	first, _ := json.Marshal(x)
	second, _ := json.Marshal(y)
	return bytes.Equal(first, second)
}

// Who follows asks for what is new, which may be more than a page. Some
// emulators give all events in order, whatever they are asked.
func TestNewsAreReadFromTheEnd(t *testing.T) {
	t.Parallel()
	d := deploy(t, long)
	execution, err := d.stack.StartExecution("long", nil)
	if err != nil {
		t.Fatal(err)
	}
	execution.Wait()
	all := execution.History()
	var pages sync.Map // by request: one whose answer got lost is sent again
	var forwards atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		pages.Store(string(body), nil)
		if forwards.Load() {
			body = bytes.Replace(body, []byte(`"reverseOrder":true`), []byte(`"reverseOrder":false`), 1)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		d.Config.Handler.ServeHTTP(w, r)
	}))
	defer front.Close()
	client := sfn.New(d.states().Options(), func(o *sfn.Options) { o.BaseEndpoint = &front.URL })
	for _, order := range []bool{false, true} {
		forwards.Store(order)
		for after, want := range map[int64]int{0: 29, 2: 29, int64(len(all)) - 3*pageOfNews: 3, int64(len(all)) - 1: 1, int64(len(all)): 1} {
			pages.Clear()
			news, err := executions{client}.since(t.Context(), execution.ARN(), after)
			if err != nil || !slices.EqualFunc(news, all[after:], func(a, b asl.Event) bool { return a.ID == b.ID && a.Type == b.Type }) {
				t.Errorf("%v: behind %d there are %d events, not %d in order", err, after, len(news), len(all[after:]))
			}
			n := 0
			pages.Range(func(any, any) bool { n++; return true })
			if !order && n != want {
				t.Errorf("%d pages were read for what is behind %d, not %d", n, after, want)
			}
		}
	}
}
