package step

import (
	"encoding/json"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Execution says which execution a function works for. Inside a child of a
// Distributed Map the context object names the child, so the state machine
// hands the run's own down.
type Execution struct {
	ID        string    `json:"id"`        // ARN; the owner of the lock
	Name      string    `json:"name"`      // the run's id in keys and ledger
	StartTime time.Time `json:"startTime"` // when the execution began
}

// AcquireInput is one turn at the lock.
type AcquireInput struct {
	Execution Execution       `json:"execution"`
	Config    json.RawMessage `json:"config"`
}

// Decisions of Acquire.
const (
	DecisionHeld       = "held"       // the run has the lock
	DecisionWait       = "wait"       // ask again after WaitSeconds
	DecisionSuperseded = "superseded" // enough runs wait already
	DecisionTimedOut   = "timedOut"   // waited longer than lock.maxWaitSeconds
)

// AcquireOutput is what became of the turn.
type AcquireOutput struct {
	Decision      string `json:"decision"`
	Token         int64  `json:"token"`         // fencing token; 0 unless held
	Expires       string `json:"expires"`       // server time, RFC 3339; "" unless held
	WaitSeconds   int64  `json:"waitSeconds"`   // whole seconds until the next turn; 0 unless waiting
	WaitedSeconds int64  `json:"waitedSeconds"` // in the queue so far
	Reason        string `json:"reason"`        // for people: who holds the lock, since when, until when
}

// DiscoverInput asks what is new.
type DiscoverInput struct {
	Execution Execution       `json:"execution"`
	Config    json.RawMessage `json:"config"`
	Token     int64           `json:"token"`
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
	Execution Execution       `json:"execution"`
	Config    json.RawMessage `json:"config"`
	Token     int64           `json:"token"`
	Batch     Batch           `json:"batch"`
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
	Execution  Execution       `json:"execution"`
	Config     json.RawMessage `json:"config"`
	Token      int64           `json:"token"`
	Discovered DiscoverOutput  `json:"discovered"`
}

// CommitOutput counts the files of the run by outcome.
type CommitOutput struct {
	Done        int64  `json:"done"`
	Failed      int64  `json:"failed"`      // failed in this run, quarantined ones included
	Quarantined int64  `json:"quarantined"` // failed for the last time
	Superseded  int64  `json:"superseded"`  // changed or deleted since the listing; the next run looks again
	Deferred    int64  `json:"deferred"`    // put off for want of time, or by trouble of the moment; the next run takes them
	Rows        int64  `json:"rows"`
	Rejected    int64  `json:"rejected"`
	Summary     string `json:"summary"` // S3 URL of the run's audit record
}

// ReleaseInput gives the lock back. It comes in two shapes: from the state
// machine (Execution and Config; Token 0 after a failure: whatever this
// execution holds), or as an EventBridge event when an execution ended in a
// way that no Catch sees.
type ReleaseInput struct {
	Execution Execution       `json:"execution"`
	Config    json.RawMessage `json:"config"`
	Token     int64           `json:"token"`
	Failure   *Failure        `json:"failure"`

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
	Input        *string `json:"input"` // JSON text; null when too large
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
	Released bool   `json:"released"` // false: there was nothing to give back
	Reason   string `json:"reason"`   // for people
}
