package asl

import "github.com/lockstep-pipeline/lockstep/internal/asl/payload"

// mapWork is what both modes of a Map state share.
type mapWork struct {
	processor *flow
	itemsPath optionalPath
	selector  *payload.Template

	maxConcurrency count
}

// A count is a whole number given by a literal or by a reference path; without either it is 0.
type count struct {
	field   string // the name of the path field
	literal int64
	path    *payload.Reference
}

func (n count) resolve(c *chain, input any) (int64, error) {
	if n.path == nil {
		return n.literal, nil
	}
	v, err := n.path.Lookup(c.see(input))
	if err != nil {
		return 0, err
	}
	whole, ok := payload.Int64(v)
	if !ok {
		return 0, c.runtime("The %s field refers to value \"%s\" which is not a valid integer: %s", n.field, plain(v), n.path)
	}
	return whole, nil
}

// concurrency resolves MaxConcurrency; 0 is no limit.
func (w mapWork) concurrency(c *chain, input any) (int, error) {
	n, err := w.maxConcurrency.resolve(c, input)
	if err == nil && n < 0 {
		err = c.runtime("%s cannot be negative.", "MaxConcurrency")
	}
	return int(n), err
}

// items finds the array of a Map without ItemReader.
func (w mapWork) items(c *chain, input any) ([]any, error) {
	v, err := w.itemsPath.lookup(c.see(input))
	if err != nil {
		return nil, err
	}
	items, ok := v.([]any)
	if !ok {
		return nil, c.runtime("Reference path \"%s\" must point to array.", w.itemsPath)
	}
	return items, nil
}

func (p optionalPath) String() string {
	if p.path == nil {
		return "$"
	}
	return p.path.String()
}

// child makes the input of one iteration or child execution.
func (w mapWork) child(c *chain, input any, index int, value any) (any, error) {
	if w.selector == nil {
		return value, nil
	}
	see := c.see(input)
	see.Context.(map[string]any)["Map"] = map[string]any{"Item": item(index, value)}
	return w.selector.Evaluate(see)
}
