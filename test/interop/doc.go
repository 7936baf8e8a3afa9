// Package interop runs the project's contracts over S3 servers that others
// wrote: the register and the lock of leasetest, the bucket of buckettest, and
// the probe that stands between them and a user's data.
//
// It is a module of its own, so that what these servers depend on stays out of
// the project's go.mod, and no part of make test: it builds one server and
// starts others. make interop runs it. Servers listen on loopback, on ports
// that were free, and end with their test.
package interop
