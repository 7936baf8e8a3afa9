package lease

import (
	"slices"
	"time"
)

// expires is when others may take over, by the server's clock.
func (h holder) expires() time.Time {
	return h.Renewed.Add(h.TTL.duration() + h.Grace.duration())
}

// expired judges with the server's clock alone; at the very end the holder
// still holds.
func (h holder) expired(now time.Time) bool { return now.After(h.expires()) }

// ended are the holders whose time is over.
func (d document) ended(now time.Time) (over []holder) {
	for _, h := range d.Holders {
		if h.expired(now) {
			over = append(over, h)
		}
	}
	return over
}

// expire takes the lock from holders whose time is over and the place from
// waiters that went silent.
func expire(d document, now time.Time) document {
	if len(d.ended(now)) > 0 {
		live := make([]holder, 0, len(d.Holders))
		for _, h := range d.Holders {
			if !h.expired(now) {
				live = append(live, h)
				continue
			}
			d = d.record(Event{At: now, Kind: Expired, Owner: h.Owner, Token: h.Token})
		}
		d.Holders = live
	}
	if slices.ContainsFunc(d.Waiters, func(w waiter) bool { return w.silent(now) }) {
		live := make([]waiter, 0, len(d.Waiters))
		for _, w := range d.Waiters {
			if !w.silent(now) {
				live = append(live, w)
			}
		}
		d.Waiters = live
	}
	return d
}
