package lease

import "time"

// Decision is what a lock says to somebody who asks for it.
type Decision string

// The decisions. A state machine branches on them.
const (
	// Held: the asker holds the lock.
	Held Decision = "held"
	// Wait: the asker has a place in the queue and keeps it by asking again.
	Wait Decision = "wait"
	// Superseded: as many as allowed are waiting already, and one of them will
	// do the asker's work.
	Superseded Decision = "superseded"
	// refused: the lock cannot be had now, and the asker does not queue.
	refused Decision = "refused"
	// ended: the asker lives once, and its life is over.
	ended Decision = "ended"
)

// asking is a request for the lock.
type asking struct {
	owner      string
	priority   int
	limit      int
	maxWaiters int
	ttl, grace millis
	poll       millis
	once       bool
	queue      bool // take a place in the queue when the lock cannot be had
}

// asked is the answer to it.
type asked struct {
	decision Decision
	mine     holder    // when held
	fresh    bool      // a grant, or a place in the queue, that was not there before
	position int       // when waiting: 1 is next
	arrived  time.Time // in the queue; zero for an asker that never was in it, or holds already
	ended    []holder  // whose time was over, and from whom this turn took the lock
	mark     Mark      // when ended
	after    document  // as the asker leaves it
}

// ask grants the lock, or a place in the queue. The last result tells whether
// the document has to be written: an asker that keeps its place costs no
// write, unless its mark is about to grow old.
func ask(d document, r asking, now time.Time) (document, asked, bool) {
	next, said, write := askLive(expire(d, now), r, now)
	if write {
		said.ended = d.ended(now)
	}
	return next, said, write
}

func askLive(d document, r asking, now time.Time) (document, asked, bool) {
	if m, over := d.mark(r.owner); over {
		return d, asked{decision: ended, mark: m, after: d}, false
	}
	if h, i := d.holderOf(r.owner); i >= 0 {
		return again(d, h, i, now)
	}
	d.Limit = agree(d, r)
	ahead := d.ahead(r.owner, r.priority)
	// Those ahead get their slots first, even while they do not ask: else a
	// newcomer that happens to come at the right moment overtakes them all.
	if free := d.Limit - len(d.Holders); ahead < free && d.Hold == nil {
		w, _ := d.waiterOf(r.owner)
		d, h := grant(d, r, now)
		return d, asked{decision: Held, mine: h, fresh: true, arrived: w.Arrived, after: d}, true
	}
	if !r.queue {
		return d, asked{decision: refused, after: d}, false
	}
	if w, i := d.waiterOf(r.owner); i >= 0 {
		write := w.due(r.poll, now)
		if write {
			w.Seen, w.Poll = later(w.Seen, now), max(w.Poll, r.poll)
			d = d.withWaiter(i, w)
		}
		return d, asked{decision: Wait, position: i + 1, arrived: w.Arrived, after: d}, write
	}
	if len(d.Waiters) >= r.maxWaiters {
		if r.once { // a call of it that comes late must not take a place after all
			d, _ = d.end(Mark{Owner: r.owner, At: now, Kind: Passed, Reason: "enough wait already"})
		}
		return d, asked{decision: Superseded, after: d}, r.once
	}
	d = d.enqueue(waiter{Owner: r.owner, Priority: r.priority, Arrived: now, Seen: now, Poll: r.poll, Once: r.once})
	return d, asked{decision: Wait, position: ahead + 1, fresh: true, arrived: now, after: d}, true
}

// again answers an owner that holds the lock already: a retried call or a
// redriven run gets the same grant, with its full time. That is always written:
// a release of this owner that was given up may still be under way, and would
// free the lock under the asker if it found the version it names.
func again(d document, h holder, i int, now time.Time) (document, asked, bool) {
	h.Renewed = later(h.Renewed, now)
	d = d.withHolder(i, h)
	return d, asked{decision: Held, mine: h, after: d}, true
}

// agree settles the limit between the document and the asker. While anybody
// else holds or waits, the lower one counts, so that two configurations never
// add up to more holders than either allows; an idle lock takes the asker's.
func agree(d document, r asking) int {
	others := len(d.Waiters)
	if _, i := d.waiterOf(r.owner); i >= 0 {
		others--
	}
	if len(d.Holders) == 0 && others == 0 {
		return r.limit
	}
	// Not below the present holders: the document stays true to its own limit.
	return max(min(d.Limit, r.limit), len(d.Holders))
}

func grant(d document, r asking, now time.Time) (document, holder) {
	if _, i := d.waiterOf(r.owner); i >= 0 {
		d = d.withoutWaiter(i)
	}
	d.LastToken++
	h := holder{Owner: r.owner, Token: d.LastToken, Acquired: now, Renewed: now, TTL: r.ttl, Grace: r.grace, Once: r.once}
	d.Holders = append(d.Holders[:len(d.Holders):len(d.Holders)], h)
	return d.record(Event{At: now, Kind: Granted, Owner: h.Owner, Token: h.Token}), h
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
