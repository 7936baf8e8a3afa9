package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Verify reads the whole ledger and checks every byte of it. The error joins
// one *DamagedError for each object that is not what was written. A head that
// is missing beside its segments is damage, too; without any, the ledger is one
// that was never written to.
func (l *Ledger) Verify(ctx context.Context) error {
	head, err := l.loadOrNone(ctx)
	if err != nil {
		return err
	}
	var found []error
	if err := l.checkNewest(ctx, nil); err != nil {
		if !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("verify ledger: %w", err)
		}
		found = append(found, err)
	}
	for _, s := range head.Segments {
		err := l.verifySegment(ctx, s)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("verify ledger: %w", err)
		}
		found = append(found, err)
	}
	return errors.Join(found...)
}

func (l *Ledger) verifySegment(ctx context.Context, s Segment) error {
	source, err := l.openSegment(ctx, s)
	if err != nil {
		return err
	}
	defer source.close()
	var r record
	for {
		more, err := source.next(&r)
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}
