package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Invocation is how an invocation ended, as Lambda's Invoke reports it.
type Invocation struct {
	RequestID string
	// ErrorType is empty when the function returned normally. Otherwise it is
	// the error's name: the handler's own, or one of Lambda's
	// (Runtime.ExitError, Sandbox.Timedout, Runtime.InvalidEntrypoint).
	ErrorType string
	// Payload is the function's reply, or the error body, verbatim.
	Payload []byte
}

// errorBody is what Lambda writes when it ends an invocation itself.
type errorBody struct {
	ErrorType    string `json:"errorType"`
	ErrorMessage string `json:"errorMessage"`
}

// lambdaError is an invocation that Lambda, not the handler, gives the error of.
func lambdaError(request, kind, message string) Invocation {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	// Two strings cannot fail to encode.
	_ = encoder.Encode(errorBody{kind, fmt.Sprintf("RequestId: %s Error: %s", request, message)})
	return Invocation{RequestID: request, ErrorType: kind, Payload: bytes.TrimSpace(body.Bytes())}
}

func exitError(request, end string) Invocation {
	return lambdaError(request, "Runtime.ExitError", end)
}

func timedOut(request string, limit time.Duration) Invocation {
	return lambdaError(request, "Sandbox.Timedout", fmt.Sprintf("Task timed out after %.2f seconds", limit.Seconds()))
}

func invalidEntrypoint(request string, err error) Invocation {
	return lambdaError(request, "Runtime.InvalidEntrypoint", err.Error())
}

// diedAtStart is the end of an invocation whose process did not come to take
// it. The process's own report counts; without one, what it printed last is
// added, because nobody looks for a log on a laptop.
func diedAtStart(request string, p *process) Invocation {
	if report := p.startReport(); len(report) > 0 {
		return Invocation{RequestID: request, ErrorType: errorType(report), Payload: report}
	}
	message := p.end()
	if printed := p.output.text(); printed != "" {
		message += "\n" + printed
	}
	return exitError(request, message)
}

// errorType reads the error's name from an error body. Step Functions calls an
// error without one Lambda.Unknown.
func errorType(body []byte) string {
	var e errorBody
	if err := json.Unmarshal(body, &e); err != nil || e.ErrorType == "" {
		return "Lambda.Unknown"
	}
	return e.ErrorType
}
