package lease

import (
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
			return d.record(Event{At: now, Kind: Broken, Owner: h.Owner, Token: h.Token, By: r.By, Reason: r.Reason}), h, true
		}
	}
	return d, holder{}, false
}

// repair writes a free document in place of one that cannot be read, or that
// was deleted.
//
// Its tokens must start above every token ever granted, but the damaged body
// may show only some of them, or none. The server's clock in milliseconds is
// above all of them: tokens grow by one a grant, and a register that takes a
// few dozen writes a second cannot grant one per millisecond since 1970; nor
// can it catch up with the clock after an earlier repair. What is legible, and
// what this process remembers, is respected on top.
func repair(raw []byte, r BreakRequest, limit int, floor int64, now time.Time) document {
	floor = max(floor, legibleToken(raw), now.UnixMilli())
	d := newDocument(limit, floor)
	return d.record(Event{At: now, Kind: Repaired, Token: floor, By: r.By, Reason: r.Reason})
}

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
