package lease

import (
	"slices"
	"time"
)

const (
	// schemaVersion 2 has marks of ended lives and the hold. Version 1 is read as a
	// document without either.
	schemaVersion  = 2
	oldestReadable = 1
	// markTime is how long a call may live after its owner: a function's 15 minutes,
	// and some more for a queue before it.
	markTime = 20 * time.Minute
	maxMarks = 1000
	// maxEvents keeps the document small: it rides on every write.
	maxEvents = 32
	// maxToken is the largest integer that survives JSON consumers which keep
	// numbers as doubles (Step Functions among them).
	maxToken = 1<<53 - 1
	// tokensAhead are left for grants: a lock whose tokens are nearly used up was
	// not brought there by grants.
	tokensAhead = 1 << 32
	// maxText bounds reasons and names in events, in bytes.
	maxText = 300
)

// document is everything the lock knows. It is a value: transitions return a
// new one and never write into the slices of the old.
type document struct {
	Schema    int      `json:"schema"`
	Limit     int      `json:"limit"`
	LastToken int64    `json:"lastToken"`
	Holders   []holder `json:"holders"`
	Waiters   []waiter `json:"waiters"` // in the order in which they will be served
	Events    []Event  `json:"events"`  // oldest first
	// Ended are the lives that ended lately, oldest first.
	Ended []Mark `json:"ended"`
	// Hold, where set, grants the lock to nobody.
	Hold *Hold `json:"hold,omitempty"`
	// Nonce makes every body unique: an ETag may be a plain MD5, and a writer
	// whose reply got lost recognises its own write by it.
	Nonce string `json:"nonce"`
}

// holder is one live grant. Its TTL and grace are fixed when it is granted:
// a renewal with shorter ones would end the lease before other processes of
// the same run expect it.
type holder struct {
	Owner    string    `json:"owner"`
	Token    int64     `json:"token"`
	Acquired time.Time `json:"acquired"`
	Renewed  time.Time `json:"renewed"`
	TTL      millis    `json:"ttlMillis"`
	Grace    millis    `json:"graceMillis"`
	Once     bool      `json:"once,omitempty"`
	// Stopped: its owner has ended, and a call of it may be at work. It is not
	// renewed, and ends by itself.
	Stopped bool `json:"stopped,omitempty"`
}

type waiter struct {
	Owner    string    `json:"owner"`
	Priority int       `json:"priority"`
	Arrived  time.Time `json:"arrived"`
	Seen     time.Time `json:"seen"`
	Poll     millis    `json:"pollMillis"` // how often it promised to ask
	Once     bool      `json:"once,omitempty"`
}

// Mark is an owner that lives once and has ended.
type Mark struct {
	Owner  string    `json:"owner"`
	At     time.Time `json:"at"` // the server's clock
	Kind   EventKind `json:"kind"`
	By     string    `json:"by,omitempty"` // who broke its lease
	Reason string    `json:"reason,omitempty"`
}

// Hold is an operator's word that nobody gets the lock for now.
type Hold struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"` // the server's clock
}

type millis int64

func (m millis) duration() time.Duration { return time.Duration(m) * time.Millisecond }

func toMillis(d time.Duration) millis { return millis(d / time.Millisecond) }

// EventKind says what happened to a lock.
type EventKind string

// The kinds of events.
const (
	Granted  EventKind = "granted"
	Freed    EventKind = "released"
	Expired  EventKind = "expired"
	Broken   EventKind = "broken"
	Repaired EventKind = "repaired"
	// Stopped: the owner has ended, its lease ends by itself.
	Stopped EventKind = "stopped"
	// Withdrawn and Passed are kinds of marks alone: the owner left the queue, or
	// was superseded.
	Withdrawn EventKind = "withdrawn"
	Passed    EventKind = "superseded"
	// OnHold and Resumed: an operator held the lock back from everybody, and let it go.
	OnHold  EventKind = "held back"
	Resumed EventKind = "resumed"
)

// Event is one line of the lock's short memory.
type Event struct {
	At     time.Time `json:"at"` // the server's clock
	Kind   EventKind `json:"kind"`
	Owner  string    `json:"owner,omitempty"`
	Token  int64     `json:"token,omitempty"`
	By     string    `json:"by,omitempty"` // who broke or repaired it
	Reason string    `json:"reason,omitempty"`
	// Write is the nonce of the write that recorded the event: a writer whose
	// reply got lost finds its write here after others have written too.
	Write string `json:"write"`
}

// newDocument is a lock that nobody has ever held. Floor is the highest token
// known to have been granted.
func newDocument(limit int, floor int64) document {
	return document{
		Schema: schemaVersion, Limit: limit, LastToken: floor,
		Holders: []holder{}, Waiters: []waiter{}, Events: []Event{}, Ended: []Mark{},
	}
}

// mark returns the mark of an owner, if it has ended.
func (d document) mark(owner string) (Mark, bool) {
	for _, m := range d.Ended {
		if m.Owner == owner {
			return m, true
		}
	}
	return Mark{}, false
}

// end marks an owner that lives once, and lets go of marks that no call can need
// any more. The last result is false when the owner has a mark already.
func (d document) end(m Mark) (document, bool) {
	if _, known := d.mark(m.Owner); known {
		return d, false
	}
	m.By, m.Reason = clip(m.By), clip(m.Reason)
	ended := slices.DeleteFunc(slices.Clone(d.Ended), func(old Mark) bool { return m.At.Sub(old.At) > markTime })
	ended = append(ended, m)
	d.Ended = ended[max(0, len(ended)-maxMarks):]
	return d, true
}

func (d document) holderOf(owner string) (holder, int) {
	for i, h := range d.Holders {
		if h.Owner == owner {
			return h, i
		}
	}
	return holder{}, -1
}

// held finds the entry of (owner, token); token 0 stands for any.
func (d document) held(owner string, token int64) (holder, int) {
	h, i := d.holderOf(owner)
	if i >= 0 && token != 0 && h.Token != token {
		return holder{}, -1
	}
	return h, i
}

func (d document) waiterOf(owner string) (waiter, int) {
	for i, w := range d.Waiters {
		if w.Owner == owner {
			return w, i
		}
	}
	return waiter{}, -1
}

func (d document) withHolder(i int, h holder) document {
	d.Holders = slices.Clone(d.Holders)
	d.Holders[i] = h
	return d
}

func (d document) withoutHolder(i int) document {
	d.Holders = slices.Delete(slices.Clone(d.Holders), i, i+1)
	return d
}

func (d document) withoutWaiter(i int) document {
	d.Waiters = slices.Delete(slices.Clone(d.Waiters), i, i+1)
	return d
}

// record appends e and lets the oldest events go.
func (d document) record(e Event) document {
	e.By, e.Reason = clip(e.By), clip(e.Reason)
	events := append(slices.Clone(d.Events), e)
	d.Events = events[max(0, len(events)-maxEvents):]
	return d
}

// seal marks the document, and the events that this write adds, as the work
// of one write.
func (d document) seal(nonce string) document {
	d.Nonce = nonce
	d.Events = slices.Clone(d.Events)
	for i := range d.Events {
		if d.Events[i].Write == "" {
			d.Events[i].Write = nonce
		}
	}
	return d
}

// granted reports whether h was granted by a write sealed with one of nonces.
func (d document) granted(h holder, nonces []string) bool {
	return slices.ContainsFunc(d.Events, func(e Event) bool {
		return e.Kind == Granted && e.Token == h.Token && slices.Contains(nonces, e.Write)
	})
}

// carries reports whether the write that was sealed with nonce is part of the
// document's history, as far as it remembers.
func (d document) carries(nonce string) bool {
	return d.Nonce == nonce || slices.ContainsFunc(d.Events, func(e Event) bool { return e.Write == nonce })
}
