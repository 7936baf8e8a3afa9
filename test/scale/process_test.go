package scale

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// command is this test binary under orders. Its standard input ends with the
// test, and so does it.
func command(t *testing.T, o orders) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), ordersVariable+"="+string(text))
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	return cmd
}

// startServers starts the process of the servers and returns its URL.
func startServers(t *testing.T) string {
	t.Helper()
	cmd := command(t, orders{Do: "serve"})
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // killed by the context of the test, which has ended
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal("the servers did not start: ", err)
	}
	return strings.TrimSpace(line)
}

// run has a process carry out orders.
func run(t *testing.T, name string, o orders) report {
	t.Helper()
	if *profile != "" {
		o.Profile = filepath.Join(*profile, strings.ReplaceAll(name, " ", "-"))
	}
	out, err := command(t, o).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%s printed %.200q: %v", name, out, err)
	}
	t.Logf("%s: %.1f s, %.1f s of CPU, %s", name, r.Wall.Seconds(), r.CPU.Seconds(), megabytes(r.Peak))
	return r
}
