package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// Config describes one stack.
type Config struct {
	// Definition is the state machine, in the Amazon States Language. It may be
	// empty: then no execution can be started.
	Definition []byte
	// MachineName is the state machine's; empty means "lockstep".
	MachineName string
	// Functions are the Lambda functions of the stack.
	Functions []Function
	// OnStatusChange names the function that is invoked with the EventBridge
	// event when an execution ends ABORTED, TIMED_OUT or FAILED. Empty means
	// that there is no such rule.
	OnStatusChange string
	// Substitutions are the ${Name} values of the definition beside the
	// functions' own: a function "acquire" is ${AcquireFunctionArn}.
	Substitutions map[string]string
	// WaitScale is the share of their length that Wait states, the delays of
	// retries and those of the status-change rule last: 0.01 is a hundredth.
	// Zero means 1. Time-outs are never shortened.
	WaitScale float64
	// Observer is told of every event of every execution; may be nil.
	Observer asl.Observer
	// Logger receives the stack's own decisions; nil means slog.Default.
	Logger *slog.Logger
	// Stderr receives what the functions print, whole lines at a time; nil
	// discards it.
	Stderr io.Writer
}

// Function is one Lambda function and the command that serves it.
type Function struct {
	Name string
	// Argv is the command; it must speak the Lambda Runtime API, as every
	// binary that calls lambda.Start does.
	Argv []string
	// Env is added to the environment that Lambda gives, as NAME=value.
	Env []string
	// Timeout is the function's time limit, whole seconds from 1 s to 15 min.
	// Zero means Lambda's default, 3 s.
	Timeout time.Duration
	// Concurrency is the most processes that serve the function at a time; more
	// invocations wait in line. Zero means 1.
	Concurrency int
}

const (
	defaultTimeout = 3 * time.Second
	maxTimeout     = 15 * time.Minute
)

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checked returns the configuration with its defaults, or what is wrong with it.
func (c Config) checked() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	if c.MachineName == "" {
		c.MachineName = "lockstep"
	}
	if c.WaitScale == 0 {
		c.WaitScale = 1
	}
	known := map[string]bool{}
	functions := make([]Function, len(c.Functions))
	for i, f := range c.Functions {
		if known[f.Name] {
			return c, fmt.Errorf("function %q is given twice", f.Name)
		}
		known[f.Name] = true
		var err error
		if functions[i], err = f.checked(); err != nil {
			return c, fmt.Errorf("function %q: %w", f.Name, err)
		}
	}
	c.Functions = functions
	if c.OnStatusChange != "" && !known[c.OnStatusChange] {
		return c, fmt.Errorf("the status-change rule names function %q, which is not in the stack", c.OnStatusChange)
	}
	return c, nil
}

func (f Function) checked() (Function, error) {
	if f.Timeout == 0 {
		f.Timeout = defaultTimeout
	}
	if f.Concurrency == 0 {
		f.Concurrency = 1
	}
	switch {
	case !functionName.MatchString(f.Name):
		return f, errors.New("the name must be 1 to 64 letters, digits, - and _")
	case len(f.Argv) == 0:
		return f, errors.New("no command given")
	case f.Timeout < time.Second || f.Timeout > maxTimeout || f.Timeout%time.Second != 0:
		return f, fmt.Errorf("the time limit is %s; Lambda takes whole seconds from 1s to %s", f.Timeout, maxTimeout)
	case f.Concurrency < 0:
		return f, fmt.Errorf("the concurrency is %d; it must be positive", f.Concurrency)
	}
	return f, nil
}

// substitutions are the values of ${Name} in the definition: each function's
// ARN, and what the caller adds.
func (c Config) substitutions() map[string]string {
	values := map[string]string{}
	for _, f := range c.Functions {
		values[substitutionName(f.Name)] = functionARN(f.Name)
	}
	maps.Copy(values, c.Substitutions)
	return values
}

// substitutionName turns "acquire" into "AcquireFunctionArn" and "do-it" into
// "DoItFunctionArn".
func substitutionName(function string) string {
	var name strings.Builder
	for word := range strings.FieldsFuncSeq(function, func(r rune) bool { return r == '-' || r == '_' }) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String() + "FunctionArn"
}

// machine builds the state machine, or nil where there is no definition.
func (c Config) machine(lambda asl.Lambda, objects asl.Objects) (*asl.Machine, error) {
	if len(c.Definition) == 0 {
		return nil, nil
	}
	definition, err := asl.Load(c.Definition, asl.Substitute(c.substitutions()))
	if err != nil {
		return nil, fmt.Errorf("load the state machine: %w", err)
	}
	scale, err := asl.ScaleWaits(c.WaitScale)
	if err != nil {
		return nil, err
	}
	return asl.NewMachine(definition, asl.Config{
		Name:      c.MachineName,
		Region:    Region,
		Account:   Account,
		Lambda:    lambda,
		Objects:   objects,
		WaitScale: scale,
		Observer:  c.Observer,
	})
}
