package asl

import (
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// A Definition is a state machine that has been found executable.
type Definition struct {
	flow    *flow
	timeout time.Duration // of an execution; 0 is none
}

// A flow is a set of states with a start: a machine's, a branch's, or that of a Map.
type flow struct {
	start  string
	states map[string]*state
}

// A state is what all types of states have in common, and the work of its type.
type state struct {
	name string
	kind string // Task, Choice, …
	next string // "" where the state ends its flow, or chooses for itself

	inputPath      optionalPath
	parameters     *payload.Template
	resultSelector *payload.Template
	resultPath     resultPath
	outputPath     optionalPath

	retry []retrier
	catch []catcher

	work work
}

// work is what a type of state does between its entry and its exit: it takes the raw input of the state, and returns
// its output and the name of the state that follows, "" at the end of the flow.
type work interface {
	run(c *chain, input any) (output any, next string, err error)
}
