package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// isAWS tells AWS from a server of one's own by the endpoint that was given.
func isAWS(endpoint string) bool {
	return endpoint == "" || strings.Contains(endpoint, ".amazonaws.com")
}

// consoleURL is where people look at an execution; "" where that is not known.
func consoleURL(execution string) string {
	parsed, err := arn.Parse(execution)
	if err != nil {
		return ""
	}
	hosts := map[string]string{
		"aws": parsed.Region + ".console.aws.amazon.com", "aws-cn": parsed.Region + ".console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com",
	}
	host, known := hosts[parsed.Partition]
	if !known {
		return ""
	}
	return fmt.Sprintf("https://%s/states/home?region=%s#/v2/executions/details/%s", host, parsed.Region, execution)
}

func writeStarted(w io.Writer, r runReport) error {
	text := fmt.Sprintf("started %s of pipeline %s\n  execution  %s\n", r.Name, r.Pipeline, r.ExecutionARN)
	if r.Console != "" {
		text += fmt.Sprintf("  console    %s\n", r.Console)
	}
	_, err := io.WriteString(w, text)
	return err
}

// writeGoesOn says what can be done about a run that is followed no more.
func (c runCommand) writeGoesOn(w io.Writer, r runReport) {
	abort := "aws stepfunctions stop-execution --execution-arn " + shellWord(r.ExecutionARN)
	for _, flag := range []struct{ name, value string }{{"region", c.Region}, {"profile", c.Profile}, {"endpoint-url", c.EndpointURL}} {
		if flag.value != "" {
			abort += " --" + flag.name + " " + shellWord(flag.value)
		}
	}
	fmt.Fprintf(w, "The run goes on. To see how far it is, or to abort it:\n  lockstep history %s %s\n  %s\n", c.stackFlags.named(), shellWord(r.Name), abort)
}

// plainCause is what a function said, where the cause is Lambda's report of it.
func plainCause(cause string) string {
	var report struct{ ErrorMessage string }
	if json.Unmarshal([]byte(cause), &report) == nil && report.ErrorMessage != "" {
		return report.ErrorMessage
	}
	return cause
}

// mostFailuresShown is how many failed files are named beside the counts.
const mostFailuresShown = 10

// writeOutcome says how a run ended and what it did.
func writeOutcome(w io.Writer, r runReport) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s after %v", r.Status, time.Time(*r.StopDate).Sub(time.Time(r.StartDate)).Round(100*time.Millisecond))
	switch s := r.Summary; {
	case r.Error != nil:
		plain := plainCause(*r.Cause)
		b.WriteString(failure(r.Error, &plain))
	case r.Status != asl.StatusSucceeded:
	case r.LastState == "RunSkipped":
		b.WriteString(": skipped, for enough runs wait already, and one of them does this work")
	case s == nil && r.SummaryURL == "":
		b.WriteString(": nothing new")
	}
	b.WriteString("\n")
	if s := r.Summary; s != nil {
		fmt.Fprintf(&b, "  done         %s, %s\n", counted(s.Done, "file", "files"), counted(s.Rows, "row", "rows"))
		for _, other := range []struct {
			n    int64
			what string
		}{
			{s.Rejected, "rejected     %s that could not be read, kept beside the outputs"},
			{s.Failed, "failed       %s"}, {s.Quarantined, "quarantined  %s of those"},
			{s.Superseded, "superseded   %s that changed meanwhile"}, {s.Deferred, "deferred     %s to the next run"}, {s.Left, "left         %s for the next run"},
		} {
			if other.n > 0 {
				unit := counted(other.n, "file", "files")
				if strings.HasPrefix(other.what, "rejected") {
					unit = counted(other.n, "row", "rows")
				}
				fmt.Fprintf(&b, "  "+other.what+"\n", unit)
			}
		}
		for _, f := range s.Failures[:min(mostFailuresShown, len(s.Failures))] {
			fmt.Fprintf(&b, "    %s: %s\n", plainKey(f.Key), short(strings.TrimPrefix(f.Error, fmt.Sprintf("process %q: ", f.Key))))
		}
	}
	if r.SummaryURL != "" {
		fmt.Fprintf(&b, "  summary      %s\n", r.SummaryURL)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
