package step

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Planned is what the next run would do, were it to list the source now.
type Planned struct {
	ledger.Discovery
	Batches int          `json:"batches"`
	Cutoff  time.Time    `json:"cutoff"` // server time that ages were measured at
	Lock    lease.Status `json:"lock"`
}

// Plan tells of the files that the next run would take or leave for later, and
// where skipped is not nil of all others, too; see ledger.Plan for the order. It
// writes nothing, and takes no lock: a run that is at work may have settled some
// of it by the time it is read.
func (o *Operator) Plan(ctx context.Context, toDo, skipped func(ledger.Verdict) error) (Planned, error) {
	status, err := o.Lock(ctx)
	if err != nil {
		return Planned{}, fmt.Errorf("read the server's time: %w", err)
	}
	if _, err := o.books.Begun(ctx); err != nil {
		return Planned{}, o.inLedger("read", err)
	}
	batches := &manifestWriter{limits: o.run.config.Batch, out: bufio.NewWriter(io.Discard)}
	found, err := o.books.Plan(ctx, o.run.source, o.run.selection(), status.Now, func(v ledger.Verdict) error {
		if v.Reason == "" {
			if err := batches.add(ledger.Candidate{File: v.File, Attempts: v.Attempts, Suspect: v.Suspect}); err != nil {
				return err
			}
		}
		return toDo(v)
	}, skipped)
	if err == nil {
		err = batches.flush()
	}
	if err != nil {
		return Planned{}, fmt.Errorf("plan for files below s3://%s/%s: %w", o.run.source.Name(), o.run.config.Source.Prefix, err)
	}
	return Planned{Discovery: found, Batches: batches.batches, Cutoff: status.Now, Lock: status}, nil
}
