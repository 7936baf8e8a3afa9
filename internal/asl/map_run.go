package asl

import (
	"sync"
	"time"
)

// A MapRun is one running of a distributed Map: a set of child executions, which are executions of their own. All its
// methods may be called at any time and from any goroutine.
type MapRun struct {
	arn            string
	id             string // last part of the ARN
	machineARN     string // of the children
	machineName    string
	execution      *Execution
	maxConcurrency int
	tolerated      tolerance
	total          int // items; known once they are read

	mu       sync.Mutex
	status   Status
	start    time.Time
	stop     time.Time
	children []*Execution // begun, in order of items
}

// ARN is the Map Run's.
func (r *MapRun) ARN() string { return r.arn }

// Children returns the child executions that have begun, in the order of their items.
func (r *MapRun) Children() []*Execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Execution(nil), r.children...)
}

// begin adds a child, unless the run has ended.
func (r *MapRun) begin(child *Execution) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != StatusRunning {
		return false
	}
	r.children = append(r.children, child)
	return true
}

// end gives the run its final status; only the first call counts. Children that still run are aborted.
func (r *MapRun) end(status Status, at time.Time) {
	r.mu.Lock()
	if r.status != StatusRunning {
		r.mu.Unlock()
		return
	}
	r.status, r.stop = status, at
	children := r.children
	r.mu.Unlock()
	for _, child := range children {
		child.end(StatusAborted, ExecutionAborted, 0, at, nil, FailureDetails{})
	}
}

func (r *MapRun) abort(at time.Time) { r.end(StatusAborted, at) }

// count returns how many children ended in each way.
func (r *MapRun) count() (counts MapRunCounts) {
	r.mu.Lock()
	children, total := r.children, r.total
	r.mu.Unlock()
	counts.Total, counts.Pending = total, total-len(children)
	for _, child := range children {
		switch child.Status() {
		case StatusRunning:
			counts.Running++
		case StatusSucceeded:
			counts.Succeeded++
		case StatusFailed:
			counts.Failed++
		case StatusTimedOut:
			counts.TimedOut++
		case StatusAborted:
			counts.Aborted++
		}
	}
	return counts
}

// MapRunSummary is an entry of ListMapRuns.
type MapRunSummary struct {
	ExecutionARN    string `json:"executionArn"`
	MapRunARN       string `json:"mapRunArn"`
	StateMachineARN string `json:"stateMachineArn"`
	StartDate       Time   `json:"startDate"`
	StopDate        *Time  `json:"stopDate,omitempty"`
}

// MapRunDescription is what DescribeMapRun tells.
type MapRunDescription struct {
	MapRunARN                  string       `json:"mapRunArn"`
	ExecutionARN               string       `json:"executionArn"`
	Status                     Status       `json:"status"`
	StartDate                  Time         `json:"startDate"`
	StopDate                   *Time        `json:"stopDate,omitempty"`
	MaxConcurrency             int          `json:"maxConcurrency"`
	ToleratedFailurePercentage Float        `json:"toleratedFailurePercentage"`
	ToleratedFailureCount      int64        `json:"toleratedFailureCount"`
	ItemCounts                 MapRunCounts `json:"itemCounts"`
	ExecutionCounts            MapRunCounts `json:"executionCounts"`
	RedriveCount               int          `json:"redriveCount"`
}

// MapRunCounts are the items, or the child executions, of a Map Run by their state. They are the same numbers here,
// since one item is one child.
type MapRunCounts struct {
	Pending               int `json:"pending"`
	Running               int `json:"running"`
	Succeeded             int `json:"succeeded"`
	Failed                int `json:"failed"`
	TimedOut              int `json:"timedOut"`
	Aborted               int `json:"aborted"`
	Total                 int `json:"total"`
	ResultsWritten        int `json:"resultsWritten"` // as on AWS: those that succeeded, written or not, once the run has ended
	FailuresNotRedrivable int `json:"failuresNotRedrivable"`
	PendingRedrive        int `json:"pendingRedrive"`
}

// Float is a number that AWS always shows with a fraction.
type Float float64

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) { return []byte(floatText(float64(f))), nil }

// Summary returns the run's entry in ListMapRuns.
func (r *MapRun) Summary() MapRunSummary {
	d := r.Describe()
	return MapRunSummary{
		ExecutionARN: d.ExecutionARN, MapRunARN: d.MapRunARN, StateMachineARN: r.machineARN,
		StartDate: d.StartDate, StopDate: d.StopDate,
	}
}

// Describe returns what DescribeMapRun would.
func (r *MapRun) Describe() MapRunDescription {
	counts := r.count()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := MapRunDescription{
		MapRunARN: r.arn, ExecutionARN: r.execution.arn, Status: r.status, StartDate: Time(r.start),
		MaxConcurrency:             r.maxConcurrency,
		ToleratedFailurePercentage: Float(r.tolerated.percentage), ToleratedFailureCount: r.tolerated.count,
	}
	if r.status != StatusRunning {
		stop := Time(r.stop)
		d.StopDate = &stop
		counts.ResultsWritten = counts.Succeeded
	}
	d.ItemCounts, d.ExecutionCounts = counts, counts
	return d
}
