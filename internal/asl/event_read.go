package asl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// UnmarshalJSON reads an event of GetExecutionHistory, whose timestamp is RFC 3339 text. Details that this package does
// not know become a json.RawMessage; nothing that was read is lost when the event is written again.
func (e *Event) UnmarshalJSON(text []byte) error {
	var head struct {
		Timestamp       time.Time `json:"timestamp"`
		Type            EventType `json:"type"`
		ID              int64     `json:"id"`
		PreviousEventID int64     `json:"previousEventId"`
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("event of a history: %w", err)
	}
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("event of a history: %w", err)
	}
	*e = Event{Timestamp: head.Timestamp.UTC(), Type: head.Type, ID: head.ID, PreviousEventID: head.PreviousEventID}
	details, ok := members[head.Type.detailsKey()]
	if !ok {
		return nil
	}
	var err error
	if e.Details, err = head.Type.read(details); err != nil {
		return fmt.Errorf("event %d of a history, %s: %w", e.ID, e.Type, err)
	}
	if again, err := marshal(e.Details); err != nil || !sameMembers(again, details) {
		e.whole = string(details)
	}
	return nil
}

// read gives details the type that events of this type have.
func (t EventType) read(details json.RawMessage) (any, error) {
	name := string(t)
	switch {
	case strings.HasSuffix(name, "StateEntered"):
		return as[StateEnteredDetails](details)
	case strings.HasSuffix(name, "StateExited"):
		return as[StateExitedDetails](details)
	}
	switch t {
	case ExecutionStarted:
		return as[ExecutionStartedDetails](details)
	case ExecutionSucceeded, LambdaFunctionSucceeded:
		return as[OutputDetails](details)
	case LambdaFunctionScheduled:
		return as[LambdaFunctionScheduledDetails](details)
	case TaskScheduled:
		return as[TaskScheduledDetails](details)
	case TaskStarted:
		return as[TaskResource](details)
	case TaskSucceeded:
		return as[TaskSucceededDetails](details)
	case TaskFailed, TaskTimedOut:
		return as[TaskFailedDetails](details)
	case MapStateStarted:
		return as[MapStateStartedDetails](details)
	case MapIterationStarted, MapIterationSucceeded, MapIterationFailed, MapIterationAborted:
		return as[MapIterationDetails](details)
	case MapRunStarted:
		return as[MapRunStartedDetails](details)
	case ExecutionFailed, ExecutionAborted, ExecutionTimedOut, LambdaFunctionFailed, LambdaFunctionTimedOut, MapRunFailed:
		return as[FailureDetails](details)
	}
	return as[json.RawMessage](details)
}

func as[T any](text json.RawMessage) (any, error) {
	var details T
	err := json.Unmarshal(text, &details)
	return details, err
}

// sameMembers compares two JSON texts; the order of members does not count.
func sameMembers(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	first, err := json.Marshal(x)
	second, err2 := json.Marshal(y)
	return err == nil && err2 == nil && bytes.Equal(first, second)
}
