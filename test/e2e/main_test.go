// Package e2e_test plays whole runs: the state machine that is deployed, the
// five functions as processes of their own, and an S3 between which and the
// functions a test may stand. Processes are killed, executions aborted,
// requests held and lost at points that the test chooses; nothing sleeps to
// hit a moment.
//
// After each story the same oracle looks at what was left behind: every file
// version done exactly once with the right rows in one output, the lock free,
// its tokens grown, its holders one after another, and no process alive.
package e2e_test

import (
	"os"
	"testing"

	"github.com/lockstep-pipeline/lockstep/functions"
)

// functionVariable makes this test binary one of the functions.
const functionVariable = "LOCKSTEP_E2E_FUNCTION"

func TestMain(m *testing.M) {
	if name := os.Getenv(functionVariable); name != "" {
		functions.Start(name)
		return
	}
	os.Exit(m.Run())
}
