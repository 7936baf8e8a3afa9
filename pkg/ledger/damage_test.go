package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDamagedSegmentEndsDiscoveryAndNamesIt(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b")
	b.run(Selection{})
	key := "state/ledger/" + b.head().Segments[0].Name
	body := b.read(key)
	for name, broken := range map[string][]byte{
		"cut": body[:len(body)-9], "empty": nil,
		"changed":         append(append([]byte{}, body[:len(body)/2]...), append([]byte{body[len(body)/2] ^ 1}, body[len(body)/2+1:]...)...),
		"another segment": encode(t, 1, Row{Key: "a", Outcome: Done, Run: "x"}),
	} {
		b.overwrite(key, broken)
		_, _, err := discoverAll(t.Context(), b.ledger, b.source, Selection{}, b.clock.now())
		verified := b.ledger.Verify(t.Context())
		for _, err := range []error{err, verified} {
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: got %v, want damage that names %s", name, err, key)
			}
			if len(broken) != len(body) && !strings.Contains(err.Error(), "the head says") {
				t.Errorf("%s: got %v, want the sizes compared before anything is read", name, err)
			}
		}
	}
	if err := b.state.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, _, err := discoverAll(t.Context(), b.ledger, b.source, Selection{}, b.clock.now()); !errors.Is(err, ErrDamaged) {
		t.Errorf("missing segment: got %v", err)
	}
}

// A valid segment that is not the one the head describes, of the same size.
func TestExchangedSegmentIsDamage(t *testing.T) {
	for name, rows := range map[string][]Row{
		"another first key": {{Key: "b", Outcome: Done}, {Key: "d", Outcome: Done}},
		"another last key":  {{Key: "a", Outcome: Done}, {Key: "e", Outcome: Done}},
		"a mark for a row":  {{Key: "a", Outcome: Done}, {Key: "d", Outcome: gone}},
	} {
		b := newBench(t)
		mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow([]Row{{Key: "a", Outcome: Done}, {Key: "d", Outcome: Done}})})
		s := b.head().Segments[0]
		for i := range rows {
			rows[i].Run = "run"
		}
		body := encode(t, 4096, rows...)
		if int64(len(body)) != s.Bytes {
			t.Fatalf("%s: %d bytes, want %d", name, len(body), s.Bytes)
		}
		b.overwrite("state/ledger/"+s.Name, body)
		wantDamaged(t, name, b.ledger.Verify(t.Context()))
		for row, err := range b.ledger.Rows(t.Context()) {
			if name == "another first key" {
				wantDamaged(t, fmt.Sprintf("%s, at row %q", name, row.Key), err)
			}
			break
		}
	}
}

func TestAHeadThatIsMissingBesideItsSegmentsIsDamage(t *testing.T) {
	b := newBench(t)
	if err := b.ledger.Verify(t.Context()); err != nil {
		t.Errorf("a ledger that was never written to: %v", err)
	}
	if begun, err := b.ledger.Begun(t.Context()); begun || err != nil {
		t.Errorf("a ledger that was never written to: %v, %v", begun, err)
	}
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(done("a"))})
	if err := b.ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.state.Delete(t.Context(), "state/ledger/head.json"); err != nil {
		t.Fatal(err)
	}
	wantDamaged(t, "missing head, verified", b.ledger.Verify(t.Context()))
	wantDamaged(t, "missing head, fenced", b.ledger.Fence(t.Context(), 2))
	_, err := b.ledger.Begun(t.Context())
	wantDamaged(t, "missing head, asked for", err)
	if slices.Contains(b.objects(), "state/ledger/head.json") {
		t.Error("a run wrote a new head")
	}
}

// A head that another run wrote meanwhile, the very first one, was not missing.
func TestTheFirstHeadIsNotTakenForADeletedOne(t *testing.T) {
	b := newBench(t)
	other := openLedger(t, b.state)
	raced := false
	b.state.Fault(func(op, _ string) error {
		if op == "list" && !raced {
			raced = true
			mustCommit(t, other, Commit{Run: "other", Token: 2, Rows: EachRow(done("a"))})
		}
		return nil
	}, nil)
	if err := b.ledger.Fence(t.Context(), 1); !errors.Is(err, ErrFenced) {
		t.Errorf("an older run: %v", err)
	}
}
