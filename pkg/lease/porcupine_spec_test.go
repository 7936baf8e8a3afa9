package lease_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// call is one call of a lock, as the specification sees it.
type call struct {
	verb  string // try, ask, abandon, renew, release, clean, break or work
	owner string
	token int64
	limit int
	// From and to are when it was made and when it returned, by the server's
	// clock; a late write of it was computed in between as well.
	from, to time.Time
}

// answer is what the caller was told. Unknown is an error that does not say
// whether anything happened: then it may have, or may yet, or never will.
type answer struct {
	unknown bool
	yes     bool // had, kept, released, broken; working is always yes
	waits   bool
	token   int64
	expires time.Time
}

// The specification: a lock is who holds it, who queues, and the last token.
// It is a value, to be compared.
type spec struct {
	held  [2]specHolder // the limit is at most two; empty ones last
	queue string        // owners, each followed by a space
	last  int64
	// taken are the tokens that somebody else took from their owner, who may
	// not know it yet.
	taken string
}

// specHolder is live for certain until min and over for certain after max. The
// two differ where a renewal may or may not have landed.
type specHolder struct {
	owner    string
	token    int64
	min, max int64 // Unix seconds: the server's clock shows no more
}

const (
	specTTL   = 6 * time.Second
	specGrace = 2 * time.Second
	specLease = specTTL + specGrace
)

func (s spec) find(match func(specHolder) bool) int {
	return slices.IndexFunc(s.held[:], func(h specHolder) bool { return h.owner != "" && match(h) })
}

func (s spec) without(i int) spec {
	copy(s.held[i:], s.held[i+1:])
	s.held[len(s.held)-1] = specHolder{}
	return s
}

func (s spec) with(h specHolder) spec {
	s.held[s.count()] = h
	s.last = max(s.last, h.token)
	s.queue = strings.Replace(s.queue, h.owner+" ", "", 1)
	return s
}

func (s spec) count() int {
	n := 0
	for _, h := range s.held {
		if h.owner != "" {
			n++
		}
	}
	return n
}

func (s spec) takenFrom(token int64) spec {
	s.taken += fmt.Sprintf("%d ", token)
	return s
}

// mayBeOver: some moment of the call is after the end of h. The server's clock
// shows whole seconds.
func (c call) mayBeOver(h specHolder) bool { return c.to.Unix() > h.min }

// mayLive: some moment of the call is not after the end of h.
func (c call) mayLive(h specHolder) bool { return c.from.Unix() <= h.max }

// expiries are the ways in which leases may have ended by a moment of the
// call; one that must have ended may still stand in the document.
func (c call) expiries(s spec) []spec {
	ways := []spec{s}
	for i := len(s.held) - 1; i >= 0; i-- {
		if s.held[i].owner != "" && c.mayBeOver(s.held[i]) {
			for _, w := range slices.Clone(ways) {
				ways = append(ways, w.without(i))
			}
		}
	}
	return ways
}

// step returns every state in which the lock may be after the call.
func step(s spec, c call, a answer) []spec {
	mine := s.find(func(h specHolder) bool { return h.owner == c.owner && (c.token == 0 || h.token == c.token) })
	switch c.verb {
	case "try", "ask":
		return ask(s, c, a)
	case "abandon": // the clean-up of a call that failed, if it came to that
		after := []spec{s}
		if mine >= 0 {
			after = append(after, s.without(mine))
		}
		for _, w := range slices.Clone(after) {
			w.queue = strings.Replace(w.queue, c.owner+" ", "", 1)
			after = append(after, w)
		}
		return after
	case "renew":
		return renew(s, mine, c, a)
	case "release", "clean", "break":
		return release(s, mine, c, a)
	default: // work
		if mine >= 0 || strings.Contains(" "+s.taken, fmt.Sprintf(" %d ", c.token)) {
			return []spec{s}
		}
		return nil
	}
}

func ask(s spec, c call, a answer) (after []spec) {
	for _, w := range c.expiries(s) {
		i := w.find(func(h specHolder) bool { return h.owner == c.owner })
		owners := strings.Fields(w.queue)
		ahead := slices.Index(owners, c.owner)
		queued := ahead >= 0
		if !queued {
			ahead = len(owners)
		}
		live := 0
		for _, h := range w.held {
			if h.owner != "" && c.mayLive(h) {
				live++
			}
		}
		room := ahead < c.limit-w.count()
		if a.unknown {
			after = append(after, w)
			first, last := c.from.Add(specLease-2*time.Second).Unix(), c.to.Add(specLease).Unix()
			switch {
			case i >= 0:
				w.held[i].max = max(w.held[i].max, last)
				after = append(after, w)
			case room:
				after = append(after, w.with(specHolder{c.owner, w.last + 1, first, last}))
			}
			if i < 0 && c.verb == "ask" && !queued {
				w.queue += c.owner + " "
				after = append(after, w)
			}
			continue
		}
		end := a.expires.Unix()
		switch {
		case a.yes && i >= 0: // rule 3: the same owner, the same grant
			if w.held[i].token == a.token {
				w.held[i].min, w.held[i].max = end, end
				after = append(after, w)
			}
		case a.yes:
			// A call that took half a lease may have taken, lost and taken again.
			slow := c.to.Sub(c.from) > specTTL/2
			if room && (a.token == w.last+1 || slow && a.token > w.last) {
				after = append(after, w.with(specHolder{c.owner, a.token, end, end}))
			}
		case i >= 0 && !c.mayBeOver(w.held[i]): // a holder is not sent away
		case ahead < c.limit-live: // nobody is in the way
		case a.waits && !queued:
			w.queue += c.owner + " "
			after = append(after, w)
		default:
			after = append(after, w)
		}
	}
	return after
}

func renew(s spec, mine int, c call, a answer) []spec {
	switch {
	case a.unknown && mine >= 0:
		w := s
		w.held[mine].max = max(w.held[mine].max, c.to.Add(specLease).Unix())
		return []spec{s, w}
	case a.unknown:
		return []spec{s}
	case a.yes && mine >= 0:
		s.held[mine].min, s.held[mine].max = a.expires.Unix(), a.expires.Unix()
		return []spec{s}
	case !a.yes && (mine < 0 || c.mayBeOver(s.held[mine])):
		return []spec{s}
	}
	return nil
}

func release(s spec, mine int, c call, a answer) (after []spec) {
	if a.unknown || !a.yes && mine < 0 {
		after = append(after, s)
	}
	if (a.unknown || a.yes) && mine >= 0 {
		token := s.held[mine].token
		s = s.without(mine)
		if c.verb != "release" { // not by the one who works under it
			s = s.takenFrom(token)
		}
		after = append(after, s)
	}
	return after
}

var lockModel = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{spec{}} },
		Step: func(state, in, out any) (next []any) {
			for _, s := range step(state.(spec), in.(call), out.(answer)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return in.(call).String() + " → " + out.(answer).String() },
		DescribeState: func(state any) string {
			s := state.(spec)
			return fmt.Sprintf("%v queue [%s] last %d", s.held, s.queue, s.last)
		},
	}
	return m.ToModel()
}()

func (c call) String() string {
	if c.token > 0 {
		return fmt.Sprintf("%s %s/%d", c.verb, c.owner, c.token)
	}
	return c.verb + " " + c.owner
}

func (a answer) String() string {
	switch {
	case a.unknown:
		return "unknown"
	case a.yes && a.token > 0:
		return fmt.Sprintf("yes, token %d until %s", a.token, a.expires.Format("05"))
	case a.yes:
		return "yes"
	case a.waits:
		return "wait"
	default:
		return "no"
	}
}
