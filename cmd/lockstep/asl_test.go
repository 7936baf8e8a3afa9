package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lockstep runs one command line. Arguments that start with "@" are files of the map.
func lockstep(t *testing.T, files map[string]string, stdin string, args ...string) (out, err string, code int) {
	t.Helper()
	dir := t.TempDir()
	for i, arg := range args {
		if name, ok := strings.CutPrefix(arg, "@"); ok {
			args[i] = filepath.Join(dir, name)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &console{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr})
	return stdout.String(), strings.ReplaceAll(stderr.String(), dir+string(filepath.Separator), ""), code
}

const acquire = `{"StartAt":"Acquire","States":{
 "Acquire":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","TimeoutSeconds":30,
  "Parameters":{"FunctionName":"${AcquireFunctionArn}","Payload.$":"$"},"ResultSelector":{"d.$":"$.Payload.decision"},"Next":"Held"},
 "Held":{"Type":"Choice","Choices":[{"Variable":"$.d","StringEquals":"held","Next":"Done"}],"Default":"Wait"},
 "Wait":{"Type":"Wait","Seconds":600,"Next":"Acquire"},
 "Done":{"Type":"Succeed"}}}`

func TestASLRunPrintsHistoryInTheShapeOfTheAPI(t *testing.T) {
	out, stderr, code := lockstep(t, map[string]string{
		"m.json": acquire, "mocks.json": `{"acquire":[{"return":{"decision":"wait"}},{"return":{"decision":"held"},"seconds":2}]}`,
	}, `{"run": 1}`, "asl", "run", "--definition", "@m.json", "--input", "-", "--mocks", "@mocks.json", "--scale-waits", "0", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got struct {
		Status string
		Output *string
		Error  *string
		Events []struct {
			ID              int
			PreviousEventID int `json:"previousEventId"`
			Type            string
			Scheduled       *struct{ Parameters string } `json:"taskScheduledEventDetails"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status != "SUCCEEDED" || got.Output == nil || *got.Output != `{"d":"held"}` || got.Error != nil {
		t.Errorf("%+v", got)
	}
	var types []string
	for _, e := range got.Events {
		types = append(types, e.Type)
	}
	const want = "ExecutionStarted TaskStateEntered TaskScheduled TaskStarted TaskSucceeded TaskStateExited ChoiceStateEntered ChoiceStateExited " +
		"WaitStateEntered WaitStateExited TaskStateEntered TaskScheduled TaskStarted TaskSucceeded TaskStateExited ChoiceStateEntered ChoiceStateExited " +
		"SucceedStateEntered SucceedStateExited ExecutionSucceeded"
	if strings.Join(types, " ") != want {
		t.Errorf("got  %v\nwant %s", types, want)
	}
	const function = `{"FunctionName":"arn:aws:lambda:us-east-1:123456789012:function:acquire","Payload":{"run":1}}`
	if p := got.Events[2].Scheduled; p == nil || p.Parameters != function {
		t.Errorf("the task was scheduled with %v, not %s", p, function)
	}
}

func TestASLRunPrintsATable(t *testing.T) {
	out, _, code := lockstep(t, map[string]string{"m.json": `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":90,"Next":"F"},"F":{"Type":"Fail","Error":"E","Cause":"too\nbad"}}}`}, "",
		"asl", "run", "--definition", "@m.json", "--scale-waits", "0")
	const want = `ID  PREV  TIME      TYPE              STATE  WHAT
1   0     +0.000s   ExecutionStarted         {}
2   0     +0.000s   WaitStateEntered  W      {}
3   2     +90.000s  WaitStateExited   W      {}
4   3     +90.000s  FailStateEntered  F      {}
5   4     +90.000s  ExecutionFailed          E: too bad

FAILED: E: too
bad
`
	if code != 1 || out != want {
		t.Errorf("exit code %d, got\n%swant\n%s", code, out, want)
	}
}

func TestASLRunTellsOfMapRuns(t *testing.T) {
	files := map[string]string{
		"m.json": `{"StartAt":"M","States":{"M":{"Type":"Map","Label":"L","ToleratedFailureCount":1,"ResultPath":null,"End":true,
			"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","ReaderConfig":{"InputType":"JSON"},"Parameters":{"Bucket":"b","Key":"k"}},
			"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"T","States":{"T":{"Type":"Task","Resource":"${ProcessFunctionArn}","End":true}}}}}}`,
		"mocks.json": `{"process":[{"return":1},{"error":"Crash"}],"s3":{"b/k":[1,2]}}`,
	}
	args := []string{"asl", "run", "--definition", "@m.json", "--mocks", "@mocks.json"}
	out, stderr, code := lockstep(t, files, "", append(args, "-o", "json")...)
	var got struct {
		MapRuns []struct {
			Status     string
			Executions []struct {
				Status string
				Events []json.RawMessage
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: exit code %d, %s", err, code, stderr)
	}
	if len(got.MapRuns) != 1 || got.MapRuns[0].Status != "SUCCEEDED" || len(got.MapRuns[0].Executions) != 2 || len(got.MapRuns[0].Executions[1].Events) != 6 {
		t.Errorf("%+v", got)
	}
	args = []string{"asl", "run", "--definition", "@m.json", "--mocks", "@mocks.json"}
	out, _, _ = lockstep(t, files, "", args...)
	if !strings.Contains(out, "SUCCEEDED, 1 of 2 children succeeded") || !strings.Contains(out, ": FAILED: Crash") {
		t.Error(out)
	}
}

func TestASLRefusals(t *testing.T) {
	pass := `{"StartAt":"X","States":{"X":{"Type":"Pass","End":true}}}`
	for name, test := range map[string]struct {
		files map[string]string
		args  []string
		want  string // on standard error
	}{
		"definition": {map[string]string{"m.json": `{"StartAt":"X","States":{"X":{"Type":"Pass","Parameters":{"a.$":"b"},"HeartbeatSeconds":1,"End":true}}}`}, nil,
			"m.json /States/X/Parameters: SCHEMA_VALIDATION_FAILED: The value for the field 'a.$' must be a valid JSONPath or a valid intrinsic function call (",
		},
		"placeholder":   {map[string]string{"m.json": `{"StartAt":"${Start}"}`}, nil, "lockstep: no substitution for ${Start}: give each a value\n"},
		"input":         {map[string]string{"m.json": pass, "i.json": "nonsense"}, []string{"--input", "@i.json"}, "lockstep: start execution: invalid execution input: decode JSON"},
		"empty input":   {map[string]string{"m.json": pass, "i.json": ""}, []string{"--input", "@i.json"}, "lockstep: input: invalid execution input: the text is empty"},
		"no input file": {map[string]string{"m.json": pass}, []string{"--input", "@i.json"}, "lockstep: input: open i.json: no such file or directory"},
		"mocks":         {map[string]string{"m.json": pass, "mocks.json": `{"f":{"returns":1}}`}, []string{"--mocks", "@mocks.json"}, `lockstep: mocks: f: unknown field "returns"`},
		"scale":         {map[string]string{"m.json": pass}, []string{"--scale-waits=-1"}, "lockstep: the scale of waits is -1"},
		"name":          {map[string]string{"m.json": pass}, []string{"--name", "a b"}, `lockstep: start execution: the name "a b" is not allowed`},
		"flag":          {map[string]string{"m.json": pass}, []string{"--nope"}, "lockstep: unknown flag --nope"},
	} {
		t.Run(name, func(t *testing.T) {
			out, stderr, code := lockstep(t, test.files, "", append([]string{"asl", "run", "--definition", "@m.json"}, test.args...)...)
			if code != 2 || out != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, got\n%s%s\nwant %s", code, out, stderr, test.want)
			}
		})
	}
}

func TestASLCheck(t *testing.T) {
	files := map[string]string{"good.json": acquire, "bad.json": `{"StartAt":"X","States":{"X":{"Type":"Pass","Next":"Y"}}}`}
	for _, test := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"@good.json"}, 0, "OK\n"},
		{[]string{"@good.json", "-o", "json"}, 0, "{\n  \"result\": \"OK\",\n  \"diagnostics\": [],\n  \"truncated\": false\n}\n"},
		{[]string{"@bad.json", "-o", "json"}, 2, `{
  "result": "FAIL",
  "diagnostics": [
    {
      "severity": "ERROR",
      "code": "MISSING_TRANSITION_TARGET",
      "message": "Missing 'Next' target: Y",
      "location": "/States/X/Next"
    },
    {
      "severity": "ERROR",
      "code": "MISSING_END_STATE",
      "message": "Workflow has no terminal state"
    }
  ],
  "truncated": false
}
`},
	} {
		out, stderr, code := lockstep(t, files, "", append([]string{"asl", "check"}, test.args...)...)
		if code != test.code || out != test.out || stderr != "" {
			t.Errorf("%v: exit code %d, %s, got\n%s\nwant\n%s", test.args, code, stderr, out, test.out)
		}
	}
	out, _, code := lockstep(t, files, "", "asl", "check", "@bad.json")
	if code != 2 || !strings.HasSuffix(out, "bad.json: MISSING_END_STATE: Workflow has no terminal state\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestASLHelpDocumentsExitCodes(t *testing.T) {
	for _, verb := range []string{"run", "check"} {
		out, _, code := lockstep(t, nil, "", "asl", verb, "--help")
		if code != 0 || !strings.Contains(out, "Exit codes: 0") {
			t.Errorf("exit code %d, %s", code, out)
		}
	}
}
