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

// verifyReport is what "ledger verify -o json" prints.
type verifyReport struct {
	Ledger   string   `json:"ledger"`
	Intact   bool     `json:"intact"`
	Segments int      `json:"segments"` // these three by the head; 0 where it cannot be read
	Rows     int64    `json:"rows"`
	Bytes    int64    `json:"bytes"`
	Damaged  []damage `json:"damaged"`
}

// damage is one object that is not what was written.
type damage struct {
	Object string `json:"object"` // S3 URL
	Reason string `json:"reason"`
}

// ledgerVerify is "lockstep ledger verify".
type ledgerVerify struct {
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger verify --help".
func (ledgerVerify) Help() string {
	return `Reads the head and all segments, and checks every byte against checksums, order and the head's counts. It changes nothing.

-o json prints {"ledger", "intact", "segments", "rows", "bytes", "damaged": [{"object", "reason"}]}.

Exit codes: 0 the ledger is intact, or was never written to; ` + pipelineExitCodes
}

// Run implements the command.
func (c ledgerVerify) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	report, err := verify(ctx, o)
	if err != nil {
		return c.ledgerFailed(ctx, to.Err, o, err)
	}
	if c.Output == "json" {
		err = writeJSON(to.Out, report)
	} else {
		err = writeVerified(to.Out, report, c.named())
	}
	if err == nil && !report.Intact {
		return exitCode(exitCorrupt)
	}
	return err
}

// verify returns damage as a finding, and other errors as errors.
func verify(ctx context.Context, o *step.Operator) (verifyReport, error) {
	report := verifyReport{Ledger: o.LedgerURL(), Damaged: []damage{}}
	head, err := o.Head(ctx)
	if err == nil {
		report.Segments, report.Rows = len(head.Segments), head.Rows()
		for _, s := range head.Segments {
			report.Bytes += s.Bytes
		}
	}
	err = o.Verify(ctx)
	if err != nil && !errors.Is(err, ledger.ErrDamaged) {
		return verifyReport{}, err
	}
	for _, d := range damages(err) {
		report.Damaged = append(report.Damaged, damage{Object: "s3://" + o.Config().State.Bucket + "/" + d.Object, Reason: d.Reason})
	}
	report.Intact = err == nil
	return report, nil
}

// damages takes a joined error apart.
func damages(err error) []*ledger.DamagedError {
	var one *ledger.DamagedError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*ledger.DamagedError
		for _, each := range joined.Unwrap() {
			all = append(all, damages(each)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []*ledger.DamagedError{one}
	}
	return nil
}

func writeVerified(w io.Writer, r verifyReport, pipeline string) error {
	var b strings.Builder
	if r.Intact {
		fmt.Fprintf(&b, "%s is intact: %s in %s, %d bytes\n", r.Ledger,
			counted(r.Rows, "row", "rows"), counted(int64(r.Segments), "segment", "segments"), r.Bytes)
	} else {
		fmt.Fprintf(&b, "%s is damaged\n", r.Ledger)
		for _, d := range r.Damaged {
			fmt.Fprintf(&b, "  %s: %s\n", d.Object, d.Reason)
		}
		fmt.Fprintf(&b, `
Runs fail until it is repaired. Where the bucket keeps versions, restore these objects. Otherwise write the ledger anew
from what is left of it and the records of the runs; this shows what would come of it:
  lockstep ledger rebuild %s
`, pipeline)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rebuildReport is what "ledger rebuild -o json" prints.
type rebuildReport struct {
	Ledger  string `json:"ledger"`
	Changed bool   `json:"changed"` // false: nothing was written
	Token   int64  `json:"token"`   // fencing token it was done with; 0 if it was not
	Intact  bool   `json:"intact"`  // what the ledger was before
	step.Rebuilt
}

// ledgerRebuild is "lockstep ledger rebuild".
type ledgerRebuild struct {
	Force         bool `help:"Replace a ledger that is intact, too, by what the records alone tell."`
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger rebuild --help".
func (ledgerRebuild) Help() string {
	return `Reads what can be read of the old ledger's segments, and the summary, the manifest and the results of every run below
the state prefix; keeps the latest of each file, drops files that a complete listing of the source does not have any more,
and writes what is left as a new ledger. The old segments stay for an hour at least.

What neither segments nor records tell is not in the new ledger, and so is processed again, which writes the same outputs:
files whose segment is lost and whose records were removed, by a lifecycle rule or by hand, or whose run left no summary.
How many files of the source that are is shown. What was retried, forgotten or reset by hand is not in the records; where
the segments are lost that tell of it, it has to be done again. So it has to where a file was deleted and came back the
same: it may count as done. Runs whose records leave something open are listed.

Without --yes it is shown what would come of it, and nothing is written. With --yes the ledger is written under the
pipeline's lock. A ledger that is intact is refused without --force.

-o json prints {"ledger", "changed", "token", "intact", "salvaged", "replayed", "runs", "done", "failed", "quarantined",
"vanished", "unknown", "lost": [{"object", "reason"}], "problems": [{"run", "token", "problem"}]}. "salvaged" are files
from segments, "replayed" those from records, "vanished" those that the source does not have any more, "unknown" those
that only the source has.

Exit codes: 0 it is done, or could be; ` + changingExitCodes
}

// Run implements the command.
func (c ledgerRebuild) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	report := rebuildReport{Ledger: o.LedgerURL(), Changed: c.Yes}
	if c.Yes {
		err = o.Hold(ctx, c.Wait, func(ctx context.Context, token int64) error {
			report.Token = token
			return c.rebuild(ctx, o, token, &report)
		})
	} else {
		var from step.Sources
		if report.Intact, from, err = sources(ctx, o); err == nil {
			report.Rebuilt, err = o.Foretell(ctx, from)
		}
	}
	switch {
	case errors.Is(err, ledger.ErrIntact):
		return refuse(to.Err, fmt.Errorf("%s is intact, and was left as it is; --force replaces it all the same", report.Ledger))
	case err != nil:
		return c.ledgerFailed(ctx, to.Err, o, err)
	case c.Output == "json":
		return writeJSON(to.Out, report)
	}
	return writeRebuilt(to.Out, report)
}

func (c ledgerRebuild) rebuild(ctx context.Context, o *step.Operator, token int64, report *rebuildReport) error {
	intact, from, err := sources(ctx, o)
	if err != nil {
		return err
	}
	if intact && !c.Force {
		return ledger.ErrIntact
	}
	report.Intact = intact
	report.Rebuilt, err = o.Rebuild(ctx, token, from)
	return err
}

// sources tells whether there is a ledger without damage, and what a new one is
// to be made from: who replaces an intact one has reasons not to trust it.
func sources(ctx context.Context, o *step.Operator) (intact bool, from step.Sources, err error) {
	report, err := verify(ctx, o)
	if err != nil {
		return false, from, err
	}
	head, err := o.Head(ctx)
	if err != nil && !errors.Is(err, ledger.ErrDamaged) {
		return false, from, err
	}
	legible := err == nil && head.Generation > 0
	intact = report.Intact && legible
	return intact, step.Sources{Segments: !intact, Intact: legible}, nil
}

func writeRebuilt(w io.Writer, r rebuildReport) error {
	var b strings.Builder
	for _, lost := range r.Lost {
		fmt.Fprintf(&b, "lost: %s: %s\n", lost.Object, oneLine(lost.Reason))
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "run %s, token %d: %s\n", oneLine(p.Run), p.Token, oneLine(p.Problem))
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s: %d done, %d failed, %d quarantined\n", files(r.Rows()), r.Done, r.Failed, r.Quarantined)
	fmt.Fprintf(&b, "  %9d  told by segments that can be read\n", r.Salvaged)
	fmt.Fprintf(&b, "  %9d  told by the records of %s\n", r.Replayed, counted(int64(r.Runs), "run", "runs"))
	fmt.Fprintf(&b, "Told of, but not in the source any more: %s.\n", files(r.Vanished))
	fmt.Fprintf(&b, "In the source, but told of by nothing, and so new: %s.\n\n", files(r.Unknown))
	switch {
	case r.Changed:
		fmt.Fprintf(&b, "%s was written anew, with token %d\n", r.Ledger, r.Token)
	case r.Intact:
		fmt.Fprintf(&b, "%s is intact. Nothing was written: to replace it all the same takes --force and --yes.\n", r.Ledger)
	default:
		fmt.Fprintf(&b, "Nothing was written: give --yes to write %s anew.\n", r.Ledger)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
