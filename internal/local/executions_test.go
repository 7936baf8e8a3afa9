package local_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// waiting is a machine that waits until it is aborted.
const waiting = `{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 86400, "End": true}}}`

// doubling doubles the batches of a manifest, one child for each.
const doubling = `{
  "StartAt": "Double",
  "States": {
    "Double": {
      "Type": "Map",
      "Label": "Double",
      "ItemReader": {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSON"},
        "Parameters": {"Bucket": "${StateBucket}", "Key.$": "$.manifest"}
      },
      "ItemSelector": {"Numbers.$": "$$.Map.Item.Value"},
      "ItemProcessor": {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "DoubleBatch",
        "States": {"DoubleBatch": {"Type": "Task", "Resource": "${DoubleFunctionArn}", "TimeoutSeconds": 60, "End": true}}
      },
      "MaxConcurrency": 2,
      "ToleratedFailureCount": 1,
      "ResultWriter": {
        "Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "${StateBucket}", "Prefix": "results"}
      },
      "End": true
    }
  }
}`

func TestMapOverAManifestInS3(t *testing.T) {
	double := function("double", "double")
	double.Concurrency = 2
	stack := start(t, local.Config{
		Definition:    []byte(doubling),
		Functions:     []local.Function{double},
		Substitutions: map[string]string{"StateBucket": "state"},
	})
	state := newBucket(t, stack, "state")
	put(t, state, "runs/one/manifest.json", `[[1,2],[3],[-1],[4,5,6]]`)
	execution, err := stack.StartExecution("one", []byte(`{"manifest":"runs/one/manifest.json"}`))
	if err != nil {
		t.Fatal(err)
	}
	if status := execution.Wait(); status != asl.StatusSucceeded {
		t.Fatalf("%s: %+v", status, execution.Describe())
	}

	var output struct {
		MapRunArn           string
		ResultWriterDetails struct{ Bucket, Key string }
	}
	if err := json.Unmarshal([]byte(*execution.Describe().Output), &output); err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		ResultFiles map[string][]struct{ Key string }
	}
	decode(t, state, output.ResultWriterDetails.Key, &manifest)
	doubled := map[string]bool{}
	for _, file := range manifest.ResultFiles["SUCCEEDED"] {
		var records []struct{ Output string }
		decode(t, state, file.Key, &records)
		for _, r := range records {
			doubled[r.Output] = true
		}
	}
	for _, want := range []string{"[2,4]", "[6]", "[8,10,12]"} {
		if !doubled[want] {
			t.Errorf("no result %s among %v", want, doubled)
		}
	}
	var failed []struct{ Error string }
	decode(t, state, manifest.ResultFiles["FAILED"][0].Key, &failed)
	if len(failed) != 1 || failed[0].Error != "refusal" {
		t.Errorf("failed records %+v", failed)
	}

	askStepFunctions(t, stack, execution, output.MapRunArn)
}

func TestMapOverAManifestThatIsNotThere(t *testing.T) {
	stack := start(t, local.Config{
		Definition:    []byte(doubling),
		Functions:     []local.Function{function("double", "double")},
		Substitutions: map[string]string{"StateBucket": "state"},
	})
	newBucket(t, stack, "state")
	execution, err := stack.StartExecution("", []byte(`{"manifest":"nothing.json"}`))
	if err != nil {
		t.Fatal(err)
	}
	execution.Wait()
	d := execution.Describe()
	if d.Error == nil || *d.Error != "States.ItemReaderFailed" || d.Cause == nil || !strings.Contains(*d.Cause, "does not exist: state/nothing.json") {
		t.Errorf("it ended %+v", d)
	}
}

func decode(t *testing.T, b *bucket.Bucket, key string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, b, key)), into); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
}

func stepFunctions(stack *local.Stack) *sfn.Client {
	return sfn.New(sfn.Options{
		BaseEndpoint: aws.String(stack.Endpoint()),
		Region:       local.Region,
		Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
}

// askStepFunctions reads the execution of TestMapOverAManifestInS3 through the real SDK.
func askStepFunctions(t *testing.T, stack *local.Stack, execution *asl.Execution, mapRun string) {
	client := stepFunctions(stack)
	arn := aws.String(execution.ARN())

	runs, err := client.ListMapRuns(t.Context(), &sfn.ListMapRunsInput{ExecutionArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs.MapRuns) != 1 || aws.ToString(runs.MapRuns[0].MapRunArn) != mapRun || runs.NextToken != nil ||
		aws.ToString(runs.MapRuns[0].ExecutionArn) != execution.ARN() || runs.MapRuns[0].StopDate == nil {
		t.Errorf("map runs %+v", runs.MapRuns)
	}

	run, err := client.DescribeMapRun(t.Context(), &sfn.DescribeMapRunInput{MapRunArn: aws.String(mapRun)})
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != types.MapRunStatusSucceeded || run.ItemCounts.Total != 4 || run.ItemCounts.Failed != 1 ||
		run.ExecutionCounts.Succeeded != 3 || run.MaxConcurrency != 2 || run.ToleratedFailureCount != 1 {
		t.Errorf("map run %+v, items %+v", run, run.ItemCounts)
	}

	described, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	want := execution.Describe()
	if described.Status != types.ExecutionStatusSucceeded || aws.ToString(described.Output) != *want.Output ||
		!described.StartDate.Equal(time.Time(want.StartDate)) || !described.StopDate.Equal(time.Time(*want.StopDate)) {
		t.Errorf("execution %+v", described)
	}

	for _, reverse := range []bool{false, true} {
		var ids []int64
		pages := sfn.NewGetExecutionHistoryPaginator(client, &sfn.GetExecutionHistoryInput{
			ExecutionArn: arn, MaxResults: 3, ReverseOrder: reverse,
		})
		events := execution.History()
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				ids = append(ids, e.Id)
				was := events[e.Id-1]
				if string(e.Type) != string(was.Type) || e.PreviousEventId != was.PreviousEventID || !e.Timestamp.Equal(was.Timestamp) {
					t.Errorf("event %+v, want %+v", e, was)
				}
				if e.Type == types.HistoryEventTypeMapRunStarted && aws.ToString(e.MapRunStartedEventDetails.MapRunArn) != mapRun {
					t.Errorf("details %+v", e.MapRunStartedEventDetails)
				}
			}
		}
		for i, id := range ids {
			expected := int64(i + 1)
			if reverse {
				expected = int64(len(events) - i)
			}
			if id != expected {
				t.Errorf("reverse %t: ids %v", reverse, ids)
				break
			}
		}
		if len(ids) != len(events) {
			t.Errorf("reverse %t: %d events, want %d", reverse, len(ids), len(events))
		}
	}
}

func TestStepFunctionsRefusesWhatItDoesNotKnow(t *testing.T) {
	stack := start(t, local.Config{Definition: []byte(waiting)})
	client := stepFunctions(stack)
	_, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{
		ExecutionArn: aws.String("arn:aws:states:us-east-1:000000000000:execution:lockstep:nobody"),
	})
	var missing *types.ExecutionDoesNotExist
	if !errors.As(err, &missing) || !strings.Contains(missing.ErrorMessage(), "Execution Does Not Exist: 'arn:aws:states:") {
		t.Errorf("unknown execution: %v", err)
	}
	_, err = client.ListMapRuns(t.Context(), &sfn.ListMapRunsInput{ExecutionArn: aws.String("nonsense")})
	var invalid *types.InvalidArn
	if !errors.As(err, &invalid) {
		t.Errorf("malformed ARN: %v", err)
	}
	_, err = client.DescribeMapRun(t.Context(), &sfn.DescribeMapRunInput{MapRunArn: aws.String("arn:aws:states:::mapRun:none")})
	var unknown *types.ResourceNotFound
	if !errors.As(err, &unknown) {
		t.Errorf("unknown map run: %v", err)
	}
	_, err = client.ListStateMachines(t.Context(), &sfn.ListStateMachinesInput{})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "UnknownOperationException" {
		t.Errorf("an operation that is not there: %v", err)
	}
}

func TestFunctionReachesS3AndStepFunctionsByItsEnvironment(t *testing.T) {
	home := t.TempDir() // with settings of the user's that would lead elsewhere
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := "[default]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:1\nuse_fips_endpoint = true\n"
	if err := os.WriteFile(filepath.Join(home, ".aws", "config"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	stack := start(t, local.Config{Definition: []byte(waiting), Functions: []local.Function{function("client", "client")}})
	state := newBucket(t, stack, "state")
	execution, err := stack.StartExecution("", nil)
	if err != nil {
		t.Fatal(err)
	}
	inv := invoke(t, stack, "client", fmt.Sprintf(`{"Bucket":"state","Key":"a//b","Execution":%q}`, execution.ARN()))
	if string(inv.Payload) != "0" {
		t.Errorf("the function says %s", inv.Payload)
	}
	if got := get(t, state, "a//b"); got != "from a function" {
		t.Errorf("it wrote %q", got)
	}
}

func TestNameOfAnExecutionIsUsedOnce(t *testing.T) {
	stack := start(t, local.Config{Definition: []byte(waiting)})
	first, err := stack.StartExecution("nightly", []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	again, err := stack.StartExecution("nightly", []byte(`{"a":1}`))
	if err != nil || again != first {
		t.Errorf("same input while it runs: %v, %v", again, err)
	}
	refused := func(when, input string) {
		t.Helper()
		_, err := stack.StartExecution("nightly", []byte(input))
		if !errors.Is(err, local.ErrExecutionExists) || !strings.Contains(err.Error(), "Execution Already Exists: '"+first.ARN()+"'") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("other input", `{"a":2}`)
	first.Abort("", "")
	first.Wait()
	refused("after the end", `{"a":1}`)
	if _, err := stack.StartExecution("", nil); err != nil {
		t.Errorf("without a name: %v", err)
	}
}

func TestStatesSeeWhatLambdaSees(t *testing.T) {
	const machine = `{"StartAt": "Work", "States": {
      "Work": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 60,
        "Parameters": {"FunctionName": "%s", "Payload": {}},
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}], "End": true},
      "Caught": {"Type": "Pass", "End": true}}}`
	for _, c := range []struct{ function, wantError, wantCause string }{
		{"${FailFunctionArn}", "refusal", `{"errorMessage":"not today: \u003c\"\u0026\"\u003e","errorType":"refusal"}`},
		{"${ExitFunctionArn}", "Runtime.ExitError", "exit status 3"},
		{"arn:aws:lambda:us-east-1:000000000000:function:nobody", "Lambda.ResourceNotFoundException", "Function not found: "},
		{"arn:aws:lambda:eu-west-1:000000000000:function:fail", "Lambda.ResourceNotFoundException", "Function not found: "},
		{"${FailFunctionArn}:live", "Lambda.ResourceNotFoundException", "function:fail:live"},
	} {
		t.Run(c.function, func(t *testing.T) {
			stack := start(t, local.Config{
				Definition: fmt.Appendf(nil, machine, c.function),
				Functions:  []local.Function{function("fail", "fail"), function("exit", "exit")},
			})
			execution, err := stack.StartExecution("", nil)
			if err != nil {
				t.Fatal(err)
			}
			execution.Wait()
			d := execution.Describe()
			var caught struct{ Error, Cause string }
			if d.Output == nil || json.Unmarshal([]byte(*d.Output), &caught) != nil {
				t.Fatalf("ended %+v", d)
			}
			if caught.Error != c.wantError || !strings.Contains(caught.Cause, c.wantCause) {
				t.Errorf("caught %q with cause %q", caught.Error, caught.Cause)
			}
		})
	}
}

func TestDefinitionThatDoesNotLoadIsRefusedAtStart(t *testing.T) {
	for name, definition := range map[string]string{
		"placeholder without a value": `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"${NobodyFunctionArn}","End":true}}}`,
		"unknown field":               `{"StartAt":"A","States":{"A":{"Type":"Pass","Colour":"red","End":true}}}`,
	} {
		if _, err := local.Start(t.Context(), local.Config{Definition: []byte(definition)}); err == nil {
			t.Errorf("%s: it started", name)
		}
	}
	stack := start(t, local.Config{})
	if _, err := stack.StartExecution("a", nil); !errors.Is(err, local.ErrNoMachine) {
		t.Errorf("no definition: %v", err)
	}
}

// reporting is a function whose events come out of a pipe.
func reporting(t *testing.T, handler string) (local.Function, pipes) {
	t.Helper()
	p := newPipes(t)
	f := function("release", handler)
	f.Env = append(f.Env, reportVariable+"="+p.Tell)
	return f, p
}

func TestStatusChangeOfAnAbortedExecution(t *testing.T) {
	release, pipe := reporting(t, "report")
	stack := start(t, local.Config{
		Definition: []byte(waiting), Functions: []local.Function{release}, OnStatusChange: "release",
	})
	execution, err := stack.StartExecution("stopped", []byte(`{"why": "test"}`))
	if err != nil {
		t.Fatal(err)
	}
	execution.Abort("Operator.Stop", "enough")
	report, err := os.ReadFile(pipe.Tell)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(report, &got); err != nil {
		t.Fatal(err)
	}
	d := execution.Describe()
	detail, _ := got["detail"].(map[string]any)
	for key, want := range map[string]any{
		"version": "0", "source": "aws.states", "detail-type": "Step Functions Execution Status Change",
		"account": local.Account, "region": local.Region,
		"resources": []any{d.ExecutionARN},
	} {
		if !equalJSON(got[key], want) {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
	for key, want := range map[string]any{
		"executionArn": d.ExecutionARN, "stateMachineArn": d.StateMachineARN, "name": "stopped", "status": "ABORTED",
		"startDate": time.Time(d.StartDate).UnixMilli(), "stopDate": time.Time(*d.StopDate).UnixMilli(),
		"input": `{"why": "test"}`, "inputDetails": map[string]any{"included": true},
		"output": nil, "outputDetails": nil, "error": "Operator.Stop", "cause": "enough",
		"redriveCount": 0, "redriveDate": nil, "redriveStatus": "REDRIVABLE", "redriveStatusReason": nil,
		"stateMachineVersionArn": nil, "stateMachineAliasArn": nil,
	} {
		value, ok := detail[key]
		if !ok || !equalJSON(value, want) {
			t.Errorf("detail.%s: %v (there: %t), want %v", key, value, ok, want)
		}
	}
	if len(detail) != 18 {
		t.Errorf("%d members in the detail: %v", len(detail), detail)
	}
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func TestRuleKeepsQuietAboutSuccess(t *testing.T) {
	release, pipe := reporting(t, "report")
	stack := start(t, local.Config{
		Definition: []byte(`{"StartAt":"Choose","States":{
          "Choose":{"Type":"Choice","Choices":[{"Variable":"$.fail","BooleanEquals":true,"Next":"Fail"}],"Default":"Done"},
          "Fail":{"Type":"Fail","Error":"Broken","Cause":"on purpose"},
          "Done":{"Type":"Succeed"}}}`),
		Functions: []local.Function{release}, OnStatusChange: "release",
	})
	for _, input := range []string{`{"fail":false}`, `{"fail":true}`} {
		execution, err := stack.StartExecution("", []byte(input))
		if err != nil {
			t.Fatal(err)
		}
		execution.Wait()
	}
	report, err := os.ReadFile(pipe.Tell)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody reads the pipe again: had the rule told of the success, Close would hang.
	var got struct {
		Detail struct{ Status, Error string }
	}
	if err := json.Unmarshal(report, &got); err != nil {
		t.Fatalf("%s: %v", report, err)
	}
	if got.Detail.Status != "FAILED" || got.Detail.Error != "Broken" {
		t.Errorf("told of %+v", got.Detail)
	}
}

func TestStatusChangeIsTriedThreeTimes(t *testing.T) {
	release, pipe := reporting(t, "report-later")
	stack := start(t, local.Config{
		Definition: []byte(waiting), Functions: []local.Function{release}, OnStatusChange: "release",
		WaitScale: 1e-4,
	})
	execution, err := stack.StartExecution("", nil)
	if err != nil {
		t.Fatal(err)
	}
	execution.Abort("", "")
	if report, err := os.ReadFile(pipe.Tell); err != nil || !strings.Contains(string(report), execution.ARN()) {
		t.Errorf("the third attempt told %s, %v", report, err)
	}
}

func TestCloseAbortsExecutionsAndLetsTheRuleTell(t *testing.T) {
	release, pipe := reporting(t, "report")
	stack, err := local.Start(t.Context(), local.Config{
		Definition: []byte(waiting), Functions: []local.Function{release}, OnStatusChange: "release",
	})
	if err != nil {
		t.Fatal(err)
	}
	execution, err := stack.StartExecution("", nil)
	if err != nil {
		t.Fatal(err)
	}
	report := make(chan string)
	go func() {
		content, _ := os.ReadFile(pipe.Tell)
		report <- string(content)
	}()
	if err := stack.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-report; !strings.Contains(got, `"status":"ABORTED"`) {
		t.Errorf("the rule told %q", got)
	}
	if execution.Status() != asl.StatusAborted {
		t.Errorf("the execution is %s", execution.Status())
	}
	if _, err := stack.StartExecution("late", nil); !errors.Is(err, local.ErrClosed) {
		t.Errorf("starting another: %v", err)
	}
	noGoroutines(t)
}
