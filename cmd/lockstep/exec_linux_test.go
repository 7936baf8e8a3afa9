package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// The output ends only when the command is dead too.
func TestTheCommandDiesWithLockstepAndTheLockExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.main.exec(t, "", `echo ready; exec sleep 600`)
	p.says(t, "ready")
	p.signal(t, syscall.SIGKILL)
	p.end(t)
	status := w.status(t)
	if len(status.Holders) != 1 {
		t.Fatalf("somebody gave the lock back: %+v", status)
	}
	if _, _, code := w.main.exec(t, "--no-wait", "true").end(t); code != exitBusy {
		t.Errorf("code %d before the lease is over", code)
	}
	w.ahead.Store(int64(time.Minute + 12*time.Second))
	out, stderr, code := w.main.exec(t, "--no-wait", `echo "token $LOCKSTEP_TOKEN"`).end(t)
	if code != 0 || out != fmt.Sprintln("token", status.LastToken+1) {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	if e := w.status(t).Events[1]; e.Kind != lease.Expired || e.Token != status.LastToken {
		t.Errorf("%+v", e)
	}
}

func TestACommandAtATerminalReadsFromItAndGetsItsSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside, inside := openTerminal(t)
	cmd := exec.Command(os.Args[0], "exec", theLock, "--", "sh", "-c",
		`trap 'echo interrupted; exit 9' INT; stty -echo; echo ready; read line; echo "read $line"`+forever)
	cmd.Env = w.main.environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	inside.Close()
	lines := bufio.NewScanner(outside)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.TrimSpace(lines.Text()) == want {
				return
			}
		}
		t.Fatalf("never said %q: %v", want, lines.Err())
	}
	expect("ready")
	fmt.Fprintln(outside, "hello")
	expect("read hello")
	fmt.Fprint(outside, "\x1a") // suspend: the command goes on
	fmt.Fprint(outside, "\x03") // interrupt
	expect("interrupted")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("code %d", code)
	}
}

// openTerminal returns a pseudoterminal's two ends.
func openTerminal(t *testing.T) (outside, inside *os.File) {
	t.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { outside.Close() })
	if err := unix.IoctlSetPointerInt(int(outside.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(outside.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return outside, inside
}
