package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

func TestARunOfADeployedStackIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	d := deployPipeline(t)
	d.upload(t, "incoming/a/one.csv", "a,b\n1,2\n3,4\n")
	d.upload(t, "incoming/a/two.csv", "a,b\n5,6\n")
	d.upload(t, "incoming/a/bad.json", "{")

	out, stderr, code := d.run(t, "run", "--stack", "lockstep", "--name", "first", "--trigger", "a fix", "--wait")
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	matches(t, "standard error", stderr, `    0\.\ds  AcquireLock
 +\d+\.\ds  LockDecision
 +\d+\.\ds  DiscoverFiles  with token \d+
 +\d+\.\ds  AnythingNew
 +\d+\.\ds  ProcessFiles   3 files in 1 batch
( +\d+\.\ds  1 of 1 batch done
)? +\d+\.\ds  CommitLedger
 +\d+\.\ds  ReleaseLock
 +\d+\.\ds  RunSucceeded
`)
	matches(t, "standard output", out, `started first of pipeline weather
  execution  arn:aws:states:us-east-1:000000000000:execution:lockstep-weather:first
SUCCEEDED after [\d.]+m?s
  done         2 files, 3 rows
  failed       1 file
    incoming/a/bad\.json: .*
  summary      s3://lockstep-state/weather/runs/first/\d{16}/summary\.json
`)
	var summary step.Summary
	if err := json.Unmarshal([]byte(d.object(t, fmt.Sprintf("weather/runs/first/%016d/summary.json", d.token(t)))), &summary); err != nil || summary.Trigger != "a fix" {
		t.Errorf("%v: the summary says %+v", err, summary)
	}

	first := summary.Token

	// What is done is not done again.
	out, stderr, code = d.run(t, "run", "--stack", "lockstep", "--wait", "-o", "json", "--set", "failure.maxAttempts=1")
	var report struct {
		Stack, Pipeline, Name, ExecutionArn, Console, Status, LastState string
		Token                                                           int64
		SummaryURL                                                      string
		Summary                                                         *step.Summary
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("%v: code %d, %s", err, code, stderr)
	}
	if report.Stack != "lockstep" || report.Pipeline != "weather" || report.Status != "SUCCEEDED" || report.LastState != "RunSucceeded" || report.Token != first+1 || report.Console != "" {
		t.Errorf("%+v", report)
	}
	matches(t, "the name", report.Name, `manual-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-[0-9a-f]{8}`)
	if !strings.HasPrefix(stderr, "started "+report.Name+" of pipeline weather\n  execution  "+report.ExecutionArn+"\n") {
		t.Errorf("standard error begins %.200s", stderr)
	}

	out, _, code = d.run(t, "run", "--stack", "lockstep", "--name", "third", "--wait", "--set", "selection.exclude=[\"**/*.json\"]")
	matches(t, "a run that finds nothing", out, `(?s)started third .*SUCCEEDED after [\d.]+m?s: nothing new\n`)
	if code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestARunThatWaitsForItsLockTellsWhoHasIt(t *testing.T) {
	t.Parallel()
	d := deployPipeline(t)
	lock := d.lock(t)
	grant, err := lock.TryAcquire(t.Context(), "somebody")
	if err != nil {
		t.Fatal(err)
	}
	p := d.begin(t, "run", "--stack", "lockstep", "--name", "second", "--wait")
	d.seen.until(t, "second", "WaitStateExited")
	if _, err := lock.Release(t.Context(), "somebody", grant.Token, "done"); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := p.end(t)
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	contains(t, out, ": nothing new\n")
	contains(t, stderr, fmt.Sprintf("WaitForLock    held by somebody (token %d) since ", grant.Token), fmt.Sprintf("DiscoverFiles  with token %d\n", grant.Token+1))
	if n := strings.Count(stderr, "AcquireLock"); n != 1 {
		t.Errorf("AcquireLock is told %d times:\n%s", n, stderr)
	}
}

func TestARunThatFailsIsSaidSo(t *testing.T) {
	t.Parallel()
	d := deployPipeline(t)
	d.upload(t, "incoming/a/bad.json", "{")
	out, stderr, code := d.run(t, "run", "--stack", "lockstep", "--name", "bad", "--wait", "--set", "failure.maxFailedFraction=0", "--set", "failure.minFailedFiles=1")
	if code != 1 {
		t.Errorf("code %d", code)
	}
	contains(t, stderr, "ReleaseAfterFailure  TooManyFilesFailedError: ", "RunFailed\n", "See what it did:\n  lockstep history --stack lockstep bad\n")
	matches(t, "standard output", out, `(?s)started bad .*
FAILED after [\d.]+m?s: TooManyFilesFailedError: .*
  done         0 files, 0 rows
  failed       1 file
    incoming/a/bad\.json: .*
  summary      s3://lockstep-state/weather/runs/bad/\d{16}/summary\.json
`)
}

func TestAnAbortedRunIsSaidSo(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	p := d.begin(t, "run", "--stack", "lockstep", "--name", "stopped", "--wait", "-o", "json")
	d.seen.until(t, "stopped", "WaitStateEntered")
	_, err := d.states().StopExecution(t.Context(), &sfn.StopExecutionInput{
		ExecutionArn: aws.String(executionARN(theMachine, "stopped")), Error: aws.String("Operator"), Cause: aws.String("enough"),
	})
	if err != nil {
		t.Fatal(err)
	}
	out, stderr, code := p.end(t)
	var report struct{ Status, Error, Cause, LastState, StopDate, Summary string }
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 {
		t.Fatalf("%v: code %d, %s", err, code, stderr)
	}
	if report.Status != "ABORTED" || report.Error != "Operator" || report.Cause != "enough" || report.LastState != "Wait" || report.StopDate == "" {
		t.Errorf("%+v", report)
	}
}

func TestCtrlCStopsTheFollowingAndNotTheRun(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	p := d.begin(t, "run", "--stack", "lockstep", "--pipeline", "weather", "--name", "long", "--wait", "--region", "us-east-1")
	p.says(t, "started long of pipeline weather")
	p.signal(t, syscall.SIGINT)
	_, stderr, code := p.end(t)
	if code != exitInterrupted || !strings.HasSuffix(stderr, "The run goes on. To see how far it is, or to abort it:\n"+
		"  lockstep history --stack lockstep --pipeline weather long\n"+
		"  aws stepfunctions stop-execution --execution-arn "+executionARN(theMachine, "long")+" --region us-east-1 --endpoint-url "+d.URL+"\n") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if status := d.described(t, "long").Status; status != types.ExecutionStatusRunning {
		t.Errorf("the run is %s", status)
	}
}

func TestWhatARunGets(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	const places = `"source":{"bucket":"lockstep-source","prefix":"incoming/"},"destination":{"bucket":"lockstep-lake","prefix":"parquet/"},"state":{"bucket":"lockstep-state","prefix":"weather/"}`
	d.output("WeatherRun", `{"trigger": "schedule", "pipeline": "weather", `+places+`, "lock": {"pollSeconds": 10}}`)
	who, err := json.Marshal("person: " + whoami())
	if err != nil {
		t.Fatal(err)
	}
	person := `,"trigger":` + string(who) + `}`
	for name, c := range map[string]struct {
		args  []string
		input string // file
		want  string
	}{
		"deployed": {nil, "", `{"pipeline":"weather",` + places + `,"lock":{"pollSeconds":10}` + person},
		"trigger":  {[]string{"--trigger", "a <fix> & more"}, "", `{"pipeline":"weather",` + places + `,"lock":{"pollSeconds":10},"trigger":"a <fix> & more"}`},
		"settings": {
			[]string{"--set", "selection.reprocess=true", "--set", `selection.include=["a,b;c=d.csv"]`, "--set", "lock.pollSeconds=11", "--set", "selection.since=2026-03-01T00:00:00Z"}, "",
			`{"pipeline":"weather",` + places + `,"lock":{"pollSeconds":11},"selection":{"reprocess":true,"include":["a,b;c=d.csv"],"since":"2026-03-01T00:00:00Z"}` + person,
		},
		"backfill": {
			[]string{"--set", "lock.priority=5"}, `{"trigger": "backfill", "selection": {"reprocess": true}}`,
			`{"trigger":"backfill","selection":{"reprocess":true},"pipeline":"weather",` + places + `,"lock":{"priority":5}}`,
		},
		"whole": {
			nil, `{"pipeline": "weather", ` + strings.ReplaceAll(places, "/\"", "\"") + `}`,
			`{"pipeline":"weather",` + strings.ReplaceAll(places, "/\"", "\"") + person,
		},
		"forced": {
			[]string{"--force"}, `{"pipeline": "other", ` + strings.ReplaceAll(places, "incoming", "archive") + `}`,
			`{"pipeline":"other",` + strings.ReplaceAll(places, "incoming", "archive") + person,
		},
	} {
		args := append([]string{"run", "--stack", "lockstep", "--name", name}, c.args...)
		if c.input != "" {
			args = append(args, "--input", write(t, "input.json", c.input, 0o600))
		}
		out, stderr, code := d.run(t, args...)
		if code != 0 || stderr != "" || !strings.HasPrefix(out, "started "+name+" of pipeline weather\n") {
			t.Errorf("%s: code %d, %s%s", name, code, out, stderr)
			continue
		}
		if got := aws.ToString(d.described(t, name).Input); got != c.want {
			t.Errorf("%s got\n%s, want\n%s", name, got, c.want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	if _, err := d.stack.StartExecution("taken", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		input string
		code  int
		want  string
	}{
		{"", "", exitUsage, "say whose run: --stack"},
		{"--stack lockstep --name a:b", "", exitUsage, `--name: "a:b" is not 1 to 80 letters`},
		{"--stack lockstep --name taken", "", exitUsage, "--name: there is an execution called taken"},
		{"--stack nobody", "", exitUnavailable, "look for stack nobody in us-east-1: operation error CloudFormation: DescribeStacks"},
		{"--stack nobody", "", exitUnavailable, "Stack with id nobody does not exist"},
		{"--stack lockstep --pipeline sales", "", exitUsage, "--pipeline: stack lockstep has no sales: weather"},
		{"--stack lockstep --set lock", "", exitUsage, `--set: "lock" is not path=value`},
		{"--stack lockstep --set lock..x=1", "", exitUsage, `--set: "lock..x=1" is not path=value`},
		{"--stack lockstep --set lock.pollSeconds.x=1", "", exitUsage, "--set: pollSeconds is 1, which has no members"},
		{"--stack lockstep --set lock.pollSeconds=0", "", exitUsage, "lock.pollSeconds is 0; it must be from 1 to 300"},
		{"--stack lockstep --set lock.patience=1", "", exitUsage, "lock.patience is not a setting"},
		{"--stack lockstep --set source.prefix=other", "", exitUsage, "source is s3://lockstep-source/other/, that of the deployed pipeline is s3://lockstep-source/incoming/; leave it out, or give --force"},
		{"--stack lockstep --set state.prefix=other", "", exitUsage, "state is s3://lockstep-state/other/, "},
		{"--stack lockstep --set destination.bucket=other", "", exitUsage, "destination is s3://other/parquet/, "},
		{"--stack lockstep --set pipeline=other", "", exitUsage, "pipeline is other, "},
		{"--stack lockstep --input nowhere.json", "", exitUsage, "--input: open nowhere.json: no such file"},
		{"--stack lockstep --input", "[]", exitUsage, "it is not a JSON object"},
		{"--stack lockstep --input", "{} {}", exitUsage, "something follows the JSON object"},
		{"--stack lockstep --input", `{"lock": {"ttlSeconds": 60`, exitUsage, "it is not JSON: "},
		{"--stack lockstep --input", `{"trigger": "a", "trigger": "b"}`, exitUsage, "trigger is given twice"},
		{"--stack lockstep --input", `{"lok": {}}`, exitUsage, "lok is not a setting"},
	} {
		args := append([]string{"run"}, strings.Fields(c.args)...)
		if c.input != "" {
			args = append(args, write(t, "input.json", c.input, 0o600))
		}
		out, stderr, code := d.run(t, args...)
		if code != c.code || out != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: code %d, want %d; %s%s, want %s", args, code, c.code, out, stderr, c.want)
		}
	}
	list, err := d.states().ListExecutions(t.Context(), &sfn.ListExecutionsInput{StateMachineArn: aws.String(theMachine)})
	if err != nil || len(list.Executions) != 1 {
		t.Errorf("%v: something was started: %+v", err, list)
	}
}
