package payload

// Operator is a comparison of a Choice rule, such as StringEquals or IsNull.
type Operator struct{}

// ParseOperator finds an operator by its name. The path forms are not names of
// their own: for "StringEqualsPath" ask for "StringEquals" and
// [Operator.HasPathForm].
func ParseOperator(name string) (Operator, bool) { panic("not built yet") }

// HasPathForm reports whether the name with "Path" appended is a comparison
// too, against a value of the input.
func (o Operator) HasPathForm() bool { panic("not built yet") }

// IsPresence reports whether the operator is IsPresent, the only one for which
// a variable that leads to nothing is not a failure: compare its operand with
// what [Reference.Lookup] found.
func (o Operator) IsPresence() bool { panic("not built yet") }

// CheckOperand says whether a definition may compare with this literal.
func (o Operator) CheckOperand(operand any) error { panic("not built yet") }

// Compare reports whether the rule matches. A value or an operand of a type
// that the operator does not compare is no match, never a failure.
func (o Operator) Compare(value, operand any) bool { panic("not built yet") }
