package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

func TestPipelinesAreFoundByTheStacksOutputs(t *testing.T) {
	var outputs []types.Output
	for key, value := range map[string]string{
		"SalesUsStateMachineArn": "arn:us", "SalesUsRun": `{"pipeline":"sales-us"}`,
		"SalesEuStateMachineArn": "arn:eu", "SalesEuRun": `{"pipeline":"sales-eu"}`,
		"OddStateMachineArn": "arn:odd", "OddRun": "not JSON",
		"OtherStateMachineArn": "arn:other", // of somebody else's
		"LonelyRun":            `{"pipeline":"lonely"}`,
	} {
		outputs = append(outputs, types.Output{OutputKey: aws.String(key), OutputValue: aws.String(value)})
	}
	all := pipelinesOf(outputs)
	var found []string
	for _, p := range all {
		found = append(found, p.Name+" "+p.Machine)
	}
	if want := []string{"Odd arn:odd", "sales-eu arn:eu", "sales-us arn:us"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	for name, want := range map[string]string{
		"sales-eu": "arn:eu", "SalesUs": "arn:us",
		"":       "stack s has several pipelines, name one with --pipeline: Odd, sales-eu, sales-us",
		"lonely": "--pipeline: stack s has no lonely: Odd, sales-eu, sales-us",
	} {
		p, err := stackFlags{Stack: "s", Pipeline: name}.choose(all)
		got := p.Machine
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if p, err := (stackFlags{Stack: "s"}).choose(all[1:2]); err != nil || p.Machine != "arn:eu" {
		t.Errorf("the only one: %v, %+v", err, p)
	}
}

func TestAStackWithoutPipelinesIsSaidSo(t *testing.T) {
	t.Parallel()
	d := deploy(t, waiting)
	d.output("WeatherRun", "")
	_, stderr, code := d.run(t, "history", "--stack", "lockstep")
	if want := "stack lockstep, which is CREATE_COMPLETE, has no pipelines: none of its outputs is called …StateMachineArn with a …Run beside it"; code != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("code %d: %s", code, stderr)
	}
	d.output("WeatherRun", `{"pipeline":"weather","novelty":1}`)
	for _, args := range [][]string{{"run", "--stack", "lockstep"}, {"lock", "status", "--stack", "lockstep"}} {
		_, stderr, code = d.run(t, args...)
		if want := "output WeatherRun of the stack, which another version may have deployed: run configuration: novelty is not a setting"; code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: code %d: %s", args, code, stderr)
		}
	}
}

func TestTheLockOfADeployedPipelineIsFound(t *testing.T) {
	t.Parallel()
	d := deployPipeline(t)
	grant, err := d.lock(t).TryAcquire(t.Context(), "p1")
	if err != nil {
		t.Fatal(err)
	}
	const url = "s3://lockstep-state/weather/lock.json"
	for _, verb := range []string{"status", "events"} {
		here, _, _ := d.run(t, "lock", verb, "-o", "json", url)
		out, stderr, code := d.run(t, "lock", verb, "-o", "json", "--stack", "lockstep", "--pipeline", "weather")
		if code != 0 || !strings.Contains(out, `"lock": "`+url+`"`) || len(out) != len(here) {
			t.Errorf("%s: code %d, %s%s", verb, code, out, stderr)
		}
	}
	out, stderr, code := d.run(t, "lock", "break", "--stack", "lockstep", "--holder", grant.Owner, "--reason", "gone")
	if code != 0 || out != fmt.Sprintf("broken: %s was taken from p1, token %d\n", url, grant.Token) {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	for args, want := range map[string]string{
		"":                          "say which lock: give its URL, or --stack",
		url + " --stack lockstep":   "say which lock: give its URL, or --stack",
		url + " --pipeline weather": "--pipeline names one of the pipelines of a stack: give --stack, too",
	} {
		if _, stderr, code := d.run(t, append([]string{"lock", "status"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s, want %s", args, code, stderr, want)
		}
	}
	if _, stderr, code := d.run(t, "lock", "status", "--stack", "nobody"); code != exitUnavailable || !strings.Contains(stderr, "look for stack nobody in us-east-1") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestTheLedgerOfADeployedPipelineIsFound(t *testing.T) {
	t.Parallel()
	d := deployPipeline(t)
	d.upload(t, "incoming/bad.json", "{")
	if _, stderr, code := d.run(t, "run", "--stack", "lockstep", "--wait", "--set", "failure.maxFailedFraction=1"); code != 0 {
		t.Fatalf("code %d, %s", code, stderr)
	}
	config := write(t, "config.json", scheduled, 0o600)
	for _, line := range []string{"ledger ls WHICH", "ledger ls WHICH -o json", "plan WHICH --skipped", "ledger show WHICH incoming/bad.json", "ledger verify WHICH", "ledger retry WHICH --outcome failed --yes"} {
		from := func(which string) []string { return strings.Fields(strings.Replace(line, "WHICH", which, 1)) }
		out, stderr, code := d.run(t, from("--stack lockstep")...)
		if code != 0 || out == "" {
			t.Errorf("%s: code %d, %s%s", line, code, out, stderr)
		}
		if line[:4] == "plan" || strings.Contains(line, "--yes") {
			continue // the time of the one is not the time of the other, or it is done
		}
		again, _, _ := d.run(t, from(config)...)
		if again = strings.ReplaceAll(again, config, "--stack lockstep"); out != again {
			t.Errorf("%s with --stack:\n%s\nwith a file:\n%s", line, out, again)
		}
	}
	for line, want := range map[string]string{
		"ledger ls":                         "say which pipeline: give the file with its run configuration, or --stack",
		"plan " + config + " --stack s":     "say which pipeline: give the file with its run configuration, or --stack",
		"plan " + config + " --pipeline s":  "--pipeline names one of the pipelines of a stack: give --stack, too",
		"ledger show --stack lockstep":      "say which file: its key comes last",
		"ledger show " + config:             "say which file: its key comes last",
		"ledger ls --stack lockstep -o yml": `--output must be one of "text","json"`,
	} {
		if _, stderr, code := d.run(t, strings.Fields(line)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s, want %s", line, code, stderr, want)
		}
	}
}

// Where the services are can be said in all the ways that AWS's own tools know.
func TestServicesAreWhereTheEnvironmentSays(t *testing.T) {
	d := deploy(t, waiting)
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, os.DevNull)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "")
	var regions []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scope := strings.Split(r.Header.Get("Authorization"), "/") // …/20260301/us-east-1/states/aws4_request, …
		regions = append(regions, scope[2]+" "+scope[3])
		d.Config.Handler.ServeHTTP(w, r)
	}))
	defer front.Close()
	lists := func(args ...string) {
		t.Helper()
		out, stderr, code := lockstep(t, nil, "", append([]string{"history"}, args...)...)
		if code != 0 {
			t.Errorf("%v: code %d, %s%s", args, code, out, stderr)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", front.URL)
	lists("--stack", "lockstep")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", front.URL)
	t.Setenv("AWS_ENDPOINT_URL_SFN", front.URL)
	t.Setenv("AWS_REGION", "eu-north-1")
	lists("--stack", "lockstep")
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_SFN", "http://127.0.0.1:1")
	lists("--stack", "lockstep", "--endpoint-url", front.URL, "--region", "eu-west-1")
	// The state machine's ARN says where it is, whatever the environment does.
	want := []string{
		"us-east-1 cloudformation", "us-east-1 states", "eu-north-1 cloudformation", "us-east-1 states", "eu-west-1 cloudformation", "eu-west-1 states",
	}
	if !slices.Equal(regions, want) {
		t.Errorf("asked in %q, want %q", regions, want)
	}

	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_CLOUDFORMATION", "AWS_ENDPOINT_URL_SFN", "AWS_REGION"} {
		os.Unsetenv(name)
	}
	if _, stderr, code := lockstep(t, nil, "", "history", "--stack", "lockstep"); code != exitUsage || !strings.Contains(stderr, "no region is known for CloudFormation: give --region or set AWS_REGION") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestHelpOfRunAndHistory(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, verb := range []string{"run", "history"} {
		out, _, code := lockstep(t, nil, "", verb, "--help")
		if code != 0 {
			t.Errorf("%s: code %d", verb, code)
		}
		golden := filepath.Join("testdata", "help", verb+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || out != string(want) {
			t.Errorf("%v: %s changed (-update rewrites it):\n%s", err, golden, out)
		}
	}
}
