package asl

// inlineMap is a Map state whose iterations are part of the execution.
type inlineMap struct{ mapWork }

func (w inlineMap) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	return c.retrying(raw, func() (any, error) { return w.attempt(c, effective) })
}

func (inlineMap) failed(c *chain) error { return c.append(MapStateFailed, nil) }

func (w inlineMap) attempt(c *chain, input any) (any, error) {
	limit, err := w.concurrency(c, input)
	if err != nil {
		return nil, err
	}
	items, err := w.items(c, input)
	if err != nil {
		return nil, err
	}
	if err := c.append(MapStateStarted, MapStateStartedDetails{Length: len(items)}); err != nil {
		return nil, err
	}
	if limit == 0 || limit > len(items) {
		limit = len(items)
	}
	run := iterations{inlineMap: w, group: c.newGroup(), input: input, items: items, outputs: make([]any, len(items))}
	for range limit {
		in, err := run.next(c.last)
		if err != nil {
			return nil, err
		}
		run.spawn(func() { run.work(in) })
	}
	if err := run.wait(); err != nil {
		return nil, err
	}
	c.last = run.last
	_, err = c.aside(MapStateSucceeded, nil)
	return run.outputs, err
}

// iterations is one attempt to run all iterations of an inline Map.
type iterations struct {
	inlineMap
	*group
	input   any
	items   []any
	outputs []any
	begun   int
}

// next begins the next iteration; its first event points to previous.
func (it *iterations) next(previous int64) (*chain, error) {
	in := it.c.newChain(it.scope)
	in.last = previous
	in.iteration = MapIterationDetails{Name: it.c.state.name, Index: it.begun}
	in.mapItem = item(it.begun, it.items[it.begun])
	it.begun++
	return in, in.append(MapIterationStarted, in.iteration)
}

// work runs an iteration, and then those that have waited for it to end.
func (it *iterations) work(in *chain) {
	for {
		err := it.iterate(in)
		more := err == nil && it.begun < len(it.items)
		last := in.last
		in.close()
		if !more {
			return
		}
		if in, err = it.next(last); err != nil {
			in.close()
			return
		}
	}
}

func (it *iterations) iterate(in *chain) error {
	index := in.iteration.Index
	input, err := it.child(it.c, it.input, index, it.items[index])
	if err != nil {
		err = it.c.failed(err)
	}
	var output document
	if err == nil {
		output, err = in.run(it.processor, document{value: input})
	}
	if err != nil {
		it.fail(in, err, func() error {
			_, err := in.aside(MapIterationFailed, in.iteration)
			return err
		}, it.abort)
		return err
	}
	it.outputs[index] = output.value
	ended, err := in.aside(MapIterationSucceeded, in.iteration)
	if err == nil {
		it.last = ended.ID
	}
	return err
}

// abort tells of an iteration that ends because another failed.
func (it *iterations) abort(other *chain) error {
	if err := it.abortTasks(other); err != nil {
		return err
	}
	_, err := it.c.aside(MapIterationAborted, other.iteration)
	return err
}
