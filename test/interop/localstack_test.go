package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startLocalStack runs the open LocalStack that make localstack serves, where it
// is installed.
func startLocalStack(t *testing.T) server {
	python, err := filepath.Abs("../../.venv/localstack/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("LocalStack is not installed: make localstack does that")
	}
	program, err := filepath.Abs("../deploy/emulators/localstack_main.py")
	if err != nil {
		t.Fatal(err)
	}
	return run(t, func(port string) *exec.Cmd {
		return exec.Command(python, program, "--listen", "http://127.0.0.1:"+port)
	})
}
