package lease_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
)

// Rule 10: a document that cannot be read is held, says so, and stays as it is.
func FuzzWhatCannotBeReadIsHeld(f *testing.F) {
	memory := leasetest.NewMemory(nil)
	l, err := lease.New(memory, lease.Config{Rand: leasetest.Seeded(seed)})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := l.TryAcquire(f.Context(), "P1"); err != nil {
		f.Fatal(err)
	}
	sound := memory.Value()
	// Bytes of a sound document are replaced, or left out.
	f.Add(uint16(0), uint16(1), []byte("["))
	f.Add(uint16(2), uint16(6), []byte(`Schema`))
	f.Add(uint16(13), uint16(1), []byte(`1,"limit":7`))
	f.Add(uint16(len(sound)-3), uint16(9), []byte{})
	f.Add(uint16(0), uint16(len(sound)), []byte(nil))
	f.Fuzz(func(t *testing.T, from, length uint16, with []byte) {
		start := min(int(from), len(sound))
		end := min(start+int(length), len(sound))
		body := append(append(bytes.Clone(sound[:start]), with...), sound[end:]...)
		memory := leasetest.NewMemory(nil)
		memory.Put(body)
		l, err := lease.New(memory, lease.Config{Rand: leasetest.Seeded(seed)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Corrupt == "" {
			return
		}
		for name, err := range map[string]error{
			"try":     second(l.TryAcquire(t.Context(), "P1")),
			"ask":     second(l.Ask(t.Context(), "P2")),
			"resume":  second(l.Resume(t.Context(), "P1", 1)),
			"release": second(l.Release(t.Context(), "P1", 0, "")),
			"leave":   l.Withdraw(t.Context(), "P2"),
		} {
			if bad := (*lease.CorruptError)(nil); !errors.As(err, &bad) {
				t.Errorf("%s: %v, want a CorruptError", name, err)
			}
		}
		if !bytes.Equal(memory.Value(), body) {
			t.Fatalf("%q was overwritten", body)
		}
		if err := l.Break(t.Context(), lease.BreakRequest{By: "ana", Reason: "fuzz"}); err != nil {
			t.Fatal(err)
		}
		if g, err := l.TryAcquire(t.Context(), "P3"); err != nil || g.Token <= 1 {
			t.Fatalf("after the repair: token %d, %v", g.Token, err)
		}
	})
}

// Names and reasons come from people and from other programs. What is taken
// comes back as it was, and none of it makes the document unreadable.
func FuzzNamesAndReasons(f *testing.F) {
	f.Add("arn:aws:states:eu-west-1:123456789012:execution:nightly:1", "done", "ana")
	f.Add("Zoë 🌱 \"q\" \\ <&>\u2028", "a\x00b\xffc\n", "é"+strings.Repeat("ü", 300))
	f.Add(strings.Repeat("x", 1024), "", " ")
	f.Add("", "\x1b[31m", "")
	f.Fuzz(func(t *testing.T, owner, reason, by string) {
		memory := leasetest.NewMemory(nil)
		line := leasetest.NewFaulty(memory)
		l, err := lease.New(line, lease.Config{Rand: leasetest.Seeded(seed)})
		if err != nil {
			t.Fatal(err)
		}
		inspect := func() lease.Status {
			s, err := l.Inspect(t.Context())
			if err != nil || s.Corrupt != "" {
				t.Fatalf("%v %s: %q", err, s.Corrupt, memory.Value())
			}
			return s
		}
		g, err := l.TryAcquire(t.Context(), owner)
		printable := owner != "" && len(owner) <= 1024 && utf8.ValidString(owner) && !strings.ContainsFunc(owner, unicode.IsControl)
		if printable != (err == nil) {
			t.Fatalf("owner %q: %v", owner, err)
		}
		if err != nil {
			if c := line.Count(); c.Loads+c.Swaps > 0 {
				t.Fatalf("%+v requests for a name that is refused", c)
			}
			return
		}
		if s := inspect(); len(s.Holders) != 1 || s.Holders[0].Owner != owner {
			t.Fatalf("owner %q came back as %+v", owner, s.Holders)
		}
		if _, err := l.Release(t.Context(), owner, g.Token, reason); err != nil {
			t.Fatal(err)
		}
		g, err = l.TryAcquire(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		err = l.Break(t.Context(), lease.BreakRequest{Holder: owner, Token: g.Token, By: by, Reason: reason})
		if named := strings.TrimSpace(by) != "" && strings.TrimSpace(reason) != ""; named != (err == nil) {
			t.Fatalf("break by %q for %q: %v", by, reason, err)
		}
		s := inspect()
		if said := s.Events[1].Reason; len(reason) <= 300 && utf8.ValidString(reason) && said != reason {
			t.Fatalf("reason %q came back as %q", reason, said)
		}
		for _, e := range s.Events {
			if !utf8.ValidString(e.Reason) || !utf8.ValidString(e.By) || len(e.Reason) > 310 || len(e.By) > 310 {
				t.Fatalf("event %+v", e)
			}
		}
	})
}
