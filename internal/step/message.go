package step

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Execution is $$.Execution as Step Functions passes it; fields that no step
// reads, such as RoleArn, are ignored. Inside a child of a Distributed Map the
// context object names the child, so the state machine passes the run's own.
type Execution struct {
	ID        string    `json:"Id"`        // ARN
	Name      string    `json:"Name"`      // the run's id in keys and ledger
	StartTime time.Time `json:"StartTime"` // when the execution began
	// RedriveCount says which life of the execution this is: 0 from its start, n
	// since its n-th redrive. Engines without redrives leave it out.
	RedriveCount int             `json:"RedriveCount"`
	Input        json.RawMessage `json:"Input"` // the run configuration
}

// owner is the name under which this life of the execution holds the lock. A
// life that ended never holds it again, a redrive is another one.
func (e Execution) owner() string {
	if e.RedriveCount == 0 {
		return e.ID
	}
	return fmt.Sprintf("%s#%d", e.ID, e.RedriveCount)
}

// AcquireInput is one turn at the lock.
type AcquireInput struct {
	Execution Execution `json:"execution"`
	State     RunState  `json:"state"`
}

// RunState is what the state machine kept of the run so far. Before the first
// turn there is nothing: the state is the run configuration.
type RunState struct {
	Acquired   *AcquireOutput  `json:"acquired,omitempty"`
	Discovered *DiscoverOutput `json:"discovered,omitempty"`
	Committed  *CommitOutput   `json:"committed,omitempty"`
	Lost       *Failure        `json:"lost,omitempty"`    // the loss that led back to AcquireLock
	Failure    *Failure        `json:"failure,omitempty"` // the error that ends the run

	problem error // what could not be read
}

// UnmarshalJSON leaves alone what is not the state machine's: a configuration
// has a section "failure" too, which Catch replaces. A state that cannot be
// read is kept as a problem, because a wrong configuration is reported first.
func (s *RunState) UnmarshalJSON(text []byte) error {
	type plain RunState
	var state plain
	read := struct {
		*plain
		Failure json.RawMessage `json:"failure"`
	}{plain: &state}
	problem := json.Unmarshal(text, &read)
	var failure Failure
	if json.Unmarshal(read.Failure, &failure) == nil && failure.Error != "" {
		state.Failure = &failure
	}
	*s = RunState(state)
	s.problem = problem
	return nil
}

// check refuses a state that cannot be read.
func (s RunState) check() error {
	if s.problem == nil {
		return nil
	}
	return &InvalidInputError{fmt.Sprintf("state: %v; the state machine and the functions may be of different versions", s.problem)}
}

// Decisions of Acquire.
const (
	DecisionHeld       = "held"       // the run has the lock
	DecisionWait       = "wait"       // ask again after WaitSeconds
	DecisionSuperseded = "superseded" // enough runs wait already
	DecisionTimedOut   = "timedOut"   // waited longer than lock.maxWaitSeconds
	DecisionOvertaken  = "overtaken"  // lost the lock in each of its laps
)

// AcquireOutput is what became of the turn. Its counts are totals of the run,
// over all laps and lives.
type AcquireOutput struct {
	Decision      string `json:"decision"`
	Token         int64  `json:"token"`         // fencing token; 0 unless held
	Expires       string `json:"expires"`       // server time, RFC 3339; "" unless held
	WaitSeconds   int64  `json:"waitSeconds"`   // whole seconds until the next turn; 0 unless waiting
	WaitedSeconds int64  `json:"waitedSeconds"` // in the queue so far
	QueuedSeconds int64  `json:"queuedSeconds"` // the part of it in the present place in the queue
	Turns         int64  `json:"turns"`         // at the lock, this one included
	Lap           int64  `json:"lap"`           // how often the run began to work for the lock, from 1
	// Regained: a lap lost the lock and then got the same grant again, so that
	// calls of the lap before may still work under it.
	Regained bool     `json:"regained"`
	Loss     *Failure `json:"loss"`   // how the run first lost the lock; null if it never did
	Reason   string   `json:"reason"` // for people: who holds the lock, since when, until when
}

// DiscoverInput asks what is new.
type DiscoverInput struct {
	Execution Execution `json:"execution"`
	Token     int64     `json:"token"`
}

// ObjectRef is an object in S3 at one version.
type ObjectRef struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	ETag   string `json:"etag"`
}

// DiscoverOutput describes the manifest that Discover wrote.
type DiscoverOutput struct {
	Batches  int       `json:"batches"` // 0: nothing new, and no Map is started
	Files    int64     `json:"files"`
	Bytes    int64     `json:"bytes"`
	Left     int64     `json:"left"`   // left for the next run by selection.maxFiles or maxBytes
	Cutoff   time.Time `json:"cutoff"` // server time that ages were measured at
	Manifest ObjectRef `json:"manifest"`

	MaxConcurrency             int `json:"maxConcurrency"`
	ToleratedFailurePercentage int `json:"toleratedFailurePercentage"`
}

// Batch is what one processing call does: an element of the manifest.
type Batch struct {
	Number int                `json:"number"` // from 0
	Files  []ledger.Candidate `json:"files"`
}

// ProcessInput is one batch in the hands of a run.
type ProcessInput struct {
	Execution Execution `json:"execution"`
	Token     int64     `json:"token"`
	Batch     Batch     `json:"batch"`
}

// ProcessOutput is tiny on purpose: outcomes travel by S3, not by payload.
type ProcessOutput struct {
	Batch  int `json:"batch"`
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// CommitInput asks to write down what the run did. Discovered is Discover's
// output as the state machine kept it.
type CommitInput struct {
	Execution  Execution      `json:"execution"`
	Token      int64          `json:"token"`
	Discovered DiscoverOutput `json:"discovered"`
}

// CommitOutput counts the files of the run by outcome.
type CommitOutput struct {
	Done        int64  `json:"done"`
	Failed      int64  `json:"failed"`      // failed in this run, quarantined ones included
	Quarantined int64  `json:"quarantined"` // failed for the last time
	Superseded  int64  `json:"superseded"`  // changed or deleted since the listing; the next run looks again
	Archived    int64  `json:"archived"`    // in an archive, and not restored
	Deferred    int64  `json:"deferred"`    // not processed, and not their fault; the next run takes them
	Unanswered  int64  `json:"unanswered"`  // processing attempts that began and left no result: their calls may still run
	Rows        int64  `json:"rows"`
	Rejected    int64  `json:"rejected"`
	Summary     string `json:"summary"` // S3 URL of the run's audit record
}

// ReleaseInput ends the run's life at the lock. It comes in two shapes: from
// the state machine, or as an EventBridge event when an execution ended in a
// way that no Catch sees.
type ReleaseInput struct {
	Execution Execution `json:"execution"`
	State     RunState  `json:"state"`

	DetailType string       `json:"detail-type"`
	Detail     statusChange `json:"detail"`
}

// Failure is what a Catch wrote down.
type Failure struct {
	Error string `json:"Error"`
	Cause string `json:"Cause"`
}

// statusChange is the part of a "Step Functions Execution Status Change" event
// that Release reads; unknown values are null there.
// Source: Step Functions developer guide, "EventBridge events".
type statusChange struct {
	ExecutionARN string  `json:"executionArn"`
	Name         string  `json:"name"`
	Status       string  `json:"status"`
	StopDate     *moment `json:"stopDate"`
	RedriveCount int     `json:"redriveCount"` // absent on engines without redrives
	Input        *string `json:"input"`        // JSON text; null when too large
}

// moment is a time in an event: epoch milliseconds, as EventBridge has it, or
// RFC 3339, as LocalStack does.
type moment time.Time

func (m *moment) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, (*time.Time)(m))
	}
	var milliseconds int64
	err := json.Unmarshal(text, &milliseconds)
	*m = moment(time.UnixMilli(milliseconds))
	return err
}

// ReleaseOutput says what was found.
type ReleaseOutput struct {
	Released bool   `json:"released"` // the lock is free now; false: it was not held, or its lease ends by itself
	Reason   string `json:"reason"`   // for people
}
