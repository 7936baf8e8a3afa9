package step

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// minimal has what no configuration can do without; more is added to it.
func minimal(more string) string {
	return `{"pipeline": "p",
		"source": {"bucket": "src", "prefix": "files"},
		"destination": {"bucket": "lake", "prefix": "out"},
		"state": {"bucket": "state", "prefix": "p"}` + more + `}`
}

func TestConfigDefaults(t *testing.T) {
	c, err := ParseConfig([]byte(minimal("")))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "lock", c.Lock, LockSettings{TTLSeconds: 120, GraceSeconds: 5, PollSeconds: 15, MaxWaitSeconds: 3600})
	equal(t, "batch", c.Batch, BatchSettings{MaxFiles: 20, MaxBytes: 256 << 20, MaxConcurrency: 10})
	equal(t, "order", c.Selection.Order, OrderAny)
	equal(t, "first", c.Selection.First, FirstByKey)
	equal(t, "look-back", c.Selection.LookBackSeconds, 86400)
	equal(t, "reconciliation", c.Selection.ReconcileSeconds, 86400)
	equal(t, "failure", c.Failure, FailureSettings{MaxAttempts: 3, BackoffSeconds: 300, MaxFailedFraction: 0.5, MinFailedFiles: 10, Atomicity: AtomicityFile})
	equal(t, "versions", c.Destination.Versions, VersionsLatest)
}

// CASES 24: a prefix is a folder, however it is written.
func TestAPrefixIsAFolder(t *testing.T) {
	for _, prefix := range []string{"files", "files/"} {
		c, err := ParseConfig([]byte(strings.Replace(minimal(""), `"files"`, `"`+prefix+`"`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "prefix", c.Source.Prefix, "files/")
		equal(t, "prefix of the selection", c.selection().Prefix, "files/")
	}
}

func TestGoodConfigurations(t *testing.T) {
	for name, text := range map[string]string{
		"everything at its least": minimal(`, "lock": {"ttlSeconds": 60, "graceSeconds": 2, "pollSeconds": 1, "maxWaitSeconds": 0, "maxWaiters": 0, "priority": -100},
			"batch": {"maxFiles": 1, "maxBytes": 1, "maxConcurrency": 1}, "failure": {"maxAttempts": 1, "maxFailedFraction": 0, "minFailedFiles": 1, "atomicity": "file"}`),
		"everything at its most": minimal(`, "lock": {"ttlSeconds": 3600, "graceSeconds": 300, "pollSeconds": 300, "maxWaitSeconds": 43200, "maxWaiters": 1000, "priority": 100},
			"batch": {"maxFiles": 500, "maxBytes": 1125899906842624, "maxConcurrency": 1000}, "failure": {"maxAttempts": 100, "maxFailedFraction": 1, "minFailedFiles": 1000000, "atomicity": "file"}`),
		"a window of time":                 minimal(`, "selection": {"since": "2026-01-01T00:00:00Z", "until": "2026-02-01T00:00:00+01:00"}`),
		"keys in order, the oldest first":  minimal(`, "selection": {"order": "lexicographic", "lookBackSeconds": 0, "reconcileSeconds": 0, "first": "oldest"}, "failure": {"backoffSeconds": 0}`),
		"state below the source":           `{"pipeline": "p", "source": {"bucket": "b", "prefix": ""}, "destination": {"bucket": "b", "prefix": "out"}, "state": {"bucket": "b", "prefix": "p"}}`,
		"one prefix, the other's sibling":  `{"pipeline": "p", "source": {"bucket": "b", "prefix": "files"}, "destination": {"bucket": "b", "prefix": "files2"}, "state": {"bucket": "b", "prefix": "files3"}}`,
		"the same prefix in three buckets": `{"pipeline": "p", "source": {"bucket": "b1", "prefix": "x"}, "destination": {"bucket": "b2", "prefix": "x"}, "state": {"bucket": "b3", "prefix": "x"}}`,
		"a leading slash, an empty folder": strings.Replace(minimal(""), `"files"`, `"/a//b"`, 1),
	} {
		if _, err := ParseConfig([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// CASES 25: what lies inside the source is excluded from it.
func TestPlacesInsideTheSourceAreExcluded(t *testing.T) {
	c, err := ParseConfig([]byte(`{"pipeline": "p", "source": {"bucket": "b", "prefix": "a"}, "destination": {"bucket": "b", "prefix": "a/out"}, "state": {"bucket": "b", "prefix": "a/state"}}`))
	if err != nil {
		t.Fatal(err)
	}
	equalLists(t, "excluded", c.selection().ExcludePrefixes, []string{"a/state/", "a/out/"})
}

func TestBadConfigurations(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(minimal(""), old) {
			t.Fatalf("%s is not in the minimal configuration", old)
		}
		return strings.Replace(minimal(""), old, new, 1)
	}
	for _, c := range []struct{ name, text, field, says string }{
		{"nothing", ``, "config", "is missing"},
		{"white space", " \n", "config", "is missing"},
		{"cut", `{"pipeline": "p"`, "config", "is not JSON"},
		{"more after it", minimal("") + `{}`, "config", "is not JSON"},
		{"null", `null`, "config", "must be an object"},
		{"a list", `[1, 2]`, "config", "is [1, 2]; it must be an object"},
		{"a string", `"schedule"`, "config", "must be an object"},
		{"a long string", `"` + strings.Repeat("é", 100) + `"`, "config", "…; it must be an object"},
		{"a number", `12`, "config", "must be an object"},
		{"huge", minimal(`, "trigger": "` + strings.Repeat("x", maxConfigBytes) + `"`), "config", "at most 32768 fit"},
		{"EventBridge's own event", `{"version": "0", "id": "x", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}`, "config", "EventBridge's own event"},

		{"an unknown section", minimal(`, "locks": {}`), "locks", "known here: batch, destination, failure, lock, pipeline"},
		{"a typo", minimal(`, "lock": {"ttlSecond": 60}`), "lock.ttlSecond", "known here: graceSeconds, maxWaitSeconds"},
		{"another case", minimal(`, "lock": {"TTLSeconds": 60}`), "lock.TTLSeconds", "is not a setting"},
		{"a section in another case", minimal(`, "Lock": {"ttlSeconds": 60}`), "Lock", "is not a setting"},
		{"an empty name", minimal(`, "": 1`), "", "is not a setting"},
		{"twice", minimal(`, "lock": {"ttlSeconds": 60, "ttlSeconds": 70}`), "lock.ttlSeconds", "is given twice"},
		{"a section twice", minimal(`, "lock": {"ttlSeconds": 60}, "lock": {}`), "lock", "is given twice"},
		{"null for a number", minimal(`, "lock": {"ttlSeconds": null}`), "lock.ttlSeconds", "is null"},
		{"null for a section", minimal(`, "lock": null`), "lock", "is null"},

		{"a string for a number", minimal(`, "lock": {"ttlSeconds": "60"}`), "lock.ttlSeconds", `is "60"; it must be a whole number`},
		{"a fraction for a whole number", minimal(`, "lock": {"ttlSeconds": 60.5}`), "lock.ttlSeconds", "is 60.5; it must be a whole number"},
		{"an exponent for a whole number", minimal(`, "batch": {"maxBytes": 1e6}`), "batch.maxBytes", "is 1e6; it must be a whole number"},
		{"a number too large for any", minimal(`, "batch": {"maxBytes": 99999999999999999999}`), "batch.maxBytes", "below 2^63"},
		{"a string for a fraction", minimal(`, "failure": {"maxFailedFraction": "50%"}`), "failure.maxFailedFraction", `is "50%"; it must be a number`},
		{"a string for a truth", minimal(`, "selection": {"reprocess": "true"}`), "selection.reprocess", "must be true or false"},
		{"a string for a list", minimal(`, "selection": {"include": "*.csv"}`), "selection.include", "must be a list of strings"},
		{"a number in a list", minimal(`, "selection": {"include": [1]}`), "selection.include", "must be a list of strings"},
		{"null in a list", minimal(`, "selection": {"include": [null]}`), "selection.include[0]", "is not a glob"},
		{"a list for a section", minimal(`, "lock": [60]`), "lock", "it must be an object"},
		{"a string for a place", with(`{"bucket": "src", "prefix": "files"}`, `"s3://src/files"`), "source", `is "s3://src/files"; it must be an object`},
		{"a number for a string", with(`"p",`, `7,`), "pipeline", "is 7; it must be a string"},
		{"a day for a time", minimal(`, "selection": {"since": "2026-01-31"}`), "selection.since", `is "2026-01-31"; it must be a time such as`},
		{"a number for a time", minimal(`, "selection": {"until": 1769850000}`), "selection.until", "must be a time"},

		{"no pipeline", with(`"pipeline": "p",`, ``), "pipeline", "is missing"},
		{"no source", with(`"source": {"bucket": "src", "prefix": "files"},`, ``), "source.bucket", "is missing"},
		{"no destination bucket", with(`"lake"`, `""`), "destination.bucket", "is missing"},
		{"a URL for a bucket", with(`"src"`, `"s3://src"`), "source.bucket", "without s3://"},
		{"a space in a bucket", with(`"lake"`, `"my lake"`), "destination.bucket", "is not a bucket name"},
		{"a prefix too long", with(`"files"`, `"`+strings.Repeat("x", 513)+`"`), "source.prefix", "at most 512"},
		{"a prefix that leads back", with(`"out"`, `"out/../p"`), "destination.prefix", `segment "." or ".."`},

		// CASES 25.
		{"no state prefix", with(`"prefix": "p"`, `"prefix": ""`), "state.prefix", "folder of its own"},
		{"a state prefix that is no text in a format string", with(`"prefix": "p"`, `"prefix": "it's"`), "state.prefix", `has a '\''`},
		{"source inside state", with(`{"bucket": "src", "prefix": "files"}`, `{"bucket": "state", "prefix": "p/in"}`), "source.prefix", "inside the state prefix"},
		{"source is the destination", with(`{"bucket": "src", "prefix": "files"}`, `{"bucket": "lake", "prefix": "out/"}`), "source.prefix", "inside the destination prefix"},
		{"source inside the destination", with(`{"bucket": "src", "prefix": "files"}`, `{"bucket": "lake", "prefix": "out/in"}`), "source.prefix", "inside the destination prefix"},
		{"state is the destination", with(`{"bucket": "state", "prefix": "p"}`, `{"bucket": "lake", "prefix": "out"}`), "state.prefix", "folders of their own"},
		{"destination inside state", with(`{"bucket": "lake", "prefix": "out"}`, `{"bucket": "state", "prefix": "p/out"}`), "destination.prefix", "inside the state prefix"},

		// CASES 11.
		{"a TTL in milliseconds", minimal(`, "lock": {"ttlSeconds": 120000}`), "lock.ttlSeconds", "from 60 to 3600 (seconds, not milliseconds)"},
		{"a TTL too short", minimal(`, "lock": {"ttlSeconds": 59}`), "lock.ttlSeconds", "from 60"},
		{"no grace", minimal(`, "lock": {"graceSeconds": 1}`), "lock.graceSeconds", "from 2 to 300"},
		{"a negative poll", minimal(`, "lock": {"pollSeconds": -1}`), "lock.pollSeconds", "from 1 to 300"},
		{"a wait beyond the execution", minimal(`, "lock": {"maxWaitSeconds": 86400}`), "lock.maxWaitSeconds", "43200"},
		{"negative waiters", minimal(`, "lock": {"maxWaiters": -1}`), "lock.maxWaiters", "from 0"},
		{"a priority beyond", minimal(`, "lock": {"priority": 101}`), "lock.priority", "100"},
		{"a negative age", minimal(`, "selection": {"minAgeSeconds": -1}`), "selection.minAgeSeconds", "from 0"},
		{"a negative number of files", minimal(`, "selection": {"maxFiles": -1}`), "selection.maxFiles", "from 0"},
		{"a negative number of bytes", minimal(`, "selection": {"maxBytes": -1}`), "selection.maxBytes", "from 0"},
		{"a negative size", minimal(`, "selection": {"minFileBytes": -1}`), "selection.minFileBytes", "from 0"},
		{"sizes that exclude each other", minimal(`, "selection": {"minFileBytes": 10, "maxFileBytes": 9}`), "selection.minFileBytes", "nothing could be taken"},
		{"a window that is none", minimal(`, "selection": {"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}`), "selection.since", "nothing could be taken"},
		{"a glob that is none", minimal(`, "selection": {"include": ["*.csv", "[a"]}`), "selection.include[1]", "is not a glob"},
		{"an exclusion that is none", minimal(`, "selection": {"exclude": [""]}`), "selection.exclude[0]", "is not a glob"},
		{"batches of none", minimal(`, "batch": {"maxFiles": 0}`), "batch.maxFiles", "from 1 to 500"},
		{"batches too large", minimal(`, "batch": {"maxFiles": 501}`), "batch.maxFiles", "from 1 to 500"},
		{"batches of no bytes", minimal(`, "batch": {"maxBytes": 0}`), "batch.maxBytes", "from 1"},
		{"no concurrency", minimal(`, "batch": {"maxConcurrency": 0}`), "batch.maxConcurrency", "from 1 to 1000"},
		{"no attempts", minimal(`, "failure": {"maxAttempts": 0}`), "failure.maxAttempts", "from 1 to 100"},
		{"a fraction in percent", minimal(`, "failure": {"maxFailedFraction": 50}`), "failure.maxFailedFraction", "from 0"},
		{"an atomicity of another kind", minimal(`, "failure": {"atomicity": "batch"}`), "failure.atomicity", `use "file"`},
		{"an order of another kind", minimal(`, "selection": {"order": "sorted"}`), "selection.order", `use "any"`},
		{"a choice of another kind", minimal(`, "selection": {"first": "newest"}`), "selection.first", `use "key"`},
		{"a look-back beyond", minimal(`, "selection": {"lookBackSeconds": 2592001}`), "selection.lookBackSeconds", "from 0 to 2592000"},
		{"no reconciliation for long", minimal(`, "selection": {"reconcileSeconds": 7776001}`), "selection.reconcileSeconds", "from 0 to 7776000"},
		{"a backoff beyond a day", minimal(`, "failure": {"backoffSeconds": 86401}`), "failure.backoffSeconds", "from 0 to 86400"},
		{"a backfill from a mark", minimal(`, "selection": {"order": "lexicographic", "reprocess": true}`), "selection.reprocess", "does not list what is done"},
		{"a directory bucket", with(`"src"`, `"src--euc1-az1--x-s3"`), "source.bucket", "lists keys in no order"},
		{"a directory bucket for state", with(`"state", "prefix"`, `"s--use1-az4--x-s3", "prefix"`), "state.bucket", "general purpose bucket"},
		{"all or nothing", minimal(`, "failure": {"atomicity": "run"}`), "failure.atomicity", "which a folder cannot keep"},
		{"versions of another kind", with(`"prefix": "out"`, `"prefix": "out", "versions": "some"`), "destination.versions", `use "latest"`},
		{"a floor of none", minimal(`, "failure": {"minFailedFiles": 0}`), "failure.minFailedFiles", "from 1 to 1000000"},
	} {
		_, err := ParseConfig([]byte(c.text))
		var wrong *InvalidConfigError
		switch {
		case !errors.As(err, &wrong):
			t.Errorf("%s: got %v", c.name, err)
		case wrong.Field != c.field || !strings.Contains(wrong.Problem, c.says):
			t.Errorf("%s: got %q %q, want %q and %q", c.name, wrong.Field, wrong.Problem, c.field, c.says)
		}
	}
}

// The pause is never so short that the longest wait overflows the history.
func TestTheLongestWaitStaysWithinTheHistory(t *testing.T) {
	for _, wait := range []int{0, 1, 1999, 2000, 2001, 3600, 43200} {
		c := RunConfig{Lock: LockSettings{PollSeconds: 1, MaxWaitSeconds: wait}}
		if turns := seconds(wait) / c.shortestPause(); turns > maxTurns || c.pollEvery() < c.shortestPause() {
			t.Errorf("%d s of waiting may take %d turns", wait, turns)
		}
		if c.shortestPause() < time.Second || c.shortestPause()%time.Second != 0 {
			t.Errorf("a pause of %v", c.shortestPause())
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	events, err := filepath.Glob("../../events/*.json")
	if err != nil || len(events) == 0 {
		f.Fatal("no events: ", err)
	}
	for _, name := range events {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(minimal(`, "lock": {"ttlSeconds": 1e400}`)))
	f.Add([]byte(minimal(`, "selection": {"include": ["[", null]}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		var wrong *InvalidConfigError
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("%T: %v", err, err)
		}
		if err != nil {
			return
		}
		// What was accepted is accepted again when it is written out.
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > maxConfigBytes {
			return
		}
		if _, err := ParseConfig(again); err != nil && c.Selection.Include != nil && c.Selection.Exclude != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
	})
}
