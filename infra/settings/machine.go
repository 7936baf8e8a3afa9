package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	lockstep "github.com/lockstep-pipeline/lockstep"
)

// Machine is what a deployment must know of the state machine's definition.
type Machine struct {
	// TaskSeconds is how long the state machine waits for each function, by the
	// function's name; the shortest, where several states call it.
	TaskSeconds map[string]int
	// LongestPauseSeconds is the longest that a step which works under the lease
	// may wait between its tries, all pauses together: if no try reaches the
	// function, nothing renews the lease.
	LongestPauseSeconds int
}

// machineState is the part of a state that is read here.
type machineState struct {
	TimeoutSeconds int
	Parameters     struct{ FunctionName string }
	Retry          []retrier
	ItemProcessor  struct{ States map[string]machineState }
}

// retrier is one whose fields are all written out, as they are in the definition.
type retrier struct {
	IntervalSeconds, BackoffRate, MaxDelaySeconds float64
	MaxAttempts                                   int
}

// pauses is the longest that all pauses together may take, in seconds.
func (r retrier) pauses() (sum float64) {
	pause := r.IntervalSeconds
	for range r.MaxAttempts {
		sum += min(pause, r.MaxDelaySeconds)
		pause *= r.BackoffRate
	}
	return sum
}

// underLease are the functions that need the lease that an earlier call left.
var underLease = []string{"discover", "process", "commit"}

// ReadMachine reads statemachine.asl.json.
func ReadMachine() (Machine, error) {
	var definition struct{ States map[string]machineState }
	if err := json.Unmarshal(lockstep.Definition, &definition); err != nil {
		return Machine{}, fmt.Errorf("statemachine.asl.json: %w", err)
	}
	m := Machine{TaskSeconds: map[string]int{}}
	m.read(definition.States)
	return m, nil
}

func (m *Machine) read(states map[string]machineState) {
	for _, s := range states {
		name := functionOf(s.Parameters.FunctionName)
		if name != "" {
			if known, seen := m.TaskSeconds[name]; !seen || s.TimeoutSeconds < known {
				m.TaskSeconds[name] = s.TimeoutSeconds
			}
		}
		if slices.Contains(underLease, name) {
			sum := 0.0 // one error may follow the other
			for _, r := range s.Retry {
				sum += r.pauses()
			}
			m.LongestPauseSeconds = max(m.LongestPauseSeconds, int(math.Ceil(sum)))
		}
		m.read(s.ItemProcessor.States)
	}
}

// functionOf turns "${AcquireFunctionArn}" into "acquire".
func functionOf(reference string) string {
	name, isFunction := strings.CutSuffix(strings.TrimPrefix(reference, "${"), "FunctionArn}")
	if !isFunction {
		return ""
	}
	return strings.ToLower(name)
}

// FunctionVariable is the name in the definition that a function's ARN is put
// in place of.
func FunctionVariable(name string) string {
	return strings.ToUpper(name[:1]) + name[1:] + "FunctionArn"
}
