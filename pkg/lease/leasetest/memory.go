package leasetest

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Memory is a lease.Register in memory. Its clock shows whole seconds, as an
// HTTP Date does.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex
	value   []byte
	version int // 0 is absent
}

// NewMemory returns an empty register whose clock is now, or time.Now where
// that is nil.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now}
}

// String names the register in errors.
func (m *Memory) String() string { return "memory" }

// Load is lease.Register.
func (m *Memory) Load(ctx context.Context, known string) (lease.Reading, error) {
	if ctx.Err() != nil {
		return lease.Reading{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reading()
	if r.Unchanged = known != "" && known == r.Version; !r.Unchanged {
		r.Value = bytes.Clone(m.value)
	}
	return r, nil
}

// Swap is lease.Register.
func (m *Memory) Swap(ctx context.Context, version string, value []byte) (lease.Reading, error) {
	if ctx.Err() != nil {
		return lease.Reading{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if version != m.reading().Version {
		return lease.Reading{}, lease.ErrConflict
	}
	m.value, m.version = bytes.Clone(value), m.version+1
	return m.reading(), nil
}

// Put replaces the value whatever it is, as somebody does who knows nothing of
// locks.
func (m *Memory) Put(value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.version = bytes.Clone(value), m.version+1
}

// Value returns the present value.
func (m *Memory) Value() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.value)
}

func (m *Memory) reading() lease.Reading {
	r := lease.Reading{Now: m.now().UTC().Truncate(time.Second)}
	if m.version > 0 {
		r.Version = strconv.Itoa(m.version)
	}
	return r
}
