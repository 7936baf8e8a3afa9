package lease

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A check that finds nothing is worth as much as the faults it would find:
// each of these is one that a lock like this could have, or had.
var seededFaults = []struct {
	name  string
	world model // three clients
	seed  func(p *protocol)
	rule  string // that is found broken
}{
	{"release does not check the token", model{busy: 1}, func(p *protocol) {
		p.release = func(d document, r leaving, now time.Time) (document, left) {
			h, _ := d.holderOf(r.owner)
			r.token = h.Token
			return release(d, r, now)
		}
	}, "rule 7"},
	{"release checks neither token nor owner", model{busy: 1}, func(p *protocol) {
		p.release = func(d document, r leaving, now time.Time) (document, left) {
			if len(d.Holders) > 0 {
				r.owner, r.token = d.Holders[0].Owner, d.Holders[0].Token
			}
			return release(d, r, now)
		}
	}, "rule"},
	{"release deletes the document", model{busy: 1}, func(p *protocol) {
		p.release = func(d document, r leaving, now time.Time) (document, left) {
			next, gone := release(d, r, now)
			if gone.held && len(next.Holders)+len(next.Waiters) == 0 {
				next = newDocument(d.Limit, 0)
			}
			return next, gone
		}
	}, "rule 2"},
	{"expiry is judged with >=", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			return ask(d, r, now.Add(time.Nanosecond))
		}
	}, "rule 8: client 1 is served with 1 holders"},
	{"expiry forgets the grace", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			next, a, write := ask(withGrace(d, 0), r, now)
			return withGrace(next, r.grace), a, write
		}
	}, "rule 8: client 1 is served with 1 holders"},
	{"a grant does not grow the token", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			next, a, write := ask(d, r, now)
			if a.fresh && a.decision == Held && d.LastToken > 0 {
				next.LastToken = d.LastToken
				a.mine.Token = d.LastToken
				next = next.withHolder(len(next.Holders)-1, a.mine)
			}
			return next, a, write
		}
	}, "rule 2"},
	{"ask ignores those ahead", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			_, a, _ := ask(d, r, now)
			if a.decision == Held {
				return ask(d, r, now)
			}
			hasty := r
			hasty.priority = 1 << 30
			if next, b, write := ask(d, hasty, now); b.decision == Held {
				return next, b, write
			}
			return ask(d, r, now)
		}
	}, "rule 8"},
	{"a waiter that asks again goes to the end", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			if w, i := d.waiterOf(r.owner); i >= 0 && w.due(r.poll, now) {
				d = d.withoutWaiter(i)
			}
			return ask(d, r, now)
		}
	}, "rule 8"},
	{"silent waiters keep their places", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			d.Waiters = slices.Clone(d.Waiters)
			for i := range d.Waiters {
				d.Waiters[i].Seen = now
			}
			return ask(d, r, now)
		}
	}, ""},
	{"one more than the limit is let in", model{busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			d.Limit, r.limit = d.Limit+1, r.limit+1
			next, a, write := ask(d, r, now)
			next.Limit--
			return next, a, write
		}
	}, "rule 1"},
	{"one more than a limit of two is let in", model{limit: 2, busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			d.Limit, r.limit = d.Limit+1, r.limit+1
			next, a, write := ask(d, r, now)
			next.Limit--
			return next, a, write
		}
	}, "rule 1"},
	{"an owner that holds the lock is granted it anew", model{limit: 2, busy: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			if _, i := d.holderOf(r.owner); i >= 0 {
				d = d.withoutHolder(i)
			}
			return ask(d, r, now)
		}
	}, "rule 3"},
	{"an owner that holds the lock is told so by reading alone", model{busy: 1, ghosts: 1}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			next, a, write := ask(d, r, now)
			if h, i := d.holderOf(r.owner); i >= 0 && now.Equal(h.Renewed) {
				return d, asked{decision: Held, mine: h}, false
			}
			return next, a, write
		}
	}, "rule 5"},
	{"renew does not check the token", model{busy: 1}, func(p *protocol) {
		p.renew = func(d document, owner string, _ int64, now time.Time) (document, holder, bool) {
			return renew(d, owner, 0, now)
		}
	}, "rule 7"},
	{"renew revives what is over", model{busy: 1}, func(p *protocol) {
		p.renew = func(d document, owner string, token int64, now time.Time) (document, holder, bool) {
			h, i := d.held(owner, token)
			if i < 0 {
				return d, holder{}, false
			}
			h.Renewed = now
			return d.withHolder(i, h), h, true
		}
	}, "rule"},
	{"a clock that steps back shortens a lease", model{busy: 1, lag: 1}, func(p *protocol) {
		p.renew = func(d document, owner string, token int64, now time.Time) (document, holder, bool) {
			next, h, ok := renew(d, owner, token, now)
			if ok {
				h.Renewed = now
				next = next.withHolder(slices.IndexFunc(next.Holders, func(x holder) bool { return x.Token == h.Token }), h)
			}
			return next, h, ok
		}
	}, "rule 7"},
	{"withdraw takes the first in the queue", model{busy: 1}, func(p *protocol) {
		p.withdraw = func(d document, owner string, once bool, now time.Time) (document, bool) {
			if len(d.Waiters) > 0 {
				owner = d.Waiters[0].Owner
			}
			return withdraw(d, owner, once, now)
		}
	}, "rule 8"},
	{"a life acquires after its end", model{busy: 1, once: true}, func(p *protocol) {
		p.ask = func(d document, r asking, now time.Time) (document, asked, bool) {
			marks := d.Ended
			d.Ended = []Mark{}
			next, a, write := ask(d, r, now)
			next.Ended = marks
			return next, a, write
		}
	}, "rule 3"},
	{"a stop frees the lock", model{busy: 1, once: true}, func(p *protocol) {
		p.stop = func(d document, owner, reason string, now time.Time) (document, left) {
			return release(d, leaving{owner: owner, once: true, reason: reason}, now)
		}
	}, "rules 4 and 7"},
	{"a stopped lease is renewed", model{busy: 1, once: true}, func(p *protocol) {
		p.renew = func(d document, owner string, token int64, now time.Time) (document, holder, bool) {
			d.Holders = slices.Clone(d.Holders)
			for i := range d.Holders {
				d.Holders[i].Stopped = false
			}
			return renew(d, owner, token, now)
		}
	}, "rule"},
	{"the deadline is counted from the reply", model{busy: 2}, func(p *protocol) {
		p.grant = func(l *Lock, h holder, v view) Grant {
			v.sent = v.came
			return l.grant(h, v)
		}
	}, "rule 5"},
	{"a lost reply is trusted", model{busy: 1}, func(p *protocol) {
		p.outcome = func(v view, nonce, version string) outcome {
			if o := v.outcome(nonce, version); o != open {
				return o
			}
			return landed
		}
	}, "rule 5"},
	{"a break takes whoever is first", model{limit: 2, busy: 1}, func(p *protocol) {
		p.breaks = func(d document, r BreakRequest, now time.Time) (document, holder, bool) {
			return breakHolder(d, BreakRequest{Token: d.Holders[0].Token}, now)
		}
	}, "rules 4 and 7"},
	{"a given-up ask takes back what others have", model{limit: 2, busy: 2}, func(p *protocol) {
		p.abandon = func(d document, r abandoning, now time.Time) (document, bool) {
			if len(d.Holders) > 0 && len(r.maybe) > 0 {
				return d.withoutHolder(0), true
			}
			return abandon(d, r, now)
		}
	}, "rules 4 and 7"},
}

func withGrace(d document, grace millis) document {
	d.Holders = slices.Clone(d.Holders)
	for i := range d.Holders {
		d.Holders[i].Grace = grace
	}
	return d
}

func TestTheModelFindsSeededFaults(t *testing.T) {
	for _, fault := range seededFaults {
		t.Run(fault.name, func(t *testing.T) {
			m := fault.world
			m.clients, m.limit, m.maxWaiters, m.rules = 3, max(1, m.limit), 3, realProtocol
			fault.seed(&m.rules)
			r := m.search(16)
			if r.broken == "" {
				t.Fatalf("not found among %d states", r.states)
			}
			t.Logf("found among %d states, %d transitions:\n%s", r.states, r.transitions, strings.Join(r.trace, "\n"))
			if !strings.HasPrefix(string(r.broken), fault.rule) {
				t.Errorf("found %q, want %s", r.broken, fault.rule)
			}
			if last := r.trace[len(r.trace)-1]; last != "broken: "+string(r.broken) {
				t.Errorf("the trace does not lead there: %s", last)
			}
		})
	}
}
