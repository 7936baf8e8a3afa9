package interop

import (
	"os/exec"
	"strings"
	"testing"
)

// startMoto runs the server of Python's moto, where there is one.
func startMoto(t *testing.T) server {
	version, err := exec.CommandContext(t.Context(), "python3", "-c", "import moto.server; print(moto.__version__)").Output()
	if err != nil {
		t.Skipf("python3 has no moto server: %v; pip install 'moto[server]' would bring it", err)
	}
	t.Logf("moto %s", strings.TrimSpace(string(version)))
	return run(t, func(port string) *exec.Cmd {
		return exec.Command("python3", "-m", "moto.server", "-H", "127.0.0.1", "-p", port)
	})
}
