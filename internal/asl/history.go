package asl

import (
	"sync"
	"time"
)

// A record is everything that an execution shows of itself: its history, its status and its end. It is written by
// whoever has the turn and by Abort, and read by anybody at any time.
type record struct {
	mu      sync.Mutex
	events  []Event
	status  Status
	start   time.Time
	stop    time.Time
	output  *string
	failure FailureDetails
	mapRuns []*MapRun
	ended   chan struct{} // closed with the status

	notices   []notice // for the observer, not yet delivered
	notifying bool     // somebody is delivering them
}

// A notice is an event, or a change of status.
type notice struct {
	event  Event
	status Status // "" for an event
}

// append adds an event. It fails once the execution has ended; when the history is full it ends the execution instead.
func (e *Execution) append(t EventType, previous int64, details any) (Event, error) {
	now := e.sched.now()
	e.mu.Lock()
	if e.status != StatusRunning {
		e.mu.Unlock()
		return Event{}, errStopped
	}
	if len(e.events) == historyLimit-1 {
		e.mu.Unlock()
		full := fail(errorRuntime, historyLimitCause)
		e.end(StatusFailed, ExecutionFailed, previous, now, nil, full.FailureDetails)
		return Event{}, errStopped
	}
	event := e.addLocked(t, previous, now, details)
	e.mu.Unlock()
	e.notify()
	return event, nil
}

func (e *Execution) addLocked(t EventType, previous int64, at time.Time, details any) Event {
	event := Event{
		Timestamp: at.UTC().Truncate(time.Millisecond), Type: t,
		ID: int64(len(e.events)) + 1, PreviousEventID: previous, Details: details,
	}
	e.events = append(e.events, event)
	e.noteLocked(notice{event: event})
	return event
}

// end appends the last event and stops everything that still runs in the execution. Only the first call counts.
func (e *Execution) end(status Status, t EventType, previous int64, at time.Time, output *string, f FailureDetails) bool {
	e.mu.Lock()
	if e.status != StatusRunning {
		e.mu.Unlock()
		return false
	}
	var details any = f
	if output != nil {
		details = OutputDetails{Output: *output}
	}
	event := e.addLocked(t, previous, at, details)
	e.status, e.stop, e.output, e.failure = status, event.Timestamp, output, f
	if status == StatusTimedOut {
		e.failure = FailureDetails{} // DescribeExecution shows none
	}
	close(e.ended)
	e.noteLocked(notice{status: status})
	runs := e.mapRuns
	e.mu.Unlock()
	for _, run := range runs {
		run.abort(event.Timestamp)
	}
	e.scope.stop()
	e.notify()
	return true
}

func (e *Execution) noteLocked(n notice) {
	if e.m.cfg.Observer != nil {
		e.notices = append(e.notices, n)
	}
}

// notify delivers notices in order, one at a time. If somebody is at it already, then that caller delivers these, too:
// so an observer may call Abort, and Abort never waits for an observer that holds the machine.
func (e *Execution) notify() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.notifying {
		return
	}
	e.notifying = true
	for len(e.notices) > 0 {
		n := e.notices[0]
		e.notices = e.notices[1:]
		e.mu.Unlock()
		if n.status != "" {
			e.m.cfg.Observer.Status(e, n.status)
		} else {
			e.m.cfg.Observer.Event(e, n.event)
		}
		e.mu.Lock()
	}
	e.notifying = false
}

// History returns a copy of the events so far, the first first.
func (e *Execution) History() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Event(nil), e.events...)
}
