package settings

import (
	"encoding/json"
	"fmt"
	"strings"

	lockstep "github.com/lockstep-pipeline/lockstep"
)

// Machine is what a deployment must know of the state machine's definition.
type Machine struct {
	// TaskSeconds is how long the state machine waits for each function, by the
	// function's name; the shortest, where several states call it.
	TaskSeconds map[string]int
	// LongestPauseSeconds is the longest pause before a step is tried again,
	// while nothing renews the lease.
	LongestPauseSeconds int
}

// machineState is the part of a state that is read here.
type machineState struct {
	TimeoutSeconds int
	Parameters     struct{ FunctionName string }
	Retry          []struct{ MaxDelaySeconds int }
	ItemProcessor  struct{ States map[string]machineState }
}

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
		if name := functionOf(s.Parameters.FunctionName); name != "" {
			if known, seen := m.TaskSeconds[name]; !seen || s.TimeoutSeconds < known {
				m.TaskSeconds[name] = s.TimeoutSeconds
			}
		}
		for _, r := range s.Retry {
			m.LongestPauseSeconds = max(m.LongestPauseSeconds, r.MaxDelaySeconds)
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
