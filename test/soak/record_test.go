package soak

import "time"

// act is what a client did, or was about to do.
type act string

// A life of a client is asked, then held or failed; a hold is a sequence of
// intents, each followed by done, dropped or nothing (the outcome is unknown),
// and of stamps of the fenced resource, until it is left. A process that is
// killed stops anywhere.
const (
	asked    act = "asked"
	failed   act = "failed"   // the acquire ended in an error, said in Note
	held     act = "held"     // Token is what it holds
	intent   act = "intent"   // about to write Value + 1 over the counter's Value
	dropped  act = "dropped"  // the lease was lost in time: it did not write
	done     act = "done"     // the counter was written
	stamped  act = "stamped"  // the fenced resource took the token
	refused  act = "refused"  // the fenced resource refused the token of a live holder
	left     act = "left"     // about to release; it acts no more
	released act = "released" // the release is certain
	kept     act = "kept"     // the release failed; the same owner may find its grant again
)

// record is one line that a client writes before or after it acts. All times
// are of the one machine that the soak runs on.
type record struct {
	Act   act       `json:"act"`
	Owner string    `json:"owner"`
	Token int64     `json:"token,omitempty"`
	Value int64     `json:"value,omitempty"`
	Lost  bool      `json:"lost,omitempty"` // left: because the lease was lost
	At    time.Time `json:"at"`
	Note  string    `json:"note,omitempty"`
}

// life is one process of a client from its start to its end.
type life struct {
	slot    int // which client; the next life of the same slot has another owner
	owner   string
	records []record
	killed  time.Time // just before SIGKILL was sent; zero for a life that ended well
}

func (l *life) last() record {
	if len(l.records) == 0 {
		return record{}
	}
	return l.records[len(l.records)-1]
}

// history is everything that happened.
type history struct {
	lives   []*life
	counter int64   // at the end
	stamps  []int64 // tokens in the order in which the fenced resource took them
	slots   int
}

// hold is the time in which an owner may have acted under a token.
type hold struct {
	slot       int
	owner      string
	token      int64
	asked      time.Time
	from, to   time.Time
	lost       bool // the client gave up because its lease was lost
	killed     bool
	increments []increment
}

// increment is one unconditional read and write of the counter.
type increment struct {
	token int64
	read  int64
	known bool // the write was confirmed; else it may have landed
}
