package lease

import (
	"flag"
	"strings"
	"testing"
)

var everything = flag.Bool("model.everything", false, "also visit the worlds that take minutes and gigabytes")

// Worlds without a bound on steps are visited whole: any time, any number of
// grants. The rest shows what more of them at a time can do, in few steps.
func TestEveryReachableStateKeepsTheRules(t *testing.T) {
	for _, w := range []struct {
		name  string
		world model
		steps int  // 0: any number
		slow  bool // left out with -short, and where the race detector makes it ten times as slow
		whole bool // left out without -model.everything
	}{
		{name: "one request at a time", world: model{clients: 3, limit: 1, busy: 1}},
		{name: "lives that end", world: model{clients: 3, limit: 1, busy: 1, once: true}},
		{name: "lives that end, and a forgotten request", world: model{clients: 2, limit: 1, busy: 1, ghosts: 1, once: true}},
		{name: "a lagging server clock", world: model{clients: 3, limit: 1, lag: 1, busy: 1}, slow: true},
		{name: "a limit of two", world: model{clients: 3, limit: 2, busy: 1}, slow: true},
		{name: "room for one waiter", world: model{clients: 3, limit: 1, maxWaiters: 1, busy: 1}},
		{name: "two clients and a forgotten request", world: model{clients: 2, limit: 1, busy: 1, ghosts: 1}},
		{name: "two clients, two requests at a time", world: model{clients: 2, limit: 1, busy: 2}, steps: 14},
		{name: "three requests at a time, two forgotten", world: model{clients: 3, limit: 1, lag: 1, busy: 3, ghosts: 2}, steps: 6},
		{name: "the same with a limit of two", world: model{clients: 3, limit: 2, lag: 1, busy: 3, ghosts: 2}, steps: 6},

		{name: "a forgotten request", world: model{clients: 3, limit: 1, busy: 1, ghosts: 1}, whole: true},
		{name: "two clients, two requests at a time, whole", world: model{clients: 2, limit: 1, busy: 2}, whole: true},
		{name: "three requests at a time, two forgotten, further", world: model{clients: 3, limit: 1, lag: 1, busy: 3, ghosts: 2}, steps: 8, whole: true},
	} {
		t.Run(w.name, func(t *testing.T) {
			if w.slow && (testing.Short() || RaceDetector) || w.whole && !*everything {
				t.Skip("takes long: run without -short and -race, and with -model.everything")
			}
			m := w.world
			m.rules = realProtocol
			if m.maxWaiters == 0 {
				m.maxWaiters = modelClients
			}
			r := m.search(w.steps)
			t.Logf("%d states, %d transitions, %d steps deep, all of them: %v", r.states, r.transitions, r.depth, r.complete)
			if r.broken != "" {
				t.Errorf("after\n%s", strings.Join(r.trace, "\n"))
			}
			if !r.complete && w.steps == 0 {
				t.Error("not every state was visited")
			}
		})
	}
}
