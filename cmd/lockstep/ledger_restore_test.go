package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAHeadThatWasDeletedIsRestored(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.memory.KeepVersions(false)
	p.upload("a.csv", "good")
	p.run("P1")
	if out, _, code := p.do("ledger restore CONFIG"); code != 0 || !strings.Contains(out, "nothing is to be restored") {
		t.Errorf("of a sound ledger: code %d, %s", code, out)
	}
	p.ok(p.memory.Delete(t.Context(), "state/ledger/locks/head.json"))
	if p.changes(func() {
		if out, stderr, code := p.do("ledger restore CONFIG"); code != 0 || !strings.Contains(out, "Nothing was changed: give --yes to do it.") {
			t.Errorf("code %d, %s%s", code, out, stderr)
		}
	}) {
		t.Error("without --yes something was changed")
	}
	out, stderr, code := p.do("ledger restore CONFIG --yes -o json")
	var got restoreReport
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || !got.Changed || got.Current || got.VersionID == "" || got.Token == 0 {
		t.Errorf("%v: code %d, %+v, %s", err, code, got, stderr)
	}
	if taken := p.run("P2"); taken != "" {
		t.Errorf("P2 took %q", taken)
	}
}

func TestWithoutVersionsThereIsNothingToRestore(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.run("P1")
	p.ok(p.memory.Delete(t.Context(), "state/ledger/locks/head.json"))
	if _, stderr, code := p.do("ledger restore CONFIG --yes"); code != exitNothing || !strings.Contains(stderr, "rebuild") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestAnotherDestinationIsAdopted(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.upload("a.csv", "good")
	p.run("P1")
	p.configure(strings.Replace(testConfig, `"prefix": "out"`, `"prefix": "lake"`, 1))
	p.says(0, `s3://locks/state/ledger/locks/
  source       s3://locks/in/
  destination  s3://locks/lake/, before s3://locks/out/
  versions     latest
Nothing was changed: give --yes to do it.
`, "ledger adopt CONFIG")
	if out, stderr, code := p.do("ledger adopt CONFIG --yes"); code != 0 || !strings.Contains(out, "The ledger has these places now.") {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	p.upload("b.csv", "good")
	if taken := p.run("P2"); taken != "b.csv" {
		t.Errorf("P2 took %q", taken)
	}
	if out, _, _ := p.do("ledger adopt CONFIG"); !strings.Contains(out, "These are the ledger's places already.") {
		t.Errorf("%s", out)
	}
}

func TestTheVersionNamesTheFormats(t *testing.T) {
	t.Parallel()
	out, _, code := lockstep(t, nil, "", "--version")
	if code != 0 || !strings.HasPrefix(out, "lockstep ") || !strings.Contains(out, "lock format 2, ledger format 2") {
		t.Errorf("code %d, %s", code, out)
	}
}
