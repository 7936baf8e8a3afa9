package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// forever is the rest of a script that only a signal ends. A shell takes note
// of signals while it waits.
// What it says of a sleep that a signal to the group ended is not for the test:
// from here on standard error is lockstep's alone.
const forever = `; exec 2>/dev/null; while :; do sleep 600 & wait $!; done`

func TestExecPassesOnHowTheCommandEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		command []string
		code    int
		err     string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 7"}, 7, ""},
		{[]string{"sh", "-c", "exit 255"}, 255, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"no-such-command"}, 127, `"no-such-command": executable file not found`},
		{[]string{"/no/such/command"}, 127, "no such file"},
		{[]string{write(t, "plain", "", 0o600)}, 126, "permission denied"},
		{[]string{write(t, "broken", "no program", 0o700)}, 126, "exec format error; the lock was given back"},
	} {
		out, stderr, code := w.main.run(t, append([]string{"exec", theLock, "--"}, test.command...)...)
		if code != test.code || out != "" || (test.err == "") != (stderr == "") || !strings.Contains(stderr, test.err) {
			t.Errorf("%v: code %d, want %d; %s%s", test.command, code, test.code, out, stderr)
		}
		if status := w.status(t); len(status.Holders) > 0 {
			t.Errorf("%v: left the lock behind: %+v", test.command, status.Holders)
		}
	}
}

func TestExecGivesTheCommandItsStreamsAndItsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.main.exec(t, "--name nightly", `echo "$LOCKSTEP_TOKEN $LOCKSTEP_LOCK $#"; echo "$LOCKSTEP_OWNER" >&2; read line; echo "read: $line"`)
	w.until(t, "a holder", func(s lease.Status) bool { return len(s.Holders) == 1 })
	p.says(t, w.token(t)+" "+theLock+" 0")
	out, stderr, code := p.end(t) // standard input is empty
	if code != 0 || out != "read: \n" {
		t.Fatalf("code %d, got %q", code, out)
	}
	host, _ := os.Hostname()
	owner := w.status(t).Events[0].Owner
	if stderr != owner+"\n" || !strings.HasPrefix(owner, fmt.Sprintf("nightly@%s:%d:", host, p.Process.Pid)) {
		t.Errorf("the owner is %q, the command was told %q", owner, stderr)
	}
	out, _, _ = w.main.run(t, "exec", theLock, "sh", "-c", `echo "$LOCKSTEP_TOKEN" "$@"`, "sh", "-v", "--wait")
	if out != w.token(t)+" -v --wait\n" {
		t.Errorf("the command's own flags: %q", out)
	}
	events := w.status(t).Events
	if e := events[1]; e.Kind != lease.Freed || e.Reason != "the command ended with code 0" {
		t.Errorf("%+v", e)
	}
}

func TestExecRefusesACommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct{ args, want string }{
		{theLock, `expected "<command> ..."`},
		{"", `expected "<url> <command> ..."`},
		{theLock + " --", "no command given after --"},
		{"s3://locks -- true", "names a bucket but no object in it"},
		{"--nope " + theLock + " -- true", "unknown flag --nope"},
		{"--wait 10 " + theLock + " -- true", "missing unit in duration"},
		{"--wait=-1s " + theLock + " -- true", "--wait: -1s is less than nothing"},
		{"--wait 1s --no-wait " + theLock + " -- true", "can't be used together"},
		{"--ttl 1s " + theLock + " -- true", "--ttl: 1s is less than 2s"},
		{"--ttl 2000h " + theLock + " -- true", "was it given in another unit?"},
		{"--grace 1s " + theLock + " -- true", "leaves no time to stop the command"},
		{"--limit 0 " + theLock + " -- true", "--limit: 0 is less than 1"},
		{"--max-waiters 0 " + theLock + " -- true", "nobody waits with --no-wait"},
		{"--name \x07 " + theLock + " -- true", "is not printable text"},
		{"--checksum MD4 " + theLock + " -- true", `checksum "MD4" is not one of`},
		{"--profile nobody " + theLock + " -- true", "load AWS configuration"},
	} {
		out, stderr, code := w.main.run(t, append([]string{"exec"}, strings.Fields(test.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: code %d, %s%s; want %s", test.args, code, out, stderr, test.want)
		}
	}
	if requests := w.server.Requests("put"); len(requests) > 0 {
		t.Errorf("something was written: %v", requests)
	}
}

func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, number := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		p := w.main.exec(t, "", `trap 'echo got `+name+`; exit 9' `+name+`; echo ready`+forever)
		p.says(t, "ready")
		p.signal(t, number)
		if out, stderr, code := p.end(t); code != 9 || out != "got "+name+"\n" || stderr != "" {
			t.Errorf("%s: code %d, %q, %q", name, code, out, stderr)
		}
	}
}

func TestASignalEndsTheCommandThatDoesNotCatchItAndTheLockIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.main.exec(t, "", `echo ready`+forever)
	p.says(t, "ready")
	p.signal(t, syscall.SIGHUP)
	if _, stderr, code := p.end(t); code != 129 || stderr != "" {
		t.Errorf("code %d, %s", code, stderr)
	}
	if status := w.status(t); len(status.Holders) > 0 {
		t.Errorf("the lock is still held: %+v", status.Holders)
	}
}

// The output ends only when nobody has it open any more.
func TestWhatTheCommandLeavesBehindIsKilledBeforeTheLockIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if out, _, code := w.main.exec(t, "", `sleep 600 & echo done`).end(t); code != 0 || out != "done\n" {
		t.Errorf("code %d, %q", code, out)
	}
}

func TestNoWaitIsRefusedByAHolderAndNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.main.exec(t, "--name first", `echo ready`+forever)
	first.says(t, "ready")
	token := w.token(t)
	for _, flags := range []string{"--no-wait", "--wait 0"} {
		out, stderr, code := w.main.exec(t, flags, "echo started").end(t)
		if code != exitBusy || out != "" {
			t.Errorf("%s: code %d, %q", flags, code, out)
		}
		contains(t, stderr, "somebody else has "+theLock+"; the command was not started", "holder  first@", "token "+token+"\n",
			"since   20", "until   20", "lockstep lock break "+theLock+" --token "+token+" --reason 'why'")
	}
	if status := w.status(t); len(status.Waiters) > 0 {
		t.Errorf("somebody queues: %+v", status.Waiters)
	}
}

func TestAWaitThatIsOverNamesTheHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.main.exec(t, "--name first", `echo ready`+forever)
	first.says(t, "ready")
	out, stderr, code := w.main.exec(t, "--wait 300ms", "echo started").end(t)
	if code != exitBusy || out != "" {
		t.Errorf("code %d, %q", code, out)
	}
	contains(t, stderr, "gave up after waiting ", "holder  first@", "lockstep lock break")
	if status := w.status(t); len(status.Waiters) > 0 {
		t.Errorf("left in the queue: %+v", status.Waiters)
	}
}

func TestAWaiterGetsTheLockWhenTheCommandBeforeItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.main.exec(t, "", `trap 'echo bye; exit' USR1; echo ready`+forever)
	first.says(t, "ready")
	token := w.status(t).LastToken
	second := w.main.exec(t, "", `echo "token $LOCKSTEP_TOKEN"`)
	w.until(t, "a waiter", aWaiter)
	out, stderr, code := w.main.exec(t, "--max-waiters 1", "echo started").end(t)
	if code != exitBusy || out != "" || !strings.Contains(stderr, "1 wait for "+theLock+" already") {
		t.Errorf("the third: code %d, %s%s", code, out, stderr)
	}
	first.signal(t, syscall.SIGUSR1)
	first.says(t, "bye")
	second.says(t, fmt.Sprint("token ", token+1))
	if _, stderr, code := second.end(t); code != 0 || stderr != "" {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestASignalEndsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.main.exec(t, "", `echo ready`+forever)
	first.says(t, "ready")
	for number, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		waiting := w.main.exec(t, "", "echo started")
		w.until(t, "a waiter", aWaiter)
		waiting.signal(t, syscall.SIGUSR1) // means nothing yet
		waiting.signal(t, number)
		out, stderr, code := waiting.end(t)
		if code != want || out != "" || !strings.Contains(stderr, "the command was not started") {
			t.Errorf("code %d, want %d; %s%s", code, want, out, stderr)
		}
		if status := w.status(t); len(status.Waiters) > 0 {
			t.Fatalf("left in the queue: %+v", status.Waiters)
		}
	}
}

func TestAStoreThatIsAwayOrRefusesIsSaidSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := w.endpoint(t)
	gone.Close()
	forbidden := w.memory.Name() + "-of-others"
	for name, test := range map[string]struct {
		at   *endpoint
		url  string
		want string
	}{
		"away":      {gone, theLock, "last answer: get " + theLock},
		"no bucket": {w.main, "s3://" + forbidden + "/nightly", "NoSuchBucket"},
	} {
		out, stderr, code := test.at.run(t, "exec", "--wait", "1s", test.url, "--", "echo", "started")
		if code != exitUnavailable || out != "" {
			t.Errorf("%s: code %d, %q", name, code, out)
		}
		contains(t, stderr, "the command was not started", test.want)
		for _, verb := range []string{"status", "events"} {
			if name == "away" {
				continue // it would be patient
			}
			if out, stderr, code := test.at.run(t, "lock", verb, test.url); code != exitUnavailable || out != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("%s: lock %s: code %d, %s%s", name, verb, code, out, stderr)
			}
		}
	}
	w.server.Fail(s3test.Fault{Times: s3test.Always, Do: s3test.Answer(403, "AccessDenied")})
	if out, stderr, code := w.main.exec(t, "", "echo started").end(t); code != exitUnavailable || out != "" || !strings.Contains(stderr, "AccessDenied") {
		t.Errorf("refused: code %d, %s%s", code, out, stderr)
	}
}

func TestABusyStoreDoesNotLeaveTheLockBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server.Fail(s3test.Fault{Op: "put", After: 1, Times: 2, Do: s3test.Answer(503, "SlowDown")})
	if _, stderr, code := w.main.exec(t, "", "exit 3").end(t); code != 3 || stderr != "" {
		t.Errorf("code %d, %s", code, stderr)
	}
	if status := w.status(t); len(status.Holders) > 0 {
		t.Errorf("the lock is still held: %+v", status.Holders)
	}
}

func TestACommandWhoseLockIsBrokenIsTerminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.main.exec(t, "--ttl 2s", `trap 'echo tidied up; exit 0' TERM; echo ready`+forever)
	p.says(t, "ready")
	if _, stderr, code := w.main.run(t, "lock", "break", theLock, "--token", w.token(t), "--by", "ops", "--reason", "machine gone"); code != 0 {
		t.Fatal(stderr)
	}
	out, stderr, code := p.end(t)
	if code != exitLost || out != "tidied up\n" {
		t.Errorf("code %d, %q", code, out)
	}
	contains(t, stderr, "the lock was lost while the command ran", "by ops (machine gone)", "the command got TERM: exit status 0", "its own was 1")
}

func TestALockThatWasBrokenAtTheVeryEndIsLostToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.main.exec(t, "--ttl 1h", `trap 'exit 0' USR1; echo ready`+forever) // no renewal will notice
	p.says(t, "ready")
	if err := w.lock(t, lease.Config{}).Break(t.Context(), lease.BreakRequest{Token: w.status(t).LastToken, By: "ops", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGUSR1)
	_, stderr, code := p.end(t)
	if code != exitLost {
		t.Errorf("code %d", code)
	}
	contains(t, stderr, "the lock was lost while the command ran; see: lockstep lock events "+theLock)
}

// The second command looks whether the first is alive.
func TestACommandThatIgnoresTheLossIsKilledBeforeAnybodyTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cut := w.endpoint(t)
	pids := filepath.Join(t.TempDir(), "pid")
	first := cut.exec(t, "--ttl 2s --grace 6s", `trap 'echo TERM ignored' TERM; echo $$ >`+pids+`; echo ready`+forever)
	first.says(t, "ready")
	pid, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	token := w.status(t).LastToken
	second := w.main.exec(t, "", fmt.Sprintf(`if kill -0 %s 2>/dev/null; then echo overlap; else echo "alone under $LOCKSTEP_TOKEN"; fi`, strings.TrimSpace(string(pid))))
	w.until(t, "a waiter", aWaiter)
	cut.cut.Store(true)
	first.says(t, "TERM ignored")
	second.says(t, fmt.Sprint("alone under ", token+1))
	if _, stderr, code := second.end(t); code != 0 || stderr != "" {
		t.Errorf("the second: code %d, %s", code, stderr)
	}
	_, stderr, code := first.end(t)
	if code != exitLost {
		t.Errorf("the first: code %d", code)
	}
	contains(t, stderr, "the lock was lost while the command ran", "the command got TERM and KILL: signal: killed")
}

func TestPatienceIsHalfOfWhatTheGraceLeaves(t *testing.T) {
	for _, test := range []struct{ ttl, grace, want time.Duration }{
		{time.Minute, 10 * time.Second, 4500 * time.Millisecond},
		{2 * time.Second, 2 * time.Second, 500 * time.Millisecond},
		{2 * time.Second, time.Second, 0},
	} {
		renewed := time.Unix(1_000_000, 0)
		if got := patience(lease.Grant{Renewed: renewed, Expires: renewed.Add(test.ttl + test.grace)}, test.ttl); got != test.want {
			t.Errorf("TTL %v, grace %v: %v, want %v", test.ttl, test.grace, got, test.want)
		}
	}
}

// Two jobs write down a number that only grows while they take turns.
func TestOverlappingJobsNeverRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rounds = 10
	dir := t.TempDir()
	script := `cd ` + dir + ` && mkdir busy || exit 1; n=$(cat count 2>/dev/null); echo $((n + 1)) >count; echo $LOCKSTEP_TOKEN >>tokens; rmdir busy`
	var jobs sync.WaitGroup
	for range 2 {
		jobs.Go(func() {
			for range rounds {
				if _, stderr, code := w.main.exec(t, "", script).end(t); code != 0 {
					t.Errorf("code %d, %s", code, stderr)
				}
			}
		})
	}
	jobs.Wait()
	count, _ := os.ReadFile(filepath.Join(dir, "count"))
	if string(count) != fmt.Sprintln(2*rounds) {
		t.Errorf("the count is %q after %d turns", count, 2*rounds)
	}
	var want strings.Builder
	last := w.status(t).LastToken
	for n := range 2 * rounds {
		fmt.Fprintln(&want, last-2*rounds+1+int64(n))
	}
	if tokens, _ := os.ReadFile(filepath.Join(dir, "tokens")); string(tokens) != want.String() {
		t.Errorf("tokens in order of their turns:\n%s", tokens)
	}
}

func TestVerboseTellsWhoIsInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.main.exec(t, "--name first", `trap exit USR1; echo ready`+forever)
	first.says(t, "ready")
	token := w.status(t).LastToken
	second := w.main.exec(t, "-v", "true")
	w.until(t, "a waiter", aWaiter)
	first.signal(t, syscall.SIGUSR1)
	_, stderr, code := second.end(t)
	if code != 0 {
		t.Errorf("code %d", code)
	}
	contains(t, stderr, "lockstep: waiting for "+theLock+"\n  holder  first@", `msg="queued for the lock"`, fmt.Sprint("token=", token+1))
}
