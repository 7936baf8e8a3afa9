package lease

import "time"

// Clock is the local machine's clock. Locks decide with it only how long this
// process may act, never who holds the lock.
type Clock interface {
	Read() Instant
}

// Instant is one look at both clocks of a machine. Neither is enough alone: a
// frozen virtual machine may stop the monotonic clock, and an administrator
// may set back the wall clock.
type Instant struct {
	Wall time.Time
	Mono time.Duration // since an arbitrary start
}

// since is how much time may have passed from earlier to i: what the faster
// of the two clocks says.
func (i Instant) since(earlier Instant) time.Duration {
	return max(i.Mono-earlier.Mono, i.Wall.Sub(earlier.Wall))
}

type systemClock struct{ start time.Time }

func newSystemClock() systemClock { return systemClock{start: time.Now()} }

func (c systemClock) Read() Instant {
	now := time.Now()
	// Round(0) strips the monotonic reading, so that Wall differences are the
	// wall clock's own.
	return Instant{Wall: now.Round(0), Mono: now.Sub(c.start)}
}

// deadline is the moment until which a process may act on a grant.
type deadline struct {
	clock Clock
	from  Instant       // before the request left
	span  time.Duration // what was certain to remain then
}

func (d deadline) remaining() time.Duration {
	if d.clock == nil {
		return 0
	}
	return d.span - d.clock.Read().since(d.from)
}
