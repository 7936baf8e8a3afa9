package lease

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// breakHolder takes the lock from a holder by the operator's word; the last
// result is false when nobody matches.
func breakHolder(d document, r BreakRequest, now time.Time) (document, holder, bool) {
	for i, h := range d.Holders {
		if (r.Holder == "" || r.Holder == h.Owner) && (r.Token == 0 || r.Token == h.Token) {
			d = d.withoutHolder(i)
			if h.Once {
				d, _ = d.end(Mark{Owner: h.Owner, At: now, Kind: Broken, By: r.By, Reason: r.Reason})
			}
			return d.record(Event{At: now, Kind: Broken, Owner: h.Owner, Token: h.Token, By: r.By, Reason: r.Reason}), h, true
		}
	}
	return d, holder{}, false
}

// firstFloor is where the tokens of a lock begin that is created on nothing: the
// document may have been deleted, and may have granted tokens.
//
// The server's clock in milliseconds is above all of them: tokens grow by one a
// grant, and a register that takes a few dozen writes a second cannot grant one
// per millisecond since 1970; nor can it catch up with the clock after an earlier
// beginning, since each begins at the clock.
func firstFloor(known int64, now time.Time) int64 { return max(known, now.UnixMilli()) }

// repair writes a free document in place of one that cannot be read, or that
// was deleted. Its tokens start above every token ever granted, of which the
// damaged body may show only some, or none: see firstFloor. What is legible, and
// what this process remembers, is respected on top, unless it is so far ahead of
// the clock that no grant can have reached it.
func repair(raw []byte, r BreakRequest, limit int, floor int64, now time.Time) document {
	floor = firstFloor(floor, now)
	reason := r.Reason
	if legible := legibleToken(raw); legible <= now.Add(plausible).UnixMilli() {
		floor = max(floor, legible)
	} else {
		reason += fmt.Sprintf(" (token %d in the damaged document was ignored)", legible)
	}
	d := newDocument(limit, floor)
	return d.record(Event{At: now, Kind: Repaired, Token: floor, By: r.By, Reason: reason})
}

// plausible is how far a token may be ahead of the server's clock.
const plausible = 366 * 24 * time.Hour

var tokenPattern = regexp.MustCompile(`"(?i:lastToken|token)"\s*:\s*([0-9]{1,16})(?:[^0-9.eE]|$)`)

// legibleToken is the highest token that a damaged body still shows.
func legibleToken(raw []byte) int64 {
	var highest int64
	for _, match := range tokenPattern.FindAllSubmatch(raw, -1) {
		// 16 digits always fit; what is beyond maxToken was never a token.
		if n, err := strconv.ParseInt(string(match[1]), 10, 64); err == nil && n <= maxToken {
			highest = max(highest, n)
		}
	}
	return highest
}
