package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlanSaysWhatARunWouldTakeAndWhyNotTheRest(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.says(0, `0 files listed below s3://locks/in/ at 2026-03-01T12:00:00Z
A run would find nothing to do.

s3://locks/state/lock.json is free: there is no such object yet
`, "plan CONFIG")
	p.upload("done.csv", "good")
	p.upload("changed.csv", "good")
	p.upload("gone.csv", "good")
	p.upload("failed.csv", "poison")
	p.upload("x.tmp", "good")
	p.run("P1")
	p.upload("changed.csv", "newer")
	p.upload("new.csv", "newest")
	p.ok(p.memory.Delete(t.Context(), "in/gone.csv"))
	execution, _ := p.begin("P2")
	const totals = `5 files listed below s3://locks/in/ at 2026-03-01T12:00:00Z
          1  to be taken: new
          1  to be taken: changed
          1  to be taken: retried
          1  skipped: this version is done
          1  skipped: selection.exclude matches it
A run would take 3 files of 17 bytes in 2 batches.
In the ledger, and not in the source any more: 1 file.

`
	held := "s3://locks/state/lock.json is held\n  holder  " + execution.ID + ", token 1772366400002\n  since   2026-03-01T12:00:00Z (0s ago)\n" +
		"  until   2026-03-01T12:02:05Z (in 2m5s), unless renewed\n\nIf a holder is known to be dead, take the lock from it:\n" +
		"  lockstep lock break s3://locks/state/lock.json --token 1772366400002 --reason 'why'\n"
	if p.changes(func() {
		p.says(0, `NEXT RUN  WHY             SIZE  MODIFIED              KEY
takes it  it has changed  5     2026-03-01T12:00:00Z  in/changed.csv
takes it  attempt 2       6     2026-03-01T12:00:00Z  in/failed.csv
takes it  it is new       6     2026-03-01T12:00:00Z  in/new.csv

`+totals+held, "plan CONFIG")
	}) {
		t.Error("a plan changed something")
	}
	out, _, _ := p.do("plan CONFIG --skipped")
	contains(t, out, "skips it  done, by P1 at 2026-03-01T12:00:00Z  4     2026-03-01T12:00:00Z  in/done.csv\n",
		"skips it  selection.exclude matches it ", "takes it  it is new ")
	out, _, code := p.do("plan CONFIG --key in/done.csv --key s3://locks/in/gone.csv --glob *")
	if code != 0 || strings.Contains(out, "in/new.csv") {
		t.Errorf("code %d, %s", code, out)
	}
	contains(t, out, "in/done.csv\n", "skips it  there is no such object in the source  ")
	if _, _, code := p.do("plan CONFIG --key in/none.csv"); code != exitNothing {
		t.Errorf("a key that is not there: code %d", code)
	}
	p.release(execution)
}

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.configure(strings.Replace(testConfig, `"exclude"`, `"maxFiles": 1, "exclude"`, 1))
	p.upload("a.csv", "poison")
	p.run("P1")
	p.upload("b.csv", "good")
	p.upload("c.tmp", "good")
	out, stderr, code := p.do("plan CONFIG --skipped -o json")
	if code != 0 {
		t.Fatalf("code %d, %s", code, stderr)
	}
	files := map[string]planFile{}
	var plan *planReport
	for text := range strings.Lines(out) {
		var line struct {
			File *planFile
			Plan *planReport
		}
		p.ok(json.Unmarshal([]byte(text), &line))
		if line.File != nil {
			files[line.File.Key] = *line.File
		}
		plan = line.Plan
	}
	if f := files["in/a.csv"]; !f.Takes || f.Kind != "retried" || f.Attempts != 1 || f.Reason != "" {
		t.Errorf("%+v", f)
	}
	if f := files["in/b.csv"]; f.Takes || f.Kind != "" || f.Reason != "left" {
		t.Errorf("%+v", f)
	}
	if f := files["in/c.tmp"]; f.Takes || f.Reason != "excluded" || len(files) != 3 {
		t.Errorf("%+v", files)
	}
	if plan == nil || plan.Listed != 3 || plan.Retried != 1 || plan.Left != 1 || plan.Batches != 1 || plan.Skipped["excluded"] != 1 ||
		plan.Lock.State != "free" || plan.Source != "s3://locks/in/" {
		t.Errorf("%+v", plan)
	}
}
