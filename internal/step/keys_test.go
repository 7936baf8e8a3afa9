package step

import (
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

func TestOutputKeys(t *testing.T) {
	c := RunConfig{
		Source: Location{"src", "in/"}, Destination: Location{"lake", "out/"}, State: Location{"state", "p/"},
	}
	for _, k := range []struct{ source, name, want string }{
		{"in/a.csv", "part.parquet", "out/a.csv.VERSION.part.parquet"},
		{"in/a.csv", "rejected.ndjson", "out/_a.csv.VERSION.rejected.ndjson"},
		{"in/dt=2026-01-31/a.csv.gz", "part.parquet", "out/dt=2026-01-31/a.csv.gz.VERSION.part.parquet"},
		{"in/dt=2026-01-31/a.csv.gz", "rejected.ndjson", "out/dt=2026-01-31/_a.csv.gz.VERSION.rejected.ndjson"},
		{"in//a", "part.parquet", "out//a.VERSION.part.parquet"},
		{"in/in/a", "part.parquet", "out/in/a.VERSION.part.parquet"},
		{"in/a\nb", "part.parquet", "out/a\nb.VERSION.part.parquet"},
	} {
		got, err := outputKey(c, ledger.File{Key: k.source, ETag: `"e"`}, k.name)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := outputKey(c, ledger.File{Key: k.source, ETag: `"e"`, Size: 7}, k.name)
		equal(t, "key of the same version", again, got)
		other, _ := outputKey(c, ledger.File{Key: k.source, ETag: `"f"`}, k.name)
		if other == got {
			t.Errorf("two versions of %q share %q", k.source, got)
		}
		equal(t, k.source, got, strings.Replace(k.want, "VERSION", "8c8656c5d114", 1))
	}
}

func TestAnOutputKeyIsNoLongerThanS3Takes(t *testing.T) {
	c := RunConfig{Source: Location{"src", ""}, Destination: Location{"lake", "out/"}}
	extra := len("out/") + len(".") + 12 + len(".") + len("part.parquet")
	for _, n := range []int{maxKeyBytes - extra, maxKeyBytes - extra + 1} {
		_, err := outputKey(c, ledger.File{Key: strings.Repeat("k", n), ETag: `"e"`}, "part.parquet")
		if fits := n+extra <= maxKeyBytes; fits != (err == nil) {
			t.Errorf("a key of %d bytes: %v", n+extra, err)
		}
	}
}

func TestKeysOfARun(t *testing.T) {
	c := RunConfig{State: Location{"state", "p/"}, Source: Location{Bucket: "src"}}
	k := keysOf(c, "P1", 42)
	for got, want := range map[string]string{
		LockKey(c):      "p/lock.json",
		LedgerPrefix(c): "p/ledger/src/",
		k.manifest():    "p/runs/P1/000000000042/manifest.json",
		k.discovery():   "p/runs/P1/000000000042/discovery.json",
		k.result(7):     "p/runs/P1/000000000042/results/00000007.json",
		k.summary():     "p/runs/P1/000000000042/summary.json",
	} {
		equal(t, "key", got, want)
	}
}

func TestKeysOfRunRecordsAreTakenApart(t *testing.T) {
	var c RunConfig
	c.State.Prefix = "lockstep/"
	for key, want := range map[string]attemptKey{
		"lockstep/runs/P1/000000000007/summary.json":           {"P1", 7, "summary.json"},
		"lockstep/runs/P1/1769850000000/results/00000003.json": {"P1", 1769850000000, "results/00000003.json"},
		"lockstep/runs/P1/7/summary.json":                      {},
		"lockstep/runs/P1/-00000000007/summary.json":           {},
		"lockstep/runs/P1/000000000007":                        {},
		"lockstep/runs/P1/notes/summary.json":                  {},
		"other/runs/P1/000000000007/summary.json":              {},
		"P1/000000000007/summary.json":                         {},
	} {
		got, ok := parseAttempt(c, key)
		if ok != (want != attemptKey{}) || ok && got != want {
			t.Errorf("%s: %+v, %v", key, got, ok)
		}
	}
}
