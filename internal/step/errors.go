package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
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
// failure.maxFailedFraction, after everything else was committed; or, where
// failure.atomicity is "run", any run with a failure.
type TooManyFilesFailedError struct {
	Failed, Total int64
	MaxFraction   float64
	AllOrNothing  bool
	First         string // the first failure, as an example
	Summary       string // where all of them are listed
}

func (e *TooManyFilesFailedError) Error() string {
	rule := fmt.Sprintf("more than failure.maxFailedFraction %v allows; the others are committed", e.MaxFraction)
	if e.AllOrNothing {
		rule = "and failure.atomicity is \"run\"; nothing is committed and the run's outputs are removed"
	}
	return fmt.Sprintf("%d of %d files failed, %s; first failure: %s; all of them: %s", e.Failed, e.Total, rule, e.First, e.Summary)
}

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
	"InvalidConfigError", "InvalidInputError", "LeaseLostError", "LockCorruptError",
	"EndpointRefusedError", "LedgerFencedError", "TooManyFilesFailedError", "TransientError", "StepError",
}

// Translate gives an error the one name under which the state machine knows
// its kind.
func Translate(err error) error {
	if err == nil {
		return nil
	}
	var (
		config  *InvalidConfigError
		input   *InvalidInputError
		many    *TooManyFilesFailedError
		corrupt *lease.CorruptError
	)
	switch {
	case errors.As(err, &config):
		return config
	case errors.As(err, &input):
		return input
	case errors.As(err, &many):
		return many
	case errors.Is(err, ledger.ErrFenced):
		return &LedgerFencedError{err}
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

// transient reports trouble of the moment, which is no file's fault.
func transient(err error) bool {
	var marked *TransientError
	return errors.As(err, &marked) || bucket.Transient(err) ||
		errors.Is(err, lease.ErrUncertain) || errors.Is(err, context.DeadlineExceeded)
}
