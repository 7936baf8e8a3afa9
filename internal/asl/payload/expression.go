package payload

import "strings"

// Expression is the value of a field whose name ends in ".$", of ErrorPath or
// of CausePath: a path or a call of an intrinsic function. The zero Expression
// is not valid.
type Expression struct {
	field, text string
	path        Path  // the expression, where call is nil
	call        *call // or the call that it is
}

// ParseExpression reads the text of the named field ("value.$", "ErrorPath").
// The error is a [Problem].
func ParseExpression(field, text string) (Expression, error) {
	e := Expression{field: field, text: text}
	var err error
	if strings.HasPrefix(text, "$") {
		e.path, err = ParsePath(text)
	} else {
		e.call, err = parseCall(text)
	}
	if err != nil {
		return Expression{}, badExpression(field, err.Error())
	}
	return e, nil
}

// badExpression is the problem of a field that holds no expression.
func badExpression(field, detail string) Problem {
	return Problem{
		Message: "The value for the field '" + field + "' must be a valid JSONPath or a valid intrinsic function call",
		Detail:  detail,
	}
}

// String returns the expression as it was written.
func (e Expression) String() string { return e.text }

// Evaluate returns the expression's value. A path that leads to nothing fails
// with "The JSONPath '$.x' specified for the field 'value.$' could not be
// found in the input '{…}'", a call with "The function 'States.…' had the
// following error: …". A path that ends at an index outside its array yields
// null, but fails as the argument of a call; others measured both.
func (e Expression) Evaluate(s Scope) (any, error) {
	if e.call != nil {
		v, f := e.call.evaluate(s)
		if f != nil {
			f.Reason = "The function '" + e.text + "' had the following error: " + f.Reason
			return nil, f
		}
		return v, nil
	}
	if !e.path.context && s.Input == nil {
		return nil, nullInput()
	}
	v, missing := e.path.find(s)
	if missing != nil && missing.kind != noElement {
		return nil, notFound("The JSONPath '" + e.text + "' specified for the field '" + e.field +
			"' could not be found in the input '" + Encode(e.path.root(s)) + "'")
	}
	return v, nil
}
