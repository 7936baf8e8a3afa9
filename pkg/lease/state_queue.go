package lease

import (
	"slices"
	"time"
)

// silenceSlack is what a waiter may be late on top of its promise before two
// thirds of its silence are over: room for a cold start and a few retries.
const silenceSlack = 10 * time.Second

// silence is how long a waiter may go unseen before it loses its place.
//
// A waiter that asks every Poll writes its mark only when the mark is older
// than a third of the silence. In the worst case the mark is just under a
// third old at one turn and is renewed at the next, so it never gets older
// than silence/3 + Poll + delay. With silence = 3 × (Poll + 10 s) the waiter
// may be Poll + 20 s late, that is miss a turn altogether, and keep its place.
func (w waiter) silence() time.Duration { return 3 * (w.Poll.duration() + silenceSlack) }

func (w waiter) silent(now time.Time) bool { return now.After(w.Seen.Add(w.silence())) }

// due says whether the waiter's mark must be written: it got old, or the
// waiter announces longer pauses than it promised before.
func (w waiter) due(poll millis, now time.Time) bool {
	return poll > w.Poll || now.Sub(w.Seen) > w.silence()/3
}

// ahead counts the waiters that are served before owner, which need not queue
// yet: a newcomer stands behind everybody of its own or a higher priority.
func (d document) ahead(owner string, priority int) int {
	if _, i := d.waiterOf(owner); i >= 0 {
		return i
	}
	i := slices.IndexFunc(d.Waiters, func(w waiter) bool { return w.Priority < priority })
	if i < 0 {
		return len(d.Waiters)
	}
	return i
}

// enqueue puts w where ahead says. Arrival is the order of these insertions,
// not the Arrived time: many arrive within one second of the server's clock.
func (d document) enqueue(w waiter) document {
	d.Waiters = slices.Insert(slices.Clone(d.Waiters), d.ahead(w.Owner, w.Priority), w)
	return d
}

func (d document) withWaiter(i int, w waiter) document {
	d.Waiters = slices.Clone(d.Waiters)
	d.Waiters[i] = w
	return d
}
