package step

import (
	"context"
	"errors"
	"net/http"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// Blame needs proof. Only two errors blame a file by themselves: the processor
// says that the file is malformed, or not supported. An error that names
// something else (a bucket, credentials, a disk) never does. What is between the
// two, such as one object that cannot be read or a call that crashed with one
// file alone, is not proven: CommitLedger counts it as a failed attempt only if
// another file of the same run got through the same bucket and processor.

// Cause is what stood in the way of a file that did not fail by its own fault.
// The run's error is named after it.
type Cause string

// The causes.
const (
	CauseSource           Cause = "source"           // the source bucket, its key, or the right to read it
	CauseDestination      Cause = "destination"      // the destination bucket, its key, or the right to write it
	CauseDestinationTaken Cause = "destinationTaken" // an object of somebody else is where an output belongs
	CauseProcessor        Cause = "processor"        // the processor says so, or fails without a reason
	CauseFunction         Cause = "function"         // the processing call never began, crashed, or ran out of time
	CauseTransient        Cause = "transient"        // throttling, a 5xx, a lost connection
)

// finding is what the end of one file's processing says about it.
type finding struct {
	outcome Outcome
	cause   Cause
	// wide: the other files of the call would meet the same.
	wide bool
}

var superseded = finding{outcome: OutcomeSuperseded}

func deferredBy(cause Cause) finding { return finding{outcome: OutcomeDeferred, cause: cause} }

func deferredByAll(cause Cause) finding {
	return finding{outcome: OutcomeDeferred, cause: cause, wide: true}
}

func unproven(cause Cause) finding { return finding{outcome: OutcomeUnproven, cause: cause} }

// judgeSource judges an error of opening the source object.
func judgeSource(err error) finding {
	var call *bucket.CallError
	switch {
	case errors.Is(err, bucket.ErrPrecondition), errors.Is(err, bucket.ErrNotFound):
		return superseded
	case transient(err):
		return deferredBy(CauseTransient)
	case !errors.As(err, &call), bucket.OutOfService(err):
		return deferredByAll(CauseSource)
	case call.Code == "InvalidObjectState":
		return finding{outcome: OutcomeArchived}
	case call.Status >= http.StatusBadRequest && call.Status < http.StatusInternalServerError:
		return unproven(CauseSource) // this object, or all of them
	}
	return deferredByAll(CauseSource)
}

// judgeProcessor judges the error that a processor returned, once the source
// and the publisher are known to have had none.
func judgeProcessor(err error) finding {
	switch {
	case errors.Is(err, process.ErrNotFile):
		return deferredBy(CauseProcessor)
	case errors.Is(err, process.ErrMalformed), errors.Is(err, process.ErrUnsupported):
		return finding{outcome: OutcomeFailed}
	case transient(err):
		return deferredBy(CauseTransient)
	}
	return unproven(CauseProcessor)
}

// judgePublisher judges the publisher's first error.
func judgePublisher(err error) finding {
	switch {
	case errors.As(err, new(*nameTakenError)), errors.Is(err, process.ErrUnsupported):
		return finding{outcome: OutcomeFailed}
	case errors.As(err, new(*takenError)):
		return deferredBy(CauseDestinationTaken)
	case errors.As(err, new(*publishRuleError)):
		return unproven(CauseProcessor)
	case transient(err):
		return deferredBy(CauseTransient)
	}
	return deferredByAll(CauseDestination)
}

// transient reports trouble of the moment, which is no file's fault.
func transient(err error) bool {
	var marked *TransientError
	return errors.As(err, &marked) || bucket.Transient(err) || isUncertain(err) || errors.Is(err, context.DeadlineExceeded)
}
