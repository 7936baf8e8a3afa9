package lease

import "fmt"

// action is one step of the world.
type action struct {
	verb   verb
	client int8
	kind   opKind
	target int8
	lag    int8
}

type verb int8

const (
	ticks verb = iota
	begins
	arrives
	receives
	stopsWaiting
	readsBack
	givesUp
	crashes
	lands
)

func (a action) String() string {
	late := ""
	if a.lag > 0 {
		late = ", by a clock that is a tick late"
	}
	switch a.verb {
	case ticks:
		return "a tick goes by"
	case begins:
		if a.kind == breaks || a.kind == stops {
			return fmt.Sprintf("client %d reads and sends: %v client %d%s", a.client, a.kind, a.target, late)
		}
		return fmt.Sprintf("client %d reads and sends: %v%s", a.client, a.kind, late)
	case arrives:
		return fmt.Sprintf("the request of client %d arrives%s", a.client, late)
	case receives:
		return fmt.Sprintf("client %d gets the reply", a.client)
	case stopsWaiting:
		return fmt.Sprintf("client %d gets no reply in time", a.client)
	case readsBack:
		return fmt.Sprintf("client %d reads back, and goes on%s", a.client, late)
	case givesUp:
		return fmt.Sprintf("client %d gives up, and cleans up%s", a.client, late)
	case crashes:
		return fmt.Sprintf("client %d gives up and forgets", a.client)
	default:
		return fmt.Sprintf("a forgotten request of client %d lands: %v", a.client, a.kind)
	}
}

// broken is a rule that a step broke; "" is none.
type broken string

// successors visits every state that one step leads to.
func (m *model) successors(s state, visit func(action, state, broken)) {
	later := s
	later.tick()
	visit(action{verb: ticks}, later, "")
	busy := 0
	for c := range s.clients {
		if s.clients[c].op.kind != idle {
			busy++
		}
	}
	for c := range m.clients {
		if s.clients[c].op.kind == idle && busy < m.busy {
			m.begin(s, c, visit)
		} else if s.clients[c].op.kind != idle {
			m.proceed(s, c, visit)
		}
	}
	for _, g := range s.ghosts {
		if g.kind != idle {
			next := s
			bad := m.land(&next, g)
			visit(action{verb: lands, client: g.owner, kind: g.kind}, next, bad)
		}
	}
}

// begin starts every operation that makes sense for an idle client.
func (m *model) begin(s state, c int8, visit func(action, state, broken)) {
	start := func(op mop) {
		for lag := range m.lag + 1 {
			next := s
			cl := &next.clients[c]
			switch {
			case op.kind == asks || op.kind == tries: // a new life of the owner
				if cl.token > 0 {
					cl.prior = cl.token
				}
				cl.token, cl.left, cl.broken = 0, 0, 0
			case op.kind == releasesAny, op.kind == releases && op.token == cl.token: // who releases has stopped
				cl.token, cl.left, cl.broken = 0, 0, 0
			}
			cl.op = op
			bad := m.read(&next, c, lag)
			visit(action{verb: begins, client: c, kind: op.kind, target: op.target, lag: lag}, next, bad)
		}
	}
	start(mop{kind: asks})
	start(mop{kind: tries})
	me := s.clients[c]
	_, holds := s.doc.holderOf(c)
	if me.token > 0 {
		start(mop{kind: renews, token: me.token})
		start(mop{kind: resumes, token: me.token})
		start(mop{kind: releases, token: me.token})
	} else if holds || s.doc.queues(c) {
		start(mop{kind: releasesAny})
	}
	if me.prior > 0 && me.token > 0 {
		start(mop{kind: renews, token: me.prior})
		start(mop{kind: releases, token: me.prior})
	}
	if s.doc.queues(c) {
		start(mop{kind: withdraws})
	}
	for _, h := range s.doc.holders[:s.doc.nh] {
		if h.owner != c {
			start(mop{kind: breaks, token: h.token, target: h.owner})
		}
	}
	for target := range m.clients {
		if m.once && target != c && !s.doc.ended[target] {
			start(mop{kind: stops, target: target})
		}
	}
}

// proceed takes every step that is open to an operation under way.
func (m *model) proceed(s state, c int8, visit func(action, state, broken)) {
	op := s.clients[c].op
	step := func(a action, f func(next *state, op *mop) broken) {
		next := s
		a.client = c
		bad := f(&next, &next.clients[c].op)
		visit(a, next, bad)
	}
	switch op.phase {
	case waiting:
		for lag := range m.lag + 1 {
			if op.stale && lag > 0 {
				break
			}
			step(action{verb: arrives, lag: lag}, func(next *state, op *mop) broken {
				if op.stale { // a conflict
					op.phase = doubting
					return ""
				}
				bad := m.land(next, ghost{kind: op.kind, owner: c, target: op.target, body: op.body})
				op.phase, op.replyNow = replying, lag
				return bad
			})
		}
		step(action{verb: stopsWaiting}, func(next *state, op *mop) broken {
			next.haunt(m.ghosts, c)
			op.phase, op.uncertain = doubting, true
			return ""
		})
	case replying:
		step(action{verb: receives}, func(next *state, op *mop) broken {
			m.answered(next, c, view{
				sample: sample{now: ago(op.replyNow), sent: instant(op.sent), came: instant(0)},
				before: &sample{now: ago(op.readNow), sent: instant(op.read), came: instant(op.read)},
			})
			return ""
		})
	case doubting:
		for lag := range m.lag + 1 {
			step(action{verb: readsBack, lag: lag}, func(next *state, op *mop) broken { return m.readBack(next, c, lag) })
		}
	}
	step(action{verb: crashes}, func(next *state, op *mop) broken {
		if op.phase == waiting {
			next.haunt(m.ghosts, c)
		}
		// A renewal that is given up leaves the grant as it was.
		next.finish(c)
		return ""
	})
	if (op.kind == asks || op.kind == tries) && op.phase != replying {
		for lag := range m.lag + 1 {
			step(action{verb: givesUp, lag: lag}, func(next *state, op *mop) broken {
				maybe := op.uncertain || op.phase == waiting
				if op.phase == waiting {
					next.haunt(m.ghosts, c)
				}
				next.rename(writeOf(c), maybeOf(c))
				*op = mop{kind: abandons, maybe: maybe}
				return m.read(next, c, lag)
			})
		}
	}
}

func instant(age int8) Instant {
	return Instant{Wall: ago(age), Mono: ago(age).Sub(long)}
}

// haunt leaves a client's request under way with nobody waiting for it. With
// no room for it, it is lost.
func (s *state) haunt(room int, c int8) {
	op := s.clients[c].op
	if op.stale {
		return
	}
	g := ghost{kind: op.kind, owner: c, target: op.target, body: op.body}
	for i := range s.ghosts[:room] {
		if s.ghosts[i] == g {
			return
		}
		if s.ghosts[i].kind == idle {
			s.ghosts[i] = g
			return
		}
	}
}

// land is the swap itself. All that names the version that is gone can never
// land any more.
func (m *model) land(s *state, g ghost) broken {
	bad := m.checkLanding(s, g)
	s.ever = max(s.ever, newest(s.doc, g.body))
	for c := range s.clients {
		cl := &s.clients[c]
		if h, ok := s.doc.holderOf(int8(c)); ok && g.kind == breaks && int8(c) == g.target {
			cl.broken = h.token
		}
		cl.op.stale = cl.op.phase > 0
	}
	s.ghosts = [modelGhosts]ghost{}
	s.doc = g.body
	for c := range int8(modelClients) {
		if op := &s.clients[c].op; op.stale && !s.doc.carries(writeOf(c)) {
			op.body = mdoc{}
		}
	}
	return bad
}

// read is a load, and the change computed on what it showed.
func (m *model) read(s *state, c, lag int8) broken {
	op := &s.clients[c].op
	before := m.unpack(s.doc)
	next, write, said := m.change(before, *op, c, lag)
	if bad := m.checkChange(before, next, write, said, *op, c, lag); bad != "" {
		return bad
	}
	if !write {
		m.told(s, c, said, view{sample: sample{now: ago(lag), sent: instant(0), came: instant(0)}})
		return ""
	}
	*op = mop{kind: op.kind, phase: waiting, token: op.token, target: op.target, maybe: op.maybe,
		body: m.pack(next.seal(nonceNames[writeOf(c)]))}
	op.readNow = lag
	return ""
}

// said is what an operation learns when it needs no write, or when its write
// has landed.
type said struct {
	held bool
	mine holder
	lost bool
}

// change is the operation's transition, as the client's loops bind it.
func (m *model) change(d document, op mop, c, lag int8) (document, bool, said) {
	owner, now := owners[c], ago(lag)
	switch op.kind {
	case asks, tries:
		next, a, write := m.rules.ask(d, asking{owner: owner, limit: m.limit, maxWaiters: m.maxWaiters,
			ttl: toMillis(modelTTL * modelTick), grace: toMillis(modelGrace * modelTick), poll: 1, once: m.once, queue: op.kind == asks}, now)
		return next, write, said{held: a.decision == Held, mine: a.mine}
	case renews, resumes:
		next, h, ok := m.rules.renew(d, owner, int64(op.token), now)
		if op.kind == resumes {
			h, _ = d.held(owner, int64(op.token))
			next = d
		}
		return next, ok && op.kind == renews, said{held: ok, mine: h, lost: !ok}
	case releases, releasesAny:
		next, gone := m.rules.release(d, leaving{owner: owner, token: int64(op.token), once: m.once}, now)
		return next, gone.held || gone.withdrawn || gone.marked, said{}
	case withdraws:
		next, gone := m.rules.withdraw(d, owner, m.once, now)
		return next, gone, said{}
	case breaks:
		next, _, ok := m.rules.breaks(d, BreakRequest{Holder: owners[op.target], Token: int64(op.token)}, now)
		return next, ok, said{}
	case stops:
		next, gone := m.rules.stop(d, owners[op.target], "", now)
		return next, gone.held || gone.withdrawn || gone.marked, said{}
	default:
		r := abandoning{owner: owner, queue: true}
		if op.maybe {
			r.maybe = []string{nonceNames[maybeOf(c)]}
		}
		next, write := m.rules.abandon(d, r, now)
		return next, write, said{}
	}
}

// readBack is what swap does in doubt.
func (m *model) readBack(s *state, c, lag int8) broken {
	op := &s.clients[c].op
	back := view{doc: m.unpack(s.doc), version: "present",
		sample: sample{now: ago(lag), sent: instant(0), came: instant(0)}}
	over := "present"
	if op.stale {
		over = "gone"
	}
	switch m.rules.outcome(back, nonceNames[writeOf(c)], over) {
	case landed:
		m.answered(s, c, back)
		return ""
	case overtaken:
		s.rename(writeOf(c), 0)
		return m.read(s, c, lag)
	default:
		op.phase = waiting
		op.sent, op.replyNow = 0, 0
		return ""
	}
}

// answered ends an operation whose write has landed.
func (m *model) answered(s *state, c int8, v view) {
	op := s.clients[c].op
	var out said
	if op.grants() {
		out.mine, _ = m.unpack(op.body).held(owners[c], 0)
		out.held = out.mine.Token > 0
	}
	m.told(s, c, out, v)
}

// told ends an operation, and its client believes what it was told.
func (m *model) told(s *state, c int8, out said, v view) {
	cl := &s.clients[c]
	op := cl.op
	s.finish(c)
	switch {
	case out.held:
		g := m.rules.grant(modelLock, out.mine, v)
		cl.token, cl.left = int8(g.Token), int8(max(0, (g.Remaining()+modelTick-1)/modelTick))
	case out.lost && op.token == cl.token:
		cl.left = 0
	}
	if cl.prior == cl.token { // it got the same grant again
		cl.prior = 0
	}
}

// finish makes a client idle, and forgets what it looked for.
func (s *state) finish(c int8) {
	s.rename(writeOf(c), 0)
	s.rename(maybeOf(c), 0)
	s.clients[c].op = mop{}
}

type modelClock struct{}

func (modelClock) Read() Instant { return instant(0) }

var modelLock = &Lock{cfg: Config{Clock: modelClock{}}}
