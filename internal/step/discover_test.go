package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// shape is a manifest as the keys of each batch.
func shape(batches []Batch) []string {
	var lines []string
	for _, b := range batches {
		var keys []string
		for _, f := range b.Files {
			keys = append(keys, f.Key)
		}
		lines = append(lines, fmt.Sprintf("%d: %s", b.Number, strings.Join(keys, " ")))
	}
	return lines
}

func TestBatchesAreBoundedByFilesAndBytes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 3)
		w.set("batch.maxBytes", 10)
		for _, f := range []string{"a:1", "b:1", "c:1", "d:9", "e:1", "f:1", "g:11", "h:1"} {
			name, size, _ := strings.Cut(f, ":")
			var n int
			fmt.Sscan(size, &n)
			w.upload("in/"+name, strings.Repeat("x", n))
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		equalLists(t, "batches", shape(w.batches(d)), []string{
			"0: in/a in/b in/c", // three files
			"1: in/d in/e",      // ten bytes
			"2: in/f",
			"3: in/g", // larger than a batch may be, and alone
			"4: in/h",
		})
		equal(t, "batches", d.Batches, 5)
		equal(t, "files", d.Files, 8)
		equal(t, "bytes", d.Bytes, 26)
		equal(t, "max concurrency", d.MaxConcurrency, 10)
		equal(t, "tolerated failures", d.ToleratedFailurePercentage, 100)
		if !strings.HasPrefix(d.Manifest.Bucket+"/"+d.Manifest.Key, "state/lockstep/runs/P1/0000000000000001/manifest-") {
			t.Errorf("manifest %+v", d.Manifest)
		}
	})
}

// One that failed by its own fault brings no call down.
func TestAFileThatFailedBeforeSharesABatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "poison")
		w.upload("in/b", "b")
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/c", "c")
		w.upload("in/d", "d")
		token := w.begin("P2")
		equalLists(t, "batches", shape(w.batches(w.discover("P2", token))), []string{"0: in/a in/c in/d"})
	})
}

// CASES 22, 36.
func TestNothingNewIsAnEmptyManifest(t *testing.T) {
	inWorld(t, func(w *world) {
		token := w.begin("P1")
		d := w.discover("P1", token)
		equal(t, "batches", d.Batches, 0)
		if batches := w.batches(d); batches == nil || len(batches) != 0 {
			t.Errorf("the manifest has %v, want an empty list", batches)
		}
	})
}

// CASES 26: markers are no files; empty files are.
func TestFolderMarkersAreSkippedAndCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/", "")
		w.upload("in/folder/", "")
		w.upload("in/folder/empty.csv", "")
		token := w.begin("P1")
		d := w.discover("P1", token)
		equalLists(t, "batches", shape(w.batches(d)), []string{"0: in/folder/empty.csv"})
		found := w.found("P1", token, d)
		equal(t, "markers", found.Skipped[ledger.SkipFolderMarker], 2)
	})
}

// CASES 24, 25: neither a sibling folder nor what the pipeline itself writes.
func TestOnlyTheSourceFolderIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("source.prefix", "files")
		w.set("destination.bucket", "source")
		w.set("destination.prefix", "files/out")
		w.set("state.bucket", "source")
		w.set("state.prefix", "files/state")
		w.state, w.lake = w.source, w.source
		w.upload("files/a.csv", "a")
		w.upload("files2/b.csv", "b")
		out, err := w.run("P1")
		w.ok(err)
		equal(t, "done", out.Done, 1)
		out, err = w.run("P2")
		w.ok(err)
		equal(t, "done by the next run", out.Done, 0)
	})
}

// Keys as large and as hard to write in JSON as S3 takes them: an element of
// the manifest fits into a child's input together with the largest
// configuration. Source: Step Functions quotas, 256 KiB.
func TestAnElementOfTheManifestFitsIntoAPayload(t *testing.T) {
	for name, filler := range map[string]string{"plain": "k", "control characters": "\x01", "signs of HTML": "<", "quotes": `"`, "emoji": "🌧"} {
		inWorld(t, func(w *world) {
			w.set("batch.maxFiles", 500)
			for i := range 600 {
				prefix := fmt.Sprintf("in/%04d", i)
				w.upload(prefix+strings.Repeat(filler, (maxKeyBytes-len(prefix))/len(filler)), "x")
			}
			token := w.begin("P1")
			d := w.discover("P1", token)
			var elements []json.RawMessage
			w.ok(json.Unmarshal(w.read(w.state, d.Manifest.Key), &elements))
			files := 0
			for _, element := range elements {
				if size := len(element) + maxConfigBytes + 2<<10; size > 256<<10 {
					t.Errorf("%s: a child's input may have %d bytes", name, size)
				}
				var batch Batch
				w.ok(json.Unmarshal(element, &batch))
				files += len(batch.Files)
			}
			equal(t, name+": files in the manifest", files, 600)
		})
	}
}

// CASES 23: listing, manifest, processing, ledger, and the next listing.
func TestStrangeKeysMakeTheRoundTrip(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 3)
		names := []string{
			"a#b", "a?b", "a%20b", "a+b", "a b", "a\nb", "a\tb", "a\x01b", "a\x7fb", "🌧.csv", "\u00e9", "e\u0301", "//a", "/a", "a.", "a..b", "ends with space ",
			`"a"`, `a\b`, "<a>&", "\u2028", "a;b=c", "dt=2026-01-31/part 0.csv", strings.Repeat("k", 900),
		}
		for _, name := range names {
			w.upload("in/"+name, "content of "+name)
		}
		out, err := w.run("P1")
		w.ok(err)
		equal(t, "done", out.Done, int64(len(names)))
		rows := w.rows()
		want := map[string]string{}
		for _, name := range names {
			want["in/"+name] = "content of " + name
			if rows["in/"+name].Outcome != ledger.Done {
				t.Errorf("%q is %q in the ledger", name, rows["in/"+name].Outcome)
			}
		}
		w.wantOutputs(want)
		out, err = w.run("P2")
		w.ok(err)
		equal(t, "done again", out.Done+out.Failed, 0)
	})
}

// CASES 31: what is left is told, and taken by later runs.
func TestMaxFilesLeavesTheRestForTheNextRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("selection.maxFiles", 2)
		for i := range 5 {
			w.upload(fmt.Sprint("in/", i), fmt.Sprint(i))
		}
		token := w.begin("P1")
		equal(t, "left", w.discover("P1", token).Left, 3)
		w.release("P1", token)
		done := 0
		for run := range 4 {
			out, err := w.run(fmt.Sprint("run ", run))
			w.ok(err)
			done += int(out.Done)
		}
		equal(t, "done over the runs", done, 5)
	})
}

// The ages are measured by the server's time, once.
func TestTheCutoffIsTheServersTime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("selection.minAgeSeconds", 60)
		w.upload("in/old", "old")
		time.Sleep(60 * time.Second)
		w.upload("in/young", "young")
		token := w.begin("P1")
		d := w.discover("P1", token)
		equal(t, "cutoff", d.Cutoff, w.state.Now())
		equalLists(t, "batches", shape(w.batches(d)), []string{"0: in/old"})
	})
}

// CASES 30.
func TestAListingThatBreaksLeavesNoManifest(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 2500 {
			w.upload(fmt.Sprintf("in/%04d", i), "x")
		}
		pages := 0
		w.source.Fault(func(op, _ string) error {
			if op == "list" {
				pages++
			}
			if pages == 3 {
				return errors.New("connection reset")
			}
			return nil
		}, nil)
		token := w.begin("P1")
		_, err := w.tryDiscover("P1", token)
		var transient *TransientError
		if !errors.As(Translate(err), &transient) || !strings.Contains(err.Error(), "s3://source/in/") {
			t.Errorf("%T: %v", Translate(err), err)
		}
		equalLists(t, "run records", w.keys(w.state, "lockstep/runs/"), nil)
	})
}

// CASES 13: an older run learns at the ledger that a newer one was there.
func TestDiscoveryIsFenced(t *testing.T) {
	inWorld(t, func(w *world) {
		books, err := ledger.Open(w.state, LedgerPrefix(w.parsed()))
		w.ok(err)
		token := w.begin("P1")
		w.ok(books.Fence(w.Context(), token+1))
		_, err = w.tryDiscover("P1", token)
		var fenced *LedgerFencedError
		if !errors.As(Translate(err), &fenced) {
			t.Errorf("%v", err)
		}
		equalLists(t, "run records", w.keys(w.state, "lockstep/runs/"), nil)
	})
}

// A call that Lambda repeats gives the same answer, under a name of its own.
func TestDiscoverMayBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		first := w.discover("P1", token)
		second := w.discover("P1", token)
		if first.Manifest.Key == second.Manifest.Key {
			t.Errorf("both calls wrote %s", first.Manifest.Key)
		}
		second.Manifest = first.Manifest
		equal(t, "answer", second, first)
	})
}

func TestADamagedManifestIsAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "a")
		token := w.begin("P1")
		d := w.discover("P1", token)
		whole := string(w.read(w.state, d.Manifest.Key))
		for name, content := range map[string]string{
			"empty": "", "an object": "{}", "cut": whole[:len(whole)-3], "cut in an element": whole[:20], "a number": "1", "an element of another kind": `["x"]`,
		} {
			written, err := w.state.Put(w.Context(), d.Manifest.Key, strings.NewReader(content), "", bucket.Condition{})
			w.ok(err)
			d.Manifest.ETag = written.ETag
			if _, err := w.tryCommit("P1", token, d); err == nil || !strings.Contains(err.Error(), d.Manifest.Key) {
				t.Errorf("%s: %v", name, err)
			}
		}
		equal(t, "rows in the ledger", len(w.rows()), 0)
	})
}

func TestRunThatTakesNothingMovesTheMark(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("selection.order", "lexicographic")
		w.set("selection.lookBackSeconds", 0)
		w.upload("in/a", "a")
		_, err := w.run("P1")
		w.ok(err)
		time.Sleep(time.Minute)
		_, err = w.run("P2")
		w.ok(err)
		time.Sleep(time.Minute)
		token := w.begin("P3")
		found := w.found("P3", token, w.discover("P3", token))
		equal(t, "listed from", found.After, "in/a")
		equal(t, "listed", found.Listed, 0)
	})
}

// What a run that died had in hand is due at any version: it may have published
// one that is not there any more.
func TestAFileThatWentBackAfterADeadRunIsDoneAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "v1")
		_, err := w.run("P1")
		w.ok(err)
		w.upload("in/a", "v2")
		token := w.begin("P2")
		d := w.discover("P2", token)
		w.processAll("P2", token, d) // and dies
		w.wantOutputs(map[string]string{"in/a": "v2"})
		time.Sleep(10 * time.Minute)
		w.upload("in/a", "v1") // which the ledger has as done
		out, err := w.run("P3")
		w.ok(err)
		equal(t, "done", out.Done, 1)
		w.wantOutputs(map[string]string{"in/a": "v1"})
		equal(t, "open manifests", len(w.ledgerHead().Open), 0)
	})
}

// A pipeline keeps its places, until somebody says so.
func TestAPipelineThatChangedItsPlaceIsRefused(t *testing.T) {
	for field, change := range map[string]func(w *world){
		"source":      func(w *world) { w.set("source.prefix", "other/") },
		"destination": func(w *world) { w.set("destination.prefix", "elsewhere/") },
		"layout":      func(w *world) { w.set("destination.versions", "all") },
	} {
		inWorld(t, func(w *world) {
			w.upload("in/a", "a")
			_, err := w.run("P1")
			w.ok(err)
			change(w)
			token := w.begin("P2")
			_, err = w.tryDiscover("P2", token)
			if !errors.As(Translate(err), new(*PipelineChangedError)) || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "lockstep ledger adopt") {
				t.Errorf("%s: %T %v", field, Translate(err), err)
			}
			w.release("P2", token)
			o := w.operator()
			w.ok(o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error { return o.Adopt(ctx, token) }))
			_, err = w.run("P3")
			w.ok(err)
		})
	}
}

// An older program named its outputs otherwise: both would be counted.
func TestADestinationOfAnOlderProgramIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a.csv", "a")
		former := "out/a.csv.8c8656c5d114.parquet"
		_, err := w.lake.Put(w.Context(), former, strings.NewReader("old"), "", bucket.Condition{})
		w.ok(err)
		token := w.begin("P1")
		_, err = w.tryDiscover("P1", token)
		if !errors.As(Translate(err), new(*DestinationTakenError)) || !strings.Contains(err.Error(), former) || !strings.Contains(err.Error(), "docs/upgrade.md") {
			t.Errorf("%T %v", Translate(err), err)
		}
		w.release("P1", token)
		o := w.operator()
		w.ok(o.Hold(w.Context(), 0, func(ctx context.Context, _ int64) error {
			_, err := o.CleanOutputs(ctx, []StrayReason{StrayFormer}, func(Stray) error { return nil })
			return err
		}))
		_, err = w.run("P2")
		w.ok(err)
		w.wantOutputs(map[string]string{"in/a.csv": "a"})
	})
}

// Somebody brings an older version of the head back.
func TestAnOlderHeadIsNotTakenForTheTruth(t *testing.T) {
	for _, runs := range []int{1, 3} {
		inWorld(t, func(w *world) {
			w.state.KeepVersions(false)
			w.upload("in/a", "a")
			_, err := w.run("P0")
			w.ok(err)
			old := string(w.read(w.state, w.head()))
			for n := range runs {
				w.upload(fmt.Sprint("in/b", n), "b")
				_, err := w.run(fmt.Sprint("P", n+1))
				w.ok(err)
			}
			w.write(w.head(), old)
			token := w.begin("P8")
			_, err = w.tryDiscover("P8", token)
			if !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), "older version of itself") {
				t.Errorf("after %d runs: %v", runs, err)
			}
			w.release("P8", token)
			o := w.operator()
			w.ok(o.Hold(w.Context(), 0, func(ctx context.Context, token int64) error {
				_, err := o.Restore(ctx, token, false)
				return err
			}))
			out, err := w.run("P9")
			w.ok(err)
			equal(t, "done again", out.Done, 0)
			equal(t, "rows", len(w.rows()), 1+runs)
		})
	}
}
