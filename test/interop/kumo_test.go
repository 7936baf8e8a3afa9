package interop

import (
	"testing"

	"github.com/sivchari/kumo"
)

// startKumo runs the emulator within this process, as it is; the project's own
// stack puts exact keys in front of it.
func startKumo(t *testing.T) server {
	running := kumo.NewServer()
	t.Cleanup(running.Close)
	return server{running.URL}
}
