package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// outputsCommands are the verbs for people who look after a destination.
type outputsCommands struct {
	Check outputsCheck `cmd:"" help:"Hold the destination against the ledger: what is missing, what no row stands for."`
	Clean outputsClean `cmd:"" help:"Remove the outputs that no row of the ledger stands for."`
}

// outputsReport is what outputs check and clean print as JSON.
type outputsReport struct {
	Destination string `json:"destination"`
	Changed     bool   `json:"changed"` // false: nothing was removed
	step.OutputsReport
	StrayObjects []step.Stray       `json:"strayObjects"` // the first thousand
	WrongOutputs []step.WrongOutput `json:"wrongOutputs"` // the first thousand
}

// mostShown bounds what a report lists by name.
const mostShown = 1000

// outputsCheck is "lockstep outputs check".
type outputsCheck struct {
	Deep          bool `help:"Read the metadata of every output too, a request each."`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep outputs check --help".
func (outputsCheck) Help() string {
	return `Lists the destination and holds it against the ledger. It changes nothing and takes no lock: what a run at work has
published is not in the ledger before its commit.

Backed: a row of the ledger stands for the object. Stray: this pipeline published it, and no row stands for it (any more):
its source file is gone (sourceGone), it is of another version than the one that is published (version), or an older
lockstep named it (former). Pending: an output of a file that the next run settles. Foreign: others wrote it.

-o json prints {"destination", "changed", "listed", "backed", "foreign", "pending", "strays", "bytes", "missing", "wrong",
"strayObjects": [{"key", "reason", "size", "lastModified"}], "wrongOutputs": [{"key", "source", "problem"}]}.

Exit codes: 0 the destination is as the ledger says; 1 something is stray, missing or wrong; ` + pipelineExitCodes
}

// Run implements the command.
func (c outputsCheck) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	report := newOutputsReport(o)
	report.OutputsReport, err = o.CheckOutputs(ctx, step.OutputsCheck{Deep: c.Deep, Stray: report.addStray, Wrong: report.addWrong})
	if err != nil {
		return c.ledgerFailed(ctx, to.Err, o, err)
	}
	if c.Output == "json" {
		err = writeJSON(to.Out, report)
	} else {
		err = report.writeChecked(to.Out, c.named())
	}
	if err == nil && report.Strays+report.Missing+report.Wrong > 0 {
		return exitCode(exitNothing)
	}
	return err
}

// outputsClean is "lockstep outputs clean".
type outputsClean struct {
	Former        bool `help:"Also remove objects that an older lockstep named: <file>.<12 hex digits>.parquet without metadata."`
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep outputs clean --help".
func (outputsClean) Help() string {
	return `Removes what outputs check calls stray, object by object and never by prefix, under the pipeline's lock. Objects of others
are left alone, and so are outputs of files that the next run settles. Runs never remove an output; this command is the
only one that does.

Without --yes the objects are shown, and nothing is removed. What is removed is gone unless the bucket keeps versions.

-o json prints what outputs check -o json does, with "strays" and "bytes" of what was, or would be, removed.

Exit codes: 0 it is done, or could be; 1 there is nothing to remove; ` + changingExitCodes
}

// Run implements the command.
func (c outputsClean) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	reasons := []step.StrayReason{step.StraySourceGone, step.StrayVersion}
	if c.Former {
		reasons = append(reasons, step.StrayFormer)
	}
	report := newOutputsReport(o)
	report.Changed = c.Yes
	if c.Yes {
		err = o.Hold(ctx, c.Wait, func(ctx context.Context, _ int64) (err error) {
			report.OutputsReport, err = o.CleanOutputs(ctx, reasons, report.addStray)
			return err
		})
	} else {
		report.OutputsReport, err = o.StrayOutputs(ctx, reasons, report.addStray)
	}
	switch {
	case errors.Is(err, step.ErrOpenManifest):
		fmt.Fprintln(to.Err, "lockstep:", err)
		return exitCode(exitBusy)
	case err != nil:
		return c.ledgerFailed(ctx, to.Err, o, err)
	case c.Output == "json":
		err = writeJSON(to.Out, report)
	default:
		err = report.writeCleaned(to.Out)
	}
	if err == nil && report.Strays == 0 {
		return exitCode(exitNothing)
	}
	return err
}

func newOutputsReport(o *step.Operator) *outputsReport {
	d := o.Config().Destination
	return &outputsReport{
		Destination: "s3://" + d.Bucket + "/" + d.Prefix, StrayObjects: []step.Stray{}, WrongOutputs: []step.WrongOutput{},
	}
}

func (r *outputsReport) addStray(s step.Stray) error {
	if len(r.StrayObjects) < mostShown {
		r.StrayObjects = append(r.StrayObjects, s)
	}
	return nil
}

func (r *outputsReport) addWrong(w step.WrongOutput) error {
	if len(r.WrongOutputs) < mostShown {
		r.WrongOutputs = append(r.WrongOutputs, w)
	}
	return nil
}

func (r *outputsReport) writeObjects(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range r.StrayObjects {
		fmt.Fprintf(table, "%s\t%d bytes\t%q\n", s.Reason, s.Size, s.Key)
	}
	for _, o := range r.WrongOutputs {
		fmt.Fprintf(table, "wrong\t%q\t%s\n", o.Key, o.Problem)
	}
	return table.Flush()
}

func (r *outputsReport) writeChecked(w io.Writer, pipeline string) error {
	if err := r.writeObjects(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s: %s listed, %d backed by the ledger, %d pending, %d foreign; %d stray (%d bytes), %d missing, %d wrong\n",
		r.Destination, counted(r.Listed, "object", "objects"), r.Backed, r.Pending, r.Foreign, r.Strays, r.Bytes, r.Missing, r.Wrong)
	if err == nil && r.Strays > 0 {
		_, err = fmt.Fprintf(w, "To see what would be removed:\n  lockstep outputs clean %s\n", pipeline)
	}
	return err
}

func (r *outputsReport) writeCleaned(w io.Writer) error {
	if err := r.writeObjects(w); err != nil {
		return err
	}
	said := "would be removed. Nothing was changed: give --yes to do it."
	if r.Changed {
		said = "removed."
	}
	_, err := fmt.Fprintf(w, "%s of %d bytes in %s %s\n", counted(r.Strays, "object", "objects"), r.Bytes, r.Destination, said)
	return err
}
