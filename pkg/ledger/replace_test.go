package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// oldRows are rows of each kind, as a ledger had them.
func oldRows(b *bench) []Row {
	at := b.clock.now()
	return []Row{
		{Key: "a", ETag: md5Tag(1), Size: 1, Outcome: Done, Run: "P1", At: at},
		{Key: "b", ETag: `"odd"`, Size: 2, Outcome: Failed, Attempts: 2, Run: "P2", At: at},
		{Key: "c", ETag: md5Tag(3), Size: 3, Outcome: Quarantined, Attempts: 3, Run: "P1"},
	}
}

func TestADamagedOrMissingHeadIsReplaced(t *testing.T) {
	for name, damage := range map[string]func(b *bench){
		"cut":     func(b *bench) { b.overwrite("state/ledger/head.json", []byte(`{"schema": 1, "gen`)) },
		"empty":   func(b *bench) { b.overwrite("state/ledger/head.json", nil) },
		"another": func(b *bench) { b.overwrite("state/ledger/head.json", []byte(`{"schema": 2, "holders": []}`)) },
		"missing": func(b *bench) {
			if err := b.state.Delete(b.t.Context(), "state/ledger/head.json"); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		b := newBench(t)
		commitMany(t, b.ledger, 0, 5)
		generation := b.head().Generation
		damage(b)
		want := oldRows(b)
		committed, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 9, Rows: EachRow(want)})
		if err != nil || committed.Done != 1 || committed.Failed != 1 || committed.Quarantined != 1 || committed.Bytes == 0 {
			t.Errorf("%s: %+v, %v", name, committed, err)
		}
		if rows := rowsOf(t, b.ledger); !slices.Equal(rows, want) {
			t.Errorf("%s: the ledger holds %+v", name, rows)
		}
		head := b.head()
		if head.Token != 9 || head.Generation < generation {
			t.Errorf("%s: head %+v after generation %d", name, head, generation)
		}
		for _, s := range head.Segments {
			for _, key := range b.objects() {
				if strings.Contains(key, ".seg") && !strings.HasSuffix(key, s.Name) && key > "state/ledger/"+s.Name {
					t.Errorf("%s: the new segment %s sorts before %s", name, s.Name, key)
				}
			}
		}
		if err := b.ledger.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.ledger.Commit(t.Context(), Commit{Run: "old", Token: 5}); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: an older run: %v", name, err)
		}
		again, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 9, Rows: EachRow(nil)})
		if err != nil || !again.Already || again.Commitment != committed.Commitment {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
	}
}

func TestAnIntactHeadIsReplacedOnDemandOnly(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "lost")
	b.run(Selection{})
	lost := b.head().Segments[0].Name
	if err := b.state.Delete(t.Context(), "state/ledger/"+lost); err != nil {
		t.Fatal(err)
	}
	r := Replacement{By: "ada", Token: 2, Rows: EachRow(oldRows(b))}
	if _, err := b.ledger.Replace(t.Context(), r); !errors.Is(err, ErrIntact) {
		t.Errorf("got %v, want ErrIntact", err)
	}
	if head := b.head(); head.Token != 1 || head.Segments[0].Name != lost {
		t.Errorf("the head was touched: %+v", head)
	}
	r.Intact = true
	if _, err := b.ledger.Replace(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	wantRows(t, b.ledger, "a", "b", "c")
	head := b.head()
	if len(head.Retired) != 1 || head.Retired[0].Name != lost || len(head.Commits) != 2 {
		t.Errorf("head %+v", head)
	}
}

func TestAnotherSchemaIsNotTakenForDamage(t *testing.T) {
	b := newBench(t)
	b.overwrite("state/ledger/head.json", []byte(`{"schema": 99}`))
	_, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 1, Intact: true})
	if err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "update lockstep") {
		t.Errorf("got %v", err)
	}
	if body := b.read("state/ledger/head.json"); string(body) != `{"schema": 99}` {
		t.Errorf("the head became %s", body)
	}
}

func TestFaultsWhileADamagedHeadIsReplaced(t *testing.T) {
	outage := errors.New("500 InternalError")
	for name, hooks := range map[string]struct{ before, after func(string, string) error }{
		"lost reply":       {nil, once("put", "head.json", 1, errLost)},
		"500, not written": {once("put", "head.json", 1, outage), nil},
		"409":              {once("put", "head.json", 1, bucket.ErrConflict), nil},
		"412":              {once("put", "head.json", 1, bucket.ErrPrecondition), nil},
	} {
		for _, missing := range []bool{false, true} {
			b := newBench(t)
			if !missing {
				b.overwrite("state/ledger/head.json", []byte("{"))
			}
			b.state.Fault(hooks.before, hooks.after)
			committed, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 2, Rows: EachRow(oldRows(b))})
			if err != nil || committed.Already {
				t.Errorf("%s: %+v, %v", name, committed, err)
			}
			b.state.Fault(nil, nil)
			wantRows(t, b.ledger, "a", "b", "c")
			if head := b.head(); len(head.Commits) != 1 {
				t.Errorf("%s: commits %+v", name, head.Commits)
			}
		}
	}
}

// Who replaces a ledger decided by what was there: when that changes, they are
// to look again.
func TestAHeadThatChangesMeanwhileIsNotReplaced(t *testing.T) {
	for name, meanwhile := range map[string]struct {
		what func(b *bench)
		want string
	}{
		"restored":     {func(b *bench) { b.overwrite("state/ledger/head.json", emptyHead(b.t, 1)) }, "changed in the meantime"},
		"a newer run":  {func(b *bench) { b.overwrite("state/ledger/head.json", emptyHead(b.t, 3)) }, ErrFenced.Error()},
		"other damage": {func(b *bench) { b.overwrite("state/ledger/head.json", []byte("other")) }, "changed in the meantime"},
		"deleted": {func(b *bench) {
			if err := b.state.Delete(b.t.Context(), "state/ledger/head.json"); err != nil {
				b.t.Fatal(err)
			}
		}, "changed in the meantime"},
	} {
		b := newBench(t)
		b.overwrite("state/ledger/head.json", []byte("{"))
		raced := false
		b.state.Fault(func(op, key string) error {
			if op == "put" && strings.HasSuffix(key, "head.json") && !raced {
				raced = true
				meanwhile.what(b)
			}
			return nil
		}, nil)
		_, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 2, Rows: EachRow(oldRows(b))})
		if err == nil || !strings.Contains(err.Error(), meanwhile.want) {
			t.Errorf("%s: %v", name, err)
		}
		for row, err := range b.ledger.Rows(t.Context()) {
			if err == nil {
				t.Errorf("%s: row %+v was written", name, row)
			}
		}
	}
}

func emptyHead(t *testing.T, token int64) []byte {
	body, err := encodeHead(Head{Generation: 1, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAReplacementThatBreaksOffLeavesWhatWasThere(t *testing.T) {
	b := newBench(t)
	mustCommit(t, b.ledger, Commit{Run: "run", Token: 1, Rows: EachRow(done("a"))})
	broken := errors.New("a record cannot be read")
	for want, rows := range map[string][]Row{
		broken.Error():  {{Key: "b", Outcome: Done}},
		"comes after":   {{Key: "b", Outcome: Done}, {Key: "a", Outcome: Done}},
		`outcome "gone`: {{Key: "b", Outcome: gone}},
		`outcome ""`:    {{Key: "b"}},
		"negative":      {{Key: "b", Outcome: Done, Size: -1}},
	} {
		_, err := b.ledger.Replace(t.Context(), Replacement{By: "ada", Token: 2, Intact: true, Rows: func(yield func(Row, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			yield(Row{}, broken)
		}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
	wantRows(t, b.ledger, "a")
}

func TestLatestKeepsTheLastRowOfEachKey(t *testing.T) {
	b := newBench(t)
	const keys = 40_000
	at := b.clock.now()
	row := func(i, round int) Row {
		r := Row{
			Key: fmt.Sprintf("in/%06d", i), ETag: md5Tag(i), Size: int64(i), Outcome: Failed,
			Attempts: round, Run: fmt.Sprint("P", round),
		}
		if i%2 == 0 {
			r.At = at
		}
		return r
	}
	rounds := func(yield func(Row, error) bool) {
		for round := range 3 { // more than a sort holds in memory
			for i := range keys {
				if i%3 >= round && !yield(row(i*7919%keys, round), nil) {
					return
				}
			}
		}
	}
	want := map[string]Row{}
	for r := range rounds {
		want[r.Key] = r
	}
	last, n := "", 0
	for got, err := range Latest(t.Context(), rounds) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Key <= last || got != want[got.Key] {
			t.Fatalf("after %q came %+v, want %+v", last, got, want[got.Key])
		}
		last = got.Key
		n++
	}
	if n != keys {
		t.Errorf("%d rows, want %d", n, keys)
	}
	for got, err := range Latest(t.Context(), rounds) {
		if err != nil || got.Key != "in/000000" {
			t.Errorf("the first: %+v, %v", got, err)
		}
		break
	}
	broken := errors.New("broken")
	for got, err := range Latest(t.Context(), func(yield func(Row, error) bool) {
		_ = yield(row(1, 1), nil) && yield(Row{}, broken)
	}) {
		if !errors.Is(err, broken) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
