package leasetest

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Clock is a machine's clock that can go wrong: be off, stop, or step. The
// rest of its time is time.Now's, so it works in a synctest bubble.
type Clock struct {
	start time.Time

	mu         sync.Mutex
	wall, mono time.Duration // added
}

// NewClock returns a clock whose wall clock is off by off.
func NewClock(off time.Duration) *Clock { return &Clock{start: time.Now(), wall: off} }

// StepWall moves the wall clock, as setting the time does.
func (c *Clock) StepWall(d time.Duration) { c.step(d, 0) }

// StepMono moves the monotonic clock. Minus what has just passed makes it
// stand still, as freezing a virtual machine does.
func (c *Clock) StepMono(d time.Duration) { c.step(0, d) }

func (c *Clock) step(wall, mono time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall+wall, c.mono+mono
}

// Read is lease.Clock.
func (c *Clock) Read() lease.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return lease.Instant{Wall: now.Round(0).Add(c.wall), Mono: now.Sub(c.start) + c.mono}
}

// Seeded returns a source of reproducible nonces and jitter for Config.Rand.
func Seeded(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return rand.NewChaCha8(key)
}
