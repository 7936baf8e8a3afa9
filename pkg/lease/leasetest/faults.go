package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Fault is one thing that goes wrong with one request.
type Fault func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error)

// ErrInjected is wrapped by the errors of faults.
var ErrInjected = errors.New("injected fault")

// LostRequest: the request never arrives, and nobody is told.
func LostRequest(context.Context, func() (lease.Reading, error)) (lease.Reading, error) {
	return lease.Reading{}, fmt.Errorf("%w: %w: request lost", lease.ErrUncertain, ErrInjected)
}

// LostReply: the request takes effect, but its reply gets lost.
func LostReply(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
	_, _ = do()
	return lease.Reading{}, fmt.Errorf("%w: %w: reply lost", lease.ErrUncertain, ErrInjected)
}

// Conflict: another write was under way; nothing is written (S3's 409).
func Conflict(context.Context, func() (lease.Reading, error)) (lease.Reading, error) {
	return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrConflict, ErrInjected)
}

// Unavailable: an answer that tells nothing, and in no class a register need
// know (a 500 or 503).
func Unavailable(context.Context, func() (lease.Reading, error)) (lease.Reading, error) {
	return lease.Reading{}, fmt.Errorf("%w: unavailable", ErrInjected)
}

// Refused: no permission.
func Refused(context.Context, func() (lease.Reading, error)) (lease.Reading, error) {
	return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrRefused, ErrInjected)
}

// Hung: no answer until the caller gives up.
func Hung(ctx context.Context, _ func() (lease.Reading, error)) (lease.Reading, error) {
	<-ctx.Done()
	return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrUncertain, ctx.Err())
}

// Slow: the request takes effect after d, and then its reply comes.
func Slow(d time.Duration) Fault {
	return func(ctx context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return lease.Reading{}, fmt.Errorf("%w: %w", lease.ErrUncertain, ctx.Err())
		case <-timer.C:
			return do()
		}
	}
}

// Late: the reply is lost, and the request takes effect only when land is
// called. Land says whether it did.
func Late() (f Fault, land func() error) {
	var held func() (lease.Reading, error)
	f = func(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
		held = do
		return lease.Reading{}, fmt.Errorf("%w: %w: under way", lease.ErrUncertain, ErrInjected)
	}
	return f, func() error { _, err := held(); return err }
}

// Then runs after once the request and its reply are through.
func Then(after func()) Fault {
	return func(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) {
		r, err := do()
		after()
		return r, err
	}
}

// Faulty is a register between a client and the real one: it counts requests
// and makes some of them fail.
type Faulty struct {
	lease.Register

	mu           sync.Mutex
	loads, swaps []Fault
	always       Fault
	count        Requests
}

// Requests counts what was asked of a register.
type Requests struct{ Loads, Unchanged, Swaps int }

// NewFaulty returns a client's view of r.
func NewFaulty(r lease.Register) *Faulty { return &Faulty{Register: r} }

// OnSwap makes the next swaps fail, one fault each.
func (f *Faulty) OnSwap(faults ...Fault) { f.set(func() { f.swaps = append(f.swaps, faults...) }) }

// OnLoad makes the next loads fail, one fault each.
func (f *Faulty) OnLoad(faults ...Fault) { f.set(func() { f.loads = append(f.loads, faults...) }) }

// Always makes every request fail from now on; nil ends that.
func (f *Faulty) Always(fault Fault) { f.set(func() { f.always = fault }) }

// Count returns the requests since the last Count.
func (f *Faulty) Count() (c Requests) {
	f.set(func() { c, f.count = f.count, Requests{} })
	return c
}

func (f *Faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *Faulty) next(queue *[]Fault, count *int) (fault Fault) {
	f.set(func() {
		*count++
		switch {
		case len(*queue) > 0:
			fault, *queue = (*queue)[0], (*queue)[1:]
		default:
			fault = f.always
		}
	})
	return fault
}

func honest(_ context.Context, do func() (lease.Reading, error)) (lease.Reading, error) { return do() }

// Load is lease.Register.
func (f *Faulty) Load(ctx context.Context, known string) (lease.Reading, error) {
	do := func() (lease.Reading, error) { return f.Register.Load(ctx, known) }
	fault := f.next(&f.loads, &f.count.Loads)
	if fault == nil {
		fault = honest
	}
	r, err := fault(ctx, do)
	if r.Unchanged {
		f.set(func() { f.count.Unchanged++ })
	}
	return r, err
}

// Swap is lease.Register.
func (f *Faulty) Swap(ctx context.Context, version string, value []byte) (lease.Reading, error) {
	fault := f.next(&f.swaps, &f.count.Swaps)
	if fault != nil {
		// A request that is under way outlives the caller's interest in it.
		held := context.WithoutCancel(ctx)
		return fault(ctx, func() (lease.Reading, error) { return f.Register.Swap(held, version, value) })
	}
	return f.Register.Swap(ctx, version, value)
}

// String names the register in errors.
func (f *Faulty) String() string {
	if s, ok := f.Register.(fmt.Stringer); ok {
		return s.String()
	}
	return "faulty"
}
