package asl

// A graph is the transitions of one flow.
type graph struct {
	*loader
	flow     *flow
	states   *node
	edges    []edge
	terminal bool // some state ends the flow
	vague    bool // it is not known where some state leads
}

// An edge leads from a state, "" for the start, to another.
type edge struct {
	from, to string
	at       string // where the definition says so
}

func (g *graph) edge(from, to, at string) { g.edges = append(g.edges, edge{from, to, at}) }

// check reports transitions that lead nowhere, and then either that there is no end or what cannot be reached, which is
// the order and the choice of AWS.
func (g *graph) check() {
	next := map[string][]string{}
	for _, e := range g.edges {
		if _, exists := g.flow.states[e.to]; !exists {
			g.report(CodeTarget, e.at, "Missing 'Next' target: %s", e.to)
			continue
		}
		next[e.from] = append(next[e.from], e.to)
	}
	if g.vague {
		return
	}
	if !g.terminal {
		g.report(CodeEnd, "", "Workflow has no terminal state")
		return
	}
	reached := map[string]bool{}
	for queue := next[""]; len(queue) > 0; queue = queue[1:] {
		if !reached[queue[0]] {
			reached[queue[0]] = true
			queue = append(queue, next[queue[0]]...)
		}
	}
	for _, m := range g.states.members {
		if !reached[m.key] {
			g.report(CodeTarget, m.value.location(), "State \"%s\" is not reachable.", m.key)
		}
	}
}
