package step

import (
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

func TestOutputKeys(t *testing.T) {
	c := RunConfig{
		Source: Location{"src", "in/"}, Destination: Destination{"lake", "out/", VersionsLatest}, State: Location{"state", "p/"},
	}
	for _, k := range []struct{ source, name, latest, all string }{
		{"in/a.csv", "parquet", "out/a.csv.parquet", "out/a.csv.VERSION.parquet"},
		{"in/a.csv", "_rejected.ndjson", "out/_a.csv.VERSION.rejected.ndjson", "out/_a.csv.VERSION.rejected.ndjson"},
		{"in/dt=2026-01-31/a.csv.gz", "parquet", "out/dt=2026-01-31/a.csv.gz.parquet", "out/dt=2026-01-31/a.csv.gz.VERSION.parquet"},
		{"in/dt=2026-01-31/a.csv.gz", "_rejected.ndjson", "out/dt=2026-01-31/_a.csv.gz.VERSION.rejected.ndjson", "out/dt=2026-01-31/_a.csv.gz.VERSION.rejected.ndjson"},
		{"in//a", "parquet", "out//a.parquet", "out//a.VERSION.parquet"},
		{"in/in/a", "copy", "out/in/a.copy", "out/in/a.VERSION.copy"},
		{"in/a\nb", "parquet", "out/a\nb.parquet", "out/a\nb.VERSION.parquet"},
	} {
		for versions, want := range map[Versions]string{VersionsLatest: k.latest, VersionsAll: k.all} {
			c.Destination.Versions = versions
			got, err := outputKey(c, ledger.File{Key: k.source, ETag: `"e"`}, k.name)
			if err != nil {
				t.Fatal(err)
			}
			other, _ := outputKey(c, ledger.File{Key: k.source, ETag: `"f"`}, k.name)
			if hasVersion := strings.Contains(want, "VERSION"); hasVersion == (other == got) {
				t.Errorf("%s: two versions of %q are %q and %q", versions, k.source, got, other)
			}
			equal(t, k.source, got, strings.Replace(want, "VERSION", "8c8656c5d114", 1))
		}
	}
}

func TestAnOutputKeyIsNoLongerThanS3Takes(t *testing.T) {
	c := RunConfig{Source: Location{"src", ""}, Destination: Destination{"lake", "out/", VersionsAll}}
	extra := len("out/") + len(".") + 12 + len(".") + len("parquet")
	for _, n := range []int{maxKeyBytes - extra, maxKeyBytes - extra + 1} {
		_, err := outputKey(c, ledger.File{Key: strings.Repeat("k", n), ETag: `"e"`}, "parquet")
		if fits := n+extra <= maxKeyBytes; fits != (err == nil) {
			t.Errorf("a key of %d bytes: %v", n+extra, err)
		}
	}
}

func TestKeysOfARun(t *testing.T) {
	c := RunConfig{State: Location{"state", "p/"}, Source: Location{Bucket: "src"}}
	k := keysOf(c, "P1", 42)
	for got, want := range map[string]string{
		LockKey(c):        "p/lock.json",
		LedgerPrefix(c):   "p/ledger/src/",
		k.manifest("c1"):  "p/runs/P1/0000000000000042/manifest-c1.json",
		k.discovery("c1"): "p/runs/P1/0000000000000042/discovery-c1.json",
		k.begun(7, "c2"):  "p/runs/P1/0000000000000042/results/00000007/c2.begun.json",
		k.result(7, "c2"): "p/runs/P1/0000000000000042/results/00000007/c2.json",
		k.closed():        "p/runs/P1/0000000000000042/results/closed.json",
		k.summary():       "p/runs/P1/0000000000000042/summary.json",
	} {
		equal(t, "key", got, want)
	}
}

func TestKeysOfRunRecordsAreTakenApart(t *testing.T) {
	var c RunConfig
	c.State.Prefix = "lockstep/"
	for key, want := range map[string]recordKey{
		"lockstep/runs/P1/0000000000000007/summary.json":          {"P1", 7, "summary.json"},
		"lockstep/runs/P1/0001769850000000/results/00000003.json": {"P1", 1769850000000, "results/00000003.json"},
		"lockstep/runs/P1/7/summary.json":                         {},
		"lockstep/runs/P1/-0000000000000007/summary.json":         {},
		"lockstep/runs/P1/0000000000000007":                       {},
		"lockstep/runs/P1/notes/summary.json":                     {},
		"other/runs/P1/0000000000000007/summary.json":             {},
		"P1/0000000000000007/summary.json":                        {},
	} {
		got, ok := parseRecord(c, key)
		if ok != (want != recordKey{}) || ok && got != want {
			t.Errorf("%s: %+v, %v", key, got, ok)
		}
	}
}

func TestKeysOfResultsAreTakenApart(t *testing.T) {
	k := keysOf(RunConfig{State: Location{"state", "p/"}}, "P1", 42)
	for key, want := range map[string]attemptName{
		k.begun(7, "c"):           {7, "c", true},
		k.result(7, "c"):          {7, "c", false},
		k.closed():                {},
		k.summary():               {},
		k.results() + "x/c.json":  {},
		k.results() + "00000001/": {},
	} {
		if got, ok := k.attemptOf(key); ok != (want != attemptName{}) || ok && got != want {
			t.Errorf("%s: %+v, %v", key, got, ok)
		}
	}
}
