package local

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// startExecution is StartExecution, which names what it starts unless the
// caller does, and takes {} for no input.
func (s *statesAPI) startExecution(in statesRequest) (any, error) {
	if err := s.knows(in.StateMachineARN); err != nil {
		return nil, err
	}
	execution, err := s.executions.start(in.Name, []byte(in.Input))
	switch {
	case errors.Is(err, ErrExecutionExists):
		return nil, &statesError{"ExecutionAlreadyExists", err.Error()}
	case errors.Is(err, asl.ErrInvalidInput):
		return nil, &statesError{"InvalidExecutionInput", err.Error()}
	case errors.Is(err, asl.ErrInvalidName):
		return nil, &statesError{"InvalidName", err.Error()}
	case err != nil:
		return nil, err
	}
	return inEpochSeconds(struct {
		ExecutionARN string   `json:"executionArn"`
		StartDate    asl.Time `json:"startDate"`
	}{execution.ARN(), execution.Describe().StartDate})
}

// stopExecution is StopExecution, which leaves an execution that has ended as
// it is.
func (s *statesAPI) stopExecution(in statesRequest) (any, error) {
	execution, err := s.execution(in.ExecutionARN)
	if err != nil {
		return nil, err
	}
	execution.Abort(in.Error, in.Cause)
	return inEpochSeconds(struct {
		StopDate *asl.Time `json:"stopDate"`
	}{execution.Describe().StopDate})
}

// executionListItem is an entry of ListExecutions.
type executionListItem struct {
	ExecutionARN    string     `json:"executionArn"`
	StateMachineARN string     `json:"stateMachineArn"`
	MapRunARN       string     `json:"mapRunArn,omitempty"`
	Name            string     `json:"name"`
	Status          asl.Status `json:"status"`
	StartDate       asl.Time   `json:"startDate"`
	StopDate        *asl.Time  `json:"stopDate,omitempty"`
	RedriveCount    int        `json:"redriveCount"`
}

// listExecutions lists the executions of the state machine or of a Map Run,
// the latest first.
func (s *statesAPI) listExecutions(in statesRequest) (any, error) {
	if in.RedriveFilter != "" || (in.StateMachineARN == "") == (in.MapRunARN == "") {
		return nil, &statesError{"ValidationException", "Give one of stateMachineArn and mapRunArn, and no redriveFilter: nothing is redriven here."}
	}
	executions, err := s.executionsOf(in)
	if err != nil {
		return nil, err
	}
	slices.Reverse(executions)
	// A token is the ARN of the next one, which stays right while others start
	// and end.
	if in.NextToken != "" {
		next := slices.IndexFunc(executions, func(e *asl.Execution) bool { return e.ARN() == in.NextToken })
		if next < 0 {
			return nil, &statesError{"InvalidToken", fmt.Sprintf("Invalid Token: '%s'", in.NextToken)}
		}
		executions = executions[next:]
	}
	var list []executionListItem
	for _, execution := range executions {
		d := execution.Describe()
		if in.StatusFilter == "" || in.StatusFilter == d.Status {
			list = append(list, executionListItem{d.ExecutionARN, d.StateMachineARN, d.MapRunARN, d.Name, d.Status, d.StartDate, d.StopDate, d.RedriveCount})
		}
	}
	answer := map[string]any{}
	if size := pageSizeOf(in); len(list) > size {
		answer["nextToken"] = list[size].ExecutionARN
		list = list[:size]
	}
	answer["executions"], err = allInEpochSeconds(list)
	return answer, err
}

// executionsOf are those that a list is about, the first first.
func (s *statesAPI) executionsOf(in statesRequest) ([]*asl.Execution, error) {
	if in.MapRunARN == "" {
		return s.executions.all(), s.knows(in.StateMachineARN)
	}
	run, err := s.mapRun(in.MapRunARN)
	if err != nil {
		return nil, err
	}
	return run.Children(), nil
}

// knows refuses any state machine but the one that is here.
func (s *statesAPI) knows(machine string) error {
	if s.executions.machine == nil || s.executions.machine.ARN() != machine {
		return &statesError{"StateMachineDoesNotExist", fmt.Sprintf("State Machine Does Not Exist: '%s'", machine)}
	}
	return nil
}
