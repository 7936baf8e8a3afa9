package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// do asks and fails the test unless the answer is want.
func do(t *testing.T, d document, r asking, now time.Time, want Decision) (document, asked, bool) {
	t.Helper()
	next, a, write := ask(d, r, now)
	if a.decision != want {
		t.Fatalf("%s at %s: %s, want %s", r.owner, now.Format(time.TimeOnly), a.decision, want)
	}
	if write {
		return next, a, true
	}
	return d, a, false
}

// Rule 1.
func TestAtMostLimitHold(t *testing.T) {
	for limit := 1; limit <= 3; limit++ {
		d := newDocument(limit, 0)
		for i := range limit + 2 {
			r := asker(fmt.Sprint("P", i))
			r.limit, r.queue = limit, false
			want := Held
			if i >= limit {
				want = refused
			}
			d, _, _ = do(t, d, r, at(i), want)
		}
		if len(d.Holders) != limit {
			t.Errorf("%d holders of %d", len(d.Holders), limit)
		}
	}
}

// Rule 1: two configurations never add up to more holders than either allows.
func TestTheLowerLimitCountsWhileTheLockIsInUse(t *testing.T) {
	two, one := asker("A"), asker("B")
	two.limit = 2
	d, _, _ := do(t, newDocument(2, 0), two, at(0), Held)
	d, _, _ = do(t, d, one, at(1), Wait)
	c := asker("C")
	c.limit = 2
	d, _, _ = do(t, d, c, at(2), Wait)
	d, _ = release(d, leaving{owner: "A"}, at(3))
	d, _, _ = do(t, d, one, at(4), Held)
	if d.Limit != 1 {
		t.Errorf("limit is %d while the stricter one holds", d.Limit)
	}
	d, _ = release(d, leaving{owner: "B"}, at(5))
	d, _, _ = do(t, d, c, at(6), Held)
	if d.Limit != 2 {
		t.Errorf("limit is %d once the lock was idle and its taker allows 2", d.Limit)
	}
}

func TestALimitLoweredUnderHoldersLetsThemFinish(t *testing.T) {
	d := newDocument(2, 0)
	for _, owner := range []string{"A", "B"} {
		r := asker(owner)
		r.limit = 2
		d, _, _ = do(t, d, r, at(0), Held)
	}
	d, _, _ = do(t, d, asker("C"), at(1), Wait)
	encoded(t, d.seal("n"))
	d, _ = release(d, leaving{owner: "A"}, at(2))
	d, _, _ = do(t, d, asker("C"), at(3), Wait)
	d, _ = release(d, leaving{owner: "B"}, at(4))
	do(t, d, asker("C"), at(5), Held)
}

// Rule 3.
func TestTheSameOwnerGetsTheSameGrant(t *testing.T) {
	d, first, _ := do(t, newDocument(1, 0), asker("P1"), at(0), Held)
	d, again, write := do(t, d, asker("P1"), at(21), Held)
	if again.mine.Token != first.mine.Token || !again.mine.Renewed.Equal(at(21)) || !write {
		t.Errorf("again: %+v (written: %v), want token %d renewed", again.mine, write, first.mine.Token)
	}
	_, again, write = do(t, d, asker("P1"), at(20), Held)
	if !again.mine.Renewed.Equal(at(21)) || !write {
		t.Errorf("by a clock that stepped back: %+v (written: %v)", again.mine, write)
	}
	_, late, _ := do(t, d, asker("P1"), at(21+71), Held)
	if late.mine.Token <= first.mine.Token {
		t.Errorf("after expiry the token is %d again", late.mine.Token)
	}
}

// Rule 4: at the very end the holder still holds.
func TestExpiryIsJudgedAfterTTLAndGrace(t *testing.T) {
	d, _, _ := do(t, newDocument(1, 0), asker("P1"), at(0), Held)
	do(t, d, asker("P2"), at(70), Wait)
	d, a, _ := do(t, d, asker("P2"), at(71), Held)
	if a.mine.Token != 2 {
		t.Errorf("token %d", a.mine.Token)
	}
	if e := d.Events[len(d.Events)-2]; e.Kind != Expired || e.Owner != "P1" || e.Token != 1 {
		t.Errorf("event %+v, want P1 expired", e)
	}
}

// Rule 8: a newcomer that comes while the lock is free does not overtake.
func TestANewcomerDoesNotOvertakeALiveWaiter(t *testing.T) {
	d, _, _ := do(t, newDocument(1, 0), asker("P1"), at(0), Held)
	d, _, _ = do(t, d, asker("P2"), at(1), Wait)
	d, _ = release(d, leaving{owner: "P1"}, at(2))
	trying := asker("greedy")
	trying.queue = false
	d, _, _ = do(t, d, trying, at(3), refused)
	d, _, _ = do(t, d, asker("P3"), at(3), Wait)
	urgent := asker("urgent")
	urgent.priority = 5
	do(t, d, urgent, at(4), Held)
	d, a, _ := do(t, d, asker("P2"), at(4), Held)
	if len(d.Waiters) != 1 || a.mine.Token != 2 {
		t.Errorf("%d waiters left, token %d", len(d.Waiters), a.mine.Token)
	}
}

// Rule 8: with room for two, the one waiter ahead takes one place only.
func TestOneWaiterAheadBlocksOnePlaceOnly(t *testing.T) {
	r := func(owner string) asking {
		a := asker(owner)
		a.limit = 2
		return a
	}
	d, _, _ := do(t, newDocument(2, 0), r("A"), at(0), Held)
	d, _, _ = do(t, d, r("B"), at(0), Held)
	d, _, _ = do(t, d, r("C"), at(1), Wait)
	d, _ = release(d, leaving{owner: "A"}, at(2))
	d, _, _ = do(t, d, r("D"), at(3), Wait)
	d, _ = release(d, leaving{owner: "B"}, at(4))
	d, _, _ = do(t, d, r("D"), at(5), Held)
	do(t, d, r("C"), at(6), Held)
}

// Rule 8: priority first, then arrival, also among those of one second.
func TestWaitersStandByPriorityThenArrival(t *testing.T) {
	d, _, _ := do(t, newDocument(1, 0), asker("holder"), at(0), Held)
	for i, w := range []struct {
		owner    string
		priority int
		position int
	}{{"a", 0, 1}, {"b", 0, 2}, {"c", 2, 1}, {"d", 1, 2}, {"e", 2, 2}, {"f", -1, 6}} {
		r := asker(w.owner)
		r.priority = w.priority
		var a asked
		d, a, _ = do(t, d, r, at(0), Wait)
		if a.position != w.position {
			t.Errorf("arrival %d: %s has position %d, want %d", i, w.owner, a.position, w.position)
		}
	}
	var order string
	for _, w := range d.Waiters {
		order += w.Owner
	}
	if order != "cedabf" {
		t.Errorf("order is %s, want cedabf", order)
	}
	encoded(t, d.seal("n"))
}

// Rule 8: who stops asking blocks nobody.
func TestASilentWaiterIsDropped(t *testing.T) {
	d, _, _ := do(t, newDocument(1, 0), asker("P1"), at(0), Held)
	d, _, _ = do(t, d, asker("silent"), at(0), Wait)
	d, _, _ = do(t, d, asker("P3"), at(20), Wait)
	d, _ = release(d, leaving{owner: "P1"}, at(30))
	d, _, _ = do(t, d, asker("P3"), at(33), Wait)
	d, _, _ = do(t, d, asker("P3"), at(34), Held)
	_, a, _ := do(t, d, asker("silent"), at(35), Wait)
	if a.position != 1 || !a.arrived.Equal(at(35)) {
		t.Errorf("the silent one comes back as number %d, arrived %v", a.position, a.arrived)
	}
}

// Rule 8 and case 40.
func TestWithTheQueueFullANewcomerIsSuperseded(t *testing.T) {
	one := func(i int) asking {
		r := asker(fmt.Sprint("P", i))
		r.maxWaiters = 1
		return r
	}
	d, _, _ := do(t, newDocument(1, 0), one(0), at(0), Held)
	d, _, _ = do(t, d, one(1), at(0), Wait)
	for i := 2; i < 200; i++ {
		var write bool
		if _, _, write = do(t, d, one(i), at(0), Superseded); write {
			t.Fatal("being superseded cost a write")
		}
	}
	do(t, d, one(1), at(1), Wait)
	// A silent waiter does not count.
	do(t, d, one(2), at(34), Wait)
}

// Case 40: one at a time, in order of arrival.
func TestTwoHundredAreServedInOrderOfArrival(t *testing.T) {
	const runs = 200
	d, now := newDocument(1, 0), 0
	r := func(i int) asking {
		a := asker(fmt.Sprint("P", i))
		a.maxWaiters = maxInQueue
		return a
	}
	for i := range runs {
		want := Wait
		if i == 0 {
			want = Held
		}
		d, _, _ = do(t, d, r(i), at(now), want)
	}
	for done := range runs {
		now++
		d, _ = release(d, leaving{owner: fmt.Sprint("P", done)}, at(now))
		// All ask, the last first; the next alone gets in.
		for i := runs - 1; i > done; i-- {
			want := Wait
			if i == done+1 {
				want = Held
			}
			d, _, _ = do(t, d, r(i), at(now), want)
		}
	}
}

// Rule 8: for every promise, a waiter that is late within its slack keeps its
// place, and pays for a third of its silence with at most one write.
func TestAWaiterThatKeepsItsPromiseIsNeverDropped(t *testing.T) {
	const seed = 8
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, poll := range []int{1, 2, 5, 10, 15, 20, 30, 45, 60, 600} {
		d, _, _ := do(t, newDocument(1, 0), asker("holder"), at(0), Held)
		d.Holders[0].TTL, d.Holders[0].Renewed = toMillis(maxTTL), at(100_000)
		r := asker("waiter")
		r.poll = millis(poll * 1000)
		silence := waiter{Poll: r.poll}.silence()
		now, writes, turns := 0, 0, 2000
		var arrived time.Time
		for i := range turns {
			next, a, write := do(t, d, r, at(now), Wait)
			if i == 0 {
				arrived = a.arrived
			}
			if !a.arrived.Equal(arrived) {
				t.Fatalf("poll %d s: dropped at turn %d", poll, i)
			}
			if write {
				writes++
			}
			d = next
			d.Holders[0].Renewed = at(now)
			now += poll + rng.IntN(21) // a cold start, a few retries: up to 20 s late
		}
		if most := int(at(now).Sub(start)/(silence/3)) + 2; writes > most {
			t.Errorf("poll %d s: %d writes in %d turns, want at most %d", poll, writes, turns, most)
		}
	}
}

// Rule 8: a poller that slows down says so before it does.
func TestALongerPromiseIsWrittenAtOnce(t *testing.T) {
	d, _, _ := do(t, newDocument(1, 0), asker("holder"), at(0), Held)
	d, _, _ = do(t, d, asker("slow"), at(0), Wait)
	r := asker("slow")
	r.poll = 60_000
	d, _, write := do(t, d, r, at(1), Wait)
	if !write {
		t.Fatal("the longer promise was not written")
	}
	_, a, write := do(t, d, asker("slow"), at(2), Wait)
	if write || !a.arrived.Equal(at(0)) {
		t.Errorf("a shorter one was written: %v", write)
	}
}
