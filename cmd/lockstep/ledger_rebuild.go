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
		err = writeVerified(to.Out, report, c.Config)
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

func writeVerified(w io.Writer, r verifyReport, config string) error {
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
from the records of the runs, once it was seen what would come of it:
  lockstep ledger rebuild %s
`, shellWord(config))
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
	Force         bool `help:"Replace a ledger that is intact, too."`
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger rebuild --help".
func (ledgerRebuild) Help() string {
	return `Reads the summary, the manifest and the results of every run below the state prefix, keeps the latest of each file, drops
files that a complete listing of the source does not have any more, and writes what is left as a new ledger. The old
segments stay for a day at least.

What has no record is not in the new ledger, and so is processed again, which writes the same outputs: runs whose records
were removed, by a lifecycle rule or by hand, and runs that left no summary. What was retried, forgotten or reset by hand
is not known either. Runs whose records leave something open are listed.

Without --yes it is shown what would come of it, and nothing is written. With --yes the ledger is written under the
pipeline's lock. A ledger that is intact is refused without --force.

-o json prints {"ledger", "changed", "token", "intact", "runs", "done", "failed", "quarantined", "vanished", "problems":
[{"run", "token", "problem"}]}. "vanished" are files that the source does not have any more.

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
	} else if report.Intact, _, err = intact(ctx, o); err == nil {
		report.Rebuilt, err = o.Foretell(ctx)
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
	whole, legible, err := intact(ctx, o)
	if err != nil {
		return err
	}
	if whole && !c.Force {
		return ledger.ErrIntact
	}
	report.Intact = whole
	report.Rebuilt, err = o.Rebuild(ctx, token, legible)
	return err
}

// intact tells whether there is a ledger without damage, and whether there is
// a head that can be read.
func intact(ctx context.Context, o *step.Operator) (whole, legible bool, err error) {
	report, err := verify(ctx, o)
	if err != nil {
		return false, false, err
	}
	head, err := o.Head(ctx)
	if err != nil && !errors.Is(err, ledger.ErrDamaged) {
		return false, false, err
	}
	legible = err == nil && head.Generation > 0
	return report.Intact && legible, legible, nil
}

func writeRebuilt(w io.Writer, r rebuildReport) error {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "run %s, token %d: %s\n", oneLine(p.Run), p.Token, oneLine(p.Problem))
	}
	if len(r.Problems) > 0 {
		fmt.Fprintf(&b, "What these runs did and nothing else proves is processed again.\n\n")
	}
	fmt.Fprintf(&b, "The records of %s tell of %s: %d done, %d failed, %d quarantined", counted(int64(r.Runs), "run", "runs"), files(r.Rows()), r.Done, r.Failed, r.Quarantined)
	if r.Vanished > 0 {
		fmt.Fprintf(&b, "; and of %d that the source does not have any more", r.Vanished)
	}
	b.WriteString("\n")
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
