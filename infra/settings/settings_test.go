package settings_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

const good = `{
	"pipelines": {
		"weather": {
			"run": {"source": {"prefix": "incoming/"}, "destination": {"prefix": "parquet/"}, "state": {"prefix": "weather/"}}
		},
		"sales": {
			"schedule": {"expression": "cron(0 6 * * ? *)", "timeZone": "Europe/Berlin"},
			"alarms": {"noSuccessMinutes": 1500},
			"run": {
				"source": {"bucket": "acme-inbox"},
				"destination": {"bucket": "acme-lake", "prefix": "sales"},
				"state": {"bucket": "acme-state", "prefix": "sales"}
			}
		}
	},
	"createBuckets": ["acme-state"]
}`

func parse(t *testing.T, text string) *settings.Settings {
	t.Helper()
	s, err := settings.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// changed sets a value by its path, or deletes it where it is nil.
func changed(t *testing.T, text, path string, value any) string {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	at := tree
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		next, is := at[step].(map[string]any)
		if !is {
			next = map[string]any{}
			at[step] = next
		}
		at = next
	}
	if last := steps[len(steps)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestWrongSettingsAreRefusedByTheirField(t *testing.T) {
	list := func(values ...any) []any { return values }
	for _, c := range []struct {
		path  string
		value any
		field string // default: path
		says  string
	}{
		{path: "stackname", value: "x", says: "known here: accessLogBucket, alarms"},
		{path: "stackName", value: "Lockstep", says: "lower-case"},
		{path: "stackName", value: strings.Repeat("a", 32), says: "at most 31"},
		{path: "stackName", value: 7, says: "it must be a string"},
		{path: "architecture", value: "amd64", says: `"arm64" or "x86_64"`},
		{path: "pipelines", value: map[string]any{}, says: "at least one"},
		{path: "pipelines", value: []any{}, says: "it must be an object"},
		{path: "pipelines.Weather", value: map[string]any{}, says: "no name for a pipeline"},
		{path: "pipelines.weather.scheduel", value: 1, says: "known here: alarms, run, schedule"},
		{path: "pipelines.weather.schedule.expression", value: "every 15 minutes", says: "rate(15 minutes)"},
		{path: "pipelines.weather.schedule.expression", value: "rate(0 minutes)", says: "rate(15 minutes)"},
		{path: "pipelines.weather.schedule.expression", value: "at(2026-01-01T00:00:00)", says: "cron"},
		{path: "pipelines.weather.schedule.expression", value: "cron(0 6 * * *)", says: "six fields"},
		{path: "pipelines.weather.schedule.timeZone", value: "CEST", says: "Europe/Berlin"},
		{path: "pipelines.weather.schedule.timeZone", value: "", says: "UTC"},
		{path: "pipelines.weather.schedule.enabled", value: "no", says: "true or false"},
		{path: "pipelines.weather.processFunctionArn", value: "arn:aws:lambda:eu-central-1:123456789012:function:mine", says: "outputs are fenced by Lockstep's own process function"},
		{path: "pipelines.weather.alarms.noSuccessMinutes", value: 20000, says: "seven days"},
		{path: "pipelines.weather.alarms.noSuccessMinutes", value: -1, says: "0 for none"},
		{path: "pipelines.weather.alarms.lockHeldMinutes", value: -1, says: "0 for none"},
		{path: "pipelines.weather.alarms.lockHeldMinutes", value: 1.5, says: "whole number"},
		{path: "pipelines.sales.alarms.noSuccessMinutes", value: nil, says: "is missing; a cron expression does not tell"},
		{path: "pipelines.weather.schedule.expression", value: "rate(3 days)", field: "pipelines.weather.alarms.noSuccessMinutes", says: "17280"},

		// What the functions would refuse, in their words.
		{path: "pipelines.weather.run", value: nil, says: "events/schedule.json"},
		{path: "pipelines.weather.run", value: "x", says: "events/schedule.json"},
		{path: "pipelines.weather.run.lokc", value: 1, says: "is not a setting"},
		{path: "pipelines.weather.run.lock.ttlSeconds", value: 120000, says: "seconds, not milliseconds"},
		{path: "pipelines.weather.run.lock.ttlSeconds", value: 59, says: "from 60 to 3600"},
		{path: "pipelines.weather.run.lock.graceSeconds", value: 1, says: "from 2 to 300"},
		{path: "pipelines.weather.run.destination.versions", value: "newest", says: `"latest" (one visible output for each file) or "all"`},
		{path: "pipelines.weather.run.failure.atomicity", value: "run", says: "taking it back could delete another run's"},
		{path: "pipelines.weather.run.failure.minFailedFiles", value: 0, says: "1 lets a single file fail a run"},
		{path: "pipelines.weather.run.source", value: "s3://acme-inbox", says: "it must be an object"},
		{path: "pipelines.weather.run.source.bucket", value: "s3://acme-inbox", says: "is not a bucket name"},
		{path: "pipelines.weather.run.source.bucket", value: "Acme", says: "no bucket name of S3"},
		{path: "pipelines.weather.run.source.bucket", value: 7, says: "it must be a string"},
		{path: "pipelines.weather.run.state.prefix", value: "", says: "folder of its own"},
		{path: "pipelines.weather.run.pipeline", value: "whether", says: `is called "weather"`},
		{path: "pipelines.weather.run.source.prefix", value: "in*/", says: "mean something else"},

		// Pipelines that would meet.
		{path: "pipelines.weather.run.state", value: map[string]any{"bucket": "acme-state", "prefix": "sales/"}, field: "pipelines.sales.run.state.prefix", says: `pipeline "weather"`},
		{path: "pipelines.weather.run.state", value: map[string]any{"bucket": "acme-state", "prefix": "sales/ledger/"}, field: "pipelines.weather.run.state.prefix", says: `pipeline "sales"`},
		{path: "pipelines.weather.run.destination", value: map[string]any{"bucket": "acme-state", "prefix": "sales/out/"}, field: "pipelines.weather.run.destination.prefix", says: "state of pipeline"},
		{path: "pipelines.weather.run.source", value: map[string]any{"bucket": "acme-state"}, field: "pipelines.weather.run.source.prefix", says: "taken for new files"},

		{path: "createBuckets", value: list("acme-other"), says: "no pipeline names"},
		{path: "createBuckets", value: list("acme-state", "acme-state"), says: "twice"},
		{path: "createBuckets", value: "acme-state", says: "a list of strings"},
		{path: "expectedBucketOwner", value: "1234", says: "123456789012"},
		{path: "accessLogBucket", value: "s3://logs", says: "acme-access-logs"},
		{path: "runRecordDays", value: 0, says: "from 1 to 3650"},
		{path: "encryption.key", value: "alias/lake", says: "new"},
		{path: "encryption.readKeys", value: list("alias/lake"), field: "encryption.readKeys[0]", says: "arn:aws:kms"},
		{path: "encryption.readKeys", value: list(""), field: "encryption.readKeys[0]", says: "arn:aws:kms"},
		{path: "functions.aquire", value: 1, says: "acquire, commit, discover, environment, process, release"},
		{path: "functions.acquire.timeoutSeconds", value: 60, says: "from 1 to 50"},
		{path: "functions.process.timeoutSeconds", value: 900, says: "the state machine waits 900 seconds"},
		{path: "functions.process.timeoutSeconds", value: -5, says: "from 1 to 890"},
		{path: "functions.process.memoryMB", value: 64, says: "from 128 to 10240"},
		{path: "functions.process.ephemeralStorageMB", value: 511, says: "from 512 to 10240"},
		{path: "functions.process.reservedConcurrency", value: -1, says: "from 0"},
		{path: "functions.environment", value: map[string]any{"A-B": "x"}, field: "functions.environment.A-B", says: "no name"},
		{path: "functions.environment", value: map[string]any{"LOCKSTEP_S3_KMS_KEY_ID": "x"}, field: "functions.environment.LOCKSTEP_S3_KMS_KEY_ID", says: "encryption.key"},
		{path: "functions.environment", value: map[string]any{"LOCKSTEP_PROBE": "on"}, field: "functions.environment.LOCKSTEP_PROBE", says: `"true" or "false"`},
		{path: "functions.environment", value: map[string]any{"X": 1}, field: "functions.environment.X", says: "a string"},
		{path: "logs.retentionDays", value: 31, says: "30 60"},
		{path: "alarms.email", value: "Ada <ada@example.com>", says: "oncall@example.com"},
		{path: "alarms.topicArn", value: "alarms", says: "arn:aws:sns"},
		{path: "alarms", value: map[string]any{"email": "a@example.com", "topicArn": "arn:aws:sns:eu-central-1:123456789012:x"}, field: "alarms.email", says: "subscribe the address"},
		{path: "alarms", value: map[string]any{"email": "a@example.com", "enabled": false}, field: "alarms.email", says: "never be written to"},
		{path: "vpc.subnetIds", value: list("subnet-0a"), field: "vpc", says: "both"},
		{path: "vpc", value: map[string]any{"subnetIds": list("a"), "securityGroupIds": list("sg-0a")}, field: "vpc.subnetIds[0]", says: "subnet-"},
		{path: "vpc", value: map[string]any{"subnetIds": list("subnet-0a"), "securityGroupIds": list("a")}, field: "vpc.securityGroupIds[0]", says: "sg-"},
		{path: "tracing", value: "on", says: "true or false"},
	} {
		_, err := settings.Parse([]byte(changed(t, good, c.path, c.value)))
		var wrong *settings.Error
		if !errors.As(err, &wrong) {
			t.Errorf("%s = %v: %v", c.path, c.value, err)
			continue
		}
		field := c.field
		if field == "" {
			field = c.path
		}
		if wrong.Field != field || !strings.Contains(wrong.Error(), c.says) {
			t.Errorf("%s = %v: %q, not about %s, or does not say %q", c.path, c.value, wrong, field, c.says)
		}
	}
}

// encoding/json would take the last of two, and nothing for null.
func TestWhatJSONLetsPassIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		`{`:                                    "is not JSON",
		`[]`:                                   "must be an object",
		`"weather"`:                            "must be an object",
		`{"stackName": null}`:                  "stackName is null",
		`{"stackName": "a", "stackName": "b"}`: "stackName is given twice",
		`{"STACKNAME": "a"}`:                   "STACKNAME is not a setting",
		strings.Replace(good, `"weather": {`, `"weather": {"run": {"lock": {"ttlSeconds": 61, "ttlSeconds": 90}}, `, 1): "pipelines.weather.run is given twice",
		strings.Replace(good, `"prefix": "incoming/"`, `"prefix": "incoming/", "prefix": "in/"`, 1):                     "pipelines.weather.run.source.prefix is given twice",
	} {
		if _, err := settings.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v does not say %q", text, err, says)
		}
	}
}

func TestNamesThatWouldShareOutputsAreRefused(t *testing.T) {
	var tree map[string]any
	if err := json.Unmarshal([]byte(good), &tree); err != nil {
		t.Fatal(err)
	}
	pipelines := tree["pipelines"].(map[string]any)
	pipelines["a1"], pipelines["a-1"] = pipelines["weather"], pipelines["weather"]
	text, _ := json.Marshal(tree)
	if _, err := settings.Parse(text); err == nil || !strings.Contains(err.Error(), "same outputs, A1") {
		t.Error(err)
	}
}

func TestDefaults(t *testing.T) {
	s := parse(t, good)
	weather := s.Pipelines["weather"]
	if weather.Schedule != (settings.Schedule{Expression: "rate(15 minutes)", TimeZone: "UTC", Enabled: true}) {
		t.Errorf("schedule: %+v", weather.Schedule)
	}
	if got := weather.NoSuccessMinutes(); got != 60 {
		t.Errorf("an alarm after %d minutes", got)
	}
	if weather.Config.Destination.Versions != step.VersionsLatest || weather.Config.Failure.MinFailedFiles != 10 {
		t.Errorf("run configuration: %+v %+v", weather.Config.Destination, weather.Config.Failure)
	}
	if weather.Config.Lock.TTLSeconds != 120 || weather.Config.Pipeline != "weather" || weather.Config.Trigger != "schedule" {
		t.Errorf("run configuration: %+v", weather.Config)
	}
	machine, err := settings.ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, f := range s.Functions.Each {
		seen++
		if f.TimeoutSeconds != min(900, machine.TaskSeconds[name]-10) || f.TimeoutSeconds < 1 {
			t.Errorf("%s may take %d s, the state machine waits %d", name, f.TimeoutSeconds, machine.TaskSeconds[name])
		}
	}
	if seen != 5 || machine.LongestPauseSeconds < 1 {
		t.Errorf("%d functions, %+v", seen, machine)
	}
	if !s.Alarms.Enabled || !s.Tracing || s.InlineDefinition || s.VPC.Used() || s.StackName != "lockstep" || s.Logs.RetentionDays != 30 {
		t.Errorf("%+v", s)
	}
	if changedBack := parse(t, changed(t, good, "tracing", false)); changedBack.Tracing {
		t.Error("a default that is true cannot be turned off")
	}
	if off := parse(t, changed(t, good, "pipelines.weather.alarms.noSuccessMinutes", 0)); off.Pipelines["weather"].NoSuccessMinutes() != 0 {
		t.Error("0 does not mean none")
	}
}

func TestBucketsAreMadeFoundOrNamedByAWS(t *testing.T) {
	got := map[string]settings.Bucket{}
	for _, b := range parse(t, good).Buckets() {
		got[b.Name] = b
	}
	for name, wanted := range map[string]settings.Bucket{
		"acme-inbox": {Name: "acme-inbox"}, "acme-lake": {Name: "acme-lake"}, "acme-state": {Name: "acme-state", Created: true},
		"NEW_source": {Name: "NEW_source", Role: "source", Created: true}, "NEW_destination": {Name: "NEW_destination", Role: "destination", Created: true},
		"NEW_state": {Name: "NEW_state", Role: "state", Created: true},
	} {
		if got[name] != wanted {
			t.Errorf("%s: %+v", name, got[name])
		}
	}
	if len(got) != 6 {
		t.Errorf("%d buckets", len(got))
	}
}

// The functions get what was written, and nothing that the stack only thinks of.
func TestTheInputIsTheRunConfigurationAsWritten(t *testing.T) {
	weather := parse(t, changed(t, good, "pipelines.weather.run.selection", map[string]any{"include": []any{"NEW_source/*.csv"}})).Pipelines["weather"]
	text := weather.Input(func(bucket string) string { return "real-" + strings.TrimPrefix(bucket, "NEW_") })
	config, err := step.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if config.Source.Bucket != "real-source" || config.Destination.Bucket != "real-destination" || config.State.Bucket != "real-state" {
		t.Errorf("buckets: %+v %+v %+v", config.Source, config.Destination, config.State)
	}
	if config.Selection.Include[0] != "NEW_source/*.csv" {
		t.Errorf("what is no bucket was changed: %v", config.Selection.Include)
	}
	if strings.Contains(string(text), "ttlSeconds") {
		t.Errorf("a default was made a setting: %s", text)
	}
	example, err := os.ReadFile("../../events/schedule.json")
	if err != nil {
		t.Fatal(err)
	}
	whole := parse(t, changed(t, good, "pipelines.weather.run", json.RawMessage(example))).Pipelines["weather"]
	if _, err := step.ParseConfig(whole.Input(func(bucket string) string { return bucket })); err != nil {
		t.Errorf("events/schedule.json as it stands: %v", err)
	}
}

func TestIntervals(t *testing.T) {
	for expression, wanted := range map[string]time.Duration{
		"rate(15 minutes)": 15 * time.Minute, "rate(1 hour)": time.Hour, "rate(2 days)": 48 * time.Hour, "cron(0 6 * * ? *)": 0,
	} {
		if got := (settings.Schedule{Expression: expression}).Interval(); got != wanted {
			t.Errorf("%s: %s", expression, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	shipped, err := settings.ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	slow := settings.Machine{LongestPauseSeconds: 80}
	slower := settings.Machine{LongestPauseSeconds: 81}
	shortest := changed(t, good, "pipelines.weather.run.lock.ttlSeconds", 60)
	for name, c := range map[string]struct {
		machine settings.Machine
		text    string
		wanted  []string // beginnings
	}{
		"good settings":     {shipped, good, nil},
		"the shortest lock": {shipped, shortest, nil},
		"pauses that a lock of 120 seconds outlasts": {slow, good, nil},
		"pauses that a lock of 60 seconds does not":  {slow, shortest, []string{"pipelines.weather.run.lock.ttlSeconds is 60: "}},
		"pauses that none outlasts":                  {slower, good, []string{"pipelines.sales.run.lock.ttlSeconds is 120: ", "pipelines.weather.run.lock.ttlSeconds is 120: "}},
		"little concurrency":                         {shipped, changed(t, good, "functions.process.reservedConcurrency", 5), []string{"functions.process.reservedConcurrency is 5, and batch.maxConcurrency of all pipelines comes to 20: "}},
	} {
		got := parse(t, c.text).Warnings(c.machine)
		if !slices.EqualFunc(got, c.wanted, strings.HasPrefix) {
			t.Errorf("%s: %q", name, got)
		}
	}
	advised := changed(t, good, "pipelines.weather.run.lock.ttlSeconds", 122)
	if got := parse(t, changed(t, advised, "pipelines.sales.run.lock.ttlSeconds", 122)).Warnings(slower); len(got) > 0 {
		t.Errorf("after the warning's own advice: %q", got)
	}
}

func TestProbing(t *testing.T) {
	for value, wanted := range map[string]bool{"true": true, "1": true, "false": false, "": false} {
		s := parse(t, changed(t, good, "functions.environment", map[string]any{"LOCKSTEP_PROBE": value}))
		if s.Functions.Probing() != wanted {
			t.Errorf("%q means %t", value, !wanted)
		}
	}
	if parse(t, good).Functions.Probing() {
		t.Error("without the variable it probes")
	}
}

func TestSettingsComeAsObjectAsTextOrFromAFile(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "prod.json"), []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(good), &object); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"object": object, "text": good, "file": "@prod.json", "absolute": "@" + filepath.Join(root, "prod.json"),
	} {
		if s, err := settings.FromContext(value, root); err != nil || len(s.Pipelines) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for value, says := range map[any]string{nil: "is missing; put it into cdk.json", "@none.json": "none.json", "@": "cannot be read"} {
		if _, err := settings.FromContext(value, root); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", value, err)
		}
	}
}
