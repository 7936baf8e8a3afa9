package lease

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"
)

const (
	// minTTL is the least that a server clock of whole seconds can measure.
	minTTL = 2 * time.Second
	// maxTTL refuses a TTL in milliseconds that is given as seconds.
	maxTTL = time.Hour
	// minGrace covers the resolution of an HTTP Date: a holder that stops at
	// the end of its TTL may be one second late by the server's clock.
	minGrace   = time.Second
	maxPoll    = 10 * time.Minute
	maxLimit   = 1000
	maxInQueue = 1000
)

// Config tunes a Lock. Its zero value is a mutex with a lease of one minute.
type Config struct {
	// TTL is how long a grant lasts without renewal; 2 s to 1 h, zero is 1 min.
	TTL time.Duration
	// Grace is how much longer others wait: for the server clock's resolution
	// and steps, and for the holder to stop. 1 s to 1 h; zero is a sixth of
	// the TTL, but 2 s to 30 s.
	Grace time.Duration
	// Limit is how many may hold the lock at a time; zero is 1.
	Limit int
	// MaxWaiters is how many may queue; who comes later is superseded. Zero is
	// as many as the document has room for, 1,000.
	MaxWaiters int
	// Priority is this asker's place in the queue: higher goes first.
	Priority int
	// Once says that each owner lives once: whatever ends it (a release, Stop, a
	// break, leaving the queue, being superseded) leaves a mark, and an owner with a
	// mark is refused with *EndedError. A call that outlives its owner then takes
	// nothing. Give each life a name of its own, such as an execution's id. The end
	// of a lease by time leaves no mark: the owner may queue again.
	Once bool
	// Poll is how often a waiter asks. For Ask it is the caller's own promise:
	// a waiter not seen for 3 × (Poll + 10 s) loses its place. Zero is 1 s, the
	// most is 10 min.
	Poll time.Duration
	// Patience is how long a call puts up with a register that gives no answer
	// before it fails; zero is 20 s. Acquire, Keep and Release go on for as
	// long as it makes sense.
	Patience time.Duration
	// Cleanup is how long a call may go on after its context has ended, to
	// give back what it took; zero is 5 s.
	Cleanup time.Duration

	Clock  Clock        // nil is the system's
	Rand   io.Reader    // for nonces and jitter; nil is crypto/rand
	Logger *slog.Logger // one line a decision; nil discards
}

func (c Config) withDefaults() (Config, error) {
	setDuration(&c.TTL, time.Minute)
	setDuration(&c.Grace, min(max(c.TTL/6, 2*time.Second), 30*time.Second))
	setDuration(&c.Poll, time.Second)
	setDuration(&c.Patience, 20*time.Second)
	setDuration(&c.Cleanup, 5*time.Second)
	setInt(&c.Limit, 1)
	setInt(&c.MaxWaiters, maxInQueue)
	if c.Clock == nil {
		c.Clock = newSystemClock()
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

func (c Config) validate() error {
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{
		{"TTL", c.TTL, minTTL, maxTTL},
		{"Grace", c.Grace, minGrace, maxTTL},
		{"Poll", c.Poll, time.Millisecond, maxPoll},
		{"Patience", c.Patience, time.Millisecond, maxTTL},
		{"Cleanup", c.Cleanup, time.Millisecond, maxTTL},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("a %s of %v is not between %v and %v; was it given in another unit?", d.name, d.value, d.least, d.most)
		}
	}
	if c.Limit < 1 || c.Limit > maxLimit {
		return fmt.Errorf("a Limit of %d is not between 1 and %d", c.Limit, maxLimit)
	}
	if c.MaxWaiters < 1 || c.MaxWaiters > maxInQueue {
		return fmt.Errorf("a MaxWaiters of %d is not between 1 and %d", c.MaxWaiters, maxInQueue)
	}
	return nil
}

func setDuration(d *time.Duration, fallback time.Duration) {
	if *d == 0 {
		*d = fallback
	}
}

func setInt(i *int, fallback int) {
	if *i == 0 {
		*i = fallback
	}
}
