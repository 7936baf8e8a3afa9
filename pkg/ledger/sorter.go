package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/lanrat/extsort"
)

// sortChunk is how many elements a sorter holds in memory before it writes
// them, sorted, to the directory for temporary files.
const sortChunk = 50_000

// sorter puts any number of elements in order. What does not fit in memory
// waits in one temporary file without a name, so that it goes with the process.
type sorter[E any] struct {
	in     chan E
	out    <-chan E
	errs   <-chan error
	ended  chan struct{} // the sorter takes nothing any more
	cancel context.CancelFunc
	once   sync.Once
}

func newSorter[E any](ctx context.Context, encode func(E) []byte, decode func([]byte) (E, error), compare func(a, b E) int) *sorter[E] {
	ctx, cancel := context.WithCancel(ctx)
	s := &sorter[E]{in: make(chan E, 256), ended: make(chan struct{}), cancel: cancel}
	sorting, out, errs := extsort.Generic(s.in, decode, func(e E) ([]byte, error) { return encode(e), nil }, compare,
		&extsort.Config{ChunkSize: sortChunk, NumWorkers: 1, ChanBuffSize: 0, SortedChanBuffSize: 256, TempFilesDir: os.TempDir()})
	s.out, s.errs = out, errs
	go func() {
		defer close(s.ended)
		sorting.Sort(ctx)
	}()
	return s
}

// add may be called from many goroutines.
func (s *sorter[E]) add(ctx context.Context, e E) error {
	select {
	case s.in <- e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ended:
		return s.failure()
	}
}

// each calls do for every element, in order. Nothing can be added any more.
func (s *sorter[E]) each(do func(E) error) error {
	s.once.Do(func() { close(s.in) })
	for e := range s.out {
		if err := do(e); err != nil {
			return err
		}
	}
	if err := <-s.errs; err != nil {
		return s.explain(err)
	}
	return nil
}

// failure is why the sorter ended before its time.
func (s *sorter[E]) failure() error {
	return s.explain(cmp.Or(<-s.errs, errors.New("it ended early")))
}

func (s *sorter[E]) explain(err error) error {
	return fmt.Errorf("sort in %s (give it more room, or take fewer files a run): %w", os.TempDir(), err)
}

// close ends a sorter, finished or not.
func (s *sorter[E]) close() {
	s.cancel()
	s.once.Do(func() { close(s.in) })
	<-s.ended
	for range s.out {
	}
}
