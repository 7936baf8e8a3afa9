package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// executionReport is what "asl run -o json" prints of an execution.
type executionReport struct {
	Status  asl.Status     `json:"status"`
	Output  *string        `json:"output,omitempty"` // JSON as text, as AWS gives it
	Error   *string        `json:"error,omitempty"`
	Cause   *string        `json:"cause,omitempty"`
	Events  []asl.Event    `json:"events"`
	MapRuns []mapRunReport `json:"mapRuns,omitempty"`
}

type mapRunReport struct {
	asl.MapRunDescription
	Executions []childReport `json:"executions"`
}

type childReport struct {
	ExecutionARN string `json:"executionArn"`
	executionReport
}

func reportOf(e *asl.Execution) executionReport {
	d := e.Describe()
	r := executionReport{Status: d.Status, Output: d.Output, Error: d.Error, Cause: d.Cause, Events: e.History()}
	for _, run := range e.MapRuns() {
		m := mapRunReport{MapRunDescription: run.Describe(), Executions: []childReport{}}
		for _, child := range run.Children() {
			m.Executions = append(m.Executions, childReport{child.ARN(), reportOf(child)})
		}
		r.MapRuns = append(r.MapRuns, m)
	}
	return r
}

// A pastExecution is what is told of an execution, wherever it ran.
type pastExecution struct {
	asl.Description
	Events  []asl.Event
	MapRuns []pastMapRun
}

type pastMapRun struct {
	asl.MapRunDescription
	Others []asl.Description // children that have not succeeded, in the order of notSucceeded, most at most
}

// notSucceeded are the other statuses of a child, in the order in which such
// children are shown.
var notSucceeded = []asl.Status{asl.StatusFailed, asl.StatusTimedOut, asl.StatusAborted, asl.StatusRunning}

// mostChildren is how many children of a Map Run are shown.
const mostChildren = 20

func pastOf(e *asl.Execution) pastExecution {
	past := pastExecution{Description: e.Describe(), Events: e.History()}
	for _, run := range e.MapRuns() {
		m := pastMapRun{MapRunDescription: run.Describe()}
		for _, status := range notSucceeded {
			for _, child := range run.Children() {
				if d := child.Describe(); d.Status == status && len(m.Others) < mostChildren {
					m.Others = append(m.Others, d)
				}
			}
		}
		past.MapRuns = append(past.MapRuns, m)
	}
	return past
}

// writeTable prints a history as the console shows it, and below it the Map Runs and how the execution ended.
func writeTable(w io.Writer, e pastExecution) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREV\tTIME\tTYPE\tSTATE\tWHAT")
	for _, event := range e.Events {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", event.ID, event.PreviousEventID,
			offset(event.Timestamp.Sub(e.Events[0].Timestamp)), event.Type, event.State(), what(event))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, run := range e.MapRuns {
		counts := run.ExecutionCounts
		fmt.Fprintf(w, "\nMap Run %s: %s, %d of %d children succeeded\n", run.MapRunARN, run.Status, counts.Succeeded, counts.Total)
		for _, child := range run.Others {
			fmt.Fprintf(w, "  %s: %s%s\n", child.ExecutionARN, child.Status, failure(child.Error, child.Cause))
		}
		if more := counts.Failed + counts.TimedOut + counts.Aborted + counts.Running - len(run.Others); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
	end := failure(e.Error, e.Cause)
	if e.Output != nil {
		end = ": " + *e.Output
	}
	_, err := fmt.Fprintf(w, "\n%s%s\n", e.Status, end)
	return err
}

func offset(d time.Duration) string { return fmt.Sprintf("+%.3fs", d.Seconds()) }

func failure(name, cause *string) string {
	text := ""
	for _, part := range []*string{name, cause} {
		if part != nil && *part != "" {
			text += ": " + *part
		}
	}
	return text
}

// what sums an event's details up in one line.
func what(event asl.Event) string {
	var text string
	switch d := event.Details.(type) {
	case asl.ExecutionStartedDetails:
		text = d.Input
	case asl.StateEnteredDetails:
		text = d.Input
	case asl.StateExitedDetails:
		text = d.Output
	case asl.OutputDetails:
		text = d.Output
	case asl.LambdaFunctionScheduledDetails:
		text = d.Resource + " " + d.Input
	case asl.TaskScheduledDetails:
		text = d.ResourceType + ":" + d.Resource + " " + d.Parameters
	case asl.TaskSucceededDetails:
		text = d.Output
	case asl.MapStateStartedDetails:
		text = fmt.Sprintf("%d items", d.Length)
	case asl.MapIterationDetails:
		text = fmt.Sprintf("iteration %d", d.Index)
	case asl.MapRunStartedDetails:
		text = d.MapRunARN
	case json.RawMessage: // of a type that only AWS records
		text = string(d)
	default:
		name, cause := event.Failure()
		text = strings.TrimPrefix(failure(&name, &cause), ": ")
	}
	return short(text)
}

// short keeps a line readable.
func short(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
