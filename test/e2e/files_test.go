package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

func TestNothingNewStartsNoMap(t *testing.T) {
	w := newWorld(t, nil)
	empty := w.succeed("P1")
	files := w.csvs("a.csv")
	w.succeed("P2")
	before := w.ledgerRows()
	nothing := w.succeed("P3")
	for _, e := range []*asl.Execution{empty, nothing} {
		const want = "AcquireLock LockDecision DiscoverFiles AnythingNew ReleaseLock RunSucceeded"
		if got := journey(e); got != want || len(e.MapRuns()) > 0 {
			t.Errorf("%s went %s with %d Map Runs", e.Name(), got, len(e.MapRuns()))
		}
	}
	if after := w.ledgerRows(); len(after) != 1 || after["incoming/a.csv"] != before["incoming/a.csv"] {
		t.Errorf("a run that found nothing changed the ledger from %v to %v", before, after)
	}
	w.exactlyOnce(files...)
}

func TestAPoisonFileIsQuarantinedAndTheOthersAreDone(t *testing.T) {
	w := newWorld(t, nil)
	w.upload("bad.json", `[{"id": 1}, {"id": `)
	files := w.csvs("a.csv", "z.csv")
	for i, want := range []ledger.Outcome{ledger.Failed, ledger.Failed, ledger.Quarantined} {
		e := w.succeed(fmt.Sprint("P", i+1))
		got := w.ledgerRows()["incoming/bad.json"]
		if got.Outcome != want || got.Attempts != i+1 {
			t.Errorf("after %s bad.json is %+v, want %s at %d attempts", e.Name(), got, want, i+1)
		}
		if out := w.output(e).Committed; out.Failed != 1 {
			t.Errorf("%s committed %+v", e.Name(), out)
		}
		w.exactlyOnce(files...)
	}
	if failures := w.summary("P3").Failures; len(failures) != 1 || !failures[0].Quarantined || failures[0].Key != "incoming/bad.json" || failures[0].Error == "" {
		t.Errorf("the summary tells of %+v", failures)
	}
	if p4 := w.succeed("P4"); w.output(p4).Discovered.Files != 0 {
		t.Errorf("P4 took %+v", w.output(p4).Discovered)
	}
	// A new version starts afresh, and may fail and recover.
	w.upload("bad.json", `[{"id": 2}, {"id": `)
	w.succeed("P5")
	if got := w.ledgerRows()["incoming/bad.json"]; got.Outcome != ledger.Failed || got.Attempts != 1 {
		t.Errorf("the new version is %+v, want one failed attempt", got)
	}
	good := w.upload("bad.json", `[{"id": 3, "name": "three"}]`)
	good.rows = []row{{3, "three"}}
	w.succeed("P6")
	if got := w.ledgerRows()["incoming/bad.json"]; got.Attempts != 0 {
		t.Errorf("the good version is %+v, want no failed attempt", got)
	}
	w.exactlyOnce(append(files, good)...)
}

func TestWithTooManyFailuresTheRunFailsAndTheNextOneRepeatsOnlyThem(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Failure.MaxFailedFraction = 0 })
	w.upload("bad.json", `nonsense`)
	files := w.csvs("a.csv", "b.csv")
	w.failed(w.run("P1"), "TooManyFilesFailedError", "1 of 3 files failed", "incoming/bad.json", "summary.json")
	good := w.bare("bad.json", `[]`)
	w.leaseRunsOut() // the commit failed, so it did not say whether every call has answered
	again := w.succeed("P1-again")
	if out := w.output(again); out.Committed.Done != 1 {
		t.Errorf("the second run did %+v, want one file", out.Committed)
	}
	w.exactlyOnce(append(files, good)...)
}

func TestFilesThatChangeBeforeTheyAreReadAreLeftToTheNextRun(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("same.csv")
	passing := w.csvs("changed.csv", "deleted.csv")
	listed := w.watch.stop("P1", "ProcessFiles")
	p1 := w.run("P1")
	w.await(listed.reached, "the files to be listed")
	files = append(files, w.csvs("changed.csv")...)
	w.delete(&passing[1])
	listed.open()
	w.ended(p1, asl.StatusSucceeded)
	if got := w.output(p1).Committed; got.Done != 1 || got.Superseded != 2 || got.Failed != 0 {
		t.Errorf("P1 committed %+v, want 1 done and 2 superseded", got)
	}
	w.succeed("P2")
	w.same("P2 did", w.doneBy("P2"), []string{"changed.csv"})
	w.exactlyOnce(files...)
	if _, known := w.ledgerRows()["incoming/deleted.csv"]; known {
		t.Error("the ledger knows a file that nobody read")
	}
}

func TestANewVersionIsDoneAgainAndADeletedFileIsForgotten(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv", "b.csv")
	w.succeed("P1")
	files = append(files, w.csvs("a.csv", "c.csv")...)
	w.delete(&files[1])
	w.succeed("P2")
	w.same("P2 did", w.doneBy("P2"), []string{"a.csv", "c.csv"})
	w.exactlyOnce(files...)
}

func TestFilesOfNoRowsSucceedAndFolderMarkersAreSkipped(t *testing.T) {
	w := newWorld(t, nil)
	files := []file{w.upload("header.csv", "id,name\n"), w.bare("empty.csv", ""), w.bare("empty.json", "[]"), w.bare("empty.ndjson", "")}
	w.upload("folder/", "")
	p1 := w.succeed("P1")
	if got := w.output(p1).Committed; got.Done != 4 || got.Rows != 0 || got.Failed != 0 {
		t.Errorf("P1 committed %+v", got)
	}
	if got := w.summary("P1").Skipped[ledger.SkipFolderMarker]; got != 1 {
		t.Errorf("%d folder markers were counted", got)
	}
	w.exactlyOnce(files...)
}

func TestKeysMakeTheWholeJourneyExactly(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Batch.MaxFiles = 4 })
	var files []file
	for _, path := range []string{
		"#.csv", "a?b.csv", "100%.csv", "%2F.csv", "a+b.csv", "a b.csv", " leading and trailing .csv", "line\nbreak.csv",
		"tab\t.csv", "control\x01\x1f\x7f.csv", "🚂.csv", "e\u0301.csv", "é.csv", "double//slash.csv", "/leading.csv", "dot./x.csv",
		`back\slash.csv`, `"quoted".csv`, "<&>.csv", "$.Execution.csv", "{}.csv", "States.Format('{}').csv", "a/./b.csv", "ff.csv", "\u2028.csv",
	} {
		files = append(files, w.csv(path, 2))
	}
	w.succeed("P1")
	w.exactlyOnce(files...)
	if p2 := w.succeed("P2"); w.output(p2).Discovered.Files != 0 {
		t.Errorf("P2 took %+v again", w.output(p2).Discovered)
	}
}

func TestAPrefixIsAFolder(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Source.Prefix = "files" })
	w.config.Source.Prefix = "files2/"
	w.csvs("not.csv")
	w.config.Source.Prefix = "files"
	w.csvs("beside.csv") // becomes filesbeside.csv
	w.config.Source.Prefix = "files/"
	files := w.csvs("in.csv")
	w.config.Source.Prefix = "files"
	w.succeed("P1")
	w.config.Source.Prefix = "files/"
	w.exactlyOnce(files...)
}

func TestStateAndOutputsInsideTheSourceAreNeverInput(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) {
		c.Source = step.Location{Bucket: "one", Prefix: ""}
		c.State = step.Location{Bucket: "one", Prefix: "lockstep/state/"}
		c.Destination = step.Destination{Bucket: "one", Prefix: "lake/", Versions: step.VersionsLatest}
	})
	files := w.csvs("a.csv", "lockstep/b.csv")
	w.succeed("P1")
	w.succeed("P2")
	for key := range w.ledgerRows() {
		if strings.HasPrefix(key, "lockstep/state/") || strings.HasPrefix(key, "lake/") {
			t.Errorf("%s was taken for a source file", key)
		}
	}
	if got := w.output(w.succeed("P3")).Discovered; got.Files != 0 {
		t.Errorf("P3 took %+v", got)
	}
	w.exactlyOnce(files...)
}

func TestWhatDoesNotFitIsLeftToTheNextRun(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Selection.MaxFiles = 2 })
	files := w.csvs("a.csv", "b.csv", "c.csv", "d.csv", "e.csv")
	for i, want := range [][]string{{"a.csv", "b.csv"}, {"c.csv", "d.csv"}, {"e.csv"}} {
		run := fmt.Sprint("P", i+1)
		w.succeed(run)
		w.same(run+" did", w.doneBy(run), want)
	}
	w.exactlyOnce(files...)
}

func TestAnOldUploadThatAppearsLateIsProcessed(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("m.csv", "z.csv")
	w.succeed("P1")
	files = append(files, w.csvs("a.csv")...) // sorts before what is done
	w.succeed("P2")
	w.same("P2 did", w.doneBy("P2"), []string{"a.csv"})
	w.exactlyOnce(files...)
}

func TestABadConfigurationIsRefusedBeforeTheLockIsTouched(t *testing.T) {
	w := newWorld(t, nil)
	w.csvs("a.csv")
	for field, change := range map[string]func(*step.RunConfig){
		"lock.ttlSeconds": func(c *step.RunConfig) { c.Lock.TTLSeconds = 120_000 },
		"source.prefix":   func(c *step.RunConfig) { c.Source = step.Location{Bucket: "state", Prefix: "e2e/in/"} },
		"selection":       func(c *step.RunConfig) { c.Selection.Include = []string{"a[.csv"} },
	} {
		sound := w.config
		change(&w.config)
		w.failed(w.run("bad-"+field), "InvalidConfigError", field)
		w.config = sound
	}
	e := w.runInput("typo", []byte(`{"pipeline": "e2e", "sorce": {}}`))
	w.failed(e, "InvalidConfigError", "sorce")
	if got := journey(e); got != "AcquireLock RunRefused" {
		t.Errorf("a refused run went %s", got)
	}
	w.toldOf(e)
	for _, b := range []*bucket.Bucket{w.state, w.lake} {
		w.same("objects in "+b.Name(), w.keys(b), nil)
	}
}

// toldOf has the release function hear of the end of an execution that never
// had a lock; it must not raise an alarm.
func (w *world) toldOf(e *asl.Execution) {
	w.t.Helper()
	d := e.Describe()
	event, err := json.Marshal(map[string]any{
		"detail-type": "Step Functions Execution Status Change",
		"detail": map[string]any{
			"executionArn": d.ExecutionARN, "name": d.Name, "status": d.Status, "input": d.Input,
			"stopDate": time.Time(*d.StopDate).UnixMilli(),
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	told, err := w.stack.Invoke(w.t.Context(), "release", event)
	if err != nil || told.ErrorType != "" {
		w.t.Errorf("the release function said %s %s (%v)", told.ErrorType, told.Payload, err)
	}
}
