package lease

import (
	"fmt"
	"time"
)

// The model is a world of a few clients over one register, small enough to
// visit every state that it can reach. It runs the real transitions (state_*.go),
// the real judgement of a write's outcome and the real computation of deadlines;
// what it replaces is the network, the clocks and the goroutines:
//
//   - time goes by in ticks of 15 s: the TTL is one of them, the grace another,
//     and a waiter is silent after two. An answer may show the server's clock a
//     tick late, when lag is set; grace must cover that;
//   - a request may take any time to arrive, and its reply any time to return.
//     The sender may stop waiting at any time, with the request under way: it
//     may then land later, as long as its version is the present one, or never;
//   - a client reads back, sends again, tries anew or gives up as swap.go does.
//
// Ages above what any rule compares are one age, tokens are kept by their order
// only, and clients are interchangeable. So the graph is finite although time
// and tokens are not. Left out are priorities, clients that are configured
// differently, repair, and events that fall out of the document while somebody
// still looks for them.
type model struct {
	clients    int8
	limit      int
	maxWaiters int
	lag        int8 // ticks by which the server's clock may show less
	busy       int  // how many clients have a request under way at a time
	ghosts     int  // how many requests that nobody waits for are under way
	once       bool // owners live once, and may be stopped
	rules      protocol
}

// protocol is the seam for seeded bugs: every step of the lease that decides.
type protocol struct {
	ask      func(document, asking, time.Time) (document, asked, bool)
	renew    func(document, string, int64, time.Time) (document, holder, bool)
	release  func(document, leaving, time.Time) (document, left)
	withdraw func(document, string, bool, time.Time) (document, bool)
	stop     func(document, string, string, time.Time) (document, left)
	breaks   func(document, BreakRequest, time.Time) (document, holder, bool)
	abandon  func(document, abandoning, time.Time) (document, bool)
	outcome  func(view, string, string) outcome
	grant    func(*Lock, holder, view) Grant
}

var realProtocol = protocol{
	ask: ask, renew: renew, release: release, withdraw: withdraw, stop: stop, breaks: breakHolder,
	abandon: abandon, outcome: view.outcome, grant: (*Lock).grant,
}

const (
	modelClients = 3
	modelGhosts  = 2
	modelTick    = 15 * time.Second
	modelTTL     = 1 // ticks
	modelGrace   = 1
	modelSilence = 2 // 3 × (1 ms + 10 s) is a little more
	// oldest is above every threshold, by a clock that lags as well.
	oldest = modelTTL + modelGrace + 2
)

// modelNow is the present of every state; other times are ages before it.
var modelNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(age int8) time.Time { return modelNow.Add(-time.Duration(age) * modelTick) }

func ageOf(t time.Time) int8 { return int8(min(modelNow.Sub(t)/modelTick, oldest)) }

// state is everything at one moment. It has no pointers: it is a value.
type state struct {
	doc     mdoc
	ever    int8 // the highest token ever granted
	clients [modelClients]mclient
	ghosts  [modelGhosts]ghost // requests that nobody waits for, over the present version
}

// mdoc is a document without what no transition looks at.
type mdoc struct {
	last    int8
	nonce   int8
	nh, nw  int8
	holders [modelClients]mholder
	waiters [modelClients]mwaiter
	ended   [modelClients]bool // lives that are over; their marks do not grow old here
	carried [nonces]bool       // the events have a write of this nonce
	granted [nonces]int8       // the token of its grant
}

type (
	mholder struct {
		owner, token, renewed int8
		stopped               bool
	}
	mwaiter struct{ owner, seen int8 }
	ghost   struct {
		kind   opKind
		owner  int8
		target int8 // of a break
		body   mdoc
	}
)

// Nonces are named by who still looks for them: zero is nobody.
const nonces = 1 + 2*modelClients

func writeOf(c int8) int8 { return 1 + c }                // its write under way
func maybeOf(c int8) int8 { return 1 + modelClients + c } // of the ask that it gave up

type mclient struct {
	token  int8 // of the grant that it knows of, over or not
	prior  int8 // of an earlier one, about which messages are still about
	left   int8 // ticks for which it may act on it
	broken int8 // the token that an operator took from it: others may act as well
	op     mop
}

type opKind int8

const (
	idle opKind = iota
	asks
	tries
	renews
	resumes
	releases    // its token
	releasesAny // whatever its owner has
	withdraws
	breaks
	stops
	abandons
)

func (k opKind) String() string {
	return [...]string{"idle", "ask", "try", "renew", "resume", "release", "release whatever it has", "withdraw", "break", "stop", "abandon"}[k]
}

type phase int8

const (
	waiting  phase = iota + 1 // for its request to arrive
	replying                  // the reply is under way
	doubting                  // it has to read back
)

type mop struct {
	kind      opKind
	phase     phase
	token     int8
	target    int8 // whom it breaks
	maybe     bool // an ask may have landed that is being abandoned
	stale     bool // the register has left the version that it writes over
	uncertain bool // a request of it may be under way
	body      mdoc
	// When the read before it, and the last request, were sent, and what the
	// server's clock said to them; ages all.
	read, readNow, sent, replyNow int8
}

var owners, nonceNames = names("client ", modelClients), names("write ", nonces)

func names(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(prefix, i)
	}
	return s
}

func index(name string, in []string) int8 {
	for i, n := range in {
		if n == name {
			return int8(i)
		}
	}
	return 0
}

// long is when everybody acquired or arrived: no rule looks at it.
var long = modelNow.Add(-time.Hour)

func (m *model) unpack(d mdoc) document {
	full := document{Schema: schemaVersion, Limit: m.limit, LastToken: int64(d.last), Nonce: nonceNames[d.nonce],
		Holders: make([]holder, d.nh), Waiters: make([]waiter, d.nw), Events: []Event{}, Ended: []Mark{}}
	for i, h := range d.holders[:d.nh] {
		full.Holders[i] = holder{Owner: owners[h.owner], Token: int64(h.token), Acquired: long, Renewed: ago(h.renewed),
			TTL: toMillis(modelTTL * modelTick), Grace: toMillis(modelGrace * modelTick), Once: m.once, Stopped: h.stopped}
	}
	for c, over := range d.ended {
		if over {
			full.Ended = append(full.Ended, Mark{Owner: owners[c], At: modelNow, Kind: Stopped})
		}
	}
	for i, w := range d.waiters[:d.nw] {
		full.Waiters[i] = waiter{Owner: owners[w.owner], Arrived: long, Seen: ago(w.seen), Poll: 1, Once: m.once}
	}
	for n := range d.carried {
		if d.carried[n] {
			e := Event{At: long, Kind: Freed, Write: nonceNames[n]}
			if d.granted[n] > 0 {
				e.Kind, e.Token = Granted, int64(d.granted[n])
			}
			full.Events = append(full.Events, e)
		}
	}
	return full
}

func (m *model) pack(full document) mdoc {
	d := mdoc{last: int8(full.LastToken), nonce: index(full.Nonce, nonceNames),
		nh: int8(len(full.Holders)), nw: int8(len(full.Waiters))}
	for i, h := range full.Holders {
		d.holders[i] = mholder{owner: index(h.Owner, owners), token: int8(h.Token), renewed: ageOf(h.Renewed), stopped: h.Stopped}
	}
	for i, w := range full.Waiters {
		d.waiters[i] = mwaiter{owner: index(w.Owner, owners), seen: ageOf(w.Seen)}
	}
	for _, mark := range full.Ended {
		d.ended[index(mark.Owner, owners)] = true
	}
	for _, e := range full.Events {
		if n := index(e.Write, nonceNames); n > 0 {
			d.carried[n] = true
			if e.Kind == Granted {
				d.granted[n] = int8(e.Token)
			}
		}
	}
	return d
}

// carries is document.carries.
func (d *mdoc) carries(nonce int8) bool { return d.nonce == nonce || d.carried[nonce] }

func (d *mdoc) holderOf(owner int8) (mholder, bool) {
	for _, h := range d.holders[:d.nh] {
		if h.owner == owner {
			return h, true
		}
	}
	return mholder{}, false
}

func (d *mdoc) queues(owner int8) bool {
	for _, w := range d.waiters[:d.nw] {
		if w.owner == owner {
			return true
		}
	}
	return false
}

// docs are all documents in s, the present one first.
func (s *state) docs(f func(d *mdoc)) {
	f(&s.doc)
	for c := range s.clients {
		if op := &s.clients[c].op; op.phase > 0 && op.body != (mdoc{}) {
			f(&op.body)
		}
	}
	for g := range s.ghosts {
		if s.ghosts[g].kind != idle {
			f(&s.ghosts[g].body)
		}
	}
}

// rename calls a nonce by another name, everywhere; to 0 forgets it.
func (s *state) rename(from, to int8) {
	if to != 0 {
		s.rename(to, 0)
	}
	s.docs(func(d *mdoc) {
		if d.nonce == from {
			d.nonce = to
		}
		if to != 0 {
			d.carried[to], d.granted[to] = d.carried[from], d.granted[from]
		}
		d.carried[from], d.granted[from] = false, 0
	})
}

// tick lets time go by.
func (s *state) tick() {
	older := func(age *int8) { *age = min(*age+1, oldest) }
	s.docs(func(d *mdoc) {
		for i := range d.holders[:d.nh] {
			older(&d.holders[i].renewed)
		}
		for i := range d.waiters[:d.nw] {
			older(&d.waiters[i].seen)
		}
	})
	for c := range s.clients {
		cl := &s.clients[c]
		cl.left = max(0, cl.left-1)
		older(&cl.op.read)
		older(&cl.op.readNow)
		older(&cl.op.sent)
		older(&cl.op.replyNow)
	}
}

// grants says that a grant, and so a deadline, may come of the operation.
func (o *mop) grants() bool { return o.kind == asks || o.kind == tries || o.kind == renews }
