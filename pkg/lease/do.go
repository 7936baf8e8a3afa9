package lease

import (
	"context"
	"errors"
	"fmt"
)

// Do waits for the lock, calls fn under it, and gives the lock back, also when
// fn panics or ctx has ended. fn's context ends, with a cause that wraps
// ErrLost, before anybody else can get the lock. When that happened Do returns
// an error that wraps ErrLost even if fn returned nil: its last effects may
// have come too late.
func (l *Lock) Do(ctx context.Context, owner string, fn func(context.Context, Grant) error) (err error) {
	g, err := l.Acquire(ctx, owner)
	if err != nil {
		return err
	}
	kept, stop := l.Keep(ctx, g)
	defer func() {
		stop()
		err = l.giveBack(ctx, g, err, "done")
	}()
	return cutShort(kept, fn(kept, g))
}

// cutShort adds to the outcome of work that its lease was lost meanwhile.
func cutShort(kept context.Context, err error) error {
	if kept.Err() != nil {
		if cause := context.Cause(kept); errors.Is(cause, ErrLost) && !errors.Is(err, ErrLost) {
			return errors.Join(fmt.Errorf("the work was cut short: %w", cause), err)
		}
	}
	return err
}

// giveBack releases g, also after ctx has ended, and adds to err what went
// wrong with that, unless the lease was lost anyway.
func (l *Lock) giveBack(ctx context.Context, g Grant, err error, reason string) error {
	ctx, cancel := outlive(ctx, l.cfg.Cleanup)
	defer cancel()
	if _, releaseErr := l.Release(ctx, g.Owner, g.Token, reason); releaseErr != nil && !errors.Is(err, ErrLost) {
		return errors.Join(err, releaseErr)
	}
	return err
}
