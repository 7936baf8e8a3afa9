package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// runCommand is "lockstep run".
type runCommand struct {
	stackFlags    `embed:""`
	inputFlags    `embed:""`
	Name          string `placeholder:"NAME" help:"Name of the execution; default: manual- and the time."`
	Wait          bool   `help:"Follow the run to its end."`
	Output        string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	awsFlags      `embed:""`
	PathStyle     bool   `group:"AWS" env:"LOCKSTEP_S3_PATH_STYLE" help:"Name S3 buckets in the path instead of the host, as most emulators want it."`
	ExpectedOwner string `group:"AWS" name:"expected-bucket-owner" env:"LOCKSTEP_S3_EXPECTED_OWNER" placeholder:"ACCOUNT" help:"Account that must own the state bucket; S3 refuses each request if another does."`
}

// Help is the rest of "lockstep run --help".
func (runCommand) Help() string {
	return `Starts an execution of the pipeline's state machine with the run configuration that its schedule passes, and another
trigger. It takes turns with all other runs: if one is at work, it waits for the lock as the configuration says.

--input gives another configuration. What it leaves out of pipeline, source, destination and state is that of the deployed
pipeline; a configuration that is about others is refused, because such a run would not take turns with the pipeline's, or
would mix up its outputs. --set changes single settings afterwards: a value that is not JSON is a string. To take files
again:
  lockstep run --stack NAME --set selection.reprocess=true --set 'selection.include=["seattle-weather/2012-*.csv"]'

With --wait each state is told on standard error as it is entered, with the time since the start, and how far the
processing is; then the outcome and the run's summary. Ctrl-C ends the following, and not the run.

-o json prints {"stack", "pipeline", "name", "executionArn", "console", "startDate", "status"}, and with --wait "stopDate",
"lastState", "error", "cause", "token", "summaryURL" and "summary", the record that the run left; what is not known is
absent.

Permissions: cloudformation:DescribeStacks, states:StartExecution; for --wait states:GetExecutionHistory, and s3:GetObject
and s3:ListBucket on the state bucket.

Exit codes: 0 the run was started, and with --wait it SUCCEEDED; 1 it ended otherwise; 64 the command line, the run
configuration or the AWS settings were refused; 69 AWS refused, or could not be reached; 130 interrupted.`
}

// namesForLogs are the names of executions that CloudWatch can log.
// Source: Step Functions API reference, StartExecution.
var namesForLogs = regexp.MustCompile(`^[0-9A-Za-z_-]{1,80}$`)

// Validate is called by the parser of the command line.
func (c runCommand) Validate() error {
	switch {
	case c.Stack == "":
		return errors.New("say whose run: --stack")
	case c.Name != "" && !namesForLogs.MatchString(c.Name):
		return fmt.Errorf("--name: %q is not 1 to 80 letters, digits, \"-\" and \"_\"; others cannot be logged", c.Name)
	}
	return nil
}

// runReport is what "run -o json" prints.
type runReport struct {
	Stack        string        `json:"stack"`
	Pipeline     string        `json:"pipeline"`
	Name         string        `json:"name"`
	ExecutionARN string        `json:"executionArn"`
	Console      string        `json:"console,omitempty"`
	StartDate    asl.Time      `json:"startDate"`
	Status       asl.Status    `json:"status"`
	StopDate     *asl.Time     `json:"stopDate,omitempty"`
	LastState    string        `json:"lastState,omitempty"`
	Error        *string       `json:"error,omitempty"`
	Cause        *string       `json:"cause,omitempty"`
	Token        int64         `json:"token,omitempty"`
	SummaryURL   string        `json:"summaryURL,omitempty"`
	Summary      *step.Summary `json:"summary,omitempty"`
}

// Run implements the command.
func (c runCommand) Run(ctx context.Context, to *console) error {
	p, err := c.find(ctx, c.awsFlags)
	if err != nil {
		return explainAWS(ctx, to.Err, err)
	}
	c.awsFlags = c.at(p.Machine)
	input, err := c.input(p, to.In)
	if err != nil {
		return refuse(to.Err, err)
	}
	operator, err := c.s3().operate(ctx, to.Err, input)
	if err != nil {
		return refuse(to.Err, err)
	}
	api, err := c.stepFunctions(ctx)
	if err != nil {
		return refuse(to.Err, err)
	}
	if c.Name == "" {
		c.Name = newName()
	}
	report, err := c.start(ctx, api, p, input)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(to.Err, "lockstep: interrupted; the run may have been started, under the name %s\n", c.Name)
		return exitCode(exitInterrupted)
	}
	if err != nil {
		return explainAWS(ctx, to.Err, err)
	}
	told := to.Out
	if c.Output == "json" {
		told = to.Err // where it can be read while the run goes on
	}
	if c.Output == "text" || c.Wait {
		if err := writeStarted(told, report); err != nil {
			return fmt.Errorf("print what was started: %w", err)
		}
	}
	var result error
	if c.Wait {
		result = c.await(ctx, to, executions{api}, operator, &report)
	}
	if c.Output == "json" {
		err = writeJSON(to.Out, report)
	} else if c.Wait && report.Status != asl.StatusRunning {
		err = writeOutcome(to.Out, report)
	}
	if err != nil {
		return fmt.Errorf("print the outcome: %w", err)
	}
	return result
}

// s3 are the flags for the state bucket.
func (c runCommand) s3() s3Flags {
	return s3Flags{EndpointURL: c.EndpointURL, PathStyle: c.PathStyle, Region: c.Region, Profile: c.Profile, ExpectedOwner: c.ExpectedOwner}
}

// newName is a name for an execution. It is chosen here, and not by the service,
// so that a request that is sent twice, because a reply was lost, starts one
// execution.
func newName() string {
	return "manual-" + time.Now().UTC().Format("2006-01-02T15-04-05Z") + "-" + distinct()
}

func (c runCommand) start(ctx context.Context, api *sfn.Client, p pipelineOutputs, input json.RawMessage) (runReport, error) {
	started, err := api.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: &p.Machine, Name: &c.Name, Input: aws.String(string(input)),
	})
	var exists *types.ExecutionAlreadyExists
	switch {
	case errors.As(err, &exists):
		return runReport{}, usageError{fmt.Errorf("--name: there is an execution called %s, with another input or at its end: take another name", c.Name)}
	case err != nil:
		return runReport{}, fmt.Errorf("start execution %s: %w", c.Name, err)
	}
	report := runReport{
		Stack: c.Stack, Pipeline: p.Name, Name: c.Name, ExecutionARN: aws.ToString(started.ExecutionArn),
		StartDate: asl.Time(aws.ToTime(started.StartDate)), Status: asl.StatusRunning,
	}
	if isAWS(aws.ToString(api.Options().BaseEndpoint)) {
		report.Console = consoleURL(report.ExecutionARN)
	}
	return report, nil
}
