package leasetest_test

import (
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

func memory(*testing.T) func() lease.Register {
	m := leasetest.NewMemory(nil)
	return func() lease.Register { return leasetest.NewFaulty(m) }
}

func TestMemoryRegister(t *testing.T) { leasetest.TestRegister(t, memory) }

func TestLockInMemory(t *testing.T) { leasetest.TestLock(t, memory) }
