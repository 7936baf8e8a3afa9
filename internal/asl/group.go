package asl

// A group is the branches of a Parallel or the iterations of a Map that run at once: the first that fails stops the
// others, and all have ended when wait returns.
type group struct {
	c       *chain
	scope   *scope // of the members
	running int
	idle    *pause // of wait, while members run

	last    int64 // the event that the group came to
	failure *failure
}

func (c *chain) newGroup() *group {
	return &group{c: c, scope: c.scope.inner(), last: c.last}
}

// spawn runs f beside the others.
func (g *group) spawn(f func()) {
	g.running++
	g.c.exec.sched.spawn(func() {
		f()
		g.running--
		if g.running == 0 && g.idle != nil {
			g.c.exec.sched.wake(g.idle, done)
		}
	})
}

// wait returns when no member runs any more: with the failure of the first that failed, if one did.
func (g *group) wait() error {
	if g.running > 0 {
		// The pause belongs to no scope: a group that is stopped still waits for its members, which then end at once.
		g.idle = &pause{turn: make(chan struct{})}
		g.c.exec.sched.park(g.idle)
	}
	g.scope.stop()
	switch {
	case g.failure != nil:
		return g.failure
	case g.c.scope.isStopped():
		return errStopped
	}
	return nil
}

// fail ends the group with the failure of one member, and stops the others. Every event that this makes points to the
// member's last: tell appends those of the member itself, abort those of each other that still runs. A terminal
// failure ends the execution instead.
func (g *group) fail(in *chain, err error, tell func() error, abort func(other *chain) error) {
	f, ok := err.(*failure)
	switch {
	case !ok || g.failure != nil || in.scope.isStopped():
		return // it was stopped
	case f.terminal:
		in.exec.fail(f, in.last)
		return
	}
	g.failure, g.c.last = f, in.last
	if tell() != nil {
		return
	}
	for _, other := range g.c.inner {
		if other != in && abort(other) != nil {
			break
		}
	}
	g.scope.stop()
}

// abortTasks tells of the tasks that run in a chain and in those below it.
func (g *group) abortTasks(c *chain) error {
	if c.inTask {
		if _, err := g.c.aside(TaskStateAborted, nil); err != nil {
			return err
		}
	}
	for _, in := range c.inner {
		if err := g.abortTasks(in); err != nil {
			return err
		}
	}
	return nil
}
