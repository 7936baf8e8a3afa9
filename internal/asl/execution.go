package asl

import (
	"encoding/json"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// Status is the state of an execution or of a Map Run.
type Status string

// The statuses that AWS knows; a Map Run does not time out.
const (
	StatusRunning   Status = "RUNNING"
	StatusSucceeded Status = "SUCCEEDED"
	StatusFailed    Status = "FAILED"
	StatusTimedOut  Status = "TIMED_OUT"
	StatusAborted   Status = "ABORTED"
)

// An Execution is one run of a machine, or one child of a distributed Map. All its methods may be called at any time
// and from any goroutine.
type Execution struct {
	identity
	m       *Machine
	input   document
	sched   *scheduler
	scope   *scope
	release func() bool // of the caller's context; nil for a child
	record
}

// identity is what tells one execution from another.
type identity struct {
	name        string
	arn         string
	machineName string
	machineARN  string
	mapRun      *MapRun       // that a child belongs to
	timeout     time.Duration // of the whole execution; 0 is none
}

// A document is a JSON value, and its text where somebody else wrote it.
type document struct {
	value any
	text  string // "" stands for the compact form
}

func (d document) String() string {
	if d.text != "" {
		return d.text
	}
	return payload.Encode(d.value)
}

func (m *Machine) newExecution(id identity, input document, s *scheduler, sc *scope) *Execution {
	e := &Execution{identity: id, m: m, input: input, sched: s, scope: sc}
	e.status, e.ended = StatusRunning, make(chan struct{})
	e.start = s.now().UTC().Truncate(time.Millisecond)
	return e
}

// run executes the states from the first to the last. It has the turn.
func (e *Execution) run(f *flow) {
	e.mu.Lock()
	e.noteLocked(notice{status: StatusRunning})
	e.mu.Unlock()
	e.notify()
	if _, err := e.append(ExecutionStarted, 0, ExecutionStartedDetails{
		Input: e.input.String(), RoleARN: e.m.cfg.RoleARN,
	}); err != nil {
		return
	}
	if e.timeout > 0 {
		e.sched.spawn(e.watch)
	}
	c := &chain{exec: e, scope: e.scope}
	output, err := c.run(f, e.input)
	if err == nil {
		text := output.String()
		e.end(StatusSucceeded, ExecutionSucceeded, c.last, e.sched.now(), &text, FailureDetails{})
	} else if f, ok := err.(*failure); ok {
		e.fail(f, c.last)
	}
	if e.release != nil {
		e.release()
	}
}

func (e *Execution) fail(f *failure, previous int64) {
	e.end(StatusFailed, ExecutionFailed, previous, e.sched.now(), nil, f.FailureDetails)
}

// watch ends the execution when its time is up, exactly then by the history.
func (e *Execution) watch() {
	p := e.sched.prepare(e.scope)
	cancel := e.sched.after(e.timeout, asWritten, p)
	defer cancel()
	if e.sched.park(p) == elapsed {
		e.end(StatusTimedOut, ExecutionTimedOut, 0, e.start.Add(e.timeout), nil, timedOut().FailureDetails)
	}
}

// Wait returns when the execution has ended and nothing of it, or of the execution that it is a child of, runs any more.
func (e *Execution) Wait() Status {
	e.sched.alive.Wait()
	return e.Status()
}

// Ended is closed as soon as the execution has its final status, perhaps before everything in it has stopped.
func (e *Execution) Ended() <-chan struct{} { return e.ended }

// Abort ends the execution at once, as StopExecution does; error and cause may be empty. It reports whether the
// execution was still running. Functions that run are told to return by their context.
func (e *Execution) Abort(errorName, cause string) bool {
	var f FailureDetails
	if errorName != "" {
		f.Error = &errorName
	}
	if cause != "" {
		f.Cause = &cause
	}
	return e.end(StatusAborted, ExecutionAborted, 0, e.sched.now(), nil, f)
}

// Name is the execution's.
func (e *Execution) Name() string { return e.name }

// ARN is the execution's.
func (e *Execution) ARN() string { return e.arn }

// MapRun is the Map Run that started the execution, or nil.
func (e *Execution) MapRun() *MapRun { return e.mapRun }

// Status is the current status.
func (e *Execution) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// MapRuns returns the execution's Map Runs in the order in which they started.
func (e *Execution) MapRuns() []*MapRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*MapRun(nil), e.mapRuns...)
}

// Description is what DescribeExecution tells. Absent keys are unknown.
type Description struct {
	ExecutionARN        string        `json:"executionArn"`
	StateMachineARN     string        `json:"stateMachineArn"`
	Name                string        `json:"name"`
	Status              Status        `json:"status"`
	StartDate           Time          `json:"startDate"`
	StopDate            *Time         `json:"stopDate,omitempty"`
	Input               string        `json:"input"`
	InputDetails        Inclusion     `json:"inputDetails"`
	Output              *string       `json:"output,omitempty"`
	OutputDetails       *Inclusion    `json:"outputDetails,omitempty"`
	MapRunARN           string        `json:"mapRunArn,omitempty"`
	Error               *string       `json:"error,omitempty"`
	Cause               *string       `json:"cause,omitempty"`
	RedriveCount        int           `json:"redriveCount"`
	RedriveStatus       RedriveStatus `json:"redriveStatus"`
	RedriveStatusReason string        `json:"redriveStatusReason,omitempty"`
}

// Inclusion accompanies inputs and outputs outside of histories.
type Inclusion struct {
	Included bool `json:"included"`
}

// RedriveStatus says whether RedriveExecution would accept an execution.
type RedriveStatus string

// Time is a time whose JSON form is that of AWS: RFC 3339, UTC, milliseconds.
type Time time.Time

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(timestamp(time.Time(t))) }

// Describe returns what DescribeExecution would.
func (e *Execution) Describe() Description {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := Description{
		ExecutionARN: e.arn, StateMachineARN: e.machineARN, Name: e.name,
		Status: e.status, StartDate: Time(e.start),
		Input: e.input.String(), InputDetails: Inclusion{Included: true},
		Error: e.failure.Error, Cause: e.failure.Cause,
	}
	if e.status != StatusRunning {
		stop := Time(e.stop)
		d.StopDate = &stop
	}
	if e.output != nil {
		d.Output, d.OutputDetails = e.output, &Inclusion{Included: true}
	}
	if e.mapRun != nil {
		d.MapRunARN = e.mapRun.arn
	}
	d.RedriveStatus, d.RedriveStatusReason = redrivable(e.status, e.mapRun != nil)
	return d
}

// redrivable follows recordings for RUNNING, SUCCEEDED, FAILED and TIMED_OUT; ABORTED, and children, follow the documentation.
func redrivable(status Status, child bool) (RedriveStatus, string) {
	switch {
	case status == StatusRunning, status == StatusSucceeded:
		return "NOT_REDRIVABLE", "Execution is " + string(status) + " and cannot be redriven"
	case child:
		return "REDRIVABLE_BY_MAP_RUN", ""
	}
	return "REDRIVABLE", ""
}
