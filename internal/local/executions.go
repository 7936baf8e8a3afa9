package local

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// executions starts executions of the state machine and remembers them.
type executions struct {
	machine *asl.Machine // nil without a definition
	rule    *statusRule  // may be nil

	running    sync.WaitGroup
	deliveries context.Context // of the rule; ended to stop them
	giveUp     context.CancelFunc

	mu     sync.Mutex
	closed bool
	byARN  map[string]*asl.Execution
	order  []string // ARNs, as they were started
	inputs map[string]string
}

func newExecutions(machine *asl.Machine, rule *statusRule) *executions {
	e := &executions{machine: machine, rule: rule, byARN: map[string]*asl.Execution{}, inputs: map[string]string{}}
	e.deliveries, e.giveUp = context.WithCancel(context.Background())
	return e
}

// start begins an execution, or returns the one that is already running with
// this name and this input, as StartExecution does.
func (e *executions) start(name string, input []byte) (*asl.Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("start execution %s: %w", name, ErrClosed)
	}
	if e.machine == nil {
		return nil, fmt.Errorf("start execution %s: %w", name, ErrNoMachine)
	}
	if name == "" {
		name = uuid.NewString()
	}
	arn := strings.Replace(e.machine.ARN(), ":stateMachine:", ":execution:", 1) + ":" + name
	if known, ok := e.byARN[arn]; ok {
		if known.Status() == asl.StatusRunning && e.inputs[arn] == string(input) {
			return known, nil
		}
		return nil, fmt.Errorf("start execution: %w: Execution Already Exists: '%s'", ErrExecutionExists, arn)
	}
	// Only abort ends it: a caller's context would end it without a word.
	execution, err := e.machine.Start(context.Background(), asl.Input{Name: name, JSON: string(input)})
	if err != nil {
		return nil, err
	}
	e.byARN[arn], e.inputs[arn] = execution, string(input)
	e.order = append(e.order, arn)
	e.running.Go(func() { e.attend(execution) })
	return execution, nil
}

// attend waits for the end of an execution and tells the rule.
func (e *executions) attend(execution *asl.Execution) {
	<-execution.Ended()
	if e.rule != nil && e.rule.matches(execution.Status()) {
		e.rule.deliver(e.deliveries, execution.Describe())
	}
	execution.Wait()
}

// find returns the execution with this ARN, also one that a Map Run started,
// or nil.
func (e *executions) find(arn string) *asl.Execution {
	e.mu.Lock()
	known := e.byARN[arn]
	e.mu.Unlock()
	if known != nil {
		return known
	}
	for run := range e.mapRuns() {
		for _, child := range run.Children() {
			if child.ARN() == arn {
				return child
			}
		}
	}
	return nil
}

// findMapRun returns the Map Run with this ARN, or nil.
func (e *executions) findMapRun(arn string) *asl.MapRun {
	for run := range e.mapRuns() {
		if run.ARN() == arn {
			return run
		}
	}
	return nil
}

// mapRuns yields all Map Runs, those of their children too.
func (e *executions) mapRuns() iter.Seq[*asl.MapRun] {
	return func(yield func(*asl.MapRun) bool) {
		executions := e.all()
		for len(executions) > 0 {
			runs := executions[0].MapRuns()
			executions = executions[1:]
			for _, run := range runs {
				if !yield(run) {
					return
				}
				executions = append(executions, run.Children()...)
			}
		}
	}
}

// all returns the executions in the order in which they were started.
func (e *executions) all() []*asl.Execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*asl.Execution, 0, len(e.order))
	for _, arn := range e.order {
		list = append(list, e.byARN[arn])
	}
	return list
}

// close aborts what runs and lets the rule finish until ctx ends.
func (e *executions) close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	for _, execution := range e.all() {
		execution.Abort("", "")
	}
	stop := context.AfterFunc(ctx, e.giveUp)
	defer stop()
	e.running.Wait()
	e.giveUp()
}
