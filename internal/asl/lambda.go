package asl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Lambda invokes the functions of Task states.
type Lambda interface {
	// Invoke calls a function and waits for its answer. It returns soon after ctx is done (the state timed out, or its
	// execution ended); whether the function itself goes on is the implementation's matter: on AWS it does.
	// A [FunctionError] says that the function failed, a [ServiceError] that it could not be called; any other error
	// is taken for a Lambda.SdkClientException.
	Invoke(ctx context.Context, call Call) (Invocation, error)
}

// An Immediate is a [Lambda] that needs no time to answer, such as a table of answers. It is asked while its caller has
// the turn, so the order of the calls, and with it the answers, is the same at every run.
type Immediate interface {
	Lambda
	// Answer is Invoke without waiting.
	Answer(call Call) (Invocation, error)
}

// A Call is one attempt of a Task state to have its function run.
type Call struct {
	ExecutionARN  string
	State         string // the state's name
	FunctionARN   string // without qualifier
	Qualifier     string // version or alias; "" is $LATEST
	ClientContext string // as the state gives it; "" is none
	Payload       []byte // JSON
}

// Function is the name of the function: the last part of its ARN.
func (c Call) Function() string {
	return c.FunctionARN[strings.LastIndex(c.FunctionARN, ":")+1:]
}

// An Invocation is a function's answer.
type Invocation struct {
	Payload []byte // JSON; empty is null
	Log     []byte // the end of the log, if it is known
	// Took is how long the answer took, for an implementation that gives it at once in place of a function that would
	// take its time. The state waits that long, shortened as waits are, or times out. It counts for errors, too.
	Took time.Duration
}

// A FunctionError is the failure of a function: its handler returned an error, or its process ended.
type FunctionError struct {
	Type string // errorType of the body; the state fails with it
	Body string // the body of Lambda's reply, verbatim; the state's cause, unknown if empty
}

func (e *FunctionError) Error() string { return fmt.Sprintf("function failed: %s: %s", e.Type, e.Body) }

// A ServiceError is the failure to have a function called.
type ServiceError struct {
	Name    string // such as Lambda.TooManyRequestsException
	Message string
}

func (e *ServiceError) Error() string { return e.Name + ": " + e.Message }

// FunctionNotFound is the error of Lambda for a function that does not exist.
func FunctionNotFound(call Call, requestID string) *ServiceError {
	qualifier := call.Qualifier
	if qualifier == "" {
		qualifier = latest
	}
	return &ServiceError{
		Name: "Lambda.ResourceNotFoundException",
		Message: fmt.Sprintf("Function not found: %s:%s (Service: AWSLambda; Status Code: 404; "+
			"Error Code: ResourceNotFoundException; Request ID: %s; Proxy: null)", call.FunctionARN, qualifier, requestID),
	}
}

const latest = "$LATEST"

// failureOf translates an error of a [Lambda] into the failure of a task.
func failureOf(err error) *failure {
	var function *FunctionError
	if errors.As(err, &function) {
		f := fail(function.Type, function.Body)
		if function.Body == "" {
			f.Cause = nil
		}
		return f
	}
	var service *ServiceError
	if errors.As(err, &service) {
		return fail(service.Name, service.Message)
	}
	return fail("Lambda.SdkClientException", err.Error())
}

// splitFunction takes a function's name or ARN apart: the ARN without qualifier, and the qualifier. The name may be
// bare, or account:function:name, as Lambda allows.
func (m *Machine) splitFunction(name string) (arn, qualifier string) {
	parts := strings.Split(name, ":")
	var account, region = m.cfg.Account, m.cfg.Region
	switch {
	case parts[0] == "arn" && len(parts) >= 7:
		region, account, parts = parts[3], parts[4], parts[6:]
	case len(parts) >= 3 && parts[1] == "function":
		account, parts = parts[0], parts[2:]
	}
	if len(parts) > 1 {
		qualifier = parts[1]
	}
	return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", region, account, parts[0]), qualifier
}
