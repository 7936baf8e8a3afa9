package payload

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		operator, operand string
		matches, others   string // values, one a line
	}{
		{"StringEquals", `"a"`, `"a"`, `"A"
			"a "
			""
			null
			1
			["a"]
			{"a":"a"}`},
		{"StringEquals", `" "`, `" "`, `"     "`},
		{"StringEquals", `"\t\n"`, `"\t\n"`, `"\t\r\n"`},
		{"StringEquals", `1`, ``, `1
			"1"`},
		{"StringLessThan", `"b"`, `"a"
			""
			"B"
			"a\uffff"`, `"b"
			"ba"
			null
			0`},
		{"StringLessThan", `"\uffff"`, `"🚀"`, ``}, // surrogates sort below U+E000 in Java
		{"StringLessThanEquals", `"b"`, `"b"
			"a"`, `"c"
			true`},
		{"StringGreaterThan", `"b"`, `"c"
			"ba"
			"é"`, `"b"
			"a"
			2`},
		{"StringGreaterThanEquals", `"b"`, `"b"
			"c"`, `"a"
			null`},
		{"StringMatches", `"log-*.txt"`, `"log-.txt"
			"log-a.txt"
			"log-a.txt.txt"`, `"log-a.txtx"
			"xlog-a.txt"
			"log.txt"
			null
			1`},
		{"StringMatches", `"*"`, `""
			"*"
			"anything\n"`, `null`},
		{"StringMatches", `"a*b*c"`, `"abc"
			"aXbYc"
			"abbcc"`, `"acb"
			"ab"
			"ac"`},
		{"StringMatches", `"a**a"`, `"aa"
			"aba"`, `"a"`},
		{"StringMatches", `"a\\*b\\\\"`, `"a*b\\"`, `"aXb\\"
			"a*b"`},
		{"StringMatches", `""`, `""`, `"a"`},
		{"StringMatches", `"bad\\x"`, ``, `"badx"
			"bad\\x"`},
		{"StringMatches", `5`, ``, `5
			"5"`},
		{"NumericEquals", `0`, `0
			0.0
			-0.0
			0e9`, `1
			"0"
			null
			false
			[]`},
		{"NumericEquals", `9007199254740993`, `9007199254740993`, `9007199254740992`},
		{"NumericGreaterThan", `0`, `1
			0.1
			1e-9`, `0.0
			0
			-1
			"1"
			true`},
		{"NumericGreaterThanEquals", `1.5`, `1.5
			2
			15e-1`, `1.4
			"2"`},
		{"NumericLessThan", `1e400`, `1
			99999999999999999999`, `1e401
			null`},
		{"NumericLessThanEquals", `3`, `3
			3.0
			-7`, `3.1`},
		{"NumericEquals", `"1"`, ``, `1
			"1"`},
		{"BooleanEquals", `false`, `false`, `true
			null
			0
			""
			"false"
			[]
			{}`},
		{"BooleanEquals", `true`, `true`, `false
			1
			"true"`},
		{"BooleanEquals", `null`, ``, `true
			false
			null`},
		{"TimestampEquals", `"2026-01-31T09:00:00Z"`, `"2026-01-31T09:00:00Z"
			"2026-01-31T09:00:00.000Z"
			"2026-01-31T10:00:00+01:00"`, `"2026-01-31T09:00:00.001Z"
			"2026-01-31t09:00:00Z"
			"2026-01-31T09:00:00z"
			"2026-01-31 09:00:00Z"
			"2026-01-31T09:00:00"
			"2026-01-31"
			1769850000
			null`},
		{"TimestampLessThan", `"2026-01-31T09:00:00Z"`, `"2026-01-31T09:30:00+01:00"`, `"2026-01-31T09:00:00Z"
			"x"`},
		{"TimestampLessThanEquals", `"2026-01-31T09:00:00Z"`, `"2026-01-31T09:00:00Z"`, `"2026-01-31T09:00:01Z"`},
		{"TimestampGreaterThan", `"2026-01-31T09:00:00Z"`, `"2026-01-31T09:00:00.5Z"`, `"2026-01-31T09:00:00Z"`},
		{"TimestampGreaterThanEquals", `"2026-01-31T09:00:00Z"`, `"2026-01-31T09:00:00Z"`, `"2026-01-31T08:59:59Z"`},
		{"TimestampEquals", `"x"`, ``, `"x"`},
		{"IsPresent", `true`, `null
			0
			""
			[]
			{}
			false`, ``},
		{"IsPresent", `false`, ``, `null
			0
			{}`},
		{"IsNull", `true`, `null`, `0
			""
			false
			"null"`},
		{"IsNull", `false`, `0
			""
			[]`, `null`},
		{"IsBoolean", `true`, `true
			false`, `null
			"true"
			1`},
		{"IsNumeric", `true`, `0
			1.5`, `"1"
			null`},
		{"IsNumeric", `false`, `"1"
			null`, `1`},
		{"IsString", `true`, `""
			"x"`, `null
			1`},
		{"IsTimestamp", `true`, `"2016-08-18T17:33:00Z"
			"2016-08-18T17:33:00.123456789-07:00"`, `"2016-08-18T7:33:00Z"
			"2016-08-18T17:33:00,5Z"
			"2016-13-18T17:33:00Z"
			"2016-08-18T17:33Z"
			"17:33"
			1471541580`},
		{"IsTimestamp", `false`, `"x"
			1`, `"2016-08-18T17:33:00Z"`},
	} {
		o, ok := ParseOperator(c.operator)
		if !ok {
			t.Fatalf("no operator %s", c.operator)
		}
		operand := decode(t, c.operand)
		for want, lines := range map[bool]string{true: c.matches, false: c.others} {
			for line := range strings.Lines(lines) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if got := o.Compare(decode(t, line), operand); got != want {
					t.Errorf("%s %s %s = %v", line, c.operator, c.operand, got)
				}
			}
		}
	}
}

func TestOperatorNames(t *testing.T) {
	withPath := 0
	for _, kind := range []string{"String", "Numeric", "Timestamp"} {
		for _, relation := range []string{"Equals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals"} {
			if o, ok := ParseOperator(kind + relation); !ok || !o.HasPathForm() {
				t.Errorf("%s%s: %v, path %v", kind, relation, ok, o.HasPathForm())
			}
			withPath++
		}
	}
	if o, ok := ParseOperator("BooleanEquals"); !ok || !o.HasPathForm() {
		t.Error("BooleanEquals lacks its path form")
	}
	withPath++
	for _, name := range []string{"StringMatches", "IsPresent", "IsNull", "IsBoolean", "IsNumeric", "IsString", "IsTimestamp"} {
		o, ok := ParseOperator(name)
		if !ok || o.HasPathForm() || o.IsPresence() != (name == "IsPresent") {
			t.Errorf("%s: %v, path %v, presence %v", name, ok, o.HasPathForm(), o.IsPresence())
		}
	}
	for _, name := range []string{"", "And", "Or", "Not", "StringEqualsPath", "stringEquals", "Equals", "StringMatch"} {
		if _, ok := ParseOperator(name); ok {
			t.Errorf("%q is taken for an operator", name)
		}
	}
	if names := len(operators) + withPath; names != 39 {
		t.Errorf("%d comparisons, the states language has 39", names)
	}
}

func TestCheckOperand(t *testing.T) {
	for _, c := range []struct{ operator, good, bad string }{
		{"StringEquals", `""`, `1`},
		{"StringLessThan", `"a"`, `null`},
		{"StringMatches", `"a*\\*\\\\"`, `"a\\b"`},
		{"StringMatches", `"*"`, `"a\\"`},
		{"StringMatches", `"*"`, `true`},
		{"NumericEquals", `0.5`, `"0.5"`},
		{"BooleanEquals", `false`, `"false"`},
		{"TimestampEquals", `"2016-08-18T17:33:00Z"`, `"2016-08-18"`},
		{"TimestampLessThan", `"2016-08-18T17:33:00+02:00"`, `5`},
		{"IsPresent", `false`, `"true"`},
		{"IsNull", `true`, `null`},
		{"IsTimestamp", `true`, `1`},
	} {
		o, _ := ParseOperator(c.operator)
		if err := o.CheckOperand(decode(t, c.good)); err != nil {
			t.Errorf("%s %s: %v", c.operator, c.good, err)
		}
		if err := o.CheckOperand(decode(t, c.bad)); err == nil || !strings.HasPrefix(err.Error(), c.operator+" ") {
			t.Errorf("%s %s: %v", c.operator, c.bad, err)
		}
	}
}
