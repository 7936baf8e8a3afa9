package asl

import (
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// Error names of the states language that the interpreter itself gives or treats apart.
const (
	errorAll              = "States.ALL"
	errorDataLimit        = "States.DataLimitExceeded"
	errorExceedTolerance  = "States.ExceedToleratedFailureThreshold"
	errorItemReader       = "States.ItemReaderFailed"
	errorResultWriter     = "States.ResultWriterFailed"
	errorRuntime          = payload.ErrorRuntime
	errorTaskFailed       = "States.TaskFailed"
	errorTimeout          = "States.Timeout"
	dataLimit             = 256 * 1024 // bytes of JSON text that a state may take or give
	dataLimitCauseFormat  = "The state/task '%s' returned a result with a size exceeding the maximum number of bytes service limit."
	runtimeCauseFormat    = "An error occurred while executing the state '%s' (entered at the event id #%d). %s"
	historyLimit          = 25000
	historyLimitCause     = "The execution reached the maximum number of history events (25000)."
	exceedsToleranceCause = "The specified tolerated failure threshold was exceeded"
)

// errStopped unwinds a goroutine whose scope was stopped, or whose execution ended.
var errStopped = errors.New("stopped")

// A failure is the error with which a state ends. Either part may be unknown.
type failure struct {
	FailureDetails
	terminal bool // ends the execution: neither retried nor caught
}

func fail(name, cause string) *failure {
	return &failure{FailureDetails: FailureDetails{Error: &name, Cause: &cause}}
}

// timedOut is the one failure that has no cause at all.
func timedOut() *failure {
	name := errorTimeout
	return &failure{FailureDetails: FailureDetails{Error: &name}}
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.name(), deref(f.Cause)) }

func (f *failure) name() string { return deref(f.FailureDetails.Error) }

// caught is what a Catch makes of a failure: both keys are always there.
func (f *failure) caught() map[string]any {
	return map[string]any{"Error": f.name(), "Cause": deref(f.Cause)}
}

// tooBig is the failure of anything that gave more data than the service carries.
func tooBig(what string) *failure {
	return fail(errorDataLimit, fmt.Sprintf(dataLimitCauseFormat, what))
}

// runtime is the failure of the interpreter in the current state.
func (c *chain) runtime(format string, args ...any) *failure {
	f := fail(errorRuntime, fmt.Sprintf(runtimeCauseFormat, c.state.name, c.entered.ID, fmt.Sprintf(format, args...)))
	f.terminal = true
	return f
}

// failed gives an error of the data layer the form in which executions show it.
func (c *chain) failed(err error) error {
	var data *payload.Failure
	if !errors.As(err, &data) {
		return err
	}
	f := c.runtime("%s", data.Reason)
	if data.Name != errorRuntime {
		f = fail(data.Name, *f.Cause)
	}
	return f
}
