package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// planCommand is "lockstep plan".
type planCommand struct {
	Skipped       bool `help:"Show every file that would not be taken, too, and why."`
	nameFlags     `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep plan --help".
func (planCommand) Help() string {
	return `Lists the source, compares it with the ledger as DiscoverFiles does, and says of each file whether a run that began now
would take it. It writes nothing and takes no lock; while a run is at work, what that run will have done by the end is
shown as work. With --key or --glob these files alone are shown, whatever becomes of them: why was my file not processed?

-o json prints an object a line. Files come first: {"file": {"key", "etag", "size", "lastModified", "takes", "kind",
"reason", "attempts"}}; "kind" is new, changed, retried or reprocessed, or "" if the file is not taken, and then "reason"
says why not: folderMarker, keyNotUTF8, excludedPrefix, notIncluded, excluded, tooSmall, tooLarge, beforeSince,
notBeforeUntil, done, quarantined, archived, tooYoung, backoff, left, or notThere for a --key that is not listed.
"attempts" counts failed attempts at this version. The last line is {"plan": {"source", "ledger", "cutoff", "listed",
"new", "changed", "retried", "reprocessed", "bytes", "batches", "skipped": {reason: files}, "left", "leftBytes", "gone",
"lock": as lock status prints it}}.

Exit codes: 0 it is known what a run would do; 1 none of the files of --key is there; ` + pipelineExitCodes
}

// planFile is one file of "plan -o json".
type planFile struct {
	Key          string        `json:"key"`
	ETag         string        `json:"etag"`
	Size         int64         `json:"size"`
	LastModified time.Time     `json:"lastModified,omitzero"`
	Takes        bool          `json:"takes"`
	Kind         string        `json:"kind"`
	Reason       ledger.Reason `json:"reason"`
	Attempts     int           `json:"attempts"`
}

// planReport is the end of "plan -o json".
type planReport struct {
	Source      string                  `json:"source"`
	Ledger      string                  `json:"ledger"`
	Cutoff      time.Time               `json:"cutoff"`
	Listed      int64                   `json:"listed"`
	New         int64                   `json:"new"`
	Changed     int64                   `json:"changed"`
	Retried     int64                   `json:"retried"`
	Reprocessed int64                   `json:"reprocessed"`
	Bytes       int64                   `json:"bytes"`
	Batches     int                     `json:"batches"`
	Skipped     map[ledger.Reason]int64 `json:"skipped"`
	Left        int64                   `json:"left"`
	LeftBytes   int64                   `json:"leftBytes"`
	Gone        int64                   `json:"gone"`
	Lock        lockReport              `json:"lock"`

	lock  objectURL
	after string // where the listing began
}

// Run implements the command.
func (c planCommand) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	show := planWriter{out: newLineEncoder(to.Out)}
	if c.Output == "text" {
		show.table = newTable(to.Out, "NEXT RUN", "WHY", "SIZE", "MODIFIED", "KEY")
	}
	filter := c.filter(o)
	named := filter.Any()
	missing := map[string]bool{}
	for _, key := range filter.Keys {
		missing[key] = true
	}
	tell := func(v ledger.Verdict) error {
		delete(missing, v.Key)
		if named && !filter.Names(v.Key, o.Config().Source.Prefix) || !named && v.Reason != "" && !c.Skipped {
			return nil
		}
		return show.verdict(v)
	}
	skipped := tell
	if !named && !c.Skipped {
		skipped = nil // which makes it faster
	}
	planned, err := o.Plan(ctx, tell, skipped)
	if err != nil {
		return c.ledgerFailed(ctx, to.Err, o, err)
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		if err := show.verdict(ledger.Verdict{File: ledger.File{Key: key}, Reason: step.ReasonNotThere}); err != nil {
			return fmt.Errorf("print the plan: %w", err)
		}
	}
	if err := show.end(to.Out, newPlanReport(o, planned)); err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	if n := len(filter.Keys); n > 0 && len(missing) == n && len(filter.Globs) == 0 {
		return exitCode(exitNothing)
	}
	return nil
}

func newPlanReport(o *step.Operator, p step.Planned) planReport {
	source, lock := o.Config().Source, lockOf(o)
	return planReport{
		Source: "s3://" + source.Bucket + "/" + source.Prefix, Ledger: o.LedgerURL(), Cutoff: p.Cutoff, Listed: p.Listed,
		New: p.New, Changed: p.Changed, Retried: p.Retried, Reprocessed: p.Reprocessed, Bytes: p.Bytes, Batches: p.Batches,
		Skipped: p.Skipped, Left: p.Left, LeftBytes: p.LeftBytes, Gone: p.Gone,
		Lock:  lockReport{Lock: lock.String(), State: stateOf(p.Lock), Status: p.Lock},
		lock:  lock,
		after: p.After,
	}
}

// planWriter prints a plan while it is made.
type planWriter struct {
	out   *json.Encoder
	table *table // nil for JSON
}

func (w planWriter) verdict(v ledger.Verdict) error {
	takes := v.Reason == ""
	if w.table == nil {
		return w.out.Encode(map[string]planFile{"file": {
			Key: v.Key, ETag: v.ETag, Size: v.Size, LastModified: v.LastModified,
			Takes: takes, Kind: v.Kind.String(), Reason: v.Reason, Attempts: v.Attempts,
		}})
	}
	verb, why := "takes it", takenBecause(v.Kind.String(), v.Attempts)
	if !takes {
		verb, why = "skips it", skippedBecause(v.Reason)
		switch {
		case v.Row == nil:
		case v.Reason == ledger.SkipDone, v.Reason == ledger.SkipQuarantined:
			why = inWords(*v.Row)
		case v.Reason == ledger.DeferBackoff:
			why += ": " + inWords(*v.Row)
		}
	}
	return w.table.row(verb, why, v.Size, when(v.LastModified), plainKey(v.Key))
}

func (w planWriter) end(out io.Writer, r planReport) error {
	if w.table == nil {
		return w.out.Encode(map[string]planReport{"plan": r})
	}
	if err := w.table.flush(); err != nil {
		return err
	}
	return writePlan(out, r, w.table.written > 0)
}

func writePlan(w io.Writer, r planReport, gap bool) error {
	var b strings.Builder
	if gap {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s listed below %s at %s", files(r.Listed), r.Source, when(r.Cutoff))
	if r.after != "" {
		fmt.Fprintf(&b, ", behind %s alone (selection.order)", plainKey(r.after))
	}
	b.WriteString("\n")
	for _, taken := range []struct {
		n   int64
		why string
	}{{r.New, "new"}, {r.Changed, "changed"}, {r.Retried, "retried"}, {r.Reprocessed, "reprocessed"}} {
		if taken.n > 0 {
			fmt.Fprintf(&b, "  %9d  to be taken: %s\n", taken.n, taken.why)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&b, "  %9d  skipped: %s\n", r.Skipped[reason], skippedBecause(reason))
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, "  %9d  left: %s\n", r.Left, skippedBecause(ledger.LeftForLater))
	}
	taken := r.New + r.Changed + r.Retried + r.Reprocessed
	if taken == 0 {
		fmt.Fprintf(&b, "A run would find nothing to do.\n")
	} else {
		fmt.Fprintf(&b, "A run would take %s of %d bytes in %s.\n", files(taken), r.Bytes, counted(int64(r.Batches), "batch", "batches"))
	}
	if r.Gone > 0 {
		fmt.Fprintf(&b, "In the ledger, and not in the source any more: %s.\n", files(r.Gone))
	}
	b.WriteString("\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return writeStatus(w, r.lock, r.Lock)
}
