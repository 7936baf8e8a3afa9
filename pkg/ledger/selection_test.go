package ledger

import (
	"errors"
	"testing"
	"time"
)

func TestSelectionsThatMakeNoSenseAreRefused(t *testing.T) {
	now := time.Now()
	for field, sel := range map[string]Selection{
		"Prefix":             {Prefix: "\xff"},
		"Include[1]":         {Include: []string{"*", "a["}},
		"Exclude[0]":         {Exclude: []string{"{a"}},
		"Include[0]":         {Include: []string{""}},
		"ExcludePrefixes[0]": {ExcludePrefixes: []string{""}},
		"ExcludePrefixes[1]": {Prefix: "in", ExcludePrefixes: []string{"other", "in/"}},
		"MinSize":            {MinSize: -1},
		"MaxSize":            {MaxSize: -1},
		"MaxFiles":           {MaxFiles: -1},
		"MaxBytes":           {MaxBytes: -1},
		"MinAge":             {MinAge: -time.Second},
		"Since":              {Since: now, Until: now},
	} {
		var wrong *SelectionError
		if err := sel.Validate(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%+v: got %v, want an error about %s", sel, err, field)
		}
	}
	var wrong *SelectionError
	if err := (Selection{MinSize: 2, MaxSize: 1}).Validate(); !errors.As(err, &wrong) || wrong.Field != "MinSize" {
		t.Errorf("sizes crossed: got %v", err)
	}
}

func TestSelectionsThatMakeSenseAreAccepted(t *testing.T) {
	now := time.Now()
	for _, sel := range []Selection{
		{},
		{Prefix: "in", ExcludePrefixes: []string{"in/state", "inn", "i"}},
		{Include: []string{"**/*.{csv,json}", "[a-z]*"}, Exclude: []string{"**/_*"}},
		{MinSize: 1, MaxSize: 1},
		{MinSize: 5}, {Since: now}, {Until: now}, {Since: now, Until: now.Add(time.Second)},
	} {
		if err := sel.Validate(); err != nil {
			t.Errorf("%+v: %v", sel, err)
		}
	}
}

func TestGlobsAreRelativeToThePrefix(t *testing.T) {
	b := newBench(t)
	b.write("x", "in/a.csv", "in/sub/b.csv", "in/sub/_tmp/c.csv", "in/a.json", "in/A.CSV")
	for _, tc := range []struct {
		include, exclude []string
		want             []string
	}{
		{[]string{"*.csv"}, nil, []string{"in/a.csv"}},
		{[]string{"**/*.csv"}, nil, []string{"in/a.csv", "in/sub/_tmp/c.csv", "in/sub/b.csv"}},
		{[]string{"**/*.csv"}, []string{"**/_*/**"}, []string{"in/a.csv", "in/sub/b.csv"}},
		{[]string{"*.csv", "*.json"}, nil, []string{"in/a.csv", "in/a.json"}},
		{nil, []string{"**/*.csv"}, []string{"in/A.CSV", "in/a.json"}},
		{[]string{"in/*.csv"}, nil, nil},
	} {
		found, taken := b.discover(Selection{Prefix: "in", Include: tc.include, Exclude: tc.exclude})
		wantKeys(t, "globs", keysOf(taken), tc.want...)
		wantBalance(t, found)
	}
}

func TestTimeWindowIsHalfOpen(t *testing.T) {
	b := newBench(t)
	b.write("x", "a", "b", "c")
	at := b.clock.now()
	b.source.SetLastModified("a", at.Add(-time.Nanosecond))
	b.source.SetLastModified("c", at.Add(time.Hour))
	found, taken := b.discover(Selection{Since: at, Until: at.Add(time.Hour)})
	wantKeys(t, "window", keysOf(taken), "b")
	if found.Skipped[SkipBeforeSince] != 1 || found.Skipped[SkipNotBeforeUntil] != 1 {
		t.Errorf("skipped %v", found.Skipped)
	}
}

func TestAgeIsJudgedAtTheCutoff(t *testing.T) {
	b := newBench(t)
	b.write("x", "in/exact", "in/young")
	b.source.SetLastModified("in/young", b.clock.now().Add(time.Millisecond))
	cutoff := b.clock.now().Add(time.Minute)
	sel := Selection{MinAge: time.Minute}
	_, taken, err := discoverAll(t.Context(), b.ledger, b.source, sel, cutoff)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "at the cutoff", keysOf(taken), "in/exact")
	b.commit(taken, Upkeep{})
	_, taken, _ = discoverAll(t.Context(), b.ledger, b.source, sel, cutoff.Add(time.Second))
	wantKeys(t, "one second later", keysOf(taken), "in/young")
	if _, _, err = discoverAll(t.Context(), b.ledger, b.source, sel, time.Time{}); err == nil {
		t.Error("an age without a cutoff was accepted")
	}
	// Without a MinAge no clock matters, not even one that runs ahead.
	b.source.SetLastModified("in/young", cutoff.Add(1000*time.Hour))
	_, taken = b.discover(Selection{})
	wantKeys(t, "from the future", keysOf(taken), "in/young")
}
