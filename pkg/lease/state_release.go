package lease

import "time"

// leaving is a request to give back what owner has.
type leaving struct {
	owner string
	token int64 // 0: whatever the owner holds, and its place in the queue
	// until, where set, spares everything acquired or queued after it.
	until  time.Time
	reason string
}

// left says what was given back.
type left struct {
	held      bool
	token     int64
	withdrawn bool
}

// release gives back the lock. It acts for (owner, token) only: a release
// that arrives late finds the next holder under another token.
func release(d document, r leaving, now time.Time) (document, left) {
	var l left
	if h, i := d.held(r.owner, r.token); i >= 0 && !r.spares(h.Acquired) {
		d = d.withoutHolder(i).record(Event{At: now, Kind: Freed, Owner: h.Owner, Token: h.Token, Reason: r.reason})
		l.held, l.token = true, h.Token
	}
	// A release for one token is about that grant; the place in the queue may
	// belong to a later life of the same owner.
	if r.token == 0 {
		if w, i := d.waiterOf(r.owner); i >= 0 && !r.spares(w.Arrived) {
			d = d.withoutWaiter(i)
			l.withdrawn = true
		}
	}
	return d, l
}

func (r leaving) spares(since time.Time) bool {
	return !r.until.IsZero() && since.After(r.until)
}

// withdraw gives up the place in the queue.
func withdraw(d document, owner string) (document, bool) {
	_, i := d.waiterOf(owner)
	if i < 0 {
		return d, false
	}
	return d.withoutWaiter(i), true
}
