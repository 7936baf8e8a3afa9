package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Open makes a fresh, absent register and returns what makes clients of it:
// each call is another client of the same data.
type Open func(t *testing.T) func() lease.Register

// TestRegister holds a register to the contract of lease.Register.
func TestRegister(t *testing.T, open Open) {
	for _, rule := range []struct {
		name string
		test func(t *testing.T, client func() lease.Register)
	}{
		{"an absent value has no version and tells the time", absent},
		{"a created value is read back with a version", created},
		{"create meets what exists", createdTwice},
		{"a swap at an old version writes nothing", staleSwap},
		{"a version never comes back", versionsAreNew},
		{"a known version is answered without the value", unchanged},
		{"one of many creators wins", oneCreator},
		{"no swap is lost among many clients", noLostSwap},
		{"a cancelled request returns", cancelled},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.test(t, open(t)) })
	}
}

func load(t *testing.T, r lease.Register, known string) lease.Reading {
	t.Helper()
	got, err := r.Load(t.Context(), known)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if got.Now.IsZero() {
		t.Fatal("load: the answer carries no server time")
	}
	return got
}

func swap(t *testing.T, r lease.Register, version, value string) lease.Reading {
	t.Helper()
	got, err := r.Swap(t.Context(), version, []byte(value))
	if err != nil {
		t.Fatalf("swap at version %q: %v", version, err)
	}
	if got.Version == "" || got.Version == version || got.Now.IsZero() {
		t.Fatalf("swap at version %q: answer has version %q, server time %v", version, got.Version, got.Now)
	}
	return got
}

func conflicts(t *testing.T, r lease.Register, version string) {
	t.Helper()
	if _, err := r.Swap(t.Context(), version, []byte("intruder")); !errors.Is(err, lease.ErrConflict) {
		t.Errorf("swap at version %q: %v, want ErrConflict", version, err)
	}
}

func holds(t *testing.T, r lease.Register, version, value string) {
	t.Helper()
	if got := load(t, r, ""); got.Version != version || string(got.Value) != value {
		t.Errorf("register holds %q at %q, want %q at %q", got.Value, got.Version, value, version)
	}
}

func absent(t *testing.T, client func() lease.Register) {
	if got := load(t, client(), ""); got.Version != "" || len(got.Value) != 0 || got.Unchanged {
		t.Errorf("absent value read as %+v", got)
	}
}

func created(t *testing.T, client func() lease.Register) {
	a, b := client(), client()
	v := swap(t, a, "", "one").Version
	holds(t, b, v, "one")
	w := swap(t, b, v, "two").Version
	holds(t, a, w, "two")
}

func createdTwice(t *testing.T, client func() lease.Register) {
	a, b := client(), client()
	v := swap(t, a, "", "one").Version
	conflicts(t, b, "")
	conflicts(t, a, "")
	holds(t, b, v, "one")
}

func staleSwap(t *testing.T, client func() lease.Register) {
	a, b := client(), client()
	first := swap(t, a, "", "one").Version
	second := swap(t, b, first, "two").Version
	conflicts(t, a, first)
	conflicts(t, b, first)
	holds(t, a, second, "two")
}

func versionsAreNew(t *testing.T, client func() lease.Register) {
	a := client()
	seen := map[string]bool{"": true}
	for i, v := 0, ""; i < 5; i++ {
		v = swap(t, a, v, fmt.Sprintf("value %d", i)).Version
		if seen[v] {
			t.Fatalf("version %q came back", v)
		}
		seen[v] = true
	}
}

func unchanged(t *testing.T, client func() lease.Register) {
	a, b := client(), client()
	v := swap(t, a, "", "one").Version
	if got := load(t, b, v); !got.Unchanged || got.Version != v {
		t.Errorf("load of the known version: unchanged %v, version %q, want true, %q", got.Unchanged, got.Version, v)
	}
	w := swap(t, a, v, "two").Version
	if got := load(t, b, v); got.Unchanged || got.Version != w || string(got.Value) != "two" {
		t.Errorf("load of an old version: %q at %q, unchanged %v", got.Value, got.Version, got.Unchanged)
	}
}

func oneCreator(t *testing.T, client func() lease.Register) {
	const clients = 16
	var mu sync.Mutex
	won := 0
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range clients {
		r := client()
		all.Go(func() {
			<-start
			for {
				_, err := r.Swap(t.Context(), "", []byte(strconv.Itoa(i)))
				if err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				}
				if err == nil || !retryable(t, r, err) {
					return
				}
			}
		})
	}
	close(start)
	all.Wait()
	if won != 1 {
		t.Errorf("%d of %d creators won", won, clients)
	}
}

// retryable says whether a create that conflicted met nothing after all: a 409
// may be about a write that failed itself.
func retryable(t *testing.T, r lease.Register, err error) bool {
	if !errors.Is(err, lease.ErrConflict) {
		t.Errorf("create: %v", err)
		return false
	}
	got, err := r.Load(t.Context(), "")
	if err != nil {
		t.Errorf("load: %v", err)
		return false
	}
	return got.Version == ""
}

func noLostSwap(t *testing.T, client func() lease.Register) {
	const clients, each = 8, 5
	swap(t, client(), "", "0")
	var all sync.WaitGroup
	for range clients {
		r := client()
		all.Go(func() {
			for done := 0; done < each; {
				got, err := r.Load(t.Context(), "")
				if err != nil {
					t.Errorf("load: %v", err)
					return
				}
				n, _ := strconv.Atoi(string(got.Value))
				_, err = r.Swap(t.Context(), got.Version, []byte(strconv.Itoa(n+1)))
				switch {
				case err == nil:
					done++
				case !errors.Is(err, lease.ErrConflict):
					t.Errorf("swap: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	if got := string(load(t, client(), "").Value); got != strconv.Itoa(clients*each) {
		t.Errorf("counter is %s after %d swaps", got, clients*each)
	}
}

func cancelled(t *testing.T, client func() lease.Register) {
	r := client()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	returned := make(chan error, 2)
	go func() {
		_, err := r.Load(ctx, "")
		returned <- err
		_, err = r.Swap(ctx, "", []byte("late"))
		returned <- err
	}()
	for range 2 {
		select {
		case err := <-returned:
			if err == nil {
				t.Error("a cancelled request succeeded")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a cancelled request does not return")
		}
	}
}
