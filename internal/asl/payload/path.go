package payload

// Path is a JSONPath on the input ($) or on the context object ($$).
// The zero Path is not valid.
type Path struct {
	text string
}

// ParsePath reads a path such as $.a.b, $['a b'][0], $.list[*].x, $..x,
// $.list[?(@.n > 1)] or $$.Execution.Id.
func ParsePath(text string) (Path, error) { panic("not built yet") }

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// OnContext reports whether the path starts with $$.
func (p Path) OnContext() bool { panic("not built yet") }

// IsRoot reports whether the path is $ or $$ alone.
func (p Path) IsRoot() bool { panic("not built yet") }

// Lookup returns what the path finds. A path that can find only one thing
// yields it, or fails when it is not there; a path with a wildcard, a slice, a
// filter, several indexes or a descent yields an array of all that it finds,
// which may be empty.
//
// The failure reads as AWS writes it for InputPath, OutputPath and
// TimeoutSecondsPath: "Invalid path '$.x' : No results for path: $['x']".
func (p Path) Lookup(s Scope) (any, error) { panic("not built yet") }
