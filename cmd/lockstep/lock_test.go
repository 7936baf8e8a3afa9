package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

var update = flag.Bool("update", false, "rewrite the help texts in testdata; read the difference before you commit it")

// noon is when the worlds with a standing clock begin.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func standing() time.Time { return noon }

// pass puts the server's clock forward.
func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// take acquires a lock for owner within the test, or queues for it.
func (w *world) take(t *testing.T, key, owner string, cfg lease.Config) {
	t.Helper()
	if _, err := w.lockAt(t, key, cfg).Ask(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
}

func TestLockStatusAnswersWhoSinceWhenUntilWhenAndWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, standing)
	expect := func(code int, want string) {
		t.Helper()
		out, stderr, got := w.main.run(t, "lock", "status", theLock)
		if got != code || stderr != "" || out != want {
			t.Errorf("code %d, want %d; %s\n%s\nwant\n%s", got, code, stderr, out, want)
		}
	}
	expect(0, theLock+" is free: there is no such object yet\n")

	w.take(t, "nightly", "p1@web-1:4711", lease.Config{})
	w.pass(20 * time.Second)
	w.take(t, "nightly", "p2@web-2:815", lease.Config{})
	w.take(t, "nightly", "p3@web-3:12", lease.Config{Priority: 5})
	w.pass(2 * time.Second)
	expect(0, `s3://locks/nightly is held
  holder  p1@web-1:4711, token 1772366400001
  since   2026-03-01T12:00:00Z (22s ago)
  until   2026-03-01T12:01:10Z (in 48s), unless renewed
  queue   1. p3@web-3:12 since 2026-03-01T12:00:20Z (2s ago), priority 5
  queue   2. p2@web-2:815 since 2026-03-01T12:00:20Z (2s ago)

If a holder is known to be dead, take the lock from it:
  lockstep lock break s3://locks/nightly --token 1772366400001 --reason 'why'
`)
	w.pass(49 * time.Second)
	expect(0, `s3://locks/nightly is free
  holder  p1@web-1:4711, token 1772366400001
  since   2026-03-01T12:00:00Z (1m11s ago)
  until   2026-03-01T12:01:10Z (1s ago), which is over: the next to ask gets it
  queue   1. p3@web-3:12 since 2026-03-01T12:00:20Z (51s ago), priority 5, has stopped asking
  queue   2. p2@web-2:815 since 2026-03-01T12:00:20Z (51s ago), has stopped asking
`)
	w.put(t, "nightly", "")
	expect(exitCorrupt, `s3://locks/nightly cannot be read, and counts as held: it is empty

Make sure that nobody works under this lock, then repair it:
  lockstep lock break s3://locks/nightly --reason 'why'
`)
}

func TestLockStatusOfASemaphore(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, standing)
	w.take(t, "nightly", "a", lease.Config{Limit: 3})
	w.take(t, "nightly", "b", lease.Config{Limit: 3})
	out, _, _ := w.main.run(t, "lock", "status", theLock)
	contains(t, out, "s3://locks/nightly is held, 2 of 3 places\n  holder  a, token 1772366400001\n", "  holder  b, token 1772366400002\n", "--token 1772366400001 ", "--token 1772366400002 ")
}

func TestLockStatusAsJSON(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, standing)
	w.take(t, "nightly", "p1", lease.Config{})
	w.take(t, "nightly", "p2", lease.Config{})
	out, stderr, code := w.main.run(t, "lock", "status", theLock, "-o", "json")
	var got struct {
		Lock, State string
		Exists      bool
		LastToken   int64
		Holders     []struct {
			Owner                      string
			Token                      int64
			Acquired, Renewed, Expires time.Time
		}
		Waiters []struct{ Owner string }
		Events  []struct{ Kind, Owner string }
		Now     time.Time
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%v: code %d, %s", err, code, stderr)
	}
	if got.Lock != theLock || got.State != "held" || !got.Exists || got.LastToken != 1772366400001 || !got.Now.Equal(noon) ||
		len(got.Holders) != 1 || got.Holders[0].Owner != "p1" || !got.Holders[0].Expires.Equal(noon.Add(70*time.Second)) ||
		len(got.Waiters) != 1 || len(got.Events) != 1 || got.Events[0].Kind != "granted" {
		t.Errorf("%+v", got)
	}
	for body, state := range map[string]string{"{": "corrupt", "": "corrupt", `{"schema": 3}`: "newer"} {
		w.put(t, "nightly", body)
		out, _, code := w.main.run(t, "lock", "status", theLock, "-o", "json")
		if code != exitCorrupt || !strings.Contains(out, `"state": "`+state+`"`) {
			t.Errorf("%q: code %d, %s", body, code, out)
		}
	}
}

func TestLockEventsTellWhatHappened(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, standing)
	out, _, code := w.main.run(t, "lock", "events", theLock)
	if code != 0 || out != "nothing has happened to s3://locks/nightly yet\n" {
		t.Errorf("code %d, %s", code, out)
	}
	lock := w.lock(t, lease.Config{})
	w.take(t, "nightly", "p1", lease.Config{})
	w.pass(time.Second)
	if _, err := lock.Release(t.Context(), "p1", 1772366400001, "done"); err != nil {
		t.Fatal(err)
	}
	w.take(t, "nightly", "p2", lease.Config{})
	if err := lock.Break(t.Context(), lease.BreakRequest{Holder: "p2", By: "ops", Reason: "machine\ngone"}); err != nil {
		t.Fatal(err)
	}
	const want = `AT                    EVENT     TOKEN          OWNER  WHY
2026-03-01T12:00:00Z  granted   1772366400001  p1     -
2026-03-01T12:00:01Z  released  1772366400001  p1     done
2026-03-01T12:00:01Z  granted   1772366400002  p2     -
2026-03-01T12:00:01Z  broken    1772366400002  p2     by ops: machine gone
`
	out, stderr, code := w.main.run(t, "lock", "events", theLock)
	if code != 0 || out != want {
		t.Errorf("code %d, %s\n%s\nwant\n%s", code, stderr, out, want)
	}
	out, _, _ = w.main.run(t, "lock", "events", "-o", "json", theLock)
	var got struct {
		Lock   string
		Events []lease.Event
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Lock != theLock || len(got.Events) != 4 || got.Events[3].By != "ops" {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestLockBreakNeedsToKnowWhomAndWhy(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, standing)
	refuse := func(code int, want string, args ...string) {
		t.Helper()
		out, stderr, got := w.main.run(t, append([]string{"lock", "break", theLock}, args...)...)
		if got != code || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: code %d, want %d; %s%s; want %s", args, got, code, out, stderr, want)
		}
	}
	refuse(exitUsage, "missing flags: --reason", "--token", "1772366400001")
	refuse(exitNotHeld, "there is no lock at "+theLock, "--reason", "why")
	refuse(exitUsage, "has no holder to name", "--reason", "why", "--recreate", "--token", "1772366400001")
	w.take(t, "nightly", "p1", lease.Config{})
	refuse(exitUsage, "name the holder or its token\n  holder  p1, token 1772366400001\n", "--reason", "why")
	refuse(exitUsage, "--reason: it says nothing", "--reason", " ", "--token", "1772366400001")
	refuse(exitUsage, "there is nothing to recreate", "--reason", "why", "--recreate")
	refuse(exitNotHeld, `nobody holds the lock under this name and token (holder "p2", token 1772366400001): held by "p1"`, "--reason", "why", "--holder", "p2", "--token", "1772366400001")
	if s := w.status(t); len(s.Holders) != 1 || len(s.Events) != 1 {
		t.Errorf("something was done: %+v", s)
	}
	out, stderr, code := w.main.run(t, "lock", "break", theLock, "--holder", "p1", "--reason", "why")
	if code != 0 || out != "broken: s3://locks/nightly was taken from p1, token 1772366400001\n" {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	host, _ := os.Hostname()
	if e := w.status(t).Events[1]; e.Kind != lease.Broken || e.Reason != "why" || !strings.HasSuffix(e.By, "@"+host) {
		t.Errorf("%+v", e)
	}
	refuse(exitNotHeld, "nobody holds "+theLock, "--reason", "why")
}

func TestACorruptLockIsExplainedAndRepairedByABreak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "nightly", `{"schema":1,"limit":1,"lastToken":41,"hold`)
	out, stderr, code := w.main.exec(t, "", "echo started").end(t)
	if code != exitCorrupt || out != "" {
		t.Errorf("exec: code %d, %q", code, out)
	}
	contains(t, stderr, "is unreadable and counts as held", "lockstep lock break")
	if _, stderr, code := w.main.run(t, "lock", "events", theLock); code != exitCorrupt || !strings.Contains(stderr, "is unreadable") {
		t.Errorf("events: code %d, %s", code, stderr)
	}
	out, stderr, code = w.main.run(t, "lock", "break", theLock, "--by", "ops", "--reason", "cut by a full disk", "-o", "json")
	var report struct {
		Lock  string
		Event lease.Event
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("break: %v: code %d, %s", err, code, stderr)
	}
	if report.Lock != theLock || report.Event.Kind != lease.Repaired || report.Event.By != "ops" || report.Event.Token <= 41 {
		t.Errorf("%+v", report)
	}
	if out, stderr, code := w.main.exec(t, "--no-wait", `test "$LOCKSTEP_TOKEN" -gt 41 && echo started`).end(t); code != 0 || out != "started\n" {
		t.Errorf("afterwards: code %d, %s%s", code, out, stderr)
	}
}

func TestADeletedLockIsWrittenAnewOnDemand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, stderr, code := w.main.run(t, "lock", "break", theLock, "--reason", "a lifecycle rule took it", "--recreate")
	if code != 0 || !strings.HasPrefix(out, "repaired: s3://locks/nightly is free, and its next token is above ") {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
}

func TestLockListShowsAllBelowAPrefix(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, standing)
	if out, stderr, code := w.main.run(t, "lock", "list", "s3://locks/"); code != 0 || out != "no locks below s3://locks/\n" {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	w.put(t, "team/", "")
	w.put(t, "team/cut", "{")
	w.take(t, "team/a 100%", "p1", lease.Config{})
	w.take(t, "team/a 100%", "p2", lease.Config{})
	w.take(t, "team/free", "p3", lease.Config{})
	if _, err := w.lockAt(t, "team/free", lease.Config{}).Release(t.Context(), "p3", 0, ""); err != nil {
		t.Fatal(err)
	}
	w.take(t, "team2/other", "p4", lease.Config{})
	w.pass(5 * time.Second)
	const want = `LOCK                    STATE    QUEUE  TOKEN          HOLDER  SINCE                          UNTIL
s3://locks/team/a 100%  held     1      1772366400001  p1      2026-03-01T12:00:00Z (5s ago)  2026-03-01T12:01:10Z (in 1m5s)
s3://locks/team/cut     corrupt  0      -              -       -                              -
s3://locks/team/free    free     0      -              -       -                              -

s3://locks/team/cut: it is cut off after 1 bytes
`
	out, stderr, code := w.main.run(t, "lock", "list", "s3://locks/team/")
	if code != 0 || stderr != "" || out != want {
		t.Errorf("code %d, %s\n%s\nwant\n%s", code, stderr, out, want)
	}
	w.server.Fail(s3test.Fault{Op: "get", Key: "team/cut", Times: s3test.Always, Do: s3test.Answer(403, "AccessDenied")})
	out, _, code = w.main.run(t, "lock", "list", "s3://locks/team", "-o", "json")
	var got struct {
		Prefix string
		Locks  []struct {
			Lock, State, Error string
			Holders            []lease.Holder
			Waiters            []lease.Waiter
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitUnavailable || got.Prefix != "s3://locks/team" || len(got.Locks) != 4 {
		t.Fatalf("%v: code %d, %s", err, code, out)
	}
	if l := got.Locks[0]; l.Lock != "s3://locks/team/a 100%" || l.State != "held" || l.Holders[0].Owner != "p1" || l.Waiters[0].Owner != "p2" {
		t.Errorf("%+v", l)
	}
	if l := got.Locks[1]; l.State != "" || !strings.Contains(l.Error, "AccessDenied") {
		t.Errorf("%+v", l)
	}
}

func TestS3FlagsRideOnEveryRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.main.start(t, "exec", "--endpoint-url", w.main.URL, "--path-style", "--region", "eu-north-1", "--kms-key-id", "alias/locks",
		"--expected-bucket-owner", "123456789012", "--checksum", "SHA256", "--requester-pays", theLock, "--", "true")
	if _, stderr, code := p.end(t); code != 0 {
		t.Fatalf("code %d, %s", code, stderr)
	}
	writes := w.server.Requests("put")
	for _, request := range append(w.server.Requests("get"), writes...) {
		h := request.Header
		if h.Get("X-Amz-Expected-Bucket-Owner") != "123456789012" || h.Get("X-Amz-Request-Payer") != "requester" ||
			!strings.Contains(h.Get("Authorization"), "/eu-north-1/s3/") {
			t.Errorf("%s: %v", request.Op, h)
		}
	}
	for _, request := range writes {
		h := request.Header
		if h.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "alias/locks" ||
			h.Get("X-Amz-Checksum-Sha256") == "" {
			t.Errorf("%v", h)
		}
	}
	if len(writes) != 2 {
		t.Errorf("%d writes", len(writes))
	}
}

func TestHelpOfExecAndLock(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, verb := range []string{"exec", "lock", "lock status", "lock events", "lock break", "lock list"} {
		out, _, code := lockstep(t, nil, "", append(strings.Fields(verb), "--help")...)
		if code != 0 {
			t.Errorf("%s: code %d", verb, code)
		}
		golden := filepath.Join("testdata", "help", strings.ReplaceAll(verb, " ", "-")+".txt")
		if *update {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if out != string(want) {
			t.Errorf("%s changed (-update rewrites it):\n%s", golden, out)
		}
	}
}
