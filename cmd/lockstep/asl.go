package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/mock"
)

// aslCommands are the verbs for people who change a state machine.
type aslCommands struct {
	Run   aslRun   `cmd:"" help:"Run a state machine, its functions answered by mocks, and print its history."`
	Check aslCheck `cmd:"" help:"Say whether a state machine can be executed, or all reasons why not."`
}

// aslRun is "lockstep asl run".
type aslRun struct {
	Definition string            `required:"" placeholder:"FILE" help:"The state machine."`
	Input      string            `placeholder:"FILE" help:"Input of the execution, - for standard input; default {}."`
	Mocks      string            `placeholder:"FILE" help:"Answers of functions and states, and S3 objects."`
	ScaleWaits float64           `default:"1" placeholder:"X" help:"Waits, retry delays and the seconds of mocks take this share of their length (default 1): 0.01 a hundredth, 0 no time. The history shows their full length."`
	Substitute map[string]string `placeholder:"NAME=VALUE" help:"Value of a $${NAME} placeholder; may be repeated."`
	Name       string            `help:"Name of the execution; default a UUID."`
	Machine    string            `default:"machine" help:"Name of the state machine, for ARNs."`
	Seed       uint64            `default:"1" help:"Seed of jitter and generated ids."`
	Output     string            `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Help is the rest of "lockstep asl run --help".
func (aslRun) Help() string {
	return `The history has the events, ids, previous ids and details that AWS Step Functions would record. -o json prints
{"status", "output" or "error" and "cause", "events": [...]}, the events as GetExecutionHistory returns them, and
"mapRuns" with the child executions of distributed maps. Keys that are not known are absent.

The mocks are a JSON object. A key is the name of a state, of a function (the last part of its ARN) or a whole ARN; its
value is a list of answers used in order, the last one repeated, or a single answer:
  {"return": any}   {"error": "Name", "cause": "text"}   {"seconds": 5, "return": any}
The key "s3" holds objects for ItemReader: {"bucket/key": any}. A function without a mock does not exist.

With --mocks, placeholders that --substitute has no value for get one: ${AcquireFunctionArn} becomes the ARN of a
function named acquire, any other its name in lower case. Without, they are an error.

Exit codes: 0 the execution SUCCEEDED, 1 it ended otherwise, 2 the definition, input or mocks were refused.`
}

// Run implements the command.
func (r aslRun) Run(ctx context.Context, to *console) error {
	execution, err := r.start(ctx, to)
	if err != nil {
		explain(to.Err, r.Definition, err)
		return exitCode(2)
	}
	status := execution.Wait()
	if r.Output == "json" {
		err = writeJSON(to.Out, reportOf(execution))
	} else {
		err = writeTable(to.Out, pastOf(execution))
	}
	if err != nil {
		return fmt.Errorf("print the history: %w", err)
	}
	if status != asl.StatusSucceeded {
		return exitCode(1)
	}
	return nil
}

func (r aslRun) start(ctx context.Context, to *console) (*asl.Execution, error) {
	options := []asl.LoadOption{asl.Substitute(r.Substitute)}
	var mocks []byte
	var err error
	if r.Mocks != "" {
		options = append(options, asl.Derive(standIn))
		if mocks, err = os.ReadFile(r.Mocks); err != nil {
			return nil, fmt.Errorf("mocks: %w", err)
		}
	}
	world, err := mock.Load(mocks)
	if err != nil {
		return nil, err
	}
	definition, err := loadFile(r.Definition, options...)
	if err != nil {
		return nil, err
	}
	input, err := readInput(r.Input, to.In)
	if err != nil {
		return nil, err
	}
	scale, err := asl.ScaleWaits(r.ScaleWaits)
	if err != nil {
		return nil, err
	}
	machine, err := asl.NewMachine(definition, asl.Config{
		Name: r.Machine, Lambda: world, Objects: world,
		Simulated: true, WaitScale: scale, Random: rand.NewPCG(r.Seed, 0),
	})
	if err != nil {
		return nil, err
	}
	return machine.Start(ctx, asl.Input{Name: r.Name, JSON: input})
}

// standIn is the value of a placeholder that was given none.
func standIn(name string) string {
	if function, ok := strings.CutSuffix(name, "FunctionArn"); ok && function != "" {
		return "arn:aws:lambda:us-east-1:123456789012:function:" + strings.ToLower(function)
	}
	return strings.ToLower(name)
}

func loadFile(name string, options ...asl.LoadOption) (*asl.Definition, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	return asl.Load(text, options...)
}

func readInput(name string, standard io.Reader) (string, error) {
	if name == "" {
		return "{}", nil
	}
	text, err := readGiven(name, standard)
	if err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	if trimmed := strings.TrimSpace(string(text)); trimmed != "" {
		return trimmed, nil
	}
	return "", fmt.Errorf("input: %w: the text is empty", asl.ErrInvalidInput)
}

// aslCheck is "lockstep asl check".
type aslCheck struct {
	Definition string            `arg:"" placeholder:"FILE" help:"The state machine."`
	Substitute map[string]string `placeholder:"NAME=VALUE" help:"Value of a $${NAME} placeholder; may be repeated. Others get a stand-in, as in asl run --mocks."`
	Output     string            `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Help is the rest of "lockstep asl check --help".
func (aslCheck) Help() string {
	return `Refuses what CreateStateMachine refuses, and with the code NOT_EXECUTED what AWS would accept but this
interpreter does not execute. -o json prints the answer of ValidateStateMachineDefinition: result, diagnostics, truncated.

Exit codes: 0 it can be executed, 2 it cannot.`
}

// Run implements the command.
func (c aslCheck) Run(to *console) error {
	_, err := loadFile(c.Definition, asl.Substitute(c.Substitute), asl.Derive(standIn))
	var refused *asl.DefinitionError
	switch {
	case err != nil && !errors.As(err, &refused):
		explain(to.Err, c.Definition, err)
		return exitCode(2)
	case c.Output == "json":
		if err := writeJSON(to.Out, asl.Validate(refused)); err != nil {
			return err
		}
	case refused == nil:
		fmt.Fprintln(to.Out, "OK")
	default:
		explain(to.Out, c.Definition, refused)
	}
	if refused != nil {
		return exitCode(2)
	}
	return nil
}

// explain writes an error for people: of a refused definition each reason on a line of its own.
func explain(w io.Writer, file string, err error) {
	var refused *asl.DefinitionError
	if !errors.As(err, &refused) {
		fmt.Fprintln(w, "lockstep:", err)
		return
	}
	for _, d := range refused.Diagnostics {
		line := file
		if d.Location != "" {
			line += " " + d.Location
		}
		line += ": " + d.Code + ": " + d.Message
		if d.Detail != "" {
			line += " (" + d.Detail + ")"
		}
		fmt.Fprintln(w, line)
	}
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
