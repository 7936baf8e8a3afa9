package ledger

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sampleHead() Head {
	return Head{
		Schema: 2, Generation: 12, Token: 7, Open: []OpenManifest{}, Entries: []json.RawMessage{},
		Segments: []Segment{{Name: "segments/000000000012-0000000000000007-0123456789abcdef0123456789abcdef.seg", Rows: 2, Gone: 1, Bytes: 99, First: "a\n😀", Last: "b"}},
		Commits:  []Commitment{{Run: "run", Token: 7, Done: 1, Gone: 1}},
		Retired:  []Retired{{Name: "segments/000000000003-0000000000000002-0123456789abcdef0123456789abcdef.seg", Since: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}},
	}
}

func TestHeadRoundTrip(t *testing.T) {
	body, err := encodeHead(sampleHead())
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeHead(body, "head.json")
	if err != nil || !reflect.DeepEqual(got, sampleHead()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDamagedHeadIsAnErrorThatNamesIt(t *testing.T) {
	body, err := encodeHead(sampleHead())
	if err != nil {
		t.Fatal(err)
	}
	good := string(body)
	change := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("the sample has no %s", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	for want, broken := range map[string]string{
		"empty":               " \n",
		"not the JSON":        good[:len(good)/2],
		"no schema":           `{"generation": 1}`,
		"unknown field":       change(`"token"`, `"fence"`),
		"after top-level":     good + "{}",
		"generation 0":        change(`"generation": 12`, `"generation": 0`),
		"named twice":         change("segments/000000000003-0000000000000002", "segments/000000000012-0000000000000007"),
		"not one of ours":     change("segments/000000000012", "segments/../12"),
		"0 rows":              change(`"rows": 2`, `"rows": 0`),
		"3 gone":              change(`"gone": 1`, `"gone": 3`),
		"-1 bytes":            change(`"bytes": 99`, `"bytes": -1`),
		`keys "c" to "b"`:     change(`"a\n😀"`, `"c"`),
		"out of range":        change(`"token": 7`, `"token": 6`),
		"cannot unmarshal":    change(`"rows": 2`, `"rows": "2"`),
		"into Go value of ty": `[]`,
	} {
		_, err := decodeHead([]byte(broken), "state/head.json")
		wantDamaged(t, want, err)
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "state/head.json")) {
			t.Errorf("got %q, want it to say %q and name the object", err, want)
		}
	}
	_, err = decodeHead([]byte(change(`"schema": 2`, `"schema": 3`)), "head.json")
	if err == nil || !strings.Contains(err.Error(), "schema 3") {
		t.Errorf("a newer schema: got %v", err)
	}
}

func TestDamagedHeadStopsEverything(t *testing.T) {
	b := newBench(t)
	b.write("x", "a")
	b.overwrite("state/ledger/head.json", nil)
	_, _, err := discoverAll(t.Context(), b.ledger, b.source, Selection{}, b.clock.now())
	wantDamaged(t, "discover", err)
	_, err = b.ledger.Commit(t.Context(), Commit{Run: "run", Token: 1})
	wantDamaged(t, "commit", err)
	wantDamaged(t, "fence", b.ledger.Fence(t.Context(), 1))
	for _, err := range b.ledger.Rows(t.Context()) {
		wantDamaged(t, "rows", err)
	}
	if body := b.read("state/ledger/head.json"); len(body) != 0 {
		t.Errorf("the damaged head was replaced by %q", body)
	}
}

func FuzzHead(f *testing.F) {
	body, err := encodeHead(sampleHead())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"schema":2,"generation":1,"segments":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		head, err := decodeHead(body, "head.json")
		if err != nil {
			return
		}
		first, err := encodeHead(head)
		if err != nil {
			t.Fatalf("a head that was accepted cannot be written: %v", err)
		}
		again, err := decodeHead(first, "head.json")
		if err != nil {
			t.Fatalf("a head that was written is not accepted: %v", err)
		}
		if second, _ := encodeHead(again); !bytes.Equal(first, second) {
			t.Errorf("the head changed from\n%s\nto\n%s", first, second)
		}
	})
}
