package lease

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// key identifies a state up to what makes no difference: which client is
// which, the absolute size of tokens, the order of holders and of ghosts.
type key [2]uint64

// result is what a search found.
type result struct {
	states, transitions, depth int
	complete                   bool // every reachable state was visited
	broken                     broken
	trace                      []string
}

// search visits every state that can be reached, nearest first, in so many
// steps (0 is any number), and ends where a rule is broken.
func (m *model) search(steps int) result {
	var r result
	first := state{}
	seen := map[key]int32{}
	var parents []int32
	var keys []key
	add := func(s *state, parent int32) (int32, bool) {
		k := s.key()
		if i, ok := seen[k]; ok {
			return i, false
		}
		i := int32(len(parents))
		seen[k] = i
		parents, keys = append(parents, parent), append(keys, k)
		return i, true
	}
	fail := func(bad broken, i int32, last action) {
		var path []key
		for ; i > 0; i = parents[i] {
			path = append(path, keys[i])
		}
		slices.Reverse(path)
		r.broken, r.trace = bad, m.replay(path, last)
	}
	type visited struct {
		index int32
		state state
	}
	add(&first, -1)
	level := []visited{{0, first}}
	for len(level) > 0 && r.broken == "" && (steps == 0 || r.depth < steps) {
		var next []visited
		for _, v := range level {
			m.successors(v.state, func(a action, s state, bad broken) {
				if r.broken != "" {
					return
				}
				r.transitions++
				if bad != "" {
					fail(bad, v.index, a)
					return
				}
				s.normalise()
				i, fresh := add(&s, v.index)
				if !fresh {
					return
				}
				if bad = m.checkState(&s); bad == "" {
					bad = m.checkStuck(s.doc)
				}
				if bad != "" {
					fail(bad, v.index, a)
					return
				}
				next = append(next, visited{i, s})
			})
			if r.broken != "" {
				break
			}
		}
		level = next
		r.depth++
	}
	r.states = len(parents)
	r.complete = r.broken == "" && len(level) == 0
	return r
}

// replay tells the way to a broken rule. The search may have swapped clients
// on the way; here everybody keeps its number.
func (m *model) replay(path []key, last action) []string {
	s := state{}
	var told []string
	tell := func(a action, s *state) { told = append(told, fmt.Sprintf("%-62s %s", a, s)) }
	for _, k := range path {
		found := false
		m.successors(s, func(a action, next state, _ broken) {
			next.normalise()
			if !found && next.key() == k {
				found, s = true, next
				tell(a, &s)
			}
		})
	}
	ended := false
	m.successors(s, func(a action, next state, bad broken) {
		if ended || a.verb != last.verb || a.kind != last.kind || a.lag != last.lag {
			return
		}
		if bad == "" {
			bad = m.checkState(&next)
		}
		if bad == "" {
			bad = m.checkStuck(next.doc)
		}
		if bad != "" {
			ended = true
			tell(a, &next)
			told = append(told, "broken: "+string(bad))
		}
	})
	return told
}

func (s *state) String() string {
	var b strings.Builder
	b.WriteString("held by")
	for _, h := range s.doc.holders[:s.doc.nh] {
		fmt.Fprintf(&b, " %d (token %d, %d old)", h.owner, h.token, h.renewed)
	}
	if s.doc.nh == 0 {
		b.WriteString(" nobody")
	}
	for _, w := range s.doc.waiters[:s.doc.nw] {
		fmt.Fprintf(&b, ", %d waits (%d old)", w.owner, w.seen)
	}
	for c, cl := range s.clients {
		if cl.left > 0 {
			fmt.Fprintf(&b, "; %d acts on token %d for %d", c, cl.token, cl.left)
		}
	}
	return b.String()
}

// normalise forgets what makes no difference any more, and replaces tokens by
// their rank. Those that neither the document nor a request under way has are
// over for ever, and all alike.
func (s *state) normalise() {
	for c := range s.clients {
		cl := &s.clients[c]
		if !cl.op.grants() && cl.broken != cl.token {
			cl.broken = 0
		}
		if cl.token == 0 && cl.op.kind == idle {
			cl.prior = 0
		}
		if _, holds := cl.op.body.holderOf(int8(c)); !cl.op.grants() || !holds {
			cl.op.read, cl.op.readNow, cl.op.sent, cl.op.replyNow = 0, 0, 0, 0
		}
	}
	var live, known [128]bool
	s.tokens(func(t *int8) { live[*t] = true }, func(t *int8) { known[*t] = true })
	var rank [128]int8
	n := int8(0)
	for t := 1; t < len(live); t++ {
		if known[t] && !live[t] {
			rank[t], n = 1, 1
		}
	}
	for t := 1; t < len(live); t++ {
		if live[t] {
			n++
			rank[t] = n
		}
	}
	set := func(t *int8) { *t = rank[*t] }
	s.tokens(set, set)
}

// tokens visits those that may still come to be held, and those that clients
// know.
func (s *state) tokens(live, known func(*int8)) {
	live(&s.ever)
	s.docs(func(d *mdoc) {
		live(&d.last)
		for i := range d.holders[:d.nh] {
			live(&d.holders[i].token)
		}
		for n := range d.granted {
			if d.granted[n] > 0 {
				live(&d.granted[n])
			}
		}
	})
	for c := range s.clients {
		known(&s.clients[c].token)
		known(&s.clients[c].prior)
		known(&s.clients[c].broken)
		known(&s.clients[c].op.token)
	}
}

// key is a hash of the least encoding over the ways to number the clients.
func (s *state) key() key {
	var room [2][320]byte
	least, other := room[0][:0], room[1][:0]
	fit, n := s.numberings()
	least = s.encode(least, fit[0])
	for _, to := range fit[1:n] {
		if other = s.encode(other[:0], to); bytes.Compare(other, least) < 0 {
			least, other = other, least
		}
	}
	return key{maphash.Bytes(hashSeeds[0], least), maphash.Bytes(hashSeeds[1], least)}
}

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// numbering gives each client another number.
type numbering [modelClients]int8

var allNumberings = [...]numbering{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// numberings are those that put the clients into the order of what can be told
// of them without numbers: one, unless some look the same.
func (s *state) numberings() (fit [len(allNumberings)]numbering, n int) {
	var looks [modelClients]uint64
	for c := range s.clients {
		cl := &s.clients[c]
		see := func(v int8) { looks[c] = looks[c]<<6 | uint64(v) }
		h, _ := s.doc.holderOf(int8(c))
		see(h.token)
		place := int8(0)
		for i, w := range s.doc.waiters[:s.doc.nw] {
			if w.owner == int8(c) {
				place = int8(i) + 1
			}
		}
		see(place)
		see(cl.token)
		see(cl.left)
		see(int8(cl.op.kind))
		see(int8(cl.op.phase))
		see(cl.op.sent)
	}
	for _, to := range &allNumberings {
		ordered := true
		for a := range looks {
			for b := range looks {
				ordered = ordered && (looks[a] >= looks[b] || to[a] < to[b])
			}
		}
		if ordered {
			fit[n] = to
			n++
		}
	}
	return fit, n
}

func (to numbering) nonce(n int8) int8 {
	switch {
	case n == 0:
		return 0
	case n <= modelClients:
		return writeOf(to[n-1])
	default:
		return maybeOf(to[n-1-modelClients])
	}
}

func (s *state) encode(b []byte, to numbering) []byte {
	b = s.doc.encode(b, to)
	b = append(b, byte(s.ever))
	var from numbering
	for c, n := range to {
		from[n] = int8(c)
	}
	for _, c := range from {
		cl := &s.clients[c]
		op := &cl.op
		b = append(b, byte(cl.token), byte(cl.prior), byte(cl.left), byte(cl.broken), flags(op.maybe, op.stale, op.uncertain))
		b = append(b, byte(op.kind), byte(op.phase), byte(op.token))
		if op.kind == breaks || op.kind == stops {
			b = append(b, byte(to[op.target]))
		}
		b = append(b, byte(op.read), byte(op.readNow), byte(op.sent), byte(op.replyNow))
		if op.phase > 0 {
			b = op.body.encode(b, to)
		}
	}
	// Ghosts have no order.
	var room [modelGhosts][64]byte
	each := [modelGhosts][]byte{}
	for i := range s.ghosts {
		if g := &s.ghosts[i]; g.kind != idle {
			each[i] = g.body.encode(append(room[i][:0], byte(g.kind), byte(to[g.owner]), byte(to[g.target])), to)
		}
	}
	slices.SortFunc(each[:], bytes.Compare)
	for _, e := range each {
		b = append(b, e...)
	}
	return b
}

func flags(of ...bool) (b byte) {
	for i, f := range of {
		if f {
			b |= 1 << i
		}
	}
	return b
}

func (d *mdoc) encode(b []byte, to numbering) []byte {
	b = append(b, byte(d.last), byte(to.nonce(d.nonce)), byte(d.nw))
	var holders [modelClients][2]byte
	for _, h := range d.holders[:d.nh] {
		holders[to[h.owner]] = [2]byte{byte(h.token), byte(h.renewed)<<1 | flags(h.stopped)}
	}
	var over byte
	for c, ended := range d.ended {
		over |= flags(ended) << to[c]
	}
	b = append(b, over)
	for _, h := range holders {
		b = append(b, h[:]...)
	}
	for _, w := range d.waiters[:d.nw] {
		b = append(b, byte(to[w.owner]), byte(w.seen))
	}
	var granted [nonces]byte
	var carried byte
	for n := range int8(nonces) {
		if d.carried[n] {
			carried |= 1 << to.nonce(n)
			granted[to.nonce(n)] = byte(d.granted[n])
		}
	}
	return append(append(b, carried), granted[1:]...)
}
