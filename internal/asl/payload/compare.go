package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// Operator is a comparison of a Choice rule, such as StringEquals or IsNull.
// The zero Operator is not valid.
type Operator struct {
	name    string
	check   func(operand any) error
	compare func(value, operand any) bool
	path    bool
}

// operators holds every comparison of the states language. And, Or and Not
// compare nothing and are not here.
var operators = byName(slices.Concat(
	ordered("String", compareStrings, checkString),
	ordered("Numeric", compareNumeric, checkNumber),
	ordered("Timestamp", compareTimestamps, checkTimestamp),
	[]Operator{
		{"StringMatches", checkPattern, stringMatches, false},
		{"BooleanEquals", checkBoolean, booleanEquals, true},
		{"IsPresent", checkBoolean, is(func(any) bool { return true }), false},
		{"IsNull", checkBoolean, is(func(v any) bool { return v == nil }), false},
		{"IsBoolean", checkBoolean, is(isA[bool]), false},
		{"IsNumeric", checkBoolean, is(isA[json.Number]), false},
		{"IsString", checkBoolean, is(isA[string]), false},
		{"IsTimestamp", checkBoolean, is(isTimestamp), false},
	},
))

func byName(list []Operator) map[string]Operator {
	m := map[string]Operator{}
	for _, o := range list {
		m[o.name] = o
	}
	return m
}

// ParseOperator finds an operator by its name. The path forms are not names of
// their own: for "StringEqualsPath" ask for "StringEquals" and
// [Operator.HasPathForm].
func ParseOperator(name string) (Operator, bool) {
	o, ok := operators[name]
	return o, ok
}

// HasPathForm reports whether the name with "Path" appended is a comparison
// too, against a value of the input.
func (o Operator) HasPathForm() bool { return o.path }

// IsPresence reports whether the operator is IsPresent, the only one for which
// a variable that leads to nothing is not a failure: compare its operand with
// whether [Reference.Lookup] found something.
func (o Operator) IsPresence() bool { return o.name == "IsPresent" }

// CheckOperand says whether a definition may compare with this literal.
func (o Operator) CheckOperand(operand any) error {
	if err := o.check(operand); err != nil {
		return fmt.Errorf("%s %w", o.name, err)
	}
	return nil
}

// Compare reports whether the rule matches. A value or an operand of a type
// that the operator does not compare is no match, never a failure.
func (o Operator) Compare(value, operand any) bool {
	return o.compare(value, operand)
}

// ordered makes the five operators of one kind of values. The comparison says
// how a stands to b, or that they are not both of the kind.
func ordered(kind string, compare func(a, b any) (int, bool), check func(any) error) []Operator {
	relation := func(holds func(int) bool) func(any, any) bool {
		return func(value, operand any) bool {
			c, ok := compare(value, operand)
			return ok && holds(c)
		}
	}
	return []Operator{
		{kind + "Equals", check, relation(func(c int) bool { return c == 0 }), true},
		{kind + "LessThan", check, relation(func(c int) bool { return c < 0 }), true},
		{kind + "LessThanEquals", check, relation(func(c int) bool { return c <= 0 }), true},
		{kind + "GreaterThan", check, relation(func(c int) bool { return c > 0 }), true},
		{kind + "GreaterThanEquals", check, relation(func(c int) bool { return c >= 0 }), true},
	}
}

// compareStrings orders as Java's compareTo does, by UTF-16 code units.
func compareStrings(a, b any) (int, bool) {
	s, ok := a.(string)
	t, ok2 := b.(string)
	if !ok || !ok2 {
		return 0, false
	}
	return slices.Compare(utf16.Encode([]rune(s)), utf16.Encode([]rune(t))), true
}

func compareNumeric(a, b any) (int, bool) {
	n, ok := a.(json.Number)
	m, ok2 := b.(json.Number)
	if !ok || !ok2 {
		return 0, false
	}
	return compareNumbers(n, m), true
}

func compareTimestamps(a, b any) (int, bool) {
	t, ok := timestamp(a)
	u, ok2 := timestamp(b)
	return t.Compare(u), ok && ok2
}

// rfc3339 is the form that the states language allows: an upper case T, and an
// upper case Z unless there is an offset. time.Parse alone takes more.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

func timestamp(v any) (time.Time, bool) {
	s, ok := v.(string)
	if !ok || !rfc3339.MatchString(s) {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

func isTimestamp(v any) bool {
	_, ok := timestamp(v)
	return ok
}

func booleanEquals(value, operand any) bool {
	v, ok := value.(bool)
	return ok && v == operand
}

func isA[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// is makes an operator whose operand says whether the test must hold.
func is(test func(any) bool) func(value, operand any) bool {
	return func(value, operand any) bool { return test(value) == operand }
}

func checkString(operand any) error  { return checkKind(operand, "a string", isA[string]) }
func checkNumber(operand any) error  { return checkKind(operand, "a number", isA[json.Number]) }
func checkBoolean(operand any) error { return checkKind(operand, "true or false", isA[bool]) }
func checkTimestamp(operand any) error {
	return checkKind(operand, "an RFC 3339 time such as 2026-01-31T09:00:00Z", isTimestamp)
}

func checkKind(operand any, want string, is func(any) bool) error {
	if !is(operand) {
		return fmt.Errorf("needs %s but has %s", want, Encode(operand))
	}
	return nil
}

func checkPattern(operand any) error {
	if err := checkString(operand); err != nil {
		return err
	}
	_, err := parsePattern(operand.(string))
	return err
}

func stringMatches(value, operand any) bool {
	s, ok := value.(string)
	pattern, ok2 := operand.(string)
	if !ok || !ok2 {
		return false
	}
	parts, err := parsePattern(pattern)
	return err == nil && matchParts(s, parts)
}

// parsePattern cuts a pattern of StringMatches at its wildcards. \* stands for
// a star and \\ for a backslash; a backslash before anything else is refused.
func parsePattern(pattern string) ([]string, error) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			parts = append(parts, part.String())
			part.Reset()
		case '\\':
			i++
			if i == len(pattern) || pattern[i] != '*' && pattern[i] != '\\' {
				return nil, errors.New(`has a backslash in its pattern that escapes neither * nor \`)
			}
			part.WriteByte(pattern[i])
		default:
			part.WriteByte(c)
		}
	}
	return append(parts, part.String()), nil
}

// matchParts reports whether s is the parts in this order, the first at its
// beginning and the last at its end, with anything between them.
func matchParts(s string, parts []string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return s == first
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, s, ok = strings.Cut(s, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(s, last)
}
