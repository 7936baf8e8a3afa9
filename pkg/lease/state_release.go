package lease

import "time"

// leaving is a request to give back what owner has.
type leaving struct {
	owner string
	token int64 // 0: whatever the owner holds, and its place in the queue
	// once: the owner's life ends with it.
	once   bool
	reason string
}

// left says what was given back.
type left struct {
	held      bool
	token     int64
	acquired  time.Time // when held
	withdrawn bool
	marked    bool
	ends      time.Time // when a lease that was stopped ends by itself
}

// release gives back the lock. It acts for (owner, token) only: a release
// that arrives late finds the next holder under another token.
func release(d document, r leaving, now time.Time) (document, left) {
	var l left
	if h, i := d.held(r.owner, r.token); i >= 0 && !h.Stopped {
		d = d.withoutHolder(i).record(Event{At: now, Kind: Freed, Owner: h.Owner, Token: h.Token, Reason: r.reason})
		l.held, l.token, l.acquired = true, h.Token, h.Acquired
	}
	// A release for one token is about that grant; the place in the queue may
	// belong to a later life of the same owner.
	if r.token == 0 {
		if _, i := d.waiterOf(r.owner); i >= 0 {
			d = d.withoutWaiter(i)
			l.withdrawn = true
		}
	}
	if r.once {
		d, l.marked = d.end(Mark{Owner: r.owner, At: now, Kind: Freed, Reason: r.reason})
	}
	return d, l
}

// stop ends an owner that may still be at work: it gets no lock and no renewal
// any more, and its place in the queue goes. A lease that it holds is left to end
// by itself, because the work may go on until its deadline.
func stop(d document, owner, reason string, now time.Time) (document, left) {
	var l left
	d, l.marked = d.end(Mark{Owner: owner, At: now, Kind: Stopped, Reason: reason})
	if h, i := d.holderOf(owner); i >= 0 {
		l.token, l.acquired, l.ends = h.Token, h.Acquired, h.expires()
		if !h.Stopped {
			h.Stopped, l.held = true, true
			d = d.withHolder(i, h).record(Event{At: now, Kind: Stopped, Owner: owner, Token: h.Token, Reason: reason})
		}
	}
	if _, i := d.waiterOf(owner); i >= 0 {
		d = d.withoutWaiter(i)
		l.withdrawn = true
	}
	return d, l
}

// withdraw gives up the place in the queue, and with once the owner's life.
func withdraw(d document, owner string, once bool, now time.Time) (next document, changed bool) {
	if _, i := d.waiterOf(owner); i >= 0 {
		d, changed = d.withoutWaiter(i), true
	}
	if once {
		var marked bool
		d, marked = d.end(Mark{Owner: owner, At: now, Kind: Withdrawn})
		changed = changed || marked
	}
	return d, changed
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
		d, gone = withdraw(d, r.owner, false, now) // the same life may ask again
		write = write || gone
	}
	return d, write
}
