package payload

import (
	"errors"
	"strings"
	"testing"
)

// evaluate reads and evaluates the expression of a field "v.$".
func evaluate(t testing.TB, text string, s Scope) (any, error) {
	t.Helper()
	e, err := ParseExpression("v.$", text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e.Evaluate(s)
}

func TestExpressionFailures(t *testing.T) {
	context := `{"State":{"Name":"P"}}`
	for _, c := range []struct{ expression, input, reason string }{
		{`$.nope`, `{"other":1}`, `The JSONPath '$.nope' specified for the field 'v.$' could not be found in the input '{"other":1}'`},
		{`$.nope.deep`, `{"other":1}`, `The JSONPath '$.nope.deep' specified for the field 'v.$' could not be found in the input '{"other":1}'`},
		{`$.other[0]`, `{"other":"<1>"}`, `The JSONPath '$.other[0]' specified for the field 'v.$' could not be found in the input '{"other":"<1>"}'`},
		{`$.l[5].x`, `{"l":[]}`, `The JSONPath '$.l[5].x' specified for the field 'v.$' could not be found in the input '{"l":[]}'`},
		{`$$.Map.Item`, `{"other":1}`, `The JSONPath '$$.Map.Item' specified for the field 'v.$' could not be found in the input '{"State":{"Name":"P"}}'`},
		{`$.a`, `null`, `Unable to apply Path transformation to null or empty input.`},
		{`$`, `null`, `Unable to apply Path transformation to null or empty input.`},
		{`States.Format('{}', $.nope)`, `{"other":1}`, `The function 'States.Format('{}', $.nope)' had the following error: The JsonPath argument for the field '$.nope' could not be found in the input '{"other":1}'`},
		{`States.Format('{} {}', $.other, $.a.b)`, `{"other":1}`, `The function 'States.Format('{} {}', $.other, $.a.b)' had the following error: The JsonPath argument for the field '$.a.b' could not be found in the input '{"other":1}'`},
		{`States.Format('{}',States.Format('{}', $.nope ))`, `{"other":1}`, `The function 'States.Format('{}',States.Format('{}', $.nope ))' had the following error: The JsonPath argument for the field '$.nope' could not be found in the input '{"other":1}'`},
		{`States.Format($.nope, 1)`, `{"other":1}`, `The function 'States.Format($.nope, 1)' had the following error: The JsonPath argument for the field '$.nope' could not be found in the input '{"other":1}'`},
		{`States.Format('{}', $.l[5])`, `{"l":[1,2]}`, `The function 'States.Format('{}', $.l[5])' had the following error: The JsonPath argument for the field '$.l[5]' could not be found in the input '{"l":[1,2]}'`},
		{`States.Format('{}', $[0].nope)`, `[{"other":1}]`, `The function 'States.Format('{}', $[0].nope)' had the following error: The JsonPath argument for the field '$[0].nope' could not be found in the input '[{"other":1}]'`},
		{`States.Format('{}', $.other[0])`, `{"other":1}`, `The function 'States.Format('{}', $.other[0])' had the following error: Filter: [0] can only be applied to arrays. Current context is: 1`},
		{`States.Format('{}', $$.Nope.Deep)`, `{"other":1}`, `The function 'States.Format('{}', $$.Nope.Deep)' had the following error: The JsonPath argument for the field '$.Nope.Deep' could not be found in the input '{"other":1}'`},
		{`States.JsonToString($)`, `null`, `The function 'States.JsonToString($)' had the following error: Unable to apply Path transformation to null or empty input.`},
	} {
		v, err := evaluate(t, c.expression, scope(t, c.input, context))
		var f *Failure
		if !errors.As(err, &f) {
			t.Errorf("%s found %v, %v", c.expression, v, err)
			continue
		}
		if f.Name != ErrorRuntime || f.Reason != c.reason || !errors.Is(err, ErrNotFound) {
			t.Errorf("%s failed with %s: %s\nwant %s", c.expression, f.Name, f.Reason, c.reason)
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	_, err := evaluate(t, `States.Array(States.StringToJson($.a))`, scope(t, `{"a":"{bad"}`, `{}`))
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	const want = "The function 'States.Array(States.StringToJson($.a))' had the following error: Invalid arguments in States.StringToJson"
	if f.Name != "States.Runtime" || f.Reason != want || !strings.Contains(f.Detail, "invalid character") || errors.Is(err, ErrNotFound) {
		t.Errorf("%s: %s (%s)", f.Name, f.Reason, f.Detail)
	}
	if !strings.HasSuffix(err.Error(), "("+f.Detail+")") {
		t.Errorf("the detail is missing in %q", err)
	}
}

func TestExpressionIsPlainPath(t *testing.T) {
	s := scope(t, `{"a":{"b":0.0},"l":[1]}`, `{"a":"context"}`)
	for text, want := range map[string]string{
		`$`:        `{"a":{"b":0.0},"l":[1]}`,
		`$.a.b`:    `0.0`,
		`$.l[0]`:   `1`,
		`$.l[9]`:   `null`, // measured: no failure
		`$.l[-2]`:  `null`,
		`$.x[*].y`: `[]`,
		`$$`:       `{"a":"context"}`,
		`$$.a`:     `"context"`,
	} {
		if v, err := evaluate(t, text, s); err != nil || Encode(v) != want {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

func TestExpressionIsRefused(t *testing.T) {
	for _, text := range []string{``, ` $.a`, `a`, `$.`, `'text'`, `1`, `States.Nope()`, `States.format('x')`, `States.UUID`, `States.UUID() `} {
		_, err := ParseExpression("CausePath", text)
		var p Problem
		if !errors.As(err, &p) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if p.Message != "The value for the field 'CausePath' must be a valid JSONPath or a valid intrinsic function call" || p.Detail == "" || p.Within != "" {
			t.Errorf("%q: %+v", text, p)
		}
		if p.Error() != p.Message+": "+p.Detail {
			t.Errorf("%q: %v", text, p)
		}
	}
	e, err := ParseExpression("v.$", "States.UUID()")
	if err != nil || e.String() != "States.UUID()" {
		t.Errorf("%s, %v", e, err)
	}
}
