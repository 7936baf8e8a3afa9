package asl

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Event is one entry of an execution's history. Its JSON form is that of GetExecutionHistory, with the timestamp as
// RFC 3339 text.
type Event struct {
	Timestamp       time.Time // to the millisecond, UTC
	Type            EventType
	ID              int64 // counts from 1
	PreviousEventID int64 // the event that caused this one; 0 for the first state, an abort and a time-out
	Details         any   // one of the …Details types of this package, or nil where AWS has none

	// whole are the details of an event that was read, if they tell more than
	// Details does.
	whole string
}

// EventType names what happened, in the words of AWS.
type EventType string

// The types of event that this package records. The …StateEntered and …StateExited types are built from a state's
// type.
const (
	ExecutionStarted        EventType = "ExecutionStarted"
	ExecutionSucceeded      EventType = "ExecutionSucceeded"
	ExecutionFailed         EventType = "ExecutionFailed"
	ExecutionAborted        EventType = "ExecutionAborted"
	ExecutionTimedOut       EventType = "ExecutionTimedOut"
	LambdaFunctionScheduled EventType = "LambdaFunctionScheduled"
	LambdaFunctionStarted   EventType = "LambdaFunctionStarted"
	LambdaFunctionSucceeded EventType = "LambdaFunctionSucceeded"
	LambdaFunctionFailed    EventType = "LambdaFunctionFailed"
	LambdaFunctionTimedOut  EventType = "LambdaFunctionTimedOut"
	TaskScheduled           EventType = "TaskScheduled"
	TaskStarted             EventType = "TaskStarted"
	TaskSucceeded           EventType = "TaskSucceeded"
	TaskFailed              EventType = "TaskFailed"
	TaskTimedOut            EventType = "TaskTimedOut"
	TaskStateAborted        EventType = "TaskStateAborted"
	MapStateStarted         EventType = "MapStateStarted"
	MapStateSucceeded       EventType = "MapStateSucceeded"
	MapStateFailed          EventType = "MapStateFailed"
	MapIterationStarted     EventType = "MapIterationStarted"
	MapIterationSucceeded   EventType = "MapIterationSucceeded"
	MapIterationFailed      EventType = "MapIterationFailed"
	MapIterationAborted     EventType = "MapIterationAborted"
	MapRunStarted           EventType = "MapRunStarted"
	MapRunSucceeded         EventType = "MapRunSucceeded"
	MapRunFailed            EventType = "MapRunFailed"
	ParallelStateStarted    EventType = "ParallelStateStarted"
	ParallelStateSucceeded  EventType = "ParallelStateSucceeded"
	ParallelStateFailed     EventType = "ParallelStateFailed"
)

// detailsKey is the name under which AWS shows an event's details: all …StateEntered types share one, as do all
// …StateExited; otherwise it is the type's own.
func (t EventType) detailsKey() string {
	name := string(t)
	switch {
	case strings.HasSuffix(name, "StateEntered"):
		name = "StateEntered"
	case strings.HasSuffix(name, "StateExited"):
		name = "StateExited"
	}
	return strings.ToLower(name[:1]) + name[1:] + "EventDetails"
}

// MarshalJSON writes the event as GetExecutionHistory does.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := marshal(struct {
		Timestamp       string    `json:"timestamp"`
		Type            EventType `json:"type"`
		ID              int64     `json:"id"`
		PreviousEventID int64     `json:"previousEventId"`
	}{timestamp(e.Timestamp), e.Type, e.ID, e.PreviousEventID})
	if err != nil || e.Details == nil {
		return head, err
	}
	details := []byte(e.whole)
	if e.whole == "" {
		if details, err = marshal(e.Details); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	b.WriteString(`,"` + e.Type.detailsKey() + `":`)
	b.Write(details)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// State is the name of the state that the event tells of, or "" where the event does not carry one.
func (e Event) State() string {
	switch d := e.Details.(type) {
	case StateEnteredDetails:
		return d.Name
	case StateExitedDetails:
		return d.Name
	case MapIterationDetails:
		return d.Name
	}
	return ""
}

// Failure is the error and the cause that the event carries; both are "" where it carries none.
func (e Event) Failure() (errorName, cause string) {
	var failure FailureDetails
	switch d := e.Details.(type) {
	case FailureDetails:
		failure = d
	case TaskFailedDetails:
		failure = d.FailureDetails
	}
	return deref(failure.Error), deref(failure.Cause)
}

// DataDetails accompanies every input and output in the history.
type DataDetails struct {
	Truncated bool `json:"truncated"`
}

// ExecutionStartedDetails: Input is the caller's text, unchanged.
type ExecutionStartedDetails struct {
	Input        string      `json:"input"`
	InputDetails DataDetails `json:"inputDetails"`
	RoleARN      string      `json:"roleArn"`
}

// OutputDetails belongs to ExecutionSucceeded and LambdaFunctionSucceeded.
type OutputDetails struct {
	Output        string      `json:"output"`
	OutputDetails DataDetails `json:"outputDetails"`
}

// FailureDetails belongs to every event that ends something badly; a key that is not known is absent.
type FailureDetails struct {
	Error *string `json:"error,omitempty"`
	Cause *string `json:"cause,omitempty"`
}

// StateEnteredDetails belongs to all …StateEntered events; Input is the raw state input.
type StateEnteredDetails struct {
	Name         string      `json:"name"`
	Input        string      `json:"input"`
	InputDetails DataDetails `json:"inputDetails"`
}

// StateExitedDetails belongs to all …StateExited events.
type StateExitedDetails struct {
	Name          string      `json:"name"`
	Output        string      `json:"output"`
	OutputDetails DataDetails `json:"outputDetails"`
}

// LambdaFunctionScheduledDetails: Input is the payload after InputPath and Parameters.
type LambdaFunctionScheduledDetails struct {
	Resource         string      `json:"resource"`
	Input            string      `json:"input"`
	InputDetails     DataDetails `json:"inputDetails"`
	TimeoutInSeconds *int64      `json:"timeoutInSeconds,omitempty"`
}

// TaskResource names the service integration of a task.
type TaskResource struct {
	ResourceType string `json:"resourceType"`
	Resource     string `json:"resource"`
}

// TaskScheduledDetails belongs to TaskScheduled.
type TaskScheduledDetails struct {
	TaskResource
	Region           string `json:"region"`
	Parameters       string `json:"parameters"`
	TimeoutInSeconds *int64 `json:"timeoutInSeconds,omitempty"`
}

// TaskSucceededDetails belongs to TaskSucceeded.
type TaskSucceededDetails struct {
	TaskResource
	OutputDetails
}

// TaskFailedDetails belongs to TaskFailed and TaskTimedOut.
type TaskFailedDetails struct {
	TaskResource
	FailureDetails
}

// MapStateStartedDetails: Length is 0 while an ItemReader has yet to find the items.
type MapStateStartedDetails struct {
	Length int `json:"length"`
}

// MapIterationDetails: Name is that of the Map state.
type MapIterationDetails struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
}

// MapRunStartedDetails belongs to MapRunStarted.
type MapRunStartedDetails struct {
	MapRunARN string `json:"mapRunArn"`
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// timestamp is the form of every time that AWS shows: UTC, to the millisecond.
func timestamp(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
