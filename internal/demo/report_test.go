package demo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// told is a small story that came out as it should.
func told() (*Report, cast) {
	at := func(ms int) time.Time {
		return time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	entered := func(ms int, state string) asl.Event {
		return asl.Event{Timestamp: at(ms), Type: "TaskStateEntered", Details: asl.StateEnteredDetails{Name: state}}
	}
	const bad = `process "incoming/b/bad.json": malformed file: it is not JSON`
	return &Report{
		Runs: []Run{
			{Name: "P1", Status: "SUCCEEDED", Token: 1, Queued: at(0), Started: at(20), Ended: at(900), Waited: 0.02, Files: 2, Rows: 1200},
			{Name: "P2", Status: "SUCCEEDED", Token: 2, Queued: at(100), Started: at(3100), Ended: at(3400), Waited: 3, Files: 1, Failed: 1, Rows: 7, Rejected: 1},
			{Name: "P3", Status: "SUCCEEDED", Token: 3, Queued: at(3400), Started: at(3410), Ended: at(3500), Waited: 0.01, Failed: 1},
		},
		Holders: []Holding{
			{Token: 1, Owner: "arn:aws:states:us-east-1:000000000000:execution:lockstep:P1", From: at(0), Until: at(1000)},
			{Token: 2, Owner: "arn:aws:states:us-east-1:000000000000:execution:lockstep:P2", From: at(3000), Until: at(3000)},
			{Token: 3, Owner: "arn:aws:states:us-east-1:000000000000:execution:lockstep:P3", From: at(3000), Until: at(4000)},
		},
		Files: []File{
			{Key: "incoming/a/1.csv", Run: "P1", Outcome: "done", Rows: 1000},
			{Key: "incoming/a/2.csv", Run: "P1", Outcome: "done", Rows: 200},
			{Key: "incoming/b/3.csv", Run: "P2", Outcome: "done", Rows: 7, Rejected: 1},
			{Key: "incoming/b/bad.json", Run: "P2", Outcome: "failed", Error: bad},
			{Key: "incoming/b/bad.json", Run: "P3", Outcome: "failed", Error: bad},
		},
		History: map[string][]asl.Event{
			"P1": {entered(0, "AcquireLock"), entered(20, "ProcessFiles"), entered(900, "RunSucceeded")},
			"P2": {
				entered(100, "AcquireLock"), entered(110, "LockDecision"), entered(110, "WaitForLock"),
				entered(1100, "AcquireLock"), entered(1110, "LockDecision"), entered(1110, "WaitForLock"),
				entered(3090, "AcquireLock"), entered(3100, "LockDecision"), entered(3100, "ProcessFiles"),
			},
			"P3": {entered(3400, "AcquireLock")},
		},
	}, cast{first: []string{"a/1.csv", "a/2.csv"}, late: []string{"b/3.csv", "b/bad.json"}}
}

func TestTextOfAReport(t *testing.T) {
	r, c := told()
	if err := r.check("incoming/", c); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	const want = `RUN  STATUS     TOKEN  QUEUED  GOT THE LOCK  ENDED  WAITED  FILES  FAILED  ROWS  REJECTED
P1   SUCCEEDED      1   0.00s         0.02s  0.90s   0.02s      2       0  1200         0
P2   SUCCEEDED      2   0.10s         3.10s  3.40s   3.00s      1       1     7         1
P3   SUCCEEDED      3   3.40s         3.41s  3.50s   0.01s      0       1     0         0

 TIME  P1            P2                     P3
0.00s  AcquireLock
0.02s  ProcessFiles
0.10s                AcquireLock
0.11s                LockDecision
0.11s                WaitForLock (2 turns)
0.90s  RunSucceeded
3.10s                ProcessFiles
3.40s                                       AcquireLock

TOKEN  HELD BY  FROM      UNTIL (server's clock, whole seconds)
    1  P1       09:00:00  09:00:01
    2  P2       09:00:03  09:00:03
    3  P3       09:00:03  09:00:04

DONE BY  FOLDER       FILES  ROWS  REJECTED
P1       incoming/a/      2  1200         0
P2       incoming/b/      1     7         1

FAILED IN  FILE                 WHY
P2         incoming/b/bad.json  malformed file: it is not JSON
P3         incoming/b/bad.json  malformed file: it is not JSON

One run held the lock at a time. 3 files with 1207 rows done, each exactly once.
P2 waited for P1 and did what arrived meanwhile: 1 file. P3 found nothing new, and tried again 1 file that had failed.
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if got := r.Failed(); !slices.Equal(got, []string{"incoming/b/bad.json"}) {
		t.Errorf("failed for good: %q", got)
	}
}

func TestABrokenPromiseIsToldAndNoMoralDrawn(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(*Report)
		says   string
	}{
		{"a run failed", func(r *Report) { r.Runs[1].Status = "FAILED" }, "P2 ended FAILED"},
		{"two holders", func(r *Report) { r.Holders[1].From = r.Holders[0].From }, "tokens 1 and 2 held the lock at the same time"},
		{"a token twice", func(r *Report) { r.Holders[2].Token = 2 }, "token 2 came after token 2"},
		{"a file done twice", func(r *Report) { r.Files[3] = File{Key: "incoming/a/1.csv", Run: "P2", Outcome: "done"} }, "incoming/a/1.csv was done, and then processed again by P2"},
		{"a late file done early", func(r *Report) { r.Files[2].Run = "P1" }, "incoming/b/3.csv was processed by P1, not by P2"},
		{"a file that nobody asked for", func(r *Report) { r.Files[2].Key = "incoming/x" }, "incoming/x was processed by P2, although the selection leaves it out"},
		{"a file forgotten", func(r *Report) { r.Files = r.Files[1:] }, "incoming/a/1.csv was not processed, although P1 should have found it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, cast := told()
			c.breaks(r)
			err := r.check("incoming/", cast)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want one that says %q", err, c.says)
			}
			var out strings.Builder
			if err := r.WriteText(&out); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "exactly once") || !strings.Contains(out.String(), "DONE BY") {
				t.Errorf("the text of a story that did not come out is\n%s", &out)
			}
		})
	}
}
