//go:build unix

package child_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/child"
)

// start starts a shell script. The reader has its output, which ends when
// nobody is left who could write.
func start(t *testing.T, script string) (*child.Child, *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = write
	c, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		c.Kill()
		<-c.Ended()
		read.Close()
	})
	return c, read
}

func TestExitCodesAreThoseOfShells(t *testing.T) {
	for script, want := range map[string]int{"true": 0, "exit 42": 42, "kill -HUP $$": 129, "kill -KILL $$": 137} {
		c, _ := start(t, script)
		<-c.Ended()
		if code := c.ExitCode(); code != want {
			t.Errorf("%s: %d, want %d (%s)", script, code, want, c.Describe())
		}
	}
}

func TestASignalToTheGroupReachesWhatTheCommandStarted(t *testing.T) {
	c, out := start(t, `(trap 'echo inner; exit' TERM; echo x >&3; while :; do sleep 600 & wait; done) 3>&1 &
		trap '' TERM; echo x; wait; echo outer`)
	ready := make([]byte, len("x\nx\n")) // both have set their traps
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatal(err)
	}
	c.Terminate()
	if text, err := io.ReadAll(out); err != nil || string(text) != "inner\nouter\n" {
		t.Errorf("%q, %v", text, err)
	}
	<-c.Ended()
	c.Signal(syscall.SIGKILL) // to nobody
}

func TestATermWakesACommandThatWasSuspended(t *testing.T) {
	c, out := start(t, `trap 'echo woken; exit 5' TERM; echo; kill -STOP $$; sleep 600 & wait`)
	ready := make([]byte, 1)
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatal(err)
	}
	c.Terminate()
	<-c.Ended()
	if code := c.ExitCode(); code != 5 {
		t.Errorf("code %d", code)
	}
}

func TestACommandThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{filepath.Join(dir, "absent"): 127, "no-such-command": 127, plain: 126} {
		if _, err := child.Start(exec.Command(name)); err == nil || child.NotStarted(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := child.Start(&exec.Cmd{Path: "/bin/true", SysProcAttr: &syscall.SysProcAttr{}}); err == nil {
		t.Error("attributes of others were overwritten")
	}
}
