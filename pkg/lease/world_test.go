package lease_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// world is one register with any number of clients, in a synctest bubble: time
// stands still while anybody works, and a goroutine that is left behind fails
// the test.
type world struct {
	*testing.T
	memory *leasetest.Memory
	rand   io.Reader
}

const seed = 20260301

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Logf("seed %d", seed)
		f(&world{T: t, memory: leasetest.NewMemory(nil), rand: leasetest.Seeded(seed)})
	})
}

// client is another process: its lock, and the faulty line to the register.
func (w *world) client(cfg lease.Config) (*lease.Lock, *leasetest.Faulty) {
	w.Helper()
	line := leasetest.NewFaulty(w.memory)
	if cfg.Rand == nil {
		cfg.Rand = w.source()
	}
	l, err := lease.New(line, cfg)
	if err != nil {
		w.Fatal(err)
	}
	return l, line
}

// source is a client's own randomness; all are drawn from the seed.
func (w *world) source() io.Reader {
	var b [8]byte
	w.rand.Read(b[:])
	return leasetest.Seeded(binary.LittleEndian.Uint64(b[:]))
}

func (w *world) lock(cfg lease.Config) *lease.Lock {
	w.Helper()
	l, _ := w.client(cfg)
	return l
}

func (w *world) try(l *lease.Lock, owner string) lease.Grant {
	w.Helper()
	g, err := l.TryAcquire(w.Context(), owner)
	if err != nil {
		w.Fatal(err)
	}
	return g
}

func (w *world) refused(l *lease.Lock, owner string) *lease.HeldError {
	w.Helper()
	g, err := l.TryAcquire(w.Context(), owner)
	var held *lease.HeldError
	if !errors.As(err, &held) {
		w.Fatalf("try %s: token %d, error %v, want a HeldError", owner, g.Token, err)
	}
	return held
}

func (w *world) ask(l *lease.Lock, owner string, want lease.Decision) lease.Answer {
	w.Helper()
	a, err := l.Ask(w.Context(), owner)
	if err != nil {
		w.Fatal(err)
	}
	if a.Decision != want {
		w.Fatalf("ask %s: %s, want %s", owner, a.Decision, want)
	}
	return a
}

func (w *world) release(l *lease.Lock, g lease.Grant) {
	w.Helper()
	if r, err := l.Release(w.Context(), g.Owner, g.Token, "done"); err != nil || !r.Held {
		w.Fatalf("release token %d: held %v, %v", g.Token, r.Held, err)
	}
}

func (w *world) status() lease.Status {
	w.Helper()
	s, err := w.lock(lease.Config{}).Inspect(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// holder checks who alone holds the lock, "" for nobody.
func (w *world) holder(want string) {
	w.Helper()
	got := ""
	for _, h := range w.status().Holders {
		got += h.Owner
	}
	if got != want {
		w.Errorf("holder is %q, want %q", got, want)
	}
}

func (w *world) says(err error, words ...string) {
	w.Helper()
	if err == nil {
		w.Fatalf("no error, want one that says %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.Errorf("%q does not say %q", err, word)
		}
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("error %v, want %v", err, want)
	}
}

func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// firstToken is that of a lock that is created at the beginning of a bubble: its
// server's clock in milliseconds, and one.
const firstToken = 946684800000 + 1
