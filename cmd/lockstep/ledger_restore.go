package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// adoptReport is what adopt prints as JSON.
type adoptReport struct {
	Ledger  string          `json:"ledger"`
	Changed bool            `json:"changed"` // false: nothing was done
	Before  ledger.Identity `json:"before"`
	After   ledger.Identity `json:"after"`
	Token   int64           `json:"token"` // fencing token it was done with; 0 if it was not
}

// ledgerAdopt is "lockstep ledger adopt".
type ledgerAdopt struct {
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger adopt --help".
func (ledgerAdopt) Help() string {
	return `A ledger belongs to one source, one destination and one destination.versions, and a run that has others fails with
PipelineChangedError. If the change was meant, this records the new places. No file is processed again for it: what is
done stays done, and its outputs stay where they were written.

Without --yes the places are shown, and nothing is changed. With --yes the ledger is changed under the pipeline's lock.

-o json prints {"ledger", "changed", "before", "after", "token"}; before and after are {"source", "destination", "layout"}.

Exit codes: 0 it is done, or could be; ` + changingExitCodes
}

// Run implements the command.
func (c ledgerAdopt) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	report := adoptReport{Ledger: o.LedgerURL(), Changed: c.Yes, After: o.Identity()}
	head, err := o.Head(ctx)
	report.Before = head.Identity
	if err == nil && c.Yes {
		err = o.Hold(ctx, c.Wait, func(ctx context.Context, token int64) error {
			report.Token = token
			return o.Adopt(ctx, token)
		})
	}
	if err != nil {
		return c.ledgerFailed(ctx, to.Err, o, err)
	}
	if c.Output == "json" {
		return writeJSON(to.Out, report)
	}
	fmt.Fprintf(to.Out, "%s\n", report.Ledger)
	for _, place := range []struct{ name, before, after string }{
		{"source", report.Before.Source, report.After.Source},
		{"destination", report.Before.Destination, report.After.Destination},
		{"versions", report.Before.Layout, report.After.Layout},
	} {
		if place.before == place.after {
			fmt.Fprintf(to.Out, "  %-11s  %s\n", place.name, place.after)
		} else {
			fmt.Fprintf(to.Out, "  %-11s  %s, before %s\n", place.name, place.after, dash(place.before))
		}
	}
	switch {
	case report.Before == report.After:
		fmt.Fprintln(to.Out, "These are the ledger's places already.")
	case c.Yes:
		fmt.Fprintln(to.Out, "The ledger has these places now.")
	default:
		fmt.Fprintln(to.Out, "Nothing was changed: give --yes to do it.")
	}
	return nil
}

// restoreReport is what restore prints as JSON.
type restoreReport struct {
	Ledger  string `json:"ledger"`
	Changed bool   `json:"changed"` // false: nothing was done, or nothing had to be
	ledger.Restored
	Token int64 `json:"token"` // fencing token it was done with; 0 if it was not
}

// ledgerRestore is "lockstep ledger restore".
type ledgerRestore struct {
	changeFlags   `embed:""`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger restore --help".
func (ledgerRestore) Help() string {
	return `For a ledger whose head.json was deleted, overwritten or replaced by an older one, in a bucket that keeps versions: brings
the newest version back that can be read and that no segment is ahead of. Where there is none, see ledger rebuild.

Without --yes the version is shown, and nothing is changed. With --yes it is written under the pipeline's lock.

-o json prints {"ledger", "changed", "versionId", "lastModified", "generation", "passed", "current", "token"}; passed is
how many newer versions could not be used, current that the version is the one that is there.

Exit codes: 0 it is done, or could be; 1 no version can be used; ` + changingExitCodes
}

// Run implements the command.
func (c ledgerRestore) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	report := restoreReport{Ledger: o.LedgerURL()}
	if c.Yes {
		err = o.Hold(ctx, c.Wait, func(ctx context.Context, token int64) error {
			report.Token = token
			report.Restored, err = o.Restore(ctx, token, false)
			return err
		})
	} else {
		report.Restored, err = o.Restore(ctx, 1, true)
	}
	report.Changed = err == nil && c.Yes && !report.Current
	switch {
	case errors.Is(err, ledger.ErrNoVersion):
		fmt.Fprintln(to.Err, "lockstep:", err)
		return exitCode(exitNothing)
	case err != nil:
		return c.ledgerFailed(ctx, to.Err, o, err)
	case c.Output == "json":
		return writeJSON(to.Out, report)
	case report.Current:
		_, err = fmt.Fprintf(to.Out, "%s has the newest version of its head that can be used: nothing is to be restored\n", report.Ledger)
	case c.Yes:
		_, err = fmt.Fprintf(to.Out, "%s has the head of %s again, generation %d\n", report.Ledger, moment(report.LastModified, time.Time{}), report.Generation)
	default:
		_, err = fmt.Fprintf(to.Out, "The head of %s, generation %d, would be restored to %s. Nothing was changed: give --yes to do it.\n",
			moment(report.LastModified, time.Time{}), report.Generation, report.Ledger)
	}
	return err
}
