package lease

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func asker(owner string) asking {
	return asking{owner: owner, limit: 1, maxWaiters: 10, ttl: 60_000, grace: 10_000, poll: 1000, queue: true}
}

// busy is a document with a bit of everything.
func busy(t testing.TB) document {
	t.Helper()
	d := newDocument(1, 41)
	d, a, _ := ask(d, asker("P1"), at(0))
	if a.decision != Held {
		t.Fatal("P1 did not get a new lock")
	}
	d, _, _ = ask(d, asker("P2"), at(5))
	return d.seal("nonce")
}

func encoded(t testing.TB, d document) []byte {
	t.Helper()
	b, err := encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDocumentRoundTrip(t *testing.T) {
	want := busy(t)
	got, err := decode(encoded(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEveryCutOfADocumentIsCorrupt(t *testing.T) {
	whole := strings.TrimRight(string(encoded(t, busy(t))), "\n")
	for n := range len(whole) {
		if d, err := decode([]byte(whole[:n])); err == nil {
			t.Fatalf("cut after %d bytes it decodes to %+v", n, d)
		}
	}
}

// Rule 10: what cannot be vouched for is not free.
func TestDecoderRefusesWhatItCannotVouchFor(t *testing.T) {
	sound := string(encoded(t, busy(t)))
	edit := func(old, new string) string {
		t.Helper()
		if !strings.Contains(sound, old) {
			t.Fatalf("%s has no %s", sound, old)
		}
		return strings.Replace(sound, old, new, 1)
	}
	for _, c := range []struct{ name, body, problem string }{
		{"empty", "", "empty"},
		{"cut", sound[:40], "cut off after 40 bytes"},
		{"not JSON", "<Error/>", "not a lock document"},
		{"another type", `[]`, "not a lock document"},
		{"null", `null`, "schema is 0"},
		{"two documents", sound + sound, "not a lock document"},
		{"a brace too many", sound + "}", "not a lock document"},
		{"a name twice", edit(`"limit":1`, `"limit":1,"limit":1`), "twice"},
		{"a name in other letters", edit(`"limit":1`, `"LIMIT":1`), "LIMIT"},
		{"tokens that are used up", edit(`"lastToken":42`, `"lastToken":9007199254740991`), "lastToken"},
		{"newer schema with new fields", `{"schema":7,"color":"red"}`, "schema 7, this program knows 2): update lockstep"},
		{"no fields", `{}`, "schema is 0"},
		{"newer schema", edit(`"schema":2`, `"schema":3`), "update lockstep"},
		{"no last token", edit(`"lastToken":42,`, ``), "lastToken"},
		{"no last token in a free lock", `{"schema":1,"limit":1,"holders":[],"waiters":[],"events":[],"nonce":"n"}`, "lastToken"},
		{"null last token", edit(`"lastToken":42`, `"lastToken":null`), "lastToken"},
		{"fractional token", edit(`"lastToken":42`, `"lastToken":42.5`), "not a lock document"},
		{"huge token", edit(`"lastToken":42`, `"lastToken":9007199254740992`), "lastToken"},
		{"token as text", edit(`"lastToken":42`, `"lastToken":"42"`), "not a lock document"},
		{"unknown field", edit(`"limit":1`, `"limit":1,"color":"red"`), "color"},
		{"no holders", edit(`"holders":[`, `"holders":null,"events":[],"waiters":[],"x":[`), ""},
		{"null holders", `{"schema":1,"limit":1,"lastToken":1,"holders":null,"waiters":[],"events":[],"nonce":"n"}`, "missing"},
		{"no events", `{"schema":1,"limit":1,"lastToken":1,"holders":[],"waiters":[],"nonce":"n"}`, "missing"},
		{"no nonce", edit(`"nonce":"nonce"`, `"nonce":""`), "nonce"},
		{"limit zero", edit(`"limit":1`, `"limit":0`), "limit"},
		{"holder above last token", edit(`"lastToken":42`, `"lastToken":41`), "holders[0]"},
		{"holder without name", edit(`"owner":"P1"`, `"owner":""`), "holders[0]"},
		{"holder for a year", edit(`"ttlMillis":60000`, `"ttlMillis":31536000000`), "ttlMillis"},
		{"holder without grace", edit(`"graceMillis":10000`, `"graceMillis":0`), "graceMillis"},
		{"holder without times", edit(`"acquired":"2026-03-01T12:00:00Z",`, ``), "times"},
		{"holder that waits", edit(`"owner":"P2"`, `"owner":"P1"`), "twice"},
		{"waiter without promise", edit(`"pollMillis":1000`, `"pollMillis":0`), "pollMillis"},
		{"event without kind", edit(`"kind":"granted"`, `"kind":""`), "events[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := decode([]byte(c.body))
			if err == nil {
				t.Fatalf("decoded to %+v", d)
			}
			if !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q does not say %q", err, c.problem)
			}
		})
	}
}

func TestDecoderRefusesWhatIsTooBig(t *testing.T) {
	if _, err := decode([]byte(strings.Repeat(" ", maxDocument+1))); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error %v", err)
	}
}

func TestAThousandWaitersFit(t *testing.T) {
	d, arn := newDocument(1, 0), strings.Repeat("a", 200)
	r := asker(arn)
	d, _, _ = ask(d, r, at(0))
	r.maxWaiters = maxInQueue
	for i := range maxInQueue {
		r.owner = arn + strings.Repeat("b", i%7) + string(rune('a'+i/7%26)) + string(rune('a'+i/182))
		d, _, _ = ask(d, r, at(0))
	}
	if len(d.Waiters) != maxInQueue {
		t.Fatalf("%d waiters", len(d.Waiters))
	}
	encoded(t, d.seal("n"))
}

func TestOwnersThatCannotBeKeptAreRefused(t *testing.T) {
	for _, owner := range []string{"", strings.Repeat("x", maxOwner+1), "a\nb", "\x1b[31m", "\xff"} {
		if checkOwner(owner) == nil {
			t.Errorf("owner %.20q is taken", owner)
		}
	}
	for _, owner := range []string{"arn:aws:states:eu-west-1:123456789012:execution:nightly:2026-03-01", "Zoë 🌱", strings.Repeat("x", maxOwner)} {
		if err := checkOwner(owner); err != nil {
			t.Errorf("owner %.20q: %v", owner, err)
		}
	}
}

func TestLongReasonsAreClippedBetweenCharacters(t *testing.T) {
	got := clip(strings.Repeat("é", 1000))
	if len(got) > maxText+len("…") || strings.ContainsRune(got, '\uFFFD') || !strings.HasSuffix(got, "é…") {
		t.Errorf("clipped to %d bytes: …%q", len(got), got[len(got)-8:])
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, busy(f)))
	f.Add([]byte(`{"schema":1,"limit":1,"lastToken":0,"holders":[],"waiters":[],"events":[],"nonce":"n"}`))
	f.Add([]byte(`{"schema":1e0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		legibleToken(b)
		d, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(encoded(t, d))
		if err != nil {
			t.Fatalf("%+v does not survive: %v", d, err)
		}
		if string(encoded(t, again)) != string(encoded(t, d)) {
			t.Fatalf("%+v changed to %+v", d, again)
		}
		for _, h := range d.Holders {
			if h.Token > legibleToken(b) && !bytes.ContainsRune(b, 0x5c) { // keys may be spelt with escapes
				t.Fatalf("token %d of %s is legible to the decoder and not to the repair", h.Token, b)
			}
		}
	})
}
