package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// ledgerShow is "lockstep ledger show".
type ledgerShow struct {
	pipelineFlags `embed:""`
	Key           string `arg:"" optional:"" name:"key" help:"The file's key in the source bucket, or its S3 URL; with --stack the only argument."`
}

// Help is the rest of "lockstep ledger show --help".
func (ledgerShow) Help() string {
	return `Shows what the source has under the key now, what the ledger knows of it, what the next run does with it and why, why it
failed (from the records of that run), and the outputs of these versions. It says nothing of how much a bounded run
(selection.maxFiles, maxBytes) takes before it: that is in lockstep plan.

-o json prints {"key", "source": {"etag", "size", "lastModified", "storageClass"}, "ledger": as a line of ls -o json,
"next": {"takes", "kind", "reason"}, "failure": {"run", "token", "error", "summary"}, "outputs": [{"key", "etag", "size",
"lastModified"}], "gaps"}. source, ledger and failure are null where there is none; "gaps" are what could not be found
out. "kind" and "reason" are as in plan, and "reason" may be notThere, outsidePrefix or unlisted.

Exit codes: 0 source or ledger know the file; 1 neither does; ` + pipelineExitCodes
}

// Run implements the command.
func (c ledgerShow) Run(ctx context.Context, to *console) error {
	if c.Stack != "" && c.Key == "" { // then there is no CONFIG before it
		c.Key, c.Config = c.Config, ""
	}
	if c.Key == "" {
		return refuse(to.Err, errors.New("say which file: its key comes last"))
	}
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	e, err := o.Explain(ctx, s3Key(o, c.Key))
	if err != nil {
		return c.ledgerFailed(ctx, to.Err, o, err)
	}
	if c.Output == "json" {
		err = writeJSON(to.Out, e)
	} else {
		err = writeExplained(to.Out, o, e, c.named())
	}
	if err == nil && e.Source == nil && e.Row == nil {
		return exitCode(exitNothing)
	}
	return err
}

func writeExplained(w io.Writer, o *step.Operator, e step.Explained, pipeline string) error {
	config := o.Config()
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "s3://%s/%s\n", config.Source.Bucket, plainKey(e.Key))
	if s := e.Source; s == nil {
		line("source", "no such object")
	} else {
		line("source", "%d bytes, modified %s, ETag %s%s", s.Size, when(s.LastModified), s.ETag, class(s.StorageClass))
	}
	if e.Row == nil {
		line("ledger", "nothing is known of it")
	} else {
		line("ledger", "%s", inWords(*e.Row))
		if e.Source == nil || e.Source.ETag != e.Row.ETag || e.Source.Size != e.Row.Size {
			line("", "at another version: %d bytes, ETag %s", e.Row.Size, e.Row.ETag)
		}
	}
	if f := e.Failure; f != nil {
		line("error", "%s", oneLine(f.Error))
		line("", "see %s", f.Summary)
	}
	line("next run", "%s", nextRun(e))
	for _, output := range e.Outputs {
		line("output", "s3://%s/%s, %d bytes, written %s%s", config.Destination.Bucket, plainKey(output.Key), output.Size, when(output.LastModified), ofVersion(e, output))
	}
	for _, gap := range e.Gaps {
		line("unknown", "%s", gap)
	}
	if e.Row != nil && e.Next.Reason == ledger.SkipQuarantined {
		fmt.Fprintf(&b, "\nTo have the next run take it again:\n  lockstep ledger retry %s --key %s --yes\n", pipeline, shellWord(e.Key))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func class(storage string) string {
	if storage == "" || storage == "STANDARD" {
		return ""
	}
	return ", " + storage
}

// inWords is a row in words.
func inWords(row ledger.Row) string {
	text := string(row.Outcome)
	if row.Outcome != ledger.Done {
		text += " after " + counted(int64(row.Attempts), "attempt", "attempts")
	}
	if row.Run != "" {
		text += ", by " + oneLine(row.Run)
	}
	if !row.At.IsZero() {
		text += " at " + when(row.At)
	}
	return text
}

func nextRun(e step.Explained) string {
	if e.Next.Takes {
		failed := 0
		if e.Row != nil {
			failed = e.Row.Attempts
		}
		return "takes it: " + takenBecause(e.Next.Kind, failed)
	}
	return "does not take it: " + skippedBecause(e.Next.Reason)
}

// ofVersion tells outputs of an older version from those of what is there.
func ofVersion(e step.Explained, o step.Output) string {
	if e.Source != nil && e.Source.ETag == o.ETag {
		return ""
	}
	return ", of the version that the ledger has"
}

// takenBecause says why a file is taken.
func takenBecause(kind string, failed int) string {
	switch kind {
	case ledger.New.String():
		return "it is new"
	case ledger.Changed.String():
		return "it has changed"
	case ledger.Retried.String():
		return fmt.Sprintf("attempt %d", failed+1)
	case ledger.Reprocessed.String():
		return "selection.reprocess"
	}
	return kind
}

// skippedBecause says why a file is not taken.
func skippedBecause(reason ledger.Reason) string {
	if text, known := reasons[reason]; known {
		return text
	}
	return string(reason)
}

var reasons = map[ledger.Reason]string{
	ledger.SkipFolderMarker:   "it is a folder marker",
	ledger.SkipKey:            "its key is not UTF-8",
	ledger.SkipExcludedPrefix: "it is below the pipeline's own state or destination",
	ledger.SkipNotIncluded:    "selection.include does not match it",
	ledger.SkipExcluded:       "selection.exclude matches it",
	ledger.SkipTooSmall:       "it is smaller than selection.minFileBytes",
	ledger.SkipTooLarge:       "it is larger than selection.maxFileBytes",
	ledger.SkipBeforeSince:    "it was modified before selection.since",
	ledger.SkipNotBeforeUntil: "it was modified at or after selection.until",
	ledger.SkipDone:           "this version is done",
	ledger.SkipQuarantined:    "this version is in quarantine",
	ledger.SkipUnlisted:       "it sorts before what a run lists with selection.order \"lexicographic\"; the next listing of everything finds it",
	ledger.DeferArchived:      "it is archived and must be restored first",
	ledger.DeferTooYoung:      "it is younger than selection.minAgeSeconds; a later run takes it",
	ledger.DeferBackoff:       "it failed lately (failure.backoffSeconds); a later run takes it",
	ledger.LeftForLater:       "selection.maxFiles or maxBytes leave it to a later run",
	step.ReasonNotThere:       "there is no such object in the source",
	step.ReasonOutsidePrefix:  "it is not below source.prefix",
}
