// Package functions is where the Lambda functions begin: environment, clients,
// handler. It is the only package below the commands that reads the
// environment; what the functions do is in internal/step.
//
// Each folder below is the main of one function; all of them call Start. The
// command line serves the same functions from one binary on a laptop.
package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// Names lists the functions in the order of a run.
var Names = []string{"acquire", "discover", "process", "commit", "release"}

// Start serves the function called name for as long as the Lambda runtime
// gives it invocations. It ends the process when it cannot begin.
func Start(name string) {
	slog.SetDefault(newLog(os.Stderr, name))
	handler, err := newHandler(context.Background(), name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "lockstep function %s: %v\n", name, err)
		os.Exit(1)
	}
	lambda.Start(handler)
}

// newLog calls a line's time and text what Lambda calls them: of a line without
// a "timestamp" Lambda does not believe the level either.
// Source: Lambda developer guide, "Log-level filtering".
func newLog(to io.Writer, function string) *slog.Logger {
	handler := slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: lambdacontext.ReplaceAttr})
	return slog.New(handler).With("function", function)
}

func newHandler(ctx context.Context, name string) (any, error) {
	metrics := metricWriter{to: os.Stdout, function: name, log: slog.Default()}
	steps, prober, err := newSteps(ctx, slog.Default(), metrics.write)
	if err != nil {
		return nil, err
	}
	switch name {
	case "acquire":
		return handle(prober.before(steps.Acquire)), nil
	case "discover":
		return handle(steps.Discover), nil
	case "process":
		return handle(steps.Process), nil
	case "commit":
		return handle(steps.Commit), nil
	case "release":
		return handle(steps.Release), nil
	}
	return nil, fmt.Errorf("no such function; there are: %s", strings.Join(Names, ", "))
}

// handle decodes a step's input and gives its errors the names that the state
// machine knows.
func handle[In, Out any](do func(context.Context, In) (Out, error)) func(context.Context, json.RawMessage) (*Out, error) {
	return func(ctx context.Context, raw json.RawMessage) (*Out, error) {
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, &step.InvalidInputError{Problem: fmt.Sprintf("%v; the state machine and the functions may be of different versions", err)}
		}
		out, err := do(ctx, in)
		if err != nil {
			err = step.Translate(err)
			slog.ErrorContext(ctx, "step failed", "error", err, "type", fmt.Sprintf("%T", err))
			return nil, err
		}
		return &out, nil
	}
}
