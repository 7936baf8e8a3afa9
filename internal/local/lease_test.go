package local_test

import (
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// lockObject returns clients of one lock object that nobody has used.
func lockObject(t *testing.T) func() lease.Register {
	t.Helper()
	locks := newBucket(t, start(t, local.Config{}), "locks")
	return func() lease.Register {
		register, err := s3lock.New(locks, "locks/nightly.json")
		if err != nil {
			t.Fatal(err)
		}
		return register
	}
}

func TestLocalS3HoldsALease(t *testing.T) { leasetest.TestRegister(t, lockObject) }

func TestLockInTheLocalS3(t *testing.T) { leasetest.TestLock(t, lockObject) }
