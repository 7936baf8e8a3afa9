package asl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/mock"
)

// distributed is a machine of one distributed Map over $, whose children call the function f.
func distributed(fields string) string {
	return `{"StartAt":"M","States":{"M":{"Type":"Map","Label":"L",` + fields +
		`"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"T","States":{` +
		`"T":{"Type":"Task","Resource":"arn:aws:lambda:us-east-1:123456789012:function:f","End":true}}},"End":true}}}`
}

func TestAChildIsAnExecutionOfItsOwn(t *testing.T) {
	e := run(t, strings.Replace(distributed(`"ItemSelector":{"run.$":"$$.Execution.Id","v.$":"$$.Map.Item.Value"},`),
		`"Resource"`, `"Parameters":{"own.$":"$$.Execution.Id","in.$":"$$.Execution.Input","machine.$":"$$.StateMachine.Id"},"Resource"`, 1),
		`[7]`, `{"f":{"return":1}}`)
	child := e.MapRuns()[0].Children()[0]
	const in = `{"run":"arn:aws:states:us-east-1:123456789012:execution:M:N","v":7}`
	compareLines(t, `1<-0 ExecutionStarted input=`+in+` roleArn=arn:aws:iam::123456789012:role/R
2<-0 TaskStateEntered input=`+in+` name=T
3<-2 LambdaFunctionScheduled input={"in":`+in+`,"machine":"arn:aws:states:us-east-1:123456789012:stateMachine:M/L","own":"arn:aws:states:us-east-1:123456789012:execution:M/L:UUID"} resource=arn:aws:lambda:us-east-1:123456789012:function:f
4<-3 LambdaFunctionStarted
5<-4 LambdaFunctionSucceeded output=1
6<-5 TaskStateExited name=T output=1
7<-6 ExecutionSucceeded output=1
SUCCEEDED output=1`, compact(t, child))
	d := child.Describe()
	if d.MapRunARN != e.MapRuns()[0].ARN() || d.StateMachineARN != "arn:aws:states:us-east-1:123456789012:stateMachine:M/L" {
		t.Errorf("%+v", d)
	}
}

func TestExpressChildrenHaveExpressNamesAndFiveMinutes(t *testing.T) {
	e := run(t, strings.Replace(distributed(`"ToleratedFailureCount":1,`), "STANDARD", "EXPRESS", 1), `[1]`, `{"f":{"seconds":301}}`)
	child := e.MapRuns()[0].Children()[0]
	if child.Status() != asl.StatusTimedOut || !strings.HasPrefix(child.ARN(), "arn:aws:states:us-east-1:123456789012:express:M/L:") {
		t.Errorf("%s %s", child.ARN(), child.Status())
	}
}

func TestMapRunDescriptions(t *testing.T) {
	e := run(t, distributed(`"ToleratedFailureCount":1,"MaxConcurrency":2,`), `[1,2,3]`, `{"f":[{"return":1},{"error":"E"},{"return":3}]}`)
	run := e.MapRuns()[0]
	got, err := json.Marshal(run.Describe())
	const counts = `{"pending":0,"running":0,"succeeded":2,"failed":1,"timedOut":0,"aborted":0,"total":3,"resultsWritten":2,"failuresNotRedrivable":0,"pendingRedrive":0}`
	const want = `{"mapRunArn":"arn:aws:states:us-east-1:123456789012:mapRun:M/L:UUID","executionArn":"arn:aws:states:us-east-1:123456789012:execution:M:N","status":"SUCCEEDED","startDate":"TIME","stopDate":"TIME","maxConcurrency":2,"toleratedFailurePercentage":0.0,"toleratedFailureCount":1,"itemCounts":` + counts + `,"executionCounts":` + counts + `,"redriveCount":0}`
	if err != nil || masked(string(got)) != want {
		t.Errorf("got  %s, %v\nwant %s", masked(string(got)), err, want)
	}
	got, err = json.Marshal(run.Summary())
	const summary = `{"executionArn":"arn:aws:states:us-east-1:123456789012:execution:M:N","mapRunArn":"arn:aws:states:us-east-1:123456789012:mapRun:M/L:UUID","stateMachineArn":"arn:aws:states:us-east-1:123456789012:stateMachine:M/L","startDate":"TIME","stopDate":"TIME"}`
	if err != nil || masked(string(got)) != summary {
		t.Errorf("got  %s, %v\nwant %s", masked(string(got)), err, summary)
	}
}

func TestAnExceededToleranceStopsTheOthers(t *testing.T) {
	e := run(t, distributed(`"MaxConcurrency":2,`), `[1,2,3,4,5]`, `{"f":[{"seconds":1,"return":1},{"seconds":9},{"seconds":1,"error":"E"}]}`)
	d := e.MapRuns()[0].Describe()
	if c := d.ExecutionCounts; d.Status != asl.StatusFailed || c.Succeeded != 1 || c.Failed != 1 || c.Aborted != 1 || c.Pending != 2 || c.Total != 5 {
		t.Errorf("%+v", d)
	}
}

func TestAbortingTheParentAbortsTheMapRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called atomic.Int32
		e := start(t, distributed(`"MaxConcurrency":2,`), `[1,2,3]`, asl.Config{Lambda: lambda(func(ctx context.Context, _ asl.Call) (asl.Invocation, error) {
			called.Add(1)
			<-ctx.Done()
			return asl.Invocation{}, ctx.Err()
		})})
		synctest.Wait()
		run := e.MapRuns()[0]
		if d := run.Describe(); d.Status != asl.StatusRunning || d.StopDate != nil || d.ExecutionCounts.Running != 2 || d.ExecutionCounts.ResultsWritten != 0 {
			t.Errorf("while it runs: %+v", d)
		}
		e.Abort("", "")
		e.Wait()
		if d := run.Describe(); d.Status != asl.StatusAborted || d.ExecutionCounts.Aborted != 2 || d.ExecutionCounts.Pending != 1 {
			t.Errorf("%+v", d)
		}
		if n := called.Load(); n != 2 {
			t.Errorf("%d functions were called", n)
		}
		if got := compact(t, run.Children()[0]); got[len(got)-1] != "ABORTED" {
			t.Errorf("the child ended %s", got[len(got)-1])
		}
	})
}

func TestAFailingBranchAbortsTheMapRunOfAnother(t *testing.T) {
	e := run(t, `{"StartAt":"Q","States":{"Q":{"Type":"Parallel","Branches":[`+
		strings.Replace(distributed(""), `"Type":"Map"`, `"Type":"Map","ItemsPath":"$.items"`, 1)+`,
		{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":1,"Next":"F"},"F":{"Type":"Fail","Error":"E"}}}],"End":true}}}`,
		`{"items":[1]}`, `{"f":{"seconds":9}}`)
	if d := e.MapRuns()[0].Describe(); d.Status != asl.StatusAborted || d.ExecutionCounts.Aborted != 1 {
		t.Errorf("%+v", d)
	}
	if e.Status() != asl.StatusFailed {
		t.Errorf("status %s", e.Status())
	}
}

// s3 is an [asl.Objects] that remembers the order of its writes and may refuse them.
type s3 struct {
	*mock.World
	keys   []string
	refuse error
}

func (s *s3) Put(ctx context.Context, bucket, key string, body []byte) error {
	if s.refuse != nil {
		return s.refuse
	}
	s.keys = append(s.keys, bucket+" "+masked(key)+" "+masked(string(body)))
	return s.World.Put(ctx, bucket, key, body)
}

const writer = `"ToleratedFailureCount":1,"MaxConcurrency":1,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Parameters":{"Bucket":"b","Prefix.$":"$$.Execution.Name"}},`

func TestResultWriterFiles(t *testing.T) {
	world, err := mock.Load([]byte(`{"f":[{"return":{"n":1}},{"error":"E","cause":"C"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	objects := &s3{World: world}
	e, err := machine(t, distributed(writer), asl.Config{Lambda: world, Objects: objects}).Start(t.Context(), asl.Input{Name: "N", JSON: "[1,2]"})
	if err != nil {
		t.Fatal(err)
	}
	e.Wait()
	const (
		run    = `"MapRunArn":"arn:aws:states:us-east-1:123456789012:mapRun:M/L:UUID"`
		common = `"ExecutionArn":"arn:aws:states:us-east-1:123456789012:execution:M/L:UUID","Input":"%s","InputDetails":{"Included":true},"Name":"UUID",`
		times  = `"StartDate":"TIME","StateMachineArn":"arn:aws:states:us-east-1:123456789012:stateMachine:M/L","Status":"%s","StopDate":"TIME"}]`
	)
	failed := `[{"Cause":"C","Error":"E",` + fmt.Sprintf(common, "2") + `"RedriveCount":0,"RedriveStatus":"REDRIVABLE_BY_MAP_RUN",` + fmt.Sprintf(times, "FAILED")
	succeeded := `[{` + fmt.Sprintf(common, "1") + `"Output":"{\"n\":1}","OutputDetails":{"Included":true},"RedriveCount":0,"RedriveStatus":"NOT_REDRIVABLE","RedriveStatusReason":"Execution is SUCCEEDED and cannot be redriven",` + fmt.Sprintf(times, "SUCCEEDED")
	size := func(text string) int {
		return len(text) + strings.Count(text, "UUID")*32 + strings.Count(text, "TIME")*20
	}
	want := []string{
		`b N/UUID/manifest.json {"DestinationBucket":"b",` + run + `,"ResultFiles":{"FAILED":[],"PENDING":[],"SUCCEEDED":[]}}`,
		`b N/UUID/FAILED_0.json ` + failed,
		`b N/UUID/SUCCEEDED_0.json ` + succeeded,
		`b N/UUID/manifest.json {"DestinationBucket":"b",` + run + fmt.Sprintf(`,"ResultFiles":{"FAILED":[{"Key":"N/UUID/FAILED_0.json","Size":%d}],"PENDING":[],"SUCCEEDED":[{"Key":"N/UUID/SUCCEEDED_0.json","Size":%d}]}}`, size(failed), size(succeeded)),
	}
	if !slices.Equal(objects.keys, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(objects.keys, "\n"), strings.Join(want, "\n"))
	}
}

func TestATestManifestIsWrittenBeforeAnyChildStarts(t *testing.T) {
	world, err := mock.Load([]byte(`{"f":{"return":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	objects := &s3{World: world, refuse: errors.New("Access denied.")}
	e, err := machine(t, distributed(writer), asl.Config{Lambda: world, Objects: objects}).Start(t.Context(), asl.Input{JSON: "[1,2]"})
	if err != nil {
		t.Fatal(err)
	}
	e.Wait()
	if n := len(e.MapRuns()[0].Children()); n != 0 {
		t.Errorf("%d children started", n)
	}
	compareLines(t, "5<-4 MapRunFailed cause=Failed to write a test manifest into the specified output bucket. Access denied. error=States.ResultWriterFailed",
		compact(t, e)[4:5])
}

func TestAThousandChildren(t *testing.T) {
	begun := time.Now()
	items := "[" + strings.Repeat("1,", 999) + "1]"
	e := run(t, distributed(""), items, `{"f":{"seconds":60,"return":1}}`)
	if c := e.MapRuns()[0].Describe().ExecutionCounts; c.Succeeded != 1000 {
		t.Errorf("%+v after %v", c, time.Since(begun))
	}
	if n := len(e.History()); n != 8 {
		t.Errorf("the parent has %d events", n)
	}
}
