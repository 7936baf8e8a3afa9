package step

import (
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// The names of these types are the error names that the state machine sees:
// the Lambda runtime for Go reports the type of the outermost error. Every
// error leaves a step through Translate, so no other name can appear.
// Source: aws-lambda-go, lambda/errors.go.

// InvalidConfigError refuses a run configuration before anything is touched.
type InvalidConfigError struct {
	Field   string // path of the field, such as "lock.ttlSeconds"
	Problem string // what is wrong and what to write instead
}

func (e *InvalidConfigError) Error() string {
	return fmt.Sprintf("run configuration: %s %s", e.Field, e.Problem)
}

// InvalidInputError refuses a function input that is not of the state
// machine's making.
type InvalidInputError struct{ Problem string }

func (e *InvalidInputError) Error() string { return "function input: " + e.Problem }

// LeaseLostError: the run no longer holds its lock. It must stop; what it has
// not committed is another run's work now.
type LeaseLostError struct{ cause error }

func (e *LeaseLostError) Error() string {
	return fmt.Sprintf("the run no longer holds its lock: %v; nothing more was published, and the next run takes the files", e.cause)
}
func (e *LeaseLostError) Unwrap() error { return e.cause }

// RunEndedError: this life of the execution has ended, and asks for the lock
// again: a call that outlived it, or a run whose lock an operator broke.
type RunEndedError struct{ cause error }

func (e *RunEndedError) Error() string { return fmt.Sprintf("%v; start another run", e.cause) }
func (e *RunEndedError) Unwrap() error { return e.cause }

// LockCorruptError: the lock object cannot be read. It counts as held until an
// operator breaks it.
type LockCorruptError struct{ cause error }

func (e *LockCorruptError) Error() string { return e.cause.Error() }
func (e *LockCorruptError) Unwrap() error { return e.cause }

// EndpointRefusedError: the S3 endpoint does not enforce what a lock lives by,
// so none was taken.
type EndpointRefusedError struct{ cause error }

func (e *EndpointRefusedError) Error() string { return e.cause.Error() }
func (e *EndpointRefusedError) Unwrap() error { return e.cause }

// LedgerFencedError: a run with a higher fencing token committed already.
type LedgerFencedError struct{ cause error }

func (e *LedgerFencedError) Error() string { return e.cause.Error() }
func (e *LedgerFencedError) Unwrap() error { return e.cause }

// TooManyFilesFailedError fails a run whose failed fraction is above
// failure.maxFailedFraction, after everything else was committed.
type TooManyFilesFailedError struct {
	Failed, Total int64
	MaxFraction   float64
	First         string // the first failure, as an example
	Summary       string // where all of them are listed
}

func (e *TooManyFilesFailedError) Error() string {
	return fmt.Sprintf("%d of %d files failed, more than failure.maxFailedFraction %v allows; the others are committed; first failure: %s; all of them: %s",
		e.Failed, e.Total, e.MaxFraction, e.First, e.Summary)
}

// SourceUnavailableError: the source could not be read. No file is blamed, and
// the next run takes them.
type SourceUnavailableError struct{ cause error }

func (e *SourceUnavailableError) Error() string { return "source: " + e.cause.Error() }
func (e *SourceUnavailableError) Unwrap() error { return e.cause }

// DestinationUnavailableError: outputs could not be written. No file is blamed,
// and the next run takes them.
type DestinationUnavailableError struct{ cause error }

func (e *DestinationUnavailableError) Error() string { return "destination: " + e.cause.Error() }
func (e *DestinationUnavailableError) Unwrap() error { return e.cause }

// DestinationTakenError: objects that this pipeline did not publish are where
// its outputs belong. Nothing was written over them.
type DestinationTakenError struct{ cause error }

func (e *DestinationTakenError) Error() string { return "destination: " + e.cause.Error() }
func (e *DestinationTakenError) Unwrap() error { return e.cause }

// ProcessorUnavailableError: the processor failed for reasons that are not the
// files' own, or failed for all of them. No file is blamed.
type ProcessorUnavailableError struct{ cause error }

func (e *ProcessorUnavailableError) Error() string { return "processor: " + e.cause.Error() }
func (e *ProcessorUnavailableError) Unwrap() error { return e.cause }

// ProcessFunctionError: processing calls never began, crashed, or ran out of
// time, and no file was done that would show whose fault it is.
type ProcessFunctionError struct{ cause error }

func (e *ProcessFunctionError) Error() string { return "process function: " + e.cause.Error() }
func (e *ProcessFunctionError) Unwrap() error { return e.cause }

// hinderedBy names a run's error after what stood in its way.
func hinderedBy(cause Cause, err error) error {
	switch cause {
	case CauseSource:
		return &SourceUnavailableError{err}
	case CauseDestination:
		return &DestinationUnavailableError{err}
	case CauseDestinationTaken:
		return &DestinationTakenError{err}
	case CauseProcessor:
		return &ProcessorUnavailableError{err}
	case CauseFunction:
		return &ProcessFunctionError{err}
	}
	return &ThrottledError{err}
}

// ThrottledError: throttling, 5xx answers or lost connections outlasted every
// retry of the processing calls.
type ThrottledError struct{ cause error }

func (e *ThrottledError) Error() string { return e.cause.Error() }
func (e *ThrottledError) Unwrap() error { return e.cause }

// PipelineChangedError: the run would write elsewhere, or from elsewhere, than
// the runs before it. Nothing was changed.
type PipelineChangedError struct{ cause error }

func (e *PipelineChangedError) Error() string { return e.cause.Error() }
func (e *PipelineChangedError) Unwrap() error { return e.cause }

// TransientError is trouble of the moment (throttling, a 5xx, a lost
// connection): the state machine tries the step again.
type TransientError struct{ cause error }

func (e *TransientError) Error() string { return e.cause.Error() }
func (e *TransientError) Unwrap() error { return e.cause }

// StepError is every other failure.
type StepError struct{ cause error }

func (e *StepError) Error() string { return e.cause.Error() }
func (e *StepError) Unwrap() error { return e.cause }

// ErrorNames lists every name that a function can put before the state
// machine, for the test that compares them with statemachine.asl.json.
var ErrorNames = []string{
	"InvalidConfigError", "InvalidInputError", "LeaseLostError", "RunEndedError", "LockCorruptError",
	"EndpointRefusedError", "LedgerFencedError", "PipelineChangedError", "TooManyFilesFailedError",
	"SourceUnavailableError", "DestinationUnavailableError", "DestinationTakenError",
	"ProcessorUnavailableError", "ProcessFunctionError", "ThrottledError", "TransientError", "StepError",
}

// Translate gives an error the one name under which the state machine knows
// its kind. An error that has one keeps it.
func Translate(err error) error {
	if err == nil {
		return nil
	}
	for _, named := range []func(error) error{
		as[*InvalidConfigError], as[*InvalidInputError], as[*TooManyFilesFailedError], as[*SourceUnavailableError],
		as[*DestinationUnavailableError], as[*DestinationTakenError], as[*ProcessorUnavailableError],
		as[*ProcessFunctionError], as[*ThrottledError], as[*PipelineChangedError],
	} {
		if found := named(err); found != nil {
			return found
		}
	}
	var corrupt *lease.CorruptError
	switch {
	case errors.Is(err, ledger.ErrFenced):
		return &LedgerFencedError{err}
	case errors.Is(err, ledger.ErrIdentity):
		return &PipelineChangedError{err}
	case errors.Is(err, lease.ErrEnded):
		return &RunEndedError{err}
	case errors.Is(err, lease.ErrLost):
		return &LeaseLostError{err}
	case errors.Is(err, s3lock.ErrEndpointRefused):
		return &EndpointRefusedError{err}
	case errors.As(err, &corrupt):
		return &LockCorruptError{err}
	case transient(err):
		return &TransientError{err}
	}
	return &StepError{err}
}

// as returns the error of type E in err's tree, or nil.
func as[E error](err error) error {
	var found E
	if errors.As(err, &found) {
		return found
	}
	return nil
}

func isUncertain(err error) bool { return errors.Is(err, lease.ErrUncertain) }
