package ledger

import (
	"container/heap"
	"context"
	"slices"
	"sync"
)

// A choice gathers the files that are due while they are found, in no order,
// and hands them out in the selection's order as far as its limits go.
type choice struct {
	Selection
	compare func(a, b due) int
	files   gathering
	leave   func(due)

	mu        sync.Mutex
	left      int64
	leftBytes int64
}

// gathering holds the files of a choice.
type gathering interface {
	add(ctx context.Context, d due) error
	each(do func(due) error) error
	close()
}

// newChoice calls leave, which may be nil, for every file that is not taken,
// from one goroutine at a time.
func (l *Ledger) newChoice(ctx context.Context, s Selection, leave func(due)) *choice {
	c := &choice{Selection: s, compare: byDueKey, leave: leave}
	if s.OldestFirst {
		c.compare = byAge
	}
	if s.MaxFiles > 0 && s.MaxFiles <= l.limits.heldFiles {
		c.files = &firstFew{choice: c}
	} else {
		c.files = newSorter(ctx, packDue, unpackDue, c.compare)
	}
	return c
}

func (c *choice) leaveBehind(d due) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
	c.leftBytes += d.Size
	if c.leave != nil {
		c.leave(d)
	}
}

// each hands out the files, and counts them as found. The first file that does
// not fit ends the taking. A file is taken even if it alone is too large, or it
// would never be.
func (c *choice) each(found *Discovery, take func(due) error) error {
	full := false
	err := c.files.each(func(d due) error {
		taken := found.Taken()
		full = full || c.MaxFiles > 0 && taken >= int64(c.MaxFiles) ||
			c.MaxBytes > 0 && taken > 0 && d.Size > c.MaxBytes-found.Bytes
		if full {
			c.leaveBehind(d)
			return nil
		}
		found.count(d)
		return take(d)
	})
	found.Left, found.LeftBytes = c.left, c.leftBytes
	return err
}

// firstFew keeps the first MaxFiles of what is added, however much that is.
type firstFew struct {
	*choice
	guard sync.Mutex
	few   []due // a heap, the last one in order first
}

func (f *firstFew) Len() int           { return len(f.few) }
func (f *firstFew) Less(i, j int) bool { return f.compare(f.few[i], f.few[j]) > 0 }
func (f *firstFew) Swap(i, j int)      { f.few[i], f.few[j] = f.few[j], f.few[i] }
func (f *firstFew) Push(x any)         { f.few = append(f.few, x.(due)) }
func (f *firstFew) Pop() any {
	last := f.few[len(f.few)-1]
	f.few = f.few[:len(f.few)-1]
	return last
}

func (f *firstFew) add(_ context.Context, d due) error {
	f.guard.Lock()
	defer f.guard.Unlock()
	switch {
	case len(f.few) < f.MaxFiles:
		heap.Push(f, d)
		return nil
	case f.compare(d, f.few[0]) < 0:
		d, f.few[0] = f.few[0], d
		heap.Fix(f, 0)
	}
	f.leaveBehind(d)
	return nil
}

func (f *firstFew) each(do func(due) error) error {
	slices.SortFunc(f.few, f.compare)
	for _, d := range f.few {
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}

func (f *firstFew) close() {}
