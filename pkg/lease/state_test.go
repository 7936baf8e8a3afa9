package lease

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// Rule 7.
func TestRenewActsForOwnerAndTokenOnly(t *testing.T) {
	d := busy(t)
	for _, c := range []struct {
		owner string
		token int64
		now   time.Time
		kept  bool
	}{
		{"P1", 42, at(30), true},
		{"P1", 42, at(70), true},  // the end itself
		{"P1", 42, at(71), false}, // over, though nobody took it
		{"P1", 41, at(30), false},
		{"P2", 42, at(30), false},
	} {
		next, h, kept := renew(d, c.owner, c.token, c.now)
		if kept != c.kept {
			t.Errorf("%s/%d at %v: kept %v", c.owner, c.token, c.now, kept)
		}
		if !kept && !reflect.DeepEqual(next, d) {
			t.Errorf("%s/%d: a lost renewal changed the document", c.owner, c.token)
		}
		if kept && (!h.Renewed.Equal(c.now) || h.Token != 42 || !h.Acquired.Equal(at(0))) {
			t.Errorf("%s/%d: renewed to %+v", c.owner, c.token, h)
		}
	}
}

func TestAServerClockThatStepsBackShortensNoLease(t *testing.T) {
	d, _, _ := renew(busy(t), "P1", 42, at(30))
	_, h, kept := renew(d, "P1", 42, at(29))
	if !kept || !h.Renewed.Equal(at(30)) {
		t.Errorf("kept %v, renewed %v", kept, h.Renewed)
	}
}

// Rule 7.
func TestReleaseActsForOwnerAndTokenOnly(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     leaving
		want  left
		holds int
		waits int
	}{
		{"the grant", leaving{owner: "P1", token: 42}, left{held: true, token: 42, acquired: at(0)}, 0, 1},
		{"whatever it holds", leaving{owner: "P1"}, left{held: true, token: 42, acquired: at(0)}, 0, 1},
		{"an older grant", leaving{owner: "P1", token: 41}, left{}, 1, 1},
		{"another owner", leaving{owner: "P9", token: 42}, left{}, 1, 1},
		{"a waiter", leaving{owner: "P2"}, left{withdrawn: true}, 1, 0},
		{"a waiter's older grant", leaving{owner: "P2", token: 7}, left{}, 1, 1},
		{"a life", leaving{owner: "P1", once: true}, left{held: true, token: 42, acquired: at(0), marked: true}, 0, 1},
		{"a waiting life", leaving{owner: "P2", once: true}, left{withdrawn: true, marked: true}, 1, 0},
		{"a life that has nothing", leaving{owner: "P9", once: true}, left{marked: true}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := busy(t)
			next, got := release(d, c.r, at(10))
			if got != c.want || len(next.Holders) != c.holds || len(next.Waiters) != c.waits {
				t.Errorf("left %+v, %d holders, %d waiters", got, len(next.Holders), len(next.Waiters))
			}
			if next.LastToken != d.LastToken {
				t.Errorf("last token went from %d to %d", d.LastToken, next.LastToken)
			}
		})
	}
}

// Rule 9.
func TestBreakNeedsAMatch(t *testing.T) {
	for _, c := range []struct {
		holder string
		token  int64
		want   bool
	}{
		{"P1", 0, true}, {"", 42, true}, {"P1", 42, true},
		{"P1", 41, false}, {"P2", 42, false}, {"P2", 0, false},
	} {
		d := busy(t)
		next, _, ok := breakHolder(d, BreakRequest{Holder: c.holder, Token: c.token, By: "ana", Reason: "dead"}, at(10))
		if ok != c.want {
			t.Errorf("break %q/%d: %v", c.holder, c.token, ok)
			continue
		}
		if !ok {
			continue
		}
		e := next.Events[len(next.Events)-1]
		if e.Kind != Broken || e.Owner != "P1" || e.Token != 42 || e.By != "ana" || e.Reason != "dead" || !e.At.Equal(at(10)) {
			t.Errorf("event %+v", e)
		}
	}
}

// Rule 2: repair starts above every token that was ever granted, whatever is
// left of the document.
func TestTokensGrowThroughRepair(t *testing.T) {
	now := at(0)
	for _, c := range []struct {
		name  string
		raw   string
		floor int64
		least int64
	}{
		{"nothing is left", "", 0, now.UnixMilli()},
		{"nothing legible", "\x00\x01", 0, now.UnixMilli()},
		{"an old token is left", `"token":7,`, 0, now.UnixMilli()},
		{"a token above the clock", fmt.Sprintf(`{"lastToken": %d,`, now.UnixMilli()+5), 0, now.UnixMilli() + 5},
		{"this client knows better", "", now.UnixMilli() + 9, now.UnixMilli() + 9},
		{"an impossible number", `{"lastToken":9999999999999999,`, 0, now.UnixMilli()},
		{"a longer one", `{"lastToken":99999999999999999999999,`, 0, now.UnixMilli()},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := repair([]byte(c.raw), BreakRequest{By: "ana", Reason: "cut"}, 1, c.floor, now)
			if d.LastToken < c.least || d.LastToken > c.least+1000 {
				t.Errorf("last token %d, want %d or little more", d.LastToken, c.least)
			}
			_, a, _ := ask(d, asker("P1"), now)
			if a.mine.Token <= c.least {
				t.Errorf("token %d is not above %d", a.mine.Token, c.least)
			}
			encoded(t, d.seal("n"))
		})
	}
}

func TestEventsAreBounded(t *testing.T) {
	d := newDocument(1, 0)
	for i := range 3 * maxEvents {
		d, _, _ = do(t, d, asker("P1"), at(2*i), Held)
		d, _ = release(d, leaving{owner: "P1"}, at(2*i+1))
	}
	if len(d.Events) != maxEvents || d.Events[maxEvents-1].Token != 3*maxEvents {
		t.Errorf("%d events, the last about token %d", len(d.Events), d.Events[len(d.Events)-1].Token)
	}
	encoded(t, d.seal("n"))
}

// Transitions are shared between goroutines through the remembered view.
func TestTransitionsLeaveTheirInputAlone(t *testing.T) {
	d := busy(t)
	before := string(encoded(t, d))
	again := asker("P2")
	again.poll = 60_000
	expire(d, at(1000))
	ask(d, asker("P1"), at(30))
	ask(d, again, at(30))
	ask(d, asker("P3"), at(30))
	ask(d, asker("P2"), at(80))
	renew(d, "P1", 42, at(30))
	release(d, leaving{owner: "P1"}, at(30))
	withdraw(d, "P2", true, at(30))
	stop(d, "P1", "aborted", at(30))
	breakHolder(d, BreakRequest{Token: 42}, at(30))
	d.seal("other")
	if after := string(encoded(t, d)); after != before {
		t.Errorf("document changed from\n%s to\n%s", before, after)
	}
}
