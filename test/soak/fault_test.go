package soak

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// fault is one kind of trouble with a request.
type fault string

const (
	none        fault = ""
	loseRequest fault = "request lost"
	loseReply   fault = "reply lost"
	slowRequest fault = "request slow"
	slowReply   fault = "reply slow"
	cutReply    fault = "reply cut"
	answer500   fault = "500"
	answer503   fault = "503"

	// To writes only.
	lateWrite   fault = "write late"     // it lands long after its client was cut off
	doubleWrite fault = "write repeated" // by the network; the client gets the second answer
	hiddenWrite fault = "500 yet landed"
	answer409   fault = "409" // while nobody else writes
	answer412   fault = "412" // by a node that is behind

	// Not to one request.
	clockStep    fault = "clock step" // the server's Date steps by a second, forth or back
	lineDown     fault = "line down"  // one client reaches nothing for seconds
	killHolder   fault = "kill of holder"
	killWaiter   fault = "kill of waiter"
	staleRefused fault = "stale refused" // not injected but provoked: a late stamp met the fence
)

var (
	readFaults  = []fault{loseRequest, loseReply, slowRequest, slowReply, cutReply, answer500, answer503}
	stampFaults = append(slices.Clone(readFaults), lateWrite, doubleWrite, hiddenWrite)
	writeFaults = append(slices.Clone(stampFaults), answer409, answer412)
	// wreckage needs seconds each, so a smoke test has none of it.
	wreckage = []fault{lineDown, killHolder, killWaiter, staleRefused}
)

// deck deals troubles: shuffled, so that nobody can foresee them, but a deck,
// so that a short run meets each kind too.
type deck struct {
	faults []fault
	size   int // each fault comes once in so many cards
	cards  []fault
}

func (d *deck) deal(random *rand.Rand) fault {
	if len(d.cards) == 0 {
		d.cards = make([]fault, d.size)
		copy(d.cards, d.faults)
		random.Shuffle(d.size, func(i, j int) { d.cards[i], d.cards[j] = d.cards[j], d.cards[i] })
	}
	last := len(d.cards) - 1
	dealt := d.cards[last]
	d.cards = d.cards[:last]
	return dealt
}

// request is what a deck is for.
type request string

const (
	read  request = "read"
	write request = "write" // conditional, of the lock
	stamp request = "stamp" // of the fenced resource
)

// trouble decides what happens to each request, and counts.
type trouble struct {
	mu       sync.Mutex
	random   *rand.Rand
	decks    map[request]*deck
	healed   bool
	injected map[fault]int
	requests map[string]int    // that reached the server, by method and status
	step     time.Duration     // of the server's clock
	down     map[int]time.Time // until when a client's line is
}

func newTrouble(seed uint64) *trouble {
	return &trouble{
		random: rand.New(rand.NewPCG(seed, 1)),
		decks: map[request]*deck{
			read:  {faults: readFaults, size: 120},
			write: {faults: writeFaults, size: 60},
			stamp: {faults: stampFaults, size: 120},
		},
		injected: map[fault]int{}, requests: map[string]int{}, down: map[int]time.Time{},
	}
}

// blow is what happens to one request.
type blow struct {
	fault fault
	delay time.Duration // for those that take time
}

func (t *trouble) deal(slot int, r request) blow {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.healed:
		return blow{}
	case time.Now().Before(t.down[slot]):
		return blow{fault: lineDown}
	}
	b := blow{delay: t.between(10*time.Millisecond, 200*time.Millisecond)}
	if t.random.IntN(8) == 0 { // longer than a client waits for one answer
		b.delay = t.between(time.Second, 3*time.Second)
	}
	if b.fault = t.decks[r].deal(t.random); b.fault == lateWrite {
		b.delay = t.between(100*time.Millisecond, 6*time.Second)
	}
	return b
}

// missing lists those of want that were not carried out so far.
func (t *trouble) missing(want []fault) (none []fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range want {
		if t.injected[f] == 0 {
			none = append(none, f)
		}
	}
	return none
}

// did counts a fault that was carried out.
func (t *trouble) did(f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.injected[f]++
}

func (t *trouble) saw(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests[what]++
}

// between draws a duration. The caller holds mu.
func (t *trouble) between(low, high time.Duration) time.Duration {
	return low + time.Duration(t.random.Int64N(int64(high-low)+1))
}

// draw is between for the wrecker.
func (t *trouble) draw(low, high time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.between(low, high)
}

// pick draws a number below n for the wrecker.
func (t *trouble) pick(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

func (t *trouble) takeDown(slot int, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down[slot] = time.Now().Add(d)
	t.injected[lineDown]++
}

// stepClock moves the server's Date by a second, to and fro.
func (t *trouble) stepClock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = time.Second - t.step
	t.injected[clockStep]++
}

// date is the server's clock after its steps.
func (t *trouble) date(true time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return true.Add(t.step)
}

// heal ends all trouble; what is late still comes.
func (t *trouble) heal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.healed = true
}
