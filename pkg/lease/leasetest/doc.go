// Package leasetest holds every lease.Register, and the locks on top of it, to
// the same rules, and has the fakes to test users of locks: a register in
// memory, faults between a client and its register, a clock that goes wrong.
//
// A new register needs a test of three lines:
//
//	open := func(t *testing.T) func() lease.Register { … } // clients of one fresh register
//	leasetest.TestRegister(t, open)
//	leasetest.TestLock(t, open)
//
// The suites run in real time and take a few seconds. They do not look for
// lost updates that need a slow network or many machines to show: that is the
// probe's task.
package leasetest
