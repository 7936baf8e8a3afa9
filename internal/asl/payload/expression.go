package payload

// Expression is the value of a field whose name ends in ".$", of ErrorPath or
// of CausePath: a path or a call of an intrinsic function.
type Expression struct {
	field, text string
}

// ParseExpression reads the text of the named field ("value.$", "ErrorPath").
// The error is a [Problem].
func ParseExpression(field, text string) (Expression, error) { panic("not built yet") }

// String returns the expression as it was written.
func (e Expression) String() string { return e.text }

// Evaluate returns the expression's value. A path that leads to nothing fails
// with "The JSONPath '$.x' specified for the field 'value.$' could not be
// found in the input '{…}'".
func (e Expression) Evaluate(s Scope) (any, error) { panic("not built yet") }
