package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// historyCommand is "lockstep history".
type historyCommand struct {
	stackFlags `embed:""`
	Status     string `enum:",RUNNING,SUCCEEDED,FAILED,TIMED_OUT,ABORTED" default:"" placeholder:"STATUS" help:"List executions with this status alone: RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED."`
	Limit      int    `default:"20" placeholder:"N" help:"List so many executions at most (default 20)."`
	Output     string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	awsFlags   `embed:""`

	Execution string `arg:"" optional:"" name:"execution" help:"Name of an execution of the stack's state machine, or an execution's ARN, for which no --stack is needed."`
}

// Help is the rest of "lockstep history --help".
func (historyCommand) Help() string {
	return `With an execution, its history is printed as lockstep asl run prints one: every event with the state it tells of, and below
the Map Runs, with children that did not succeed, and how the execution ended. An execution that still runs is shown as
far as it is. Without one, the executions of the pipeline's state machine are listed, the latest first.

-o json prints {"events": [...]}, the events as GetExecutionHistory returns them, with times as text; of a list it prints
{"executions": [{"name", "executionArn", "status", "startDate", "stopDate"}]}.

Permissions: cloudformation:DescribeStacks for --stack; states:ListExecutions for a list; states:GetExecutionHistory,
DescribeExecution, ListMapRuns, DescribeMapRun and ListExecutions for a history.

Exit codes: 0 it was printed, however the execution ended; 64 the command line or the AWS settings were refused; 69 AWS
refused, or could not be reached; 130 interrupted.`
}

// Validate is called by the parser of the command line.
func (c historyCommand) Validate() error {
	byARN := arn.IsARN(c.Execution)
	switch {
	case c.Limit < 1:
		return fmt.Errorf("--limit: %d is less than one", c.Limit)
	case byARN && c.Stack != "":
		return errors.New("an ARN says where the execution is: leave out --stack")
	case !byARN && c.Stack == "":
		return errors.New("say what to look at: --stack, or the ARN of an execution")
	case c.Stack == "" && c.Pipeline != "":
		return errOfStack
	case c.Execution != "" && c.Status != "":
		return errors.New("--status is for a list: leave out the execution")
	}
	return nil
}

// Run implements the command.
func (c historyCommand) Run(ctx context.Context, to *console) error {
	if err := c.print(ctx, to.Out); err != nil {
		return explainAWS(ctx, to.Err, err)
	}
	return nil
}

func (c historyCommand) print(ctx context.Context, out io.Writer) error {
	var machine string
	execution := c.Execution
	if c.Stack != "" {
		p, err := c.find(ctx, c.awsFlags)
		if err != nil {
			return err
		}
		machine = p.Machine
		if execution != "" {
			execution = executionARN(machine, execution)
		}
	}
	api, err := c.at(machine + execution).stepFunctions(ctx)
	if err != nil {
		return usageError{err}
	}
	x := executions{api}
	switch {
	case execution == "":
		return c.printList(ctx, out, x, machine)
	case c.Output == "json":
		return printEvents(ctx, out, x, execution)
	}
	past, err := x.past(ctx, execution)
	if err != nil {
		return err
	}
	return writeTable(out, past)
}

// executionARN is that of the execution of that name.
func executionARN(machine, name string) string {
	return strings.Replace(machine, ":stateMachine:", ":execution:", 1) + ":" + name
}

// printEvents prints what GetExecutionHistory returns, all pages as one.
func printEvents(ctx context.Context, out io.Writer, x executions, execution string) error {
	answer := struct {
		Events []asl.Event `json:"events"`
	}{[]asl.Event{}}
	for event, err := range x.history(ctx, execution) {
		if err != nil {
			return err
		}
		answer.Events = append(answer.Events, event)
	}
	return writeJSON(out, answer)
}

// listedExecution is an execution in a list.
type listedExecution struct {
	Name         string     `json:"name"`
	ExecutionARN string     `json:"executionArn"`
	Status       asl.Status `json:"status"`
	StartDate    asl.Time   `json:"startDate"`
	StopDate     *asl.Time  `json:"stopDate,omitempty"`
}

func (c historyCommand) printList(ctx context.Context, out io.Writer, x executions, machine string) error {
	list, err := x.list(ctx, machine, asl.Status(c.Status), c.Limit)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		report := struct {
			Executions []listedExecution `json:"executions"`
		}{[]listedExecution{}}
		for _, e := range list {
			report.Executions = append(report.Executions, listedExecution{e.Name, e.ExecutionARN, e.Status, e.StartDate, e.StopDate})
		}
		return writeJSON(out, report)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(out, "no executions of %s\n", machine)
		return err
	}
	rows := newTable(out, "NAME", "STATUS", "STARTED", "TOOK")
	for _, e := range list {
		took := "-"
		if e.StopDate != nil {
			took = time.Time(*e.StopDate).Sub(time.Time(e.StartDate)).String()
		}
		if err := rows.row(oneLine(e.Name), e.Status, when(time.Time(e.StartDate)), took); err != nil {
			return err
		}
	}
	return rows.flush()
}
