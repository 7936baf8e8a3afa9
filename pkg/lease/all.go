package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bundle is what one owner holds of several locks.
type Bundle struct {
	given []*Lock // as the caller named them
	taken []taken // in the order in which they were taken
}

type taken struct {
	lock  *Lock
	grant Grant
}

// AcquireAll waits for all of locks, or takes none: where one is refused or
// lost, or ctx ends, it gives back what it has. It keeps alive what it has
// while it waits for the rest.
//
// Locks are taken in the order of their registers' names (URLs), whatever the
// order in which they are given: two owners that want the same locks never
// hold what the other waits for. That needs names, so a register must be a
// fmt.Stringer; a lock that is named twice is refused. It does not see that
// two names lead to one object, and it does not help against those who hold
// one lock and then wait for another by other means.
//
// Errors: as Lock.Acquire, about the lock that stood in the way; ErrLost when
// one was lost while waiting for another.
func AcquireAll(ctx context.Context, owner string, locks ...*Lock) (Bundle, error) {
	return acquireAll(ctx, owner, locks, (*Lock).Acquire)
}

// TryAcquireAll takes all of locks now, or none: as AcquireAll, but a lock
// that is held is refused with a *HeldError.
func TryAcquireAll(ctx context.Context, owner string, locks ...*Lock) (Bundle, error) {
	return acquireAll(ctx, owner, locks, (*Lock).TryAcquire)
}

func acquireAll(ctx context.Context, owner string, locks []*Lock, acquire func(*Lock, context.Context, string) (Grant, error)) (Bundle, error) {
	ordered, err := inOrder(locks)
	if err != nil {
		return Bundle{}, fmt.Errorf("acquire %d locks: %w", len(locks), err)
	}
	b := Bundle{given: slices.Clone(locks)}
	kept := ctx
	var keepers []*keeper
	for _, l := range ordered {
		g, acquireErr := acquire(l, kept, owner)
		if err = acquireErr; err != nil {
			break
		}
		b.taken = append(b.taken, taken{lock: l, grant: g})
		var k *keeper
		k, kept = l.keep(kept, g)
		keepers = append(keepers, k)
	}
	// The last one may have come in the moment in which the first was lost.
	if err == nil && kept.Err() != nil {
		err = context.Cause(kept)
	}
	for i, k := range slices.Backward(keepers) {
		k.stop()
		b.taken[i].grant = k.current()
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("acquire %d locks: %w", len(locks), b.giveBack(ctx, err, "another lock was not had"))
	}
	return b, nil
}

// inOrder is the one order in which everybody takes these locks.
func inOrder(locks []*Lock) ([]*Lock, error) {
	if len(locks) == 0 {
		return nil, errors.New("no locks given")
	}
	for i, l := range locks {
		if l == nil {
			return nil, fmt.Errorf("number %d is nil", i+1)
		}
		if _, named := l.reg.(fmt.Stringer); !named {
			return nil, fmt.Errorf("number %d has no name to order it by; its register must be a fmt.Stringer", i+1)
		}
	}
	ordered := slices.SortedFunc(slices.Values(locks), func(a, b *Lock) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(ordered); i++ {
		if ordered[i].name == ordered[i-1].name {
			return nil, fmt.Errorf("%s is named twice", ordered[i].name)
		}
	}
	return ordered, nil
}

// Grants are the grants in the order in which their locks were given.
func (b Bundle) Grants() []Grant {
	grants := make([]Grant, len(b.given))
	for i, l := range b.given {
		grants[i] = b.taken[slices.IndexFunc(b.taken, func(t taken) bool { return t.lock == l })].grant
	}
	return grants
}

// Keep renews all grants until stop is called, as Lock.Keep does one. The
// context ends, with a cause that wraps ErrLost, when any of them is lost.
func (b Bundle) Keep(ctx context.Context) (kept context.Context, stop func()) {
	kept = ctx
	var keepers []*keeper
	for _, t := range b.taken {
		var k *keeper
		k, kept = t.lock.keep(kept, t.grant)
		keepers = append(keepers, k)
	}
	return kept, func() {
		for _, k := range slices.Backward(keepers) {
			k.stop()
		}
	}
}

// Release gives back all locks, the last taken first. It goes on after an
// error and returns all of them; see Lock.Release.
func (b Bundle) Release(ctx context.Context, reason string) error {
	var failed []error
	for _, t := range slices.Backward(b.taken) {
		if _, err := t.lock.Release(ctx, t.grant.Owner, t.grant.Token, reason); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// giveBack is Release for a call that failed with err, also after its context
// has ended: then each lock may take up to its Config.Cleanup.
func (b Bundle) giveBack(ctx context.Context, err error, reason string) error {
	for _, t := range slices.Backward(b.taken) {
		err = t.lock.giveBack(ctx, t.grant, err, reason)
	}
	return err
}

// DoAll waits for all of locks, calls fn under them, and gives them back: it
// is Lock.Do for several. The grants are in the order of locks. fn's context
// ends when any of them is lost.
func DoAll(ctx context.Context, owner string, locks []*Lock, fn func(context.Context, []Grant) error) (err error) {
	b, err := AcquireAll(ctx, owner, locks...)
	if err != nil {
		return err
	}
	kept, stop := b.Keep(ctx)
	defer func() {
		stop()
		err = b.giveBack(ctx, err, "done")
	}()
	return cutShort(kept, fn(kept, b.Grants()))
}
