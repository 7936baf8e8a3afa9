package asl

import (
	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// optionalPath is an InputPath or OutputPath: the zero value is the default, $.
type optionalPath struct {
	path *payload.Path
	none bool // null: an empty object
}

func (p optionalPath) lookup(s payload.Scope) (any, error) {
	switch {
	case p.none:
		return map[string]any{}, nil
	case p.path == nil:
		return s.Input, nil
	}
	return p.path.Lookup(s)
}

// resultPath says where the result goes: the zero value is the default, $.
type resultPath struct {
	reference *payload.Reference
	discard   bool // null: the raw input passes on
}

func (p resultPath) insert(raw, result any) (any, error) {
	switch {
	case p.discard:
		return raw, nil
	case p.reference == nil:
		return result, nil
	}
	return p.reference.Insert(raw, result)
}

// see is what the fields of the current state read: $ is the given input, $$ the context object.
func (c *chain) see(input any) payload.Scope {
	return payload.Scope{Input: input, Context: c.context(), Random: c.exec.m.rnd}
}

// effective applies InputPath.
func (c *chain) effective(raw any) (any, error) {
	return c.state.inputPath.lookup(c.see(raw))
}

// arguments applies Parameters, if there are any, to the effective input. What they build must not be too big.
func (c *chain) arguments(effective any) (any, error) {
	if c.state.parameters == nil {
		return effective, nil
	}
	v, err := c.state.parameters.Evaluate(c.see(effective))
	if err != nil {
		return nil, err
	}
	if len(payload.Encode(v)) > dataLimit {
		f := tooBig(c.state.name)
		f.terminal = true
		return nil, f
	}
	return v, nil
}

// finish makes the state's output of its result: ResultSelector, ResultPath, OutputPath.
func (c *chain) finish(raw, result any) (any, error) {
	if selector := c.state.resultSelector; selector != nil {
		var err error
		if result, err = selector.Evaluate(c.see(result)); err != nil {
			return nil, err
		}
	}
	return c.merge(raw, result)
}

// merge applies ResultPath and OutputPath.
func (c *chain) merge(raw, result any) (any, error) {
	merged, err := c.state.resultPath.insert(raw, result)
	if err != nil {
		return nil, err
	}
	return c.state.outputPath.lookup(c.see(merged))
}
