package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// on is a Change that does the same to each of the keys.
func on(verb Verb, keys ...string) func(Row) Verb {
	return func(row Row) Verb {
		if slices.Contains(keys, row.Key) {
			return verb
		}
		return Keep
	}
}

func (b *bench) edit(change func(Row) Verb) Committed {
	b.t.Helper()
	b.runs++
	committed, err := b.ledger.Edit(b.t.Context(), Edit{By: "ada@host", Token: b.runs, Change: change})
	if err != nil {
		b.t.Fatal(err)
	}
	return committed
}

func TestRetryGivesAVersionAllItsAttemptsAgain(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "failed", "poison")
	for range 3 {
		b.run(Selection{}, "poison")
	}
	b.write("x", "failed")
	b.write("y", "failed")
	b.run(Selection{}, "failed")
	if committed := b.edit(on(Retry, "poison", "failed")); committed.Failed != 2 || committed.Done+committed.Quarantined+committed.Gone != 0 {
		t.Errorf("the edit came to %+v", committed)
	}
	for _, key := range []string{"failed", "poison"} {
		if row := b.row(key); row.Outcome != Failed || row.Attempts != 0 || !row.At.IsZero() || row.Run != "ada@host" {
			t.Errorf("%+v, want a failure that leaves nothing to wait for", row)
		}
	}
	if row := b.row("a"); row.Outcome != Done || row.Run != "run-1" {
		t.Errorf("the row beside them: %+v", row)
	}
	found, taken := b.discover(Selection{})
	wantKeys(t, "after the retry", keysOf(taken), "failed", "poison")
	if found.Retried != 2 || taken[1].Attempts != 0 {
		t.Errorf("found %+v, took %+v", found, taken)
	}
	for i, want := range []Outcome{Failed, Failed, Quarantined} {
		b.run(Selection{}, "poison")
		if row := b.row("poison"); row.Outcome != want {
			t.Errorf("after %d failures more: %+v", i+1, row)
		}
	}
}

func TestWhatIsDoneIsNotRetriedByMistake(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(done("a"))})
	_, err := b.ledger.Edit(t.Context(), Edit{By: "ada", Token: 2, Change: on(Retry, "a")})
	if err == nil || !strings.Contains(err.Error(), `key "a" is done`) {
		t.Errorf("got %v", err)
	}
	if row := b.row("a"); row.Outcome != Done {
		t.Errorf("it became %+v", row)
	}
}

func TestForgottenFilesAreNew(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b", "c")
	b.run(Selection{}, "b")
	if committed := b.edit(on(Forget, "a", "b")); committed.Gone != 2 || committed.Failed != 0 {
		t.Errorf("the edit came to %+v", committed)
	}
	wantRows(t, b.ledger, "c")
	found, taken := b.discover(Selection{})
	wantKeys(t, "after forgetting", keysOf(taken), "a", "b")
	if found.New != 2 || found.Gone != 0 {
		t.Errorf("found %+v", found)
	}
}

// The change sees every key once, as it stands now, and in order; merging what
// the edit wrote changes nothing.
func TestEditSeesTheLedgerAsItIsAndStaysThroughAMerge(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.blockRows = 3
	commitMany(t, b.ledger, 0, 50)
	b.runs = 50
	var seen []Row
	b.edit(func(row Row) Verb {
		seen = append(seen, row)
		if row.Size%2 == 0 {
			return Forget
		}
		return Keep
	})
	if len(seen) != 50 || !slices.IsSortedFunc(seen, func(a, b Row) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("the change saw %d rows, or not in order", len(seen))
	}
	left := rowsOf(t, b.ledger)
	if len(left) != 25 || slices.ContainsFunc(left, func(r Row) bool { return r.Size%2 == 0 }) {
		t.Errorf("%d rows are left: %+v", len(left), left)
	}
	head := b.head()
	if _, err := b.ledger.mergeRange(t.Context(), head, 0, len(head.Segments), head.Token); err != nil {
		t.Fatal(err)
	}
	if merged := rowsOf(t, b.ledger); !slices.Equal(merged, left) {
		t.Errorf("merged: %+v", merged)
	}
}

// Where keys come in order, a run lists only what is behind the files that are
// settled; what an edit brings back may be before them.
func TestWhatAnEditBringsBackIsFoundBehindTheMarks(t *testing.T) {
	sel := Selection{Lexicographic: true, LookBack: time.Minute, Reconcile: 100 * time.Hour}
	for name, edit := range map[string]func(b *bench){
		"retry":  func(b *bench) { b.edit(on(Retry, "a")) },
		"forget": func(b *bench) { b.edit(on(Forget, "a")) },
		"reset": func(b *bench) {
			b.runs++
			if _, err := b.ledger.Reset(t.Context(), "ada", b.runs); err != nil {
				t.Fatal(err)
			}
		},
		"replace": func(b *bench) {
			b.runs++
			if _, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: b.runs, Rows: EachRow(done("b")), Intact: true}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		b := newBench(t)
		b.write("x", "a", "b")
		for range 4 {
			b.run(sel, "a")
			b.clock.advance(2 * time.Minute)
		}
		if found, taken := b.discover(sel); found.After != "b" || len(taken) > 0 {
			t.Fatalf("%s: found %+v", name, found)
		}
		edit(b)
		if found, taken := b.discover(sel); found.After != "" || len(taken) == 0 || taken[0].Key != "a" {
			t.Errorf("%s: found %+v, took %+v", name, found, taken)
		}
	}
}

func TestEditSentAgainChangesNothing(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(done("a", "b"))})
	e := Edit{By: "ada", Token: 2, Change: on(Forget, "a")}
	first, err := b.ledger.Edit(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	head := b.head()
	e.Change = on(Forget, "b")
	again, err := b.ledger.Edit(t.Context(), e)
	if err != nil || !again.Already || again.Commitment != first.Commitment {
		t.Errorf("again: %+v, %v", again, err)
	}
	if after := b.head(); after.Generation != head.Generation {
		t.Errorf("the head moved from %+v to %+v", head, after)
	}
	wantRows(t, b.ledger, "b")
}

func TestEditsAreFencedAsRunsAre(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "new", Token: 7, Rows: EachRow(done("a"))})
	before := b.objects()
	for name, attempt := range map[string]func() error{
		"edit": func() error {
			_, err := b.ledger.Edit(t.Context(), Edit{By: "ada", Token: 6, Change: on(Forget, "a")})
			return err
		},
		"reset": func() error {
			_, err := b.ledger.Reset(t.Context(), "ada", 6)
			return err
		},
		"replace": func() error {
			_, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 6, Intact: true})
			return err
		},
	} {
		if err := attempt(); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: got %v, want ErrFenced", name, err)
		}
	}
	if after := b.objects(); !slices.Equal(after, before) {
		t.Errorf("they left %q", after)
	}
	wantRows(t, b.ledger, "a")
}

// A run that lost its lease must not commit between what the edit read and what
// it writes: its row would be taken back unseen.
func TestNothingIsCommittedBehindTheBackOfAnEdit(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "first", Token: 1, Rows: EachRow([]Row{{Key: "a", Outcome: Failed}})})
	zombie := openLedger(t, b.state)
	var refused error
	committed, err := b.ledger.Edit(t.Context(), Edit{By: "ada", Token: 3, Change: func(Row) Verb {
		_, refused = zombie.Commit(t.Context(), Commit{Run: "zombie", Token: 2, Rows: EachRow(done("a"))})
		return Retry
	}})
	if err != nil || committed.Failed != 1 {
		t.Errorf("the edit: %+v, %v", committed, err)
	}
	if !errors.Is(refused, ErrFenced) {
		t.Errorf("the zombie: %v, want ErrFenced", refused)
	}
}

func TestFaultsAroundTheHeadEditOnce(t *testing.T) {
	outage := errors.New("500 InternalError")
	edits := map[string]func(*Ledger) (Committed, error){
		"edit": func(l *Ledger) (Committed, error) {
			return l.Edit(t.Context(), Edit{By: "ada", Token: 2, Change: on(Forget, "a")})
		},
		"reset": func(l *Ledger) (Committed, error) { return l.Reset(t.Context(), "ada", 2) },
		"replace": func(l *Ledger) (Committed, error) {
			return l.Replace(t.Context(), Replacement{By: "ada", Token: 2, Rows: EachRow(done("b")), Intact: true})
		},
	}
	for name, edit := range edits {
		for _, nth := range []int{1, 2} { // the fence, the edit itself
			for fault, hooks := range map[string]struct{ before, after func(string, string) error }{
				"lost reply":       {nil, once("put", "head.json", nth, errLost)},
				"500, not written": {once("put", "head.json", nth, outage), nil},
				"409":              {once("put", "head.json", nth, bucket.ErrConflict), nil},
				"412":              {once("put", "head.json", nth, bucket.ErrPrecondition), nil},
			} {
				b := newBench(t)
				mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(done("a", "b"))})
				b.state.Fault(hooks.before, hooks.after)
				committed, err := edit(b.ledger)
				if err != nil || committed.Already {
					t.Errorf("%s, %s of PUT %d: got %+v, %v", name, fault, nth, committed, err)
				}
				b.state.Fault(nil, nil)
				want := []string{"b"}
				if name == "reset" {
					want = nil
				}
				wantRows(t, b.ledger, want...)
				if head := b.head(); len(head.Commits) != 2 {
					t.Errorf("%s, %s of PUT %d: commits %+v", name, fault, nth, head.Commits)
				}
			}
		}
	}
}

func TestAnEditThatBreaksOffLeavesTheLedgerAsItWas(t *testing.T) {
	killed := errors.New("killed")
	for _, op := range []string{"segment", "head"} {
		b := newBench(t)
		mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(done("a", "b"))})
		before := rowsOf(t, b.ledger)
		ctx, cancel := context.WithCancelCause(t.Context())
		heads := 0
		b.state.Fault(
			func(op, key string) error {
				if op == "put" && strings.HasSuffix(key, "head.json") {
					if heads++; heads > 1 {
						cancel(killed)
						return killed
					}
				}
				return nil
			},
			func(gotOp, key string) error {
				if op == "segment" && gotOp == "put" && strings.HasSuffix(key, ".seg") {
					cancel(killed)
				}
				return nil
			})
		_, err := b.ledger.Edit(ctx, Edit{By: "ada", Token: 2, Change: on(Forget, "a")})
		if !errors.Is(err, killed) && !errors.Is(err, context.Canceled) {
			t.Errorf("killed at the %s: %v", op, err)
		}
		b.state.Fault(nil, nil)
		if rows := rowsOf(t, b.ledger); !slices.Equal(rows, before) {
			t.Errorf("killed at the %s: %+v", op, rows)
		}
		if _, err := b.ledger.Edit(t.Context(), Edit{By: "ada", Token: 2, Change: on(Forget, "a")}); err != nil {
			t.Fatal(err)
		}
		wantRows(t, b.ledger, "b")
	}
}

func TestMalformedEditsAreRefused(t *testing.T) {
	b := newBench(t)
	for want, e := range map[string]Edit{
		"no run":  {Token: 1, Change: on(Keep)},
		"UTF-8":   {By: "\xff", Token: 1, Change: on(Keep)},
		"token 0": {By: "ada", Change: on(Keep)},
	} {
		_, edit := b.ledger.Edit(t.Context(), e)
		_, reset := b.ledger.Reset(t.Context(), e.By, e.Token)
		_, replace := b.ledger.Replace(t.Context(), Replacement{By: e.By, Token: e.Token})
		for _, err := range []error{edit, reset, replace} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error about %q, got %v", want, err)
			}
		}
	}
	if objects := b.objects(); len(objects) != 0 {
		t.Errorf("they left %q", objects)
	}
}

func TestResetMakesEverythingDueAndKeepsTokenAndGeneration(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b")
	b.run(Selection{})
	b.run(Selection{})
	before := b.head()
	committed, err := b.ledger.Reset(t.Context(), "ada", 5)
	if err != nil || committed.Gone != 2 {
		t.Fatalf("%+v, %v", committed, err)
	}
	wantRows(t, b.ledger)
	head := b.head()
	if head.Token != 5 || head.Generation <= before.Generation {
		t.Errorf("head %+v", head)
	}
	found, taken := b.discover(Selection{})
	wantKeys(t, "after a reset", keysOf(taken), "a", "b")
	if found.New != 2 {
		t.Errorf("found %+v", found)
	}
	if _, err := b.ledger.Commit(t.Context(), Commit{Run: "old", Token: 4}); !errors.Is(err, ErrFenced) {
		t.Errorf("an older run: %v", err)
	}
}

func TestWhatIsPublishedStaysKnownWhenItIsForgotten(t *testing.T) {
	b := newBench(t)
	shown := Published{ETag: md5Tag(1), Token: 1, Name: "parquet"}
	row := Row{Key: "a", ETag: md5Tag(1), Size: 1, Outcome: Done, Published: shown}
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(append(done("b"), row))})
	for i, forget := range []func() (Committed, error){
		func() (Committed, error) {
			return b.ledger.Edit(t.Context(), Edit{By: "ada", Token: 2, Change: on(Forget, "a", "b")})
		},
		func() (Committed, error) { return b.ledger.Reset(t.Context(), "ada", 3) },
	} {
		token := i + 2
		committed, err := forget()
		if err != nil || committed.Due != 1 {
			t.Fatalf("token %d: %+v, %v", token, committed, err)
		}
		if got := b.row("a"); got.Outcome != Due || got.ETag != "" || got.Published != shown {
			t.Errorf("token %d: %+v", token, got)
		}
	}
	b.write("x", "a", "b")
	found, taken := b.discover(Selection{})
	wantKeys(t, "forgotten", keysOf(taken), "a", "b")
	if found.New != 2 {
		t.Errorf("found %+v", found)
	}
}

func TestResetConvertsTheLedgerOfAnOlderProgram(t *testing.T) {
	b := newBench(t)
	old := `{"schema": 1, "generation": 7, "token": 3, "segments": [], "commits": [], "retired": []}`
	b.overwrite("state/ledger/head.json", []byte(old))
	b.overwrite("state/ledger/segments/000000000007-0123456789abcdef0123456789abcdef.seg", []byte("old"))
	outdated := (*OutdatedError)(nil)
	if err := b.ledger.Fence(t.Context(), 4); !errors.As(err, &outdated) || !strings.Contains(err.Error(), "lockstep ledger reset") {
		t.Errorf("a run begins with it: %v", err)
	}
	if _, err := b.ledger.Reset(t.Context(), "ada", 2); !errors.Is(err, ErrFenced) {
		t.Errorf("an older token: %v", err)
	}
	if got := string(b.read("state/ledger/head.json")); got != old {
		t.Errorf("the head became %s", got)
	}
	if _, err := b.ledger.Reset(t.Context(), "ada", 4); err != nil {
		t.Fatal(err)
	}
	if head := b.head(); head.Token != 4 || head.Generation <= 7 || head.Identity != (Identity{}) {
		t.Errorf("head %+v", head)
	}
	wantRows(t, b.ledger)
}

func TestALedgerOfANewerProgramIsLeftAlone(t *testing.T) {
	b := newBench(t)
	newer := `{"schema": 3, "generation": 7, "token": 3}`
	b.overwrite("state/ledger/head.json", []byte(newer))
	for name, try := range map[string]func() error{
		"fence": func() error { return b.ledger.Fence(t.Context(), 4) },
		"reset": func() error { _, err := b.ledger.Reset(t.Context(), "ada", 4); return err },
		"replace": func() error {
			_, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 4, Intact: true})
			return err
		},
		"commit": func() error { _, err := b.ledger.Commit(t.Context(), Commit{Run: "P", Token: 4}); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "update lockstep") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := string(b.read("state/ledger/head.json")); got != newer {
		t.Errorf("the head became %s", got)
	}
}
