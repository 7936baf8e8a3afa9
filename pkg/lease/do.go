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
		cleanup, cancel := outlive(ctx, l.cfg.Cleanup)
		defer cancel()
		if _, releaseErr := l.Release(cleanup, g.Owner, g.Token, "done"); releaseErr != nil && !errors.Is(err, ErrLost) {
			err = errors.Join(err, releaseErr)
		}
	}()
	err = fn(kept, g)
	if kept.Err() != nil {
		if cause := context.Cause(kept); errors.Is(cause, ErrLost) && !errors.Is(err, ErrLost) {
			return errors.Join(fmt.Errorf("the work was cut short: %w", cause), err)
		}
	}
	return err
}
