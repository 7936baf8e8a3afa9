package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const versityGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// startVersityGW builds the gateway, or takes the program that VERSITYGW names,
// and runs it over a folder.
func startVersityGW(t *testing.T) server {
	program := os.Getenv("VERSITYGW")
	if program == "" {
		program = filepath.Join(install(t, versityGW), "versitygw")
	}
	return run(t, func(port string) *exec.Cmd {
		return exec.Command(program, "--port", "127.0.0.1:"+port, "--access", accessKey, "--secret", secretKey, "--quiet",
			"posix", t.TempDir())
	})
}

// install builds a program of another module and returns its folder.
func install(t *testing.T, program string) string {
	t.Helper()
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", program)
	cmd.Dir = folder // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+folder)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, output)
	}
	return folder
}
