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
	acquired  time.Time // when held
	withdrawn bool
}

// release gives back the lock. It acts for (owner, token) only: a release
// that arrives late finds the next holder under another token.
func release(d document, r leaving, now time.Time) (document, left) {
	var l left
	if h, i := d.held(r.owner, r.token); i >= 0 && !r.spares(h.Acquired) {
		d = d.withoutHolder(i).record(Event{At: now, Kind: Freed, Owner: h.Owner, Token: h.Token, Reason: r.reason})
		l.held, l.token, l.acquired = true, h.Token, h.Acquired
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

// abandoning is a request to give back what a given-up acquire took, or may
// have taken.
type abandoning struct {
	owner string
	token int64    // of the grant that it is certain to have got; 0 is none
	maybe []string // nonces of its writes whose fate is not known
	queue bool     // it was ready to queue
}

// abandon takes back what the request names and no more: the same owner may
// have got the same token by another call. While a write may still be under
// way the document has to be written even if it shows nothing to give back,
// because the late write then meets another version.
func abandon(d document, r abandoning, now time.Time) (document, bool) {
	write := len(r.maybe) > 0
	if h, i := d.holderOf(r.owner); i >= 0 && (h.Token == r.token || d.granted(h, r.maybe)) {
		d, _ = release(d, leaving{owner: h.Owner, token: h.Token, reason: "the acquire was given up"}, now)
		write = true
	}
	if r.queue {
		var gone bool
		d, gone = withdraw(d, r.owner)
		write = write || gone
	}
	return d, write
}
