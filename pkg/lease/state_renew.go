package lease

import "time"

// renew prolongs the grant of (owner, token); the last result is false when
// there is none, its time is over, or its owner was stopped. It judges nobody else, so that it may
// run on a document that is remembered rather than read.
func renew(d document, owner string, token int64, now time.Time) (document, holder, bool) {
	h, i := d.held(owner, token)
	if i < 0 || h.expired(now) || h.Stopped {
		return d, holder{}, false
	}
	// A server clock that stepped back must not bring the end forward: another
	// process of the run counts on the earlier mark.
	h.Renewed = later(h.Renewed, now)
	return d.withHolder(i, h), h, true
}
