package payload

import "errors"

// Path is a JSONPath on the input ($) or on the context object ($$).
// The zero Path is not valid.
type Path struct {
	text    string
	context bool
	steps   []step
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// OnContext reports whether the path starts with $$.
func (p Path) OnContext() bool { return p.context }

// IsRoot reports whether the path is $ or $$ alone.
func (p Path) IsRoot() bool { return len(p.steps) == 0 }

// Lookup returns what the path finds. A path that can find only one thing
// yields it, or fails when it is not there; a path with a wildcard, a slice, a
// filter, several indexes or a descent yields an array of all that it finds,
// which may be empty. What it finds in an object comes in the order of keys,
// and an index after a wildcard finds null where the array is too short.
//
// The failure reads as AWS writes it for InputPath, OutputPath and
// TimeoutSecondsPath: "Invalid path '$.x' : No results for path: $['x']". An
// index outside its array fails here, which was not recorded.
func (p Path) Lookup(s Scope) (any, error) {
	v, missing := p.find(s)
	if missing == nil {
		return v, nil
	}
	if !p.context && s.Input == nil {
		return nil, nullInput()
	}
	return nil, notFound("Invalid path '" + p.text + "' : " + missing.reason)
}

// find returns what the path finds, or says what is missing.
func (p Path) find(s Scope) (any, *miss) {
	root := p.root(s)
	if p.definite() {
		return walk(root, p.steps)
	}
	nodes := []any{root}
	for _, st := range p.steps {
		found := []any{}
		for _, n := range nodes {
			found = st.apply(n, root, found)
		}
		nodes = found
	}
	return nodes, nil
}

// root returns the document that the path starts from.
func (p Path) root(s Scope) any {
	if p.context {
		return s.Context
	}
	return s.Input
}

// definite reports whether the path can find one thing only.
func (p Path) definite() bool {
	for _, st := range p.steps {
		if !st.definite() {
			return false
		}
	}
	return true
}

// badPath is the error of a path that cannot be read.
func badPath(text, why string) error {
	return errors.New("the path '" + text + "' " + why)
}
