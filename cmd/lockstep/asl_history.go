package main

import (
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

// writeTable prints a history as the console shows it, and below it the Map Runs and how the execution ended.
func writeTable(w io.Writer, e *asl.Execution) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREV\tTIME\tTYPE\tSTATE\tWHAT")
	events := e.History()
	for _, event := range events {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", event.ID, event.PreviousEventID,
			offset(event.Timestamp.Sub(events[0].Timestamp)), event.Type, event.State(), what(event))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, run := range e.MapRuns() {
		d := run.Describe()
		fmt.Fprintf(w, "\nMap Run %s: %s, %d of %d children succeeded\n", d.MapRunARN, d.Status, d.ExecutionCounts.Succeeded, d.ExecutionCounts.Total)
		for _, child := range run.Children() {
			if c := child.Describe(); c.Status != asl.StatusSucceeded {
				fmt.Fprintf(w, "  %s: %s%s\n", c.Name, c.Status, failure(c.Error, c.Cause))
			}
		}
	}
	d := e.Describe()
	end := failure(d.Error, d.Cause)
	if d.Output != nil {
		end = ": " + *d.Output
	}
	_, err := fmt.Fprintf(w, "\n%s%s\n", d.Status, end)
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
