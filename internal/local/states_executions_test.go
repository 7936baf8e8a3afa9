package local_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-pipeline/lockstep/internal/local"
)

// machineARN is that of a stack which gives its machine no name.
const machineARN = "arn:aws:states:" + local.Region + ":" + local.Account + ":stateMachine:lockstep"

func TestExecutionsAreStartedListedAndStoppedThroughTheSDK(t *testing.T) {
	client := stepFunctions(start(t, local.Config{Definition: []byte(waiting)}))
	arns := map[string]string{}
	for _, name := range []string{"one", "two", "three"} {
		started, err := client.StartExecution(t.Context(), &sfn.StartExecutionInput{
			StateMachineArn: aws.String(machineARN), Name: &name, Input: aws.String(`{"name":"` + name + `"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		described, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
		if err != nil {
			t.Fatal(err)
		}
		if *described.Name != name || *described.Input != `{"name":"`+name+`"}` || !described.StartDate.Equal(*started.StartDate) {
			t.Errorf("started %+v, described %+v", started, described)
		}
		arns[name] = *started.ExecutionArn
	}
	stopped, err := client.StopExecution(t.Context(), &sfn.StopExecutionInput{
		ExecutionArn: aws.String(arns["two"]), Error: aws.String("Operator"), Cause: aws.String("enough"),
	})
	if err != nil {
		t.Fatal(err)
	}
	described, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: aws.String(arns["two"])})
	if err != nil {
		t.Fatal(err)
	}
	if described.Status != types.ExecutionStatusAborted || aws.ToString(described.Error) != "Operator" || aws.ToString(described.Cause) != "enough" ||
		!described.StopDate.Equal(*stopped.StopDate) {
		t.Errorf("stopped %+v, described %+v", stopped, described)
	}

	for status, want := range map[types.ExecutionStatus][]string{
		"": {"three", "two", "one"}, types.ExecutionStatusRunning: {"three", "one"}, types.ExecutionStatusAborted: {"two"}, types.ExecutionStatusFailed: nil,
	} {
		for _, size := range []int32{1, 2, 0} {
			pages := sfn.NewListExecutionsPaginator(client, &sfn.ListExecutionsInput{
				StateMachineArn: aws.String(machineARN), StatusFilter: status, MaxResults: size,
			})
			var names []string
			for pages.HasMorePages() {
				page, err := pages.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if size > 0 && len(page.Executions) > int(size) {
					t.Errorf("%d executions on a page of %d", len(page.Executions), size)
				}
				for _, e := range page.Executions {
					names = append(names, *e.Name)
					if *e.ExecutionArn != arns[*e.Name] || *e.StateMachineArn != machineARN || e.StartDate == nil || (e.StopDate == nil) != (e.Status == types.ExecutionStatusRunning) {
						t.Errorf("%+v", e)
					}
				}
			}
			if !slices.Equal(names, want) {
				t.Errorf("%q by %d: %q, want %q", status, size, names, want)
			}
		}
	}
}

func TestChildrenOfAMapRunAreListed(t *testing.T) {
	stack := start(t, local.Config{
		Definition:    []byte(doubling),
		Functions:     []local.Function{function("double", "double")},
		Substitutions: map[string]string{"StateBucket": "state"},
	})
	put(t, newBucket(t, stack, "state"), "manifest.json", `[[1],[-1],[2]]`)
	execution, err := stack.StartExecution("one", []byte(`{"manifest":"manifest.json"}`))
	if err != nil {
		t.Fatal(err)
	}
	execution.Wait()
	run := execution.MapRuns()[0]
	client := stepFunctions(stack)
	all, err := client.ListExecutions(t.Context(), &sfn.ListExecutionsInput{MapRunArn: aws.String(run.ARN())})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, e := range all.Executions {
		got = append(got, *e.ExecutionArn)
	}
	for _, child := range run.Children() {
		want = slices.Insert(want, 0, child.ARN()) // the latest first
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	failed, err := client.ListExecutions(t.Context(), &sfn.ListExecutionsInput{MapRunArn: aws.String(run.ARN()), StatusFilter: types.ExecutionStatusFailed})
	if err != nil {
		t.Fatal(err)
	}
	if len(failed.Executions) != 1 || *failed.Executions[0].ExecutionArn != run.Children()[1].ARN() || *failed.Executions[0].MapRunArn != run.ARN() {
		t.Errorf("failed: %+v", failed.Executions)
	}
}

func TestStepFunctionsRefusesExecutionsAsAWSDoes(t *testing.T) {
	client := stepFunctions(start(t, local.Config{Definition: []byte(waiting)}))
	begin := func(machine, name, input string) error {
		_, err := client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: &input})
		return err
	}
	list := func(in sfn.ListExecutionsInput) error {
		_, err := client.ListExecutions(t.Context(), &in)
		return err
	}
	stop := func(arn string) error {
		_, err := client.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &arn})
		return err
	}
	if err := begin(machineARN, "taken", "{}"); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"ExecutionAlreadyExists":   begin(machineARN, "taken", `{"other":"input"}`),
		"InvalidExecutionInput":    begin(machineARN, "a", "{"),
		"InvalidName":              begin(machineARN, "a b", "{}"),
		"StateMachineDoesNotExist": begin(machineARN+"2", "a", "{}"),
		"ExecutionDoesNotExist":    stop("arn:aws:states:us-east-1:000000000000:execution:lockstep:nobody"),
		"ResourceNotFound":         list(sfn.ListExecutionsInput{MapRunArn: aws.String("arn:aws:states:::mapRun:none")}),
		"InvalidToken":             list(sfn.ListExecutionsInput{StateMachineArn: aws.String(machineARN), NextToken: aws.String("nonsense")}),
		"ValidationException":      list(sfn.ListExecutionsInput{}),
	} {
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != want {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}
