package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

func TestFailuresEndInQuarantineAlone(t *testing.T) { // case 29, the ledger's part
	b := newBench(t)
	b.write("x", "a", "poison")
	for i, want := range []Outcome{Failed, Failed, Quarantined} {
		b.run(Selection{}, "poison")
		if row := b.row("poison"); row.Outcome != want || row.Attempts != i+1 {
			t.Errorf("after %d failures: %+v", i+1, row)
		}
	}
	if row := b.row("a"); row.Outcome != Done || row.Run != "run-1" {
		t.Errorf("the other file: %+v", row)
	}
	wantKeys(t, "in quarantine", b.run(Selection{}))
	b.write("mended", "poison")
	wantKeys(t, "a new version", b.run(Selection{}), "poison")
}

func TestFilesOfACrashedBatchCountOneAttemptAndTheRestIsCommitted(t *testing.T) { // case 37
	b := newBench(t)
	b.write("x", "batch1/a", "batch1/b", "batch2/a", "batch2/b")
	found, taken := b.discover(Selection{})
	committed := b.commit(taken, found.Upkeep, "batch2/a", "batch2/b") // no result of batch 2
	if committed.Done != 2 || committed.Failed != 2 {
		t.Errorf("committed %+v", committed)
	}
	_, taken = b.discover(Selection{})
	wantKeys(t, "next", keysOf(taken), "batch2/a", "batch2/b")
	for _, c := range taken {
		if c.Attempts != 1 {
			t.Errorf("%+v, want one attempt", c)
		}
	}
}

func TestRedrivenRunDoesNotRepeatWhatIsDone(t *testing.T) { // case 39
	b := newBench(t)
	b.write("x", "a", "b")
	_, taken := b.discover(Selection{MaxFiles: 1})
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(outcomes(taken))})
	_, taken = b.discover(Selection{}) // the same run, again, with a new token
	wantKeys(t, "redrive", keysOf(taken), "b")
	again := mustCommit(t, b.ledger, Commit{Run: "run", Token: 2, Rows: EachRow(outcomes(taken))})
	if again.Already || again.Done != 1 {
		t.Errorf("the redrive's commit: %+v", again)
	}
	_, taken = b.discover(Selection{})
	wantKeys(t, "afterwards", keysOf(taken))
}

func mustCommit(t *testing.T, l *Ledger, c Commit) Committed {
	t.Helper()
	committed, err := l.Commit(t.Context(), c)
	if err == nil {
		err = committed.MergeErr
	}
	if err != nil {
		t.Fatal(err)
	}
	return committed
}

func done(keys ...string) []Row {
	var rows []Row
	for _, key := range keys {
		rows = append(rows, Row{Key: key, ETag: `"e"`, Size: 1, Outcome: Done})
	}
	return rows
}

func TestCommitSentAgainChangesNothing(t *testing.T) {
	b := newBench(t)
	c := Commit{Run: "run", Token: 1, Rows: EachRow(append(done("b", "a"), Row{Key: "c", Outcome: Failed}))}
	first := mustCommit(t, b.ledger, c)
	head := b.head()
	again := mustCommit(t, b.ledger, c)
	if first.Already || !again.Already || again.Commitment != first.Commitment || first.Done != 2 || first.Failed != 1 {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if after := b.head(); after.Generation != head.Generation {
		t.Errorf("the head moved from %+v to %+v", head, after)
	}
	if row := b.row("c"); row.Attempts != 1 {
		t.Errorf("the failure counts %d attempts, want 1", row.Attempts)
	}
}

func TestCommitSentAgainAfterACrashRewritesTheSameSegment(t *testing.T) {
	b := newBench(t)
	crash := errors.New("killed between segment and head")
	ctx, cancel := context.WithCancelCause(t.Context())
	b.state.Fault(nil, func(op, key string) error {
		if op == "put" && strings.HasSuffix(key, ".seg") {
			cancel(crash)
		}
		return nil
	})
	c := Commit{Run: "run", Token: 1, Rows: EachRow(done("a")), At: b.clock.now()}
	if _, err := b.ledger.Commit(ctx, c); !errors.Is(err, context.Canceled) && !errors.Is(err, crash) {
		t.Fatalf("the crash: got %v", err)
	}
	b.state.Fault(nil, nil)
	wantRows(t, b.ledger)
	mustCommit(t, b.ledger, c)
	wantRows(t, b.ledger, "a")
	if objects := b.objects(); len(objects) != 2 {
		t.Errorf("the retry left %q, want the head and one segment", objects)
	}
}

func TestOlderTokenIsFenced(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "new", Token: 7, Rows: EachRow(done("a"))})
	before := b.objects()
	for name, attempt := range map[string]func() error{
		"commit": func() error {
			_, err := b.ledger.Commit(t.Context(), Commit{Run: "old", Token: 6, Rows: EachRow(done("b"))})
			return err
		},
		"empty commit": func() error {
			_, err := b.ledger.Commit(t.Context(), Commit{Run: "old", Token: 6})
			return err
		},
		"fence": func() error { return b.ledger.Fence(t.Context(), 6) },
	} {
		err := attempt()
		var fenced *FencedError
		if !errors.Is(err, ErrFenced) || !errors.As(err, &fenced) || fenced.Token != 6 || fenced.Seen != 7 {
			t.Errorf("%s: got %v, want ErrFenced by 7", name, err)
		}
	}
	if after := b.objects(); len(after) != len(before) {
		t.Errorf("a fenced run left %q behind", after)
	}
}

func TestFenceKeepsAnOlderRunOutOfTheDiscoveryThatFollows(t *testing.T) {
	b := newBench(t)
	b.write("x", "a")
	_, zombies := b.discover(Selection{}) // token 1, then its lease is lost
	if err := b.ledger.Fence(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	_, taken := b.discover(Selection{})
	if _, err := b.ledger.Commit(t.Context(), Commit{Run: "zombie", Token: 1, Rows: EachRow(outcomes(zombies))}); !errors.Is(err, ErrFenced) {
		t.Errorf("the older run's commit: got %v", err)
	}
	mustCommit(t, b.ledger, Commit{Run: "heir", Token: 2, Rows: EachRow(outcomes(taken))})
	if row := b.row("a"); row.Run != "heir" {
		t.Errorf("row %+v", row)
	}
}

// An older run that passes its check and then loses the race for the head must
// meet the fence when it tries again.
func TestOlderRunThatLosesTheHeadIsFencedOnItsSecondTry(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "first", Token: 1, Rows: EachRow(done("a"))})
	heir := openLedger(t, b.state)
	raced := false
	b.state.Fault(func(op, key string) error {
		if op == "put" && strings.HasSuffix(key, "head.json") && !raced {
			raced = true
			mustCommit(t, heir, Commit{Run: "heir", Token: 3, Rows: EachRow(done("b"))})
		}
		return nil
	}, nil)
	if _, err := b.ledger.Commit(t.Context(), Commit{Run: "old", Token: 2, Rows: EachRow(done("c"))}); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	wantRows(t, b.ledger, "a", "b")
}

func TestNewerRunThatLosesTheHeadKeepsBothCommits(t *testing.T) {
	b := newBench(t)
	older := openLedger(t, b.state)
	raced := false
	b.state.Fault(func(op, key string) error {
		if op == "put" && strings.HasSuffix(key, "head.json") && !raced {
			raced = true
			mustCommit(t, older, Commit{Run: "old", Token: 1, Rows: EachRow(done("a"))})
		}
		return nil
	}, nil)
	mustCommit(t, b.ledger, Commit{Run: "new", Token: 2, Rows: EachRow(done("b"))})
	wantRows(t, b.ledger, "a", "b")
	if head := b.head(); head.Token != 2 || len(head.Commits) != 2 {
		t.Errorf("head %+v", head)
	}
}

func TestFaultsAroundTheHeadCommitOnce(t *testing.T) {
	outage := errors.New("500 InternalError")
	for _, existing := range []bool{false, true} {
		for name, fault := range map[string]struct{ before, after func(string, string) error }{
			"lost reply":       {nil, once("put", "head.json", 1, errLost)},
			"500, not written": {once("put", "head.json", 1, outage), nil},
			"409":              {once("put", "head.json", 1, bucket.ErrConflict), nil},
			"412":              {once("put", "head.json", 1, bucket.ErrPrecondition), nil},
			"409, then lost":   {once("put", "head.json", 1, bucket.ErrConflict), once("put", "head.json", 1, errLost)},
			"500 three times": {func() func(string, string) error {
				n := 0
				return func(op, key string) error {
					if op == "put" && strings.HasSuffix(key, "head.json") && n < 3 {
						n++
						return outage
					}
					return nil
				}
			}(), nil},
		} {
			b := newBench(t)
			var want []string
			if existing {
				mustCommit(t, b.ledger, Commit{Run: "before", Token: 1, Rows: EachRow(done("0"))})
				want = append(want, "0")
			}
			b.state.Fault(fault.before, fault.after)
			committed, err := b.ledger.Commit(t.Context(), Commit{Run: "run", Token: 2, Rows: EachRow(done("a"))})
			if err != nil || committed.Done != 1 || committed.Already {
				t.Errorf("%s, existing %v: got %+v, %v", name, existing, committed, err)
			}
			b.state.Fault(nil, nil)
			wantRows(t, b.ledger, append(want, "a")...)
			if head := b.head(); len(head.Commits) != len(want)+1 {
				t.Errorf("%s, existing %v: commits %+v", name, existing, head.Commits)
			}
		}
	}
}

func TestFailedReadBackIsAnErrorAndTheRetryFindsOut(t *testing.T) {
	b := newBench(t)
	lost := false
	b.state.Fault(
		func(op, key string) error {
			if op == "get" && lost {
				return errors.New("503")
			}
			return nil
		},
		func(op, key string) error {
			if lost = op == "put" && strings.HasSuffix(key, "head.json"); lost {
				return errLost
			}
			return nil
		})
	c := Commit{Run: "run", Token: 1, Rows: EachRow(done("a"))}
	if _, err := b.ledger.Commit(t.Context(), c); !errors.Is(err, errLost) {
		t.Errorf("got %v, want an error that tells of the lost reply", err)
	}
	b.state.Fault(nil, nil)
	if again := mustCommit(t, b.ledger, c); !again.Already {
		t.Errorf("the retry committed again: %+v", again)
	}
}

func TestLastingOutageIsAnError(t *testing.T) {
	b := newBench(t)
	outage := errors.New("503")
	b.state.Fault(func(op, key string) error {
		if op == "put" && strings.HasSuffix(key, "head.json") {
			return outage
		}
		return nil
	}, nil)
	if _, err := b.ledger.Commit(t.Context(), Commit{Run: "run", Token: 1, Rows: EachRow(done("a"))}); !errors.Is(err, outage) {
		t.Errorf("got %v", err)
	}
}

func TestHeadThatDisappearsDuringACommitIsNotReplaced(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "first", Token: 1, Rows: EachRow(done("a"))})
	b.state.Fault(func(op, key string) error {
		if op == "put" && strings.HasSuffix(key, ".seg") {
			return b.state.Delete(context.Background(), "state/ledger/head.json")
		}
		return nil
	}, nil)
	_, err := b.ledger.Commit(t.Context(), Commit{Run: "run", Token: 2, Rows: EachRow(done("b"))})
	if err == nil || !strings.Contains(err.Error(), "disappeared") {
		t.Errorf("got %v", err)
	}
	if objects := strings.Join(b.objects(), " "); strings.Contains(objects, "head.json") {
		t.Errorf("a head without the first commit was written: %s", objects)
	}
}

func TestMalformedCommitsAreRefused(t *testing.T) {
	b := newBench(t)
	for want, c := range map[string]Commit{
		"no run":        {Token: 1},
		"UTF-8":         {Run: "\xff", Token: 1},
		"token 0":       {Run: "run"},
		"MaxAttempts":   {Run: "run", Token: 1, MaxAttempts: -1},
		"two outcomes":  {Run: "run", Token: 1, Rows: EachRow(done("a", "b", "a"))},
		"without a key": {Run: "run", Token: 1, Rows: EachRow(done(""))},
		"negative":      {Run: "run", Token: 1, Rows: EachRow([]Row{{Key: "a", Size: -1, Outcome: Done}})},
		"attempts":      {Run: "run", Token: 1, Rows: EachRow([]Row{{Key: "a", Attempts: -1, Outcome: Failed}})},
		`not with ""`:   {Run: "run", Token: 1, Rows: EachRow([]Row{{Key: "a"}})},
		`with "gone"`:   {Run: "run", Token: 1, Rows: EachRow([]Row{{Key: "a", Outcome: gone}})},
		"not UTF-8":     {Run: "run", Token: 1, Rows: EachRow(done("\xff"))},
		"longer":        {Run: "run", Token: 1, Rows: EachRow(done(strings.Repeat("k", maxKeyBytes+1)))},
		"key \"\\xff\"": {Run: "run", Token: 1, Upkeep: Upkeep{Gone: []string{"\xff"}}},
	} {
		if _, err := b.ledger.Commit(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
	if objects := b.objects(); len(objects) != 0 {
		t.Errorf("they left %q", objects)
	}
}

func TestOutcomeBeatsTheMarkOfAVanishedKey(t *testing.T) {
	b := newBench(t)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	c := Commit{Run: "run", Token: 1, Rows: EachRow(done(keys...)), Upkeep: Upkeep{Gone: append([]string{"l", "a", "l"}, keys...)}}
	if committed := mustCommit(t, b.ledger, c); committed.Done != 100 || committed.Gone != 2 {
		t.Errorf("committed %+v", committed)
	}
	wantRows(t, b.ledger, keys...)
}

func TestHeadRemembersTheLatestCommits(t *testing.T) {
	b := newBench(t)
	b.ledger.limits.commits = 3
	for i := range 5 {
		mustCommit(t, b.ledger, Commit{Run: fmt.Sprint(i), Token: int64(i + 1)})
	}
	if head := b.head(); len(head.Commits) != 3 || head.Commits[0].Run != "2" || head.Commits[2].Run != "4" {
		t.Errorf("commits %+v", head.Commits)
	}
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	if _, err := Open(nil, "state"); err == nil {
		t.Error("no store was accepted")
	}
	for _, prefix := range []string{"", "/", "//"} {
		if _, err := Open(bucket.NewMemory("b", nil), prefix); err == nil {
			t.Errorf("prefix %q was accepted", prefix)
		}
	}
}

// TestCommitOfMoreRowsThanASortHoldsInMemory brings rows in no order, so many
// that they are sorted on disk and fill several segments.
func TestCommitOfMoreRowsThanASortHoldsInMemory(t *testing.T) {
	const rows = 2*sortChunk + 17
	b := newBench(t)
	b.ledger.limits.segmentBytes = 256 << 10
	key := func(i int) string { return fmt.Sprintf("in/%07d", i) }
	committed := mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, At: b.clock.now(), Rows: func(yield func(Row, error) bool) {
		for i := range rows {
			row := Row{Key: key(i * 7919 % rows), ETag: md5Tag(i), Size: int64(i), Outcome: Done}
			if i%1000 == 0 {
				row.Outcome, row.Attempts = Failed, 1
			}
			if !yield(row, nil) {
				return
			}
		}
	}, Upkeep: Upkeep{Gone: []string{"a", key(3), "z"}}})
	if committed.Done+committed.Failed != rows || committed.Gone != 2 {
		t.Errorf("committed %+v", committed)
	}
	head := b.head()
	if len(head.Segments) < 3 {
		t.Errorf("%d segments, want several", len(head.Segments))
	}
	for i, row := range rowsOf(t, b.ledger) {
		if row.Key != key(i) || row.Run != "run" || row.ETag != md5Tag(int(row.Size)) || (row.Outcome == Failed) != (row.Attempts == 2) {
			t.Fatalf("row %d is %+v", i, row)
		}
	}
	if err := b.ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCommitEndsWithAnErrorAmongItsRows(t *testing.T) {
	b := newBench(t)
	broken := errors.New("a result cannot be read")
	for _, at := range []int{0, 1, sortChunk + 1} {
		_, err := b.ledger.Commit(t.Context(), Commit{Run: "run", Token: 1, Rows: func(yield func(Row, error) bool) {
			for i := range at {
				if !yield(Row{Key: fmt.Sprint(i), Outcome: Done}, nil) {
					return
				}
			}
			yield(Row{}, broken)
		}})
		if !errors.Is(err, broken) {
			t.Errorf("an error after %d rows: got %v", at, err)
		}
	}
	if keys := b.objects(); len(keys) != 0 {
		t.Errorf("the ledger has %q, want nothing", keys)
	}
}
