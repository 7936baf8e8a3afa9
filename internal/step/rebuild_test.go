package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

func (w *world) head() string { return LedgerPrefix(w.parsed()) + "head.json" }

// rebuild damages the head and has a person write the ledger anew, from the
// records alone.
func (w *world) rebuild() Rebuilt {
	w.Helper()
	w.write(w.head(), "{")
	return w.rebuildFrom(Sources{})
}

func (w *world) rebuildFrom(from Sources) Rebuilt {
	w.Helper()
	var built Rebuilt
	o := w.operator()
	before := w.keys(w.state, LedgerPrefix(w.parsed()))
	foretold, err := o.Foretell(w.Context(), from)
	w.ok(err)
	equalLists(w.T, "the ledger after a dry run", w.keys(w.state, LedgerPrefix(w.parsed())), before)
	w.ok(o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
		built, err = o.Rebuild(ctx, token, from)
		return err
	}))
	if fmt.Sprint(foretold) != fmt.Sprint(built) {
		w.Errorf("foretold %+v, built %+v", foretold, built)
	}
	return built
}

// wantRows compares the ledger with what it was.
func (w *world) wantRows(want map[string]ledger.Row) {
	w.Helper()
	if got := w.rows(); !maps.Equal(got, want) {
		w.Errorf("the ledger has\n%+v\nwant\n%+v", got, want)
	}
}

func (w *world) wantProblems(built Rebuilt, want ...string) {
	w.Helper()
	if len(built.Problems) != len(want) {
		w.Fatalf("problems %+v, want %q", built.Problems, want)
	}
	for i, text := range want {
		if got := fmt.Sprintf("%s %d: %s", built.Problems[i].Run, built.Problems[i].Token, built.Problems[i].Problem); !strings.Contains(got, text) {
			w.Errorf("problem %d is %q, want %q", i, got, text)
		}
	}
}

// In random worlds, with failures, quarantine, new versions, crashed batches and
// runs taken back, the records of the runs tell all that the ledger had. So do
// its segments without a head; and each makes good what the other has lost.
func TestRebuildTellsWhatTheLedgerHad(t *testing.T) {
	for name, damage := range map[string]func(w *world, random *rand.Rand) Sources{
		"from records alone": func(w *world, _ *rand.Rand) Sources {
			w.write(w.head(), "{")
			return Sources{}
		},
		"from segments alone": func(w *world, _ *rand.Rand) Sources {
			w.ok(w.state.Delete(w.Context(), w.head()))
			for _, key := range w.keys(w.state, "lockstep/runs/") {
				w.ok(w.state.Delete(w.Context(), key))
			}
			return Sources{Segments: true}
		},
		"from records and the segments that are left": func(w *world, random *rand.Rand) Sources {
			for _, key := range w.keys(w.state, LedgerPrefix(w.parsed())+"segments/") {
				switch random.IntN(4) {
				case 0:
					w.ok(w.state.Delete(w.Context(), key))
				case 1:
					w.write(key, string(w.read(w.state, key)[:50]))
				}
			}
			return Sources{Segments: true, Intact: true}
		},
		"from records and old segments, without a head": func(w *world, random *rand.Rand) Sources {
			w.write(w.head(), "{")
			for _, key := range w.keys(w.state, LedgerPrefix(w.parsed())+"segments/") {
				if random.IntN(2) == 0 {
					w.ok(w.state.Delete(w.Context(), key))
				}
			}
			return Sources{Segments: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 15 {
				seed := rand.Uint64()
				inWorld(t, func(w *world) {
					random := rand.New(rand.NewPCG(seed, 0))
					w.runAtRandom(random)
					want := w.rows()
					from := damage(w, random)
					built := w.rebuildFrom(from)
					w.wantRows(want)
					equal(w.T, "rows", built.Rows(), int64(len(want)))
					equal(w.T, "rows by their origin", built.Salvaged+built.Replayed, built.Rows())
					if !from.Segments && built.Salvaged > 0 || name == "from segments alone" && built.Replayed > 0 {
						t.Errorf("%+v", built)
					}
					w.wantProblems(built)
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				})
			}
		})
	}
}

// runAtRandom plays some runs over random files.
func (w *world) runAtRandom(random *rand.Rand) {
	w.Helper()
	w.set("batch.maxFiles", 1+random.IntN(3))
	w.set("failure.backoffSeconds", 0)
	for n := range 8 {
		for range random.IntN(6) {
			content := []string{"good", "poison"}[random.IntN(2)]
			w.upload(fmt.Sprintf("in/%d", random.IntN(9)), fmt.Sprint(content, random.IntN(3)))
		}
		w.set("failure.maxAttempts", 1+random.IntN(3))
		run := fmt.Sprint("P", n)
		token := w.begin(run)
		d := w.discover(run, token)
		for _, batch := range w.batches(d) {
			switch random.IntN(6) {
			case 0: // its call never begins
				if random.IntN(2) == 0 { // or crashes
					w.begun(run, token, batch.Number)
				}
			case 1: // changed meanwhile
				w.upload(batch.Files[0].Key, fmt.Sprint("good", random.IntN(1000)))
				fallthrough
			default:
				_, err := w.process(run, token, batch)
				w.ok(err)
			}
		}
		if d.Batches > 0 {
			_, err := w.tryCommit(run, token, d)
			if err != nil && !errors.As(err, new(*TooManyFilesFailedError)) && !errors.As(err, new(*ProcessFunctionError)) {
				w.ok(err)
			}
		}
		w.release(run, token)
		time.Sleep(time.Duration(random.IntN(2)) * time.Minute) // the bubble's; some runs share a second
	}
}

// What people did is in the segments, and in no record.
func TestRebuildKeepsEditsThatAreInSegments(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxAttempts", 1)
		w.set("selection.exclude", []string{"*.tmp"})
		w.upload("in/a", "good")
		w.upload("in/b", "poison")
		w.upload("in/b2", "poison")
		w.upload("in/c", "good")
		_, err := w.run("P1")
		w.ok(err)
		o := w.operator()
		w.ok(o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
			_, err := o.Retry(ctx, token, Filter{Keys: []string{"in/b"}})
			return err
		}))
		w.upload("in/d", "new")
		w.upload("in/e.tmp", "none of the selection's")
		want := w.rows()
		w.write(w.head(), "{")
		built := w.rebuildFrom(Sources{Segments: true})
		w.wantRows(want)
		equal(t, "files that nothing tells of", built.Unknown, 1)
		equal(t, "salvaged", built.Salvaged, 4)
		if len(built.Lost) != 1 || built.Lost[0].Object != "s3://state/"+w.head() {
			t.Errorf("lost %+v", built.Lost)
		}
	})
}

func TestRebuildForgetsWhatTheSourceHasNoMore(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, key := range []string{"in/a", "in/b", "in/c"} {
			w.upload(key, "x")
		}
		_, err := w.run("P1")
		w.ok(err)
		want := w.rows()
		w.ok(w.source.Delete(w.Context(), "in/b"))
		delete(want, "in/b")
		built := w.rebuild()
		w.wantRows(want)
		equal(t, "vanished", built.Vanished, 1)
		w.ok(w.source.Delete(w.Context(), "in/c"))
		delete(want, "in/c")
		w.rebuild()
		w.wantRows(want)
	})
}

// What lies outside of the source prefix is not listed, and so not judged.
func TestRebuildKeepsWhatAnotherPrefixTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "x")
		w.upload("in/sub/b", "x")
		_, err := w.run("P1")
		w.ok(err)
		want := w.rows()
		w.ok(w.source.Delete(w.Context(), "in/a"))
		w.set("source.prefix", "in/sub")
		w.rebuild()
		w.wantRows(want)
	})
}

func TestRebuildDoesNotMixUpSourceBuckets(t *testing.T) {
	inWorld(t, func(w *world) {
		other := bucket.NewMemory("other", nil)
		w.open(w.source, w.lake, w.state, other)
		w.upload("in/a", "x")
		_, err := w.run("P1")
		w.ok(err)
		w.set("source.bucket", "other")
		_, err = other.Put(w.Context(), "in/a", strings.NewReader("x"), "", bucket.Condition{})
		w.ok(err)
		built := w.rebuild()
		equal(t, "rows", built.Rows(), 0)
		equal(t, "runs", built.Runs, 0)
		w.wantProblems(built)
	})
}

// Records that lifecycle rules or people removed prove nothing, and what they
// no longer prove is processed again.
func TestRebuildReportsWhatTheRecordsLeaveOpen(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(w *world, keys runKeys)
		rows   int // of P2's three files, of which one failed and one was never begun; -3: all are due
		want   string
	}{
		{"nothing", func(*world, runKeys) {}, 3, ""},
		{"no summary", func(w *world, k runKeys) { w.ok(w.state.Delete(w.Context(), k.summary())) }, -3, "P2 2: it left no summary"},
		{"cut summary", func(w *world, k runKeys) { w.write(k.summary(), `{"run": "P2`) }, 0, "P2 2: its summary cannot be read"},
		{"no manifest", func(w *world, k runKeys) { w.ok(w.state.Delete(w.Context(), w.only(k.folder+"manifest-"))) }, 0, "P2 2: its manifest is not there any more"},
		{"another manifest", func(w *world, k runKeys) { w.write(w.only(k.folder+"manifest-"), "[]\n") }, 0, "P2 2: its manifest was overwritten"},
		{"no result of what was done", func(w *world, k runKeys) { w.ok(w.state.Delete(w.Context(), w.resultKey(k, 0))) }, 0,
			"P2 2: its results are not those that were committed: they have 0 files done, 2 failed and 1 left, its summary has 1, 1 and 1"},
		{"no result of what failed", func(w *world, k runKeys) {
			for _, key := range w.keys(w.state, k.batch(1)) {
				w.ok(w.state.Delete(w.Context(), key))
			}
		}, 0,
			"P2 2: its results are not those that were committed"},
		{"cut result", func(w *world, k runKeys) { w.write(w.resultKey(k, 0), `{"batch"`) }, 0, "its manifest or a result cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.upload("in/first", "x")
				_, err := w.run("P1")
				w.ok(err)
				w.set("batch.maxFiles", 1)
				w.upload("in/a", "good")
				w.upload("in/b", "poison")
				w.upload("in/c", "good")
				token := w.begin("P2")
				d := w.discover("P2", token)
				for _, batch := range w.batches(d)[:2] { // the call of the third never begins
					_, err := w.process("P2", token, batch)
					w.ok(err)
				}
				w.commit("P2", token, d)
				w.release("P2", token)
				before := w.rows()
				c.damage(w, keysOf(w.parsed(), "P2", token))
				built := w.rebuild()
				if c.want == "" {
					w.wantProblems(built)
				} else {
					w.wantProblems(built, c.want)
				}
				rows := w.rows()
				if c.rows < 0 { // all that is known of them is that a run had them in hand
					for _, key := range []string{"in/a", "in/b", "in/c"} {
						equal(t, key, rows[key].Outcome, ledger.Due)
						delete(rows, key)
					}
					c.rows = 0
				}
				equal(t, "rows", len(rows), 1+c.rows)
				for key, row := range rows {
					equal(t, key, row, before[key])
				}
			})
		})
	}
}

// only is the one key that begins with a prefix.
func (w *world) only(prefix string) string {
	w.Helper()
	keys := w.keys(w.state, prefix)
	if len(keys) != 1 {
		w.Fatalf("%q begin with %q, want one", keys, prefix)
	}
	return keys[0]
}

// resultKey is the key of the only result of a batch.
func (w *world) resultKey(k runKeys, batch int) string {
	w.Helper()
	for _, key := range w.keys(w.state, k.batch(batch)) {
		if !strings.HasSuffix(key, begunSuffix) {
			return key
		}
	}
	w.Fatalf("batch %d has no result", batch)
	return ""
}

func (w *world) write(key, content string) {
	w.Helper()
	_, err := w.state.Put(w.Context(), key, strings.NewReader(content), "", bucket.Condition{})
	w.ok(err)
}

// A run that found nothing leaves no summary, and nothing open.
func TestAnEmptyRunIsNoProblem(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.run("P1")
		w.ok(err)
		built := w.rebuild()
		w.wantProblems(built)
		equal(t, "runs", built.Runs, 0)
	})
}

func TestTroubleEndsARebuildAndLeavesWhatWasThere(t *testing.T) {
	for name, fault := range map[string]struct {
		on      func(w *world) *bucket.Memory
		op, key string
	}{
		"the listing of the source": {func(w *world) *bucket.Memory { return w.source }, "list", "in/"},
		"the listing of records":    {func(w *world) *bucket.Memory { return w.state }, "list", "lockstep/runs/"},
		"a summary":                 {func(w *world) *bucket.Memory { return w.state }, "get", "lockstep/runs/P1/0000000000000001/summary.json"},
		"a manifest":                {func(w *world) *bucket.Memory { return w.state }, "get", "lockstep/runs/P1/0000000000000001/manifest-"},
		"a result":                  {func(w *world) *bucket.Memory { return w.state }, "get", "lockstep/runs/P1/0000000000000001/results/00000000/"},
	} {
		inWorld(t, func(w *world) {
			w.upload("in/a", "x")
			_, err := w.run("P1")
			w.ok(err)
			head := LedgerPrefix(w.parsed()) + "head.json"
			w.write(head, "{")
			fault.on(w).Fault(func(op, key string) error {
				if op == fault.op && (key == fault.key || op == "get" && strings.HasPrefix(key, fault.key)) {
					return errors.New("connection reset")
				}
				return nil
			}, nil)
			o := w.operator()
			err = o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
				_, err := o.Rebuild(ctx, token, Sources{})
				return err
			})
			if err == nil || !strings.Contains(err.Error(), "connection reset") {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := o.Foretell(w.Context(), Sources{}); err == nil {
				t.Errorf("%s: a dry run succeeds", name)
			}
			fault.on(w).Fault(nil, nil)
			equal(t, name, string(w.read(w.state, head)), "{")
		})
	}
}

func TestAnIntactLedgerIsRebuiltOnDemandOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "x")
		_, err := w.run("P1")
		w.ok(err)
		want := w.rows()
		o := w.operator()
		rebuild := func(intact bool) error {
			return o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
				_, err := o.Rebuild(ctx, token, Sources{Intact: intact})
				return err
			})
		}
		if err := rebuild(false); !errors.Is(err, ledger.ErrIntact) {
			t.Errorf("%v", err)
		}
		w.ok(rebuild(true))
		w.wantRows(want)
	})
}

// The results of a large run are not listed one by one.
func TestListingOfRecordsLeapsOverResults(t *testing.T) {
	inWorld(t, func(w *world) {
		for n := range 3 {
			keys := keysOf(w.parsed(), fmt.Sprint("P", n), int64(9-n))
			w.write(keys.manifest("c"), "[{}]")
			w.write(keys.summary(), "{}")
			w.write(keys.folder+"map/x/1", "{}")
			for i := range 4000 {
				w.write(keys.result(i, "c"), "")
			}
		}
		w.write("lockstep/runs/P0/notes.txt", "not ours")
		lists := 0
		w.state.Fault(func(op, _ string) error {
			if op == "list" {
				lists++
			}
			return nil
		}, nil)
		r, err := w.steps.begin(w.execution("x"))
		w.ok(err)
		found, err := r.grants(w.Context(), "")
		w.ok(err)
		if len(found) != 3 || lists > 4 {
			t.Errorf("%d requests found %+v", lists, found)
		}
		for i, a := range found {
			equal(t, "run", a.run, fmt.Sprint("P", 2-i))
			equal(t, "token", a.token, int64(7+i))
			equal(t, "summary", a.summary, true)
		}
		one, err := r.grants(w.Context(), "P1")
		w.ok(err)
		if len(one) != 1 || one[0].run != "P1" {
			t.Errorf("of P1 alone: %+v", one)
		}
	})
}
