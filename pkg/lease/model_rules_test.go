package lease

import (
	"fmt"
	"slices"
)

// checkState holds a state to the rules that hold at every moment.
func (m *model) checkState(s *state) broken {
	acting := 0
	for c, cl := range s.clients {
		if cl.left == 0 || cl.broken == cl.token {
			continue
		}
		acting++
		if h, ok := s.doc.holderOf(int8(c)); !ok || h.token != cl.token {
			return broken(fmt.Sprintf("rule 5: client %d acts on token %d, which it does not hold", c, cl.token))
		}
	}
	if acting > m.limit {
		return broken(fmt.Sprintf("rule 1: %d clients act at a time, the limit is %d", acting, m.limit))
	}
	return ""
}

// checkLanding holds a write to the rules at the moment in which it lands, by
// the server's true clock.
func (m *model) checkLanding(s *state, g ghost) broken {
	old, next := s.doc, g.body
	for _, h := range next.holders[:next.nh] {
		if had(old, h.owner, h.token) {
			continue
		}
		if h.token <= s.ever {
			return broken(fmt.Sprintf("rule 2: token %d is granted after %d", h.token, s.ever))
		}
		if old.ended[h.owner] {
			return broken(fmt.Sprintf("rule 3: client %d is granted token %d after its life has ended", h.owner, h.token))
		}
		if prior, ok := old.holderOf(h.owner); ok && prior.renewed <= modelTTL+modelGrace {
			return broken(fmt.Sprintf("rule 3: client %d holds token %d and is granted %d", h.owner, prior.token, h.token))
		}
	}
	if next.last < s.ever || next.last < newest(old, next) {
		return broken(fmt.Sprintf("rule 2: the last token is %d after %d", next.last, max(s.ever, newest(old, next))))
	}
	for _, h := range old.holders[:old.nh] {
		if now, _ := next.holderOf(h.owner); h.stopped && now.token == h.token && (!now.stopped || now.renewed < h.renewed) {
			return broken(fmt.Sprintf("rule 3: client %d renews token %d after it was stopped", h.owner, h.token))
		}
		if had(next, h.owner, h.token) || h.renewed > modelTTL+modelGrace {
			continue
		}
		own := h.owner == g.owner && !h.stopped && (g.kind == releases || g.kind == releasesAny || g.kind == abandons)
		if !own && !(g.kind == breaks && h.owner == g.target) {
			return broken(fmt.Sprintf("rules 4 and 7: a write of client %d (%v) takes the lock from client %d, whose lease lasts",
				g.owner, g.kind, h.owner))
		}
	}
	return ""
}

func had(d mdoc, owner, token int8) bool {
	h, ok := d.holderOf(owner)
	return ok && h.token == token
}

// newest is the highest token that next grants.
func newest(old, next mdoc) int8 {
	var t int8
	for _, h := range next.holders[:next.nh] {
		if !had(old, h.owner, h.token) {
			t = max(t, h.token)
		}
	}
	return t
}

// checkChange holds one transition to the rules, by the clock that it judged
// with.
func (m *model) checkChange(old, next document, write bool, out said, op mop, c, lag int8) broken {
	owner, now := owners[c], ago(lag)
	over := func(h holder) bool { return now.Sub(h.Renewed) > (modelTTL+modelGrace)*modelTick }
	silent := func(w waiter) bool { return now.Sub(w.Seen) > modelSilence*modelTick }
	if out.held && op.kind != asks && op.kind != tries && over(out.mine) && !write {
		return broken(fmt.Sprintf("rule 4: %v of a lease that is over", op.kind))
	}
	if !write {
		return ""
	}
	if len(next.Holders) > m.limit {
		return broken(fmt.Sprintf("rule 1: %d holders, the limit is %d", len(next.Holders), m.limit))
	}
	if err := next.seal("n").validate(); err != nil {
		return broken(fmt.Sprintf("the document is not sound after %v: %v", op.kind, err))
	}
	switch op.kind {
	case asks, tries:
		if slices.ContainsFunc(next.Holders, over) || slices.ContainsFunc(next.Waiters, silent) {
			return "rules 4 and 8: after an ask, the document has a holder whose time is over, or a silent waiter"
		}
		return m.checkQueue(old, next, owner, over, silent)
	case renews:
		before, i := old.held(owner, int64(op.token))
		after, j := next.held(owner, int64(op.token))
		if i < 0 || j < 0 || over(before) || after.Renewed.Before(before.Renewed) {
			return "rule 7: a renewal of what is lost, or one that shortens"
		}
		before.Renewed = after.Renewed
		if before != after || !slices.Equal(without(old.Holders, owner), without(next.Holders, owner)) {
			return "rule 7: a renewal changes more than its own mark"
		}
	case releases:
		if m.once {
			break // it leaves a mark all the same
		}
		if _, i := old.held(owner, int64(op.token)); i < 0 {
			return "rule 7: a release of a grant that is not there"
		}
	}
	keepsQueue := func(w waiter) bool {
		return w.Owner == owner && (op.kind == releasesAny || op.kind == withdraws || op.kind == abandons) || w.Owner == owners[op.target] && op.kind == stops
	}
	if !slices.Equal(slices.DeleteFunc(slices.Clone(old.Waiters), keepsQueue), slices.DeleteFunc(slices.Clone(next.Waiters), keepsQueue)) {
		return broken(fmt.Sprintf("rule 8: %v changes others' places in the queue", op.kind))
	}
	return ""
}

// checkQueue holds an ask to rule 8: those ahead come first, and stay in order.
func (m *model) checkQueue(old, next document, owner string, over func(holder) bool, silent func(waiter) bool) broken {
	live := slices.DeleteFunc(slices.Clone(old.Holders), over)
	queue := slices.DeleteFunc(slices.Clone(old.Waiters), silent)
	ahead := slices.IndexFunc(queue, func(w waiter) bool { return w.Owner == owner })
	if ahead < 0 {
		ahead = len(queue)
	}
	_, holds := next.held(owner, 0)
	if _, held := (document{Holders: live}).held(owner, 0); held < 0 && holds >= 0 && len(live)+ahead >= m.limit {
		return broken(fmt.Sprintf("rule 8: %s is served with %d holders and %d ahead of it, the limit is %d", owner, len(live), ahead, m.limit))
	}
	want := []string{}
	for _, w := range queue {
		if w.Owner != owner || holds < 0 {
			want = append(want, w.Owner)
		}
	}
	got := []string{}
	for _, w := range next.Waiters {
		got = append(got, w.Owner)
	}
	if holds < 0 && ahead == len(queue) && len(got) == len(want)+1 {
		want = append(want, owner)
	}
	if !slices.Equal(got, want) {
		return broken(fmt.Sprintf("rule 8: the queue is %q after an ask of %s, want %q", got, owner, want))
	}
	return ""
}

func without(holders []holder, owner string) []holder {
	return slices.DeleteFunc(slices.Clone(holders), func(h holder) bool { return h.Owner == owner })
}

// checkStuck: whatever happened, once everybody is gone for long enough the
// lock can be had by whoever comes.
func (m *model) checkStuck(d mdoc) broken {
	for c := range d.holders[:d.nh] {
		d.holders[c].renewed = oldest
	}
	for c := range d.waiters[:d.nw] {
		d.waiters[c].seen = oldest
	}
	d.ended = [modelClients]bool{} // whoever comes is another life
	op := mop{kind: tries}
	if _, _, out := m.change(m.unpack(d), op, 0, 0); !out.held {
		return "the lock is stuck: all are gone, and it cannot be had"
	}
	return ""
}
