package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// The story of a poison file: it ends in quarantine, is found there, explained,
// retried, and taken by the next run.
func TestAPoisonFileIsFoundExplainedAndRetried(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.upload("b.csv", "poison")
	for run := range 2 {
		p.run(fmt.Sprint("P", run+1))
		p.pass(time.Minute)
	}
	if taken := p.run("P3"); taken != "" {
		t.Fatalf("P3 took %q", taken)
	}
	stderr := p.says(0, `KEY       SIZE  OUTCOME      ATTEMPTS  RUN  AT
in/b.csv  6     quarantined  2         P2   2026-03-01T12:01:00Z
`, "ledger ls CONFIG --outcome quarantined")
	if stderr != "1 file: 0 done, 0 failed, 1 quarantined\n" {
		t.Errorf("standard error: %s", stderr)
	}
	p.says(0, `s3://locks/in/b.csv
  source   6 bytes, modified 2026-03-01T12:00:00Z, ETag "35393c24384b8862798716628f7bc6f4"
  ledger   quarantined after 2 attempts, by P2 at 2026-03-01T12:01:00Z
  error    malformed file: it is poison
           see s3://locks/state/runs/P2/0001772366400002/summary.json
  next run does not take it: this version is in quarantine

To have the next run take it again:
  lockstep ledger retry CONFIG --key in/b.csv --yes
`, "ledger show CONFIG s3://locks/in/b.csv")

	const shown = `KEY       SIZE  OUTCOME      ATTEMPTS  RUN  AT
in/b.csv  6     quarantined  2         P2   2026-03-01T12:01:00Z

1 file would be retried. Nothing was changed: give --yes to do it.
`
	if p.changes(func() { p.says(0, shown, "ledger retry CONFIG --key in/b.csv") }) {
		t.Error("without --yes something was changed")
	}
	p.says(0, "1 file will be retried by the next run\n", "ledger retry CONFIG --key in/b.csv --yes")
	if out, _, _ := p.do("ledger ls CONFIG --key in/b.csv"); !strings.Contains(out, "in/b.csv  6     failed   0         retry by "+whoami()+"  -\n") {
		t.Errorf("afterwards:\n%s", out)
	}
	if s := p.statusAt(t, "state/lock.json"); len(s.Holders) != 0 || s.LastToken != 1772366400004 || !strings.HasPrefix(s.Events[len(s.Events)-1].Owner, "operator:"+whoami()+":") {
		t.Errorf("the lock afterwards: %+v", s)
	}
	if taken := p.run("P4"); taken != "b.csv" {
		t.Errorf("P4 took %q", taken)
	}
}

// The story of a damaged ledger: runs fail and name it, verify finds it, and
// rebuild makes one with which nothing is done twice.
func TestADamagedLedgerIsFoundAndRebuilt(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	for _, name := range []string{"a.csv", "b.csv", "c.csv"} {
		p.upload(name, "good")
	}
	p.upload("d.csv", "poison")
	p.run("P1")
	p.upload("a.csv", "better")
	p.run("P2")
	p.says(0, "s3://locks/state/ledger/locks/ is intact: 6 rows in 2 segments, "+fmt.Sprint(p.segmentBytes())+" bytes\n", "ledger verify CONFIG")
	if stderr := p.says(exitUsage, "", "ledger rebuild CONFIG --yes"); !strings.Contains(stderr, "is intact, and was left as it is; --force") {
		t.Errorf("%s", stderr)
	}

	segment := p.segment()
	p.put(t, segment, "rubbish")
	execution, token := p.begin("P3")
	_, err := p.steps.Discover(t.Context(), step.DiscoverInput{Execution: execution, Token: token})
	if err == nil || !strings.Contains(err.Error(), segment) {
		t.Errorf("a run with a damaged ledger: %v", err)
	}
	p.release(execution)
	out, _, code := p.do("ledger verify CONFIG")
	if code != exitCorrupt {
		t.Errorf("verify: code %d", code)
	}
	contains(t, out, "s3://locks/state/ledger/locks/ is damaged\n  s3://locks/"+segment+": it has 7 bytes, the head says ", "lockstep ledger rebuild CONFIG")
	for _, line := range []string{"ledger ls CONFIG", "ledger show CONFIG in/a.csv", "plan CONFIG", "ledger retry CONFIG --outcome failed --yes"} {
		if _, stderr, code := p.do(line); code != exitCorrupt || !strings.Contains(stderr, segment) || !strings.Contains(stderr, "lockstep ledger verify CONFIG") {
			t.Errorf("%s: code %d, %s", line, code, stderr)
		}
	}

	p.upload("e.csv", "new")
	would := "lost: s3://locks/" + segment + `: it has 7 bytes, the head says 216

4 files: 3 done, 0 failed, 1 quarantined
          2  told by segments that can be read
          2  told by the records of 2 runs
Told of, but not in the source any more: 0 files.
In the source, but told of by nothing, and so new: 1 file.

`
	if p.changes(func() {
		p.says(0, would+"Nothing was written: give --yes to write s3://locks/state/ledger/locks/ anew.\n", "ledger rebuild CONFIG")
	}) {
		t.Error("without --yes something was changed")
	}
	p.says(0, would+"s3://locks/state/ledger/locks/ was written anew, with token 1772366400006\n", "ledger rebuild CONFIG --yes")
	if _, stderr, code := p.do("ledger verify CONFIG"); code != 0 {
		t.Errorf("verify: code %d, %s", code, stderr)
	}
	if taken := p.run("P4"); taken != "e.csv" {
		t.Errorf("P4 took %q", taken)
	}
}

func (p *pipeline) segmentBytes() (n int) {
	for _, key := range p.keys("state/ledger/locks/segments/") {
		n += len(p.object(key))
	}
	return n
}

func TestALostHeadIsRebuiltAndGapsAreNamed(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.run("P1")
	p.upload("b.csv", "good")
	p.run("P2")
	p.ok(p.memory.Delete(t.Context(), "state/runs/P2/0001772366400002/summary.json"))
	p.ok(p.memory.Delete(t.Context(), "state/ledger/locks/head.json"))
	for _, line := range []string{"ledger verify CONFIG", "ledger ls CONFIG", "ledger show CONFIG in/a.csv", "plan CONFIG", "ledger reset CONFIG --yes"} {
		if out, stderr, code := p.do(line); code != exitCorrupt || !strings.Contains(out+stderr, "head.json: it is not there") {
			t.Errorf("%s: code %d, %s%s", line, code, out, stderr)
		}
	}
	p.says(0, `lost: s3://locks/state/ledger/locks/head.json: it is not there, and beside it are segments that only a head can name
run P2, token 1772366400002: it left no summary, so that nothing is known of what it did, and its files are due; it failed, or is still at work

2 files: 2 done, 0 failed, 0 quarantined
          2  told by segments that can be read
          0  told by the records of 1 run
Told of, but not in the source any more: 0 files.
In the source, but told of by nothing, and so new: 0 files.

s3://locks/state/ledger/locks/ was written anew, with token 1772366400004
`, "ledger rebuild CONFIG --yes")
	if taken := p.run("P3"); taken != "" {
		t.Errorf("P3 took %q", taken)
	}
	if out, _, code := p.do("ledger rebuild CONFIG"); code != 0 || !strings.Contains(out, "is intact. Nothing was written: to replace it all the same takes --force and --yes.") {
		t.Errorf("code %d, %s", code, out)
	}
	// An intact ledger is replaced by what the records alone prove.
	out, _, code := p.do("ledger rebuild CONFIG --force --yes -o json")
	var got rebuildReport
	p.ok(json.Unmarshal([]byte(out), &got))
	if code != 0 || !got.Changed || !got.Intact || got.Token != 1772366400006 || got.Runs != 1 || got.Done != 1 || got.Due != 1 || len(got.Problems) != 1 || got.Problems[0].Run != "P2" {
		t.Errorf("code %d, %+v", code, got)
	}
	if taken := p.run("P4"); taken != "b.csv" {
		t.Errorf("P4 took %q", taken)
	}
}

func TestLedgerLsFiltersAndCounts(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	if stderr := p.says(0, "", "ledger ls CONFIG"); stderr != "0 files: 0 done, 0 failed, 0 quarantined\n" {
		t.Errorf("of a ledger that was never written to: %s", stderr)
	}
	p.upload("a.csv", "good")
	p.upload("sub/b.csv", "poison")
	p.upload("tab\there.csv", "good")
	p.run("P1")
	p.upload("sub/c,d.json", "good")
	p.run("P2")
	stderr := p.says(0, `KEY                 SIZE  OUTCOME      ATTEMPTS  RUN  AT
in/a.csv            4     done         0         P1   2026-03-01T12:00:00Z
in/sub/b.csv        6     quarantined  2         P2   2026-03-01T12:00:00Z
in/sub/c,d.json     4     done         0         P2   2026-03-01T12:00:00Z
"in/tab\there.csv"  4     done         0         P1   2026-03-01T12:00:00Z
`, "ledger ls CONFIG")
	if stderr != "4 files: 3 done, 0 failed, 1 quarantined\n" {
		t.Errorf("standard error: %s", stderr)
	}
	for line, want := range map[string]string{
		"--outcome done":                           "in/a.csv in/sub/c,d.json in/tab\there.csv",
		"--outcome done --outcome quarantined":     "in/a.csv in/sub/b.csv in/sub/c,d.json in/tab\there.csv",
		"--glob *.csv":                             "in/a.csv in/tab\there.csv",
		"--glob {sub/*.json,a*}":                   "in/a.csv in/sub/c,d.json",
		"--key in/sub/c,d.json --key in/none":      "in/sub/c,d.json",
		"--run P2 --outcome done":                  "in/sub/c,d.json",
		"--limit 2":                                "in/a.csv in/sub/b.csv",
		"--limit 4":                                "in/a.csv in/sub/b.csv in/sub/c,d.json in/tab\there.csv",
		"--key s3://locks/in/a.csv --outcome done": "in/a.csv",
	} {
		out, stderr, code := p.do("ledger ls CONFIG -o json " + line)
		var keys []string
		for text := range strings.Lines(out) {
			var row ledger.Row
			p.ok(json.Unmarshal([]byte(text), &row))
			keys = append(keys, row.Key)
		}
		if got := strings.Join(keys, " "); code != 0 || got != want {
			t.Errorf("%s: code %d, %q, want %q", line, code, got, want)
		}
		if more := line == "--limit 2"; strings.Contains(stderr, "there are more") != more {
			t.Errorf("%s: standard error: %s", line, stderr)
		}
	}
}

func TestForgetAndReset(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.upload("b.csv", "good")
	p.run("P1")
	p.says(0, `KEY       SIZE  OUTCOME  ATTEMPTS  RUN  AT
in/a.csv  4     done     0         P1   2026-03-01T12:00:00Z

1 file would be forgotten. Nothing was changed: give --yes to do it.
`, "ledger forget CONFIG --glob a*")
	p.says(0, "1 file forgotten: the next run takes what is still there\n", "ledger forget CONFIG --glob a* --yes")
	if taken := p.run("P2"); taken != "a.csv" {
		t.Errorf("P2 took %q", taken)
	}
	if p.changes(func() {
		p.says(0, "Up to 4 files in s3://locks/state/ledger/locks/ would be forgotten, and processed again if they are there. Nothing was changed: give --yes to do it.\n", "ledger reset CONFIG")
	}) {
		t.Error("without --yes something was changed")
	}
	out, _, code := p.do("ledger reset CONFIG --yes -o json")
	var report editReport
	p.ok(json.Unmarshal([]byte(out), &report))
	if want := (editReport{Verb: "reset", Ledger: "s3://locks/state/ledger/locks/", Changed: true, Files: 2, Token: 1772366400004}); code != 0 || report != want {
		t.Errorf("code %d, %+v", code, report)
	}
	if taken := p.run("P3"); taken != "a.csv b.csv" {
		t.Errorf("P3 took %q", taken)
	}
	p.says(0, "s3://locks/state/ledger/locks/ says of no file that it is done: the next run takes what is still there\n", "ledger reset CONFIG --yes")
}

func TestEditsAreRefusedWithoutFilesOrSense(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.run("P1")
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"ledger retry CONFIG --yes":                            {exitUsage, "say which files"},
		"ledger forget CONFIG":                                 {exitUsage, "say which files"},
		"ledger retry CONFIG --outcome done":                   {exitUsage, "what is done is not retried"},
		"ledger retry CONFIG --key in/a.csv --yes":             {exitNothing, "there are no such files in s3://locks/state/ledger/locks/"},
		"ledger forget CONFIG --key in/b.csv":                  {exitNothing, "there are no such files"},
		"ledger forget CONFIG --glob [a":                       {exitUsage, "is not a glob"},
		"ledger ls CONFIG --glob [a":                           {exitUsage, "is not a glob"},
		"ledger ls CONFIG --outcome lost":                      {exitUsage, "--outcome"},
		"ledger ls CONFIG --limit=-1":                          {exitUsage, "less than nothing"},
		"ledger forget CONFIG --key in/a.csv --yes --wait=-1s": {exitUsage, "less than nothing"},
		"ledger ls":              {exitUsage, "config"},
		"ledger ls nowhere.json": {exitUsage, "nowhere.json"},
		"plan CONFIG --glob [a":  {exitUsage, "is not a glob"},
	} {
		var out, stderr string
		var code int
		if p.changes(func() { out, stderr, code = p.do(line) }) && !strings.Contains(line, "--key in/a.csv --yes") {
			t.Errorf("%s changed something", line)
		}
		if code != want.code || !strings.Contains(stderr, want.says) || out != "" && code != exitUsage {
			t.Errorf("%s: code %d, want %d; %s%s; want %q", line, code, want.code, out, stderr, want.says)
		}
	}
}

func TestAWrongConfigurationIsNamedByItsField(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.configure(strings.Replace(testConfig, `"maxFiles"`, `"maxfiles"`, 1))
	for _, verb := range []string{"ledger ls", "ledger verify", "ledger reset", "plan"} {
		_, stderr, code := p.do(verb + " CONFIG")
		if code != exitUsage || !strings.Contains(stderr, "CONFIG: run configuration: batch.maxfiles is not a setting") {
			t.Errorf("%s: code %d, %s", verb, code, stderr)
		}
	}
}

func TestTheConfigurationMayComeFromStandardInput(t *testing.T) {
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.run("P1")
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": p.main.URL, "LOCKSTEP_S3_PATH_STYLE": "true", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	out, stderr, code := lockstep(t, nil, testConfig, "ledger", "ls", "-")
	if code != 0 || !strings.Contains(out, "in/a.csv") {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
}

func TestWhoHasTheLockIsTold(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "poison")
	p.run("P1")
	execution, _ := p.begin("P2")
	p.pass(5 * time.Second)
	for _, line := range []string{
		"ledger retry CONFIG --outcome failed --yes", "ledger forget CONFIG --outcome failed --yes",
		"ledger reset CONFIG --yes", "ledger rebuild CONFIG --yes --force",
	} {
		var stderr string
		if p.changes(func() { stderr = p.says(exitBusy, "", line) }) {
			t.Errorf("%s changed something", line)
		}
		contains(t, stderr, "lockstep: somebody else has s3://locks/state/lock.json; nothing was changed\n  holder  "+execution.ID+", token 1772366400002\n",
			"  since   2026-03-01T12:00:00Z (5s ago)\n", "Wait for it with --wait 10m.\n")
	}
	if stderr := p.says(exitBusy, "", "ledger retry CONFIG --outcome failed --yes --wait 300ms"); !strings.Contains(stderr, "gave up after waiting") {
		t.Errorf("%s", stderr)
	}
	// Looking needs no lock.
	for _, line := range []string{"ledger ls CONFIG", "ledger show CONFIG in/a.csv", "ledger verify CONFIG", "plan CONFIG", "ledger retry CONFIG --outcome failed", "ledger reset CONFIG"} {
		if _, stderr, code := p.do(line); code != 0 {
			t.Errorf("%s: code %d, %s", line, code, stderr)
		}
	}
	waiting := p.main.start(t, "ledger", "retry", p.config, "--outcome", "failed", "--yes", "--wait", "1m")
	p.untilAt(t, "state/lock.json", "an operator in the queue", func(s lease.Status) bool {
		return len(s.Waiters) == 1 && strings.HasPrefix(s.Waiters[0].Owner, "operator:")
	})
	p.release(execution)
	if out, stderr, code := waiting.end(t); code != 0 || out != "1 file will be retried by the next run\n" {
		t.Errorf("after the wait: code %d, %s%s", code, out, stderr)
	}
}

func TestLedgerShowOfWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.upload("b.tmp", "good")
	p.run("P1")
	p.says(exitNothing, `s3://locks/in/z.csv
  source   no such object
  ledger   nothing is known of it
  next run does not take it: there is no such object in the source
`, "ledger show CONFIG in/z.csv")
	p.says(0, `s3://locks/in/b.tmp
  source   4 bytes, modified 2026-03-01T12:00:00Z, ETag "755f85c2723bb39381c7379a604160d8"
  ledger   nothing is known of it
  next run does not take it: selection.exclude matches it
`, "ledger show CONFIG in/b.tmp")
	p.upload("a.csv", "longer")
	p.says(0, `s3://locks/in/a.csv
  source   6 bytes, modified 2026-03-01T12:00:00Z, ETag "67c35b0654107413e3a1dcbafa96a45c"
  ledger   done, by P1 at 2026-03-01T12:00:00Z
           at another version: 4 bytes, ETag "755f85c2723bb39381c7379a604160d8"
  next run takes it: it has changed
  output   s3://locks/out/a.csv.parquet, 4 bytes, written 2026-03-01T12:00:00Z, of the version that the ledger has
`, "ledger show CONFIG in/a.csv")
	out, _, code := p.do("ledger show CONFIG in/a.csv -o json")
	var got step.Explained
	p.ok(json.Unmarshal([]byte(out), &got))
	if code != 0 || got.Source.Size != 6 || got.Row.Size != 4 || !got.Next.Takes || got.Next.Kind != "changed" || len(got.Outputs) != 1 || got.Failure != nil {
		t.Errorf("code %d, %+v", code, got)
	}
}

func TestS3TroubleIsTold(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.run("P1")
	p.server.Fail(s3test.Fault{Op: "get", Key: "state/ledger/locks/head.json", Times: s3test.Always, Do: s3test.Answer(403, "AccessDenied")})
	for _, line := range []string{"ledger ls CONFIG", "ledger show CONFIG in/a.csv", "ledger verify CONFIG", "ledger rebuild CONFIG", "plan CONFIG", "ledger reset CONFIG --yes"} {
		if _, stderr, code := p.do(line); code != exitUnavailable || !strings.Contains(stderr, "AccessDenied") {
			t.Errorf("%s: code %d, %s", line, code, stderr)
		}
	}
}

func TestHelpOfLedgerAndPlan(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, verb := range []string{"plan", "ledger", "ledger ls", "ledger show", "ledger retry", "ledger forget", "ledger reset", "ledger verify", "ledger rebuild"} {
		out, _, code := lockstep(t, nil, "", append(strings.Fields(verb), "--help")...)
		if code != 0 {
			t.Errorf("%s: code %d", verb, code)
		}
		golden := filepath.Join("testdata", "help", strings.ReplaceAll(verb, " ", "-")+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if out != string(want) {
			t.Errorf("%s changed (-update rewrites it):\n%s", golden, out)
		}
	}
}
