package asl

// parallelWork is a Parallel state: all branches run at once, on the same input.
type parallelWork struct {
	branches []*flow
}

func (w parallelWork) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	arguments, err := c.arguments(effective)
	if err != nil {
		return nil, "", err
	}
	return c.retrying(raw, func() (any, error) { return w.attempt(c, arguments) })
}

func (parallelWork) failed(c *chain) error { return c.append(ParallelStateFailed, nil) }

func (w parallelWork) attempt(c *chain, input any) (any, error) {
	if err := c.append(ParallelStateStarted, nil); err != nil {
		return nil, err
	}
	outputs := make([]any, len(w.branches))
	g := c.newGroup()
	for i, branch := range w.branches {
		in := c.newChain(g.scope)
		g.spawn(func() {
			defer in.close()
			output, err := in.run(branch, document{value: input})
			if err == nil {
				outputs[i] = output.value
				g.last = in.last
				return
			}
			g.fail(in, err, func() error { return nil }, g.abortTasks)
		})
	}
	if err := g.wait(); err != nil {
		return nil, err
	}
	c.last = g.last
	_, err := c.aside(ParallelStateSucceeded, nil)
	return outputs, err
}
