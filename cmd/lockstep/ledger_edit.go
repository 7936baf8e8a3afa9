package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// editReport is what retry, forget and reset print as JSON.
type editReport struct {
	Verb    string `json:"verb"`
	Ledger  string `json:"ledger"`
	Changed bool   `json:"changed"` // false: nothing was done
	Files   int64  `json:"files"`   // that are, or would be, changed
	Token   int64  `json:"token"`   // fencing token it was done with; 0 if it was not
}

// editFlags are those of verbs that change chosen rows.
type editFlags struct {
	rowFlags      `embed:""`
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Validate is called by the parser of the command line.
func (f editFlags) Validate() error { return cmp.Or(f.rowFlags.Validate(), f.changeFlags.Validate()) }

// ledgerRetry is "lockstep ledger retry".
type ledgerRetry struct {
	editFlags `embed:""`
}

// Help is the rest of "lockstep ledger retry --help".
func (ledgerRetry) Help() string {
	return `The next run takes these files at once, whatever failure.backoffSeconds says, and each has all of failure.maxAttempts
before it again. Files that are done are left alone: forget them to have them processed again.

Without --yes the files are shown, and nothing is changed. With --yes the ledger is changed under the pipeline's lock,
all of it at once or nothing.

-o json prints {"verb", "ledger", "changed", "files", "token"}; see ls -o json for the files themselves.

Exit codes: 0 it is done, or could be; 1 there are no such files; ` + changingExitCodes
}

// Run implements the command.
func (c ledgerRetry) Run(ctx context.Context, to *console) error {
	if slices.Contains(c.Outcome, string(ledger.Done)) {
		return refuse(to.Err, errors.New("--outcome done: what is done is not retried; forget it to have it processed again"))
	}
	return editing{
		verb: "retry", would: "would be retried", did: "will be retried by the next run",
		editFlags: c.editFlags,
		filter: func(o *step.Operator) step.Filter {
			filter := c.filter(o)
			if len(filter.Outcomes) == 0 {
				filter.Outcomes = []ledger.Outcome{ledger.Failed, ledger.Quarantined}
			}
			return filter
		},
		edit: func(ctx context.Context, o *step.Operator, token int64, f step.Filter) (int64, error) {
			committed, err := o.Retry(ctx, token, f)
			return committed.Failed, err
		},
	}.run(ctx, to)
}

// ledgerForget is "lockstep ledger forget".
type ledgerForget struct {
	editFlags `embed:""`
}

// Help is the rest of "lockstep ledger forget --help".
func (ledgerForget) Help() string {
	return `The next run takes these files, if they are still there and in its selection, as if it had never seen them: they are due.
Outputs that there are stay, and are written again.

Without --yes the files are shown, and nothing is changed. With --yes the ledger is changed under the pipeline's lock,
all of it at once or nothing.

-o json prints {"verb", "ledger", "changed", "files", "token"}; see ls -o json for the files themselves.

Exit codes: 0 it is done, or could be; 1 there are no such files; ` + changingExitCodes
}

// Run implements the command.
func (c ledgerForget) Run(ctx context.Context, to *console) error {
	return editing{
		verb: "forget", would: "would be forgotten", did: "forgotten: the next run takes what is still there",
		editFlags: c.editFlags,
		filter:    c.filter,
		edit: func(ctx context.Context, o *step.Operator, token int64, f step.Filter) (int64, error) {
			committed, err := o.Forget(ctx, token, f)
			return committed.Gone + committed.Due, err
		},
	}.run(ctx, to)
}

// editing is a verb that changes rows.
type editing struct {
	editFlags
	verb, would, did string
	filter           func(*step.Operator) step.Filter
	edit             func(context.Context, *step.Operator, int64, step.Filter) (files int64, err error)
}

func (e editing) run(ctx context.Context, to *console) error {
	if !e.given() {
		return refuse(to.Err, errNoFilter)
	}
	o, err := e.operator(ctx, to)
	if err != nil {
		return err
	}
	report := editReport{Verb: e.verb, Ledger: o.LedgerURL(), Changed: e.Yes}
	if e.Yes {
		err = o.Hold(ctx, e.Wait, func(ctx context.Context, token int64) error {
			report.Token = token
			report.Files, err = e.edit(ctx, o, token, e.filter(o))
			return err
		})
	} else {
		report.Files, err = e.show(ctx, to, o)
	}
	if err != nil {
		return e.ledgerFailed(ctx, to.Err, o, err)
	}
	return e.report(to, report)
}

// show prints what would be changed, and counts it.
func (e editing) show(ctx context.Context, to *console, o *step.Operator) (files int64, err error) {
	out := newRowWriter(to.Out, "text")
	for row, err := range o.Rows(ctx, e.filter(o)) {
		if err != nil {
			return 0, errors.Join(err, out.flush())
		}
		files++
		if e.Output == "json" {
			continue
		}
		if err := out.write(row); err != nil {
			return 0, err
		}
	}
	return files, out.flush()
}

func (e editing) report(to *console, r editReport) error {
	var err error
	switch {
	case e.Output == "json":
		err = writeJSON(to.Out, r)
	case r.Files == 0:
		fmt.Fprintf(to.Err, "lockstep: there are no such files in %s\n", r.Ledger)
	case r.Changed:
		_, err = fmt.Fprintf(to.Out, "%s %s\n", files(r.Files), e.did)
	default:
		_, err = fmt.Fprintf(to.Out, "\n%s %s. Nothing was changed: give --yes to do it.\n", files(r.Files), e.would)
	}
	if err == nil && r.Files == 0 {
		return exitCode(exitNothing)
	}
	return err
}

// ledgerReset is "lockstep ledger reset".
type ledgerReset struct {
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger reset --help".
func (ledgerReset) Help() string {
	return `Every file that is there is due, and processed by the next runs as if none had ever been. Outputs that there are stay, and
are written again. A ledger of an older lockstep is replaced by an empty one of this format. A ledger that is damaged is
not reset, but restored or rebuilt.

Without --yes nothing is changed. With --yes the ledger is changed under the pipeline's lock.

-o json prints {"verb", "ledger", "changed", "files", "token"}. "files" is how many the ledger has at most: a file that
was processed several times may be counted as often.

Exit codes: 0 it is done, or could be; ` + changingExitCodes
}

// Run implements the command.
func (c ledgerReset) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	report := editReport{Verb: "reset", Ledger: o.LedgerURL(), Changed: c.Yes}
	if c.Yes {
		err = o.Hold(ctx, c.Wait, func(ctx context.Context, token int64) error {
			report.Token = token
			committed, err := o.Reset(ctx, token)
			report.Files = committed.Gone + committed.Due
			return err
		})
	} else {
		var head ledger.Head
		head, err = o.Head(ctx)
		report.Files = head.Rows()
	}
	switch {
	case errors.As(err, new(*ledger.OutdatedError)) && c.Output == "text":
		_, err = fmt.Fprintf(to.Out, "%s was written by an older lockstep, and would be replaced by an empty one. Nothing was changed: give --yes to do it.\n", report.Ledger)
	case err != nil:
		return c.ledgerFailed(ctx, to.Err, o, err)
	case c.Output == "json":
		return writeJSON(to.Out, report)
	case c.Yes:
		_, err = fmt.Fprintf(to.Out, "%s says of no file that it is done: the next run takes what is still there\n", report.Ledger)
	default:
		_, err = fmt.Fprintf(to.Out, "Up to %s in %s would be forgotten, and processed again if they are there. Nothing was changed: give --yes to do it.\n",
			files(report.Files), report.Ledger)
	}
	return err
}
