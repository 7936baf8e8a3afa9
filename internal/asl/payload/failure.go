package payload

import "errors"

// Error names that a Failure of this package carries.
const (
	// ErrorRuntime can be neither caught nor retried.
	ErrorRuntime = "States.Runtime"

	// ErrorReferencePathConflict is what executions show when a ResultPath
	// cannot be applied to a state's input (public reports; not recorded). The
	// specification calls the same failure States.ResultPathMatchFailure.
	ErrorReferencePathConflict = "States.ReferencePathConflict"
)

// ErrNotFound marks the failure of a path that leads to nothing, whatever its
// wording: test for it with errors.Is.
var ErrNotFound = errors.New("path leads to nothing")

// Failure is what goes wrong with data while a machine runs. All errors that
// evaluation returns are of this type.
type Failure struct {
	Name   string // error name, such as States.Runtime
	Reason string // AWS's sentence, without the prefix that names the state
	Detail string // what AWS does not say, in our words; often empty
	cause  error  // ErrNotFound or nil
}

// Error returns the reason and, in parentheses, the detail.
func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Reason
	}
	return f.Reason + " (" + f.Detail + ")"
}

// Unwrap lets errors.Is find ErrNotFound.
func (f *Failure) Unwrap() error { return f.cause }

// notFound is the failure of a path that leads to nothing.
func notFound(reason string) *Failure {
	return &Failure{Name: ErrorRuntime, Reason: reason, cause: ErrNotFound}
}

// nullInput is the failure of a path on an input that is null (public reports).
func nullInput() *Failure {
	return notFound("Unable to apply Path transformation to null or empty input.")
}

// Problem is what is wrong with an expression or template of a definition.
type Problem struct {
	// Within leads from the template to the object that holds the field, in
	// the notation of AWS's locations: "" at the top, "/outer/list[0]" below.
	Within string
	// Message is AWS's sentence, where AWS has one.
	Message string
	// Detail says in our words what is wrong and what to do.
	Detail string
}

// Error returns message and detail.
func (p Problem) Error() string {
	if p.Detail == "" {
		return p.Message
	}
	return p.Message + ": " + p.Detail
}
