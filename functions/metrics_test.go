package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

var update = flag.Bool("update", false, "write testdata anew")

// measured are measurements as the steps make them, by function.
var measured = []struct {
	function string
	step.Measurement
}{
	{"acquire", step.Measurement{Token: 42, Values: map[step.Metric]float64{step.LockWaitSeconds: 75, step.LockTakeovers: 1}}},
	{"acquire", step.Measurement{Values: map[step.Metric]float64{step.RunsSuperseded: 1}}},
	{"discover", step.Measurement{Token: 42, Values: map[step.Metric]float64{
		step.FilesNew: 120, step.QuarantineSize: 3, step.OldestUnprocessedAgeSeconds: 912.5, step.LedgerRows: 10_000_000, step.LedgerBytes: 194_100_000,
	}}},
	{"commit", step.Measurement{Token: 42, Values: map[step.Metric]float64{
		step.FilesDone: 118, step.FilesFailed: 2, step.FilesQuarantined: 1, step.Rows: 8180, step.Bytes: 1 << 40, step.QuarantineSize: 4,
	}}},
	{"release", step.Measurement{Token: 42, Values: map[step.Metric]float64{step.LockHeldSeconds: 61, step.RunsSucceeded: 1}}},
}

// lines writes all of measured.
func lines(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, m := range measured {
		m.Pipeline, m.Run = "weather", "2026-01-31-0900"
		line, err := metricWriter{function: m.function}.line(m.Measurement, time.Date(2026, 1, 31, 9, 0, 0, 123e6, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line...)
	}
	return all
}

func TestMetricsAreWrittenAsEver(t *testing.T) {
	golden, got := filepath.Join("testdata", "metrics.ndjson"), lines(t)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMetricsKeepToTheSpecification(t *testing.T) {
	for line := range bytes.Lines(lines(t)) {
		if err := checkEmbedded(line); err != nil {
			t.Errorf("%s%v", line, err)
		}
	}
	everything := map[step.Metric]float64{}
	for i, name := range step.Metrics {
		everything[name] = float64(i) * 1e17
	}
	for _, pipeline := range []string{"weather", "größe", "\x00\n\"", `a\b`, "<&>", "日本", strings.Repeat("é", 600), "\xff"} {
		line, err := metricWriter{}.line(step.Measurement{Pipeline: pipeline, Run: pipeline, Values: everything}, time.Now())
		if err == nil {
			err = checkEmbedded(line)
		}
		if err != nil {
			t.Errorf("%q: %s%v", pipeline, line, err)
		}
	}
}

// A check that passes everything is none.
func TestTheSpecificationRefusesWhatItMust(t *testing.T) {
	good := string(slices.Collect(bytes.Lines(lines(t)))[0])
	for _, c := range []struct{ replace, by string }{
		{"\n", ""}, {"\n", "\n\n"}, {"{", "INFO {"}, {"\n", "}\n"}, {"\n", " {}\n"},
		{`"_aws"`, `"aws"`}, {`1769850000123`, `"1769850000123"`}, {`1769850000123`, `1769850000`}, {`1769850000123`, `1769850000123.5`},
		{`"Timestamp"`, `"TimeStamp"`}, {`"Timestamp"`, `"More":1,"Timestamp"`},
		{`"Namespace":"Lockstep"`, `"Namespace":"AWS/Lockstep"`}, {`"Namespace":"Lockstep"`, `"Namespace":""`}, {`"Namespace":"Lockstep",`, ``},
		{`[["Pipeline"]]`, `["Pipeline"]`}, {`[["Pipeline"]]`, `[]`}, {`[["Pipeline"]]`, `[["Run"]]`}, {`[["Pipeline"]]`, `[["token"]]`},
		{`"Pipeline":"weather"`, `"Pipeline":""`}, {`"Pipeline":"weather"`, `"Pipeline":"größe"`}, {`"Pipeline":"weather"`, `"pipeline":"weather"`},
		{`"Unit":"Seconds"`, `"Unit":"seconds"`}, {`"Name":"LockTakeovers"`, `"Name":"LockWaitSeconds"`}, {`"Name":"LockTakeovers"`, `"Name":"Takeovers"`},
		{`"LockWaitSeconds":75`, `"LockWaitSeconds":"75"`}, {`"LockWaitSeconds":75`, `"LockWaitSeconds":null`}, {`"LockWaitSeconds":75`, `"LockWaitSeconds":1e300`},
		{`"token":42`, `"token":42,"run":"again"`},
	} {
		bad := strings.Replace(good, c.replace, c.by, 1)
		if bad == good {
			t.Fatalf("%q is not in %s", c.replace, good)
		}
		if checkEmbedded([]byte(bad)) == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}

// measuring is an acquire function and what it prints on standard output.
func measuring(t *testing.T) []byte {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	terminal := os.Stdout
	t.Cleanup(func() { os.Stdout = terminal })
	os.Stdout = out
	unasked := false
	_, acquire := acquiring(t, &unasked)
	if out, err := acquire(); err != nil || out.Decision != step.DecisionHeld {
		t.Fatalf("%+v, %v", out, err)
	}
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return printed
}

func TestAFunctionPrintsItsMetrics(t *testing.T) {
	line := measuring(t)
	if err := checkEmbedded(line); err != nil {
		t.Fatalf("%s%v", line, err)
	}
	var got struct {
		Function, Run, Level string
		Timestamp            time.Time
		Token                int64
		Waited               *float64 `json:"LockWaitSeconds"`
	}
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if got.Function != "acquire" || got.Run != "2026-01-31-0900" || got.Token == 0 || got.Waited == nil || got.Level != "INFO" || got.Timestamp.IsZero() {
		t.Errorf("%+v in %s", got, line)
	}
}

func TestAFunctionPrintsNoMetricsIfToldSo(t *testing.T) {
	t.Setenv(envNoMetrics, "true")
	if line := measuring(t); len(line) > 0 {
		t.Errorf("%s", line)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestMetricsThatNobodyReadsAreLogged(t *testing.T) {
	var log bytes.Buffer
	w := metricWriter{to: broken{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	w.write(step.Measurement{Run: "P1", Values: map[step.Metric]float64{step.RunsSucceeded: 1}})
	if !strings.Contains(log.String(), "nobody reads") || !strings.Contains(log.String(), "run=P1") {
		t.Errorf("%s", log.String())
	}
}
