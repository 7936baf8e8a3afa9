package lease_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

func ExampleLock_Do() {
	lock, err := lease.New(leasetest.NewMemory(nil), lease.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lock.Do(context.Background(), "run-2026-03-01", func(ctx context.Context, g lease.Grant) error {
		// Hand g.Token to whatever is written, and stop when ctx ends.
		fmt.Println("working as", g.Owner)
		return ctx.Err()
	})
	fmt.Println("done:", err)
	// Output:
	// working as run-2026-03-01
	// done: <nil>
}

func ExampleLock_TryAcquire() {
	register := leasetest.NewMemory(nil)
	first, _ := lease.New(register, lease.Config{})
	second, _ := lease.New(register, lease.Config{})
	_, _ = first.TryAcquire(context.Background(), "run-1")

	_, err := second.TryAcquire(context.Background(), "run-2")
	var held *lease.HeldError
	if errors.As(err, &held) {
		fmt.Println("busy:", held.Holders[0].Owner)
	}
	// Output: busy: run-1
}
