// Package soak holds the lock to its promises under load and under fire: many
// clients as processes of their own, real HTTP, a proxy that does to their
// requests whatever a network or a server may do, and SIGKILLs.
//
// It promises that a run which passes had no two holders at a time, lost no
// increment of a counter that is read and written back without conditions, gave
// out tokens that only grew, served everybody who waited, and really injected
// every kind of trouble it names. The verdict is reached from what the clients
// wrote down before and after each act, so that a killed one is accounted for.
//
// It does not promise to find a fault that needs luck, nor to repeat a run
// exactly: the seed fixes what happens to the n-th request and when processes
// die, but not the order in which processes get there.
//
//	go test ./test/soak                        # a smoke test of 3 s
//	go test ./test/soak -v -soak 30s           # with kills and cut lines
//	go test ./test/soak -v -soak 10m -timeout 15m -seed 7
package soak
