package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Salvage yields what can still be read of a damaged ledger, in key order, and
// calls lost for each object that cannot, or not to its end. Where the head is
// one of them, it reads the segments in the head's folder in the order in which
// they were written. Some of these are not a part of the ledger any more, or
// never were: a key that had left it may be back, and an outcome that was
// refused be there.
func (l *Ledger) Salvage(ctx context.Context, lost func(*DamagedError)) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for row, err := range Latest(ctx, l.legible(ctx, lost)) {
			if row.Outcome == gone && err == nil {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// legible yields all rows, also marks of vanished keys, of the oldest segment
// first.
func (l *Ledger) legible(ctx context.Context, lost func(*DamagedError)) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		sources, err := l.remains(ctx, lost)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for _, open := range sources {
			err := readOut(open, func(r *record) error {
				if !yield(r.row(), nil) {
					return errStopped
				}
				return nil
			})
			var damage *DamagedError
			switch {
			case errors.As(err, &damage):
				lost(damage)
			case err == errStopped:
				return
			case err != nil:
				yield(Row{}, err)
				return
			}
		}
	}
}

func readOut(open func() (rowSource, error), do func(*record) error) error {
	source, err := open()
	if err != nil {
		return err
	}
	defer source.close()
	var r record
	for {
		more, err := source.next(&r)
		if err != nil || !more {
			return err
		}
		if err := do(&r); err != nil {
			return err
		}
	}
}

// remains are the segments there are, the oldest first.
func (l *Ledger) remains(ctx context.Context, lost func(*DamagedError)) ([]func() (rowSource, error), error) {
	v, damage, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	var sources []func() (rowSource, error)
	if damage == nil && v.exists {
		for _, s := range v.Segments {
			sources = append(sources, func() (rowSource, error) { return l.openSegment(ctx, s) })
		}
		return sources, nil
	}
	var names []string
	for page, err := range l.store.List(ctx, bucket.ListOptions{Prefix: l.prefix + "segments/"}) {
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if name := e.Key[len(l.prefix):]; segmentName.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	if damage == nil && len(names) > 0 {
		damage = &DamagedError{Object: l.headKey(), Reason: missingHead}
	}
	if damage != nil {
		lost(damage)
	}
	slices.Sort(names) // by generation
	for _, name := range names {
		sources = append(sources, func() (rowSource, error) { return l.openLoose(ctx, name) })
	}
	return sources, nil
}

// openLoose opens a segment that no head describes.
func (l *Ledger) openLoose(ctx context.Context, name string) (rowSource, error) {
	key := l.prefix + name
	object, err := l.store.Get(ctx, key, bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, missingSegment(key)
	}
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return looseSegment{newSegmentReader(cutReader{object.Body}, key, l.unpackers), object.Body}, nil
}

// looseSegment checks itself alone.
type looseSegment struct {
	*segmentReader
	body io.Closer
}

func (s looseSegment) close() { s.body.Close() }
