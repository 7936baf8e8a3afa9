package payload

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestTemplate(t *testing.T) {
	s := scope(t, `{"a":1.0,"b":{"c":[1,2]},"empty":{}}`, `{"Execution":{"Id":"arn"}}`)
	for text, want := range map[string]string{
		`{}`:                                  `{}`,
		`{"x":1,"y":"$.a","z":null}`:          `{"x":1,"y":"$.a","z":null}`,
		`{"x.$":"$.a"}`:                       `{"x":1.0}`,
		`{"all.$":"$"}`:                       `{"all":{"a":1.0,"b":{"c":[1,2]},"empty":{}}}`,
		`{"id.$":"$$.Execution.Id"}`:          `{"id":"arn"}`,
		`{"f.$":"States.Format('{}!', $.a)"}`: `{"f":"1.0!"}`,
		`{"Comment":"kept","comment":"too"}`:  `{"Comment":"kept","comment":"too"}`,
		`{"deep":{"list":[{"x.$":"$.b.c[1]"},"lit",[{"y.$":"$.empty"}]]}}`: `{"deep":{"list":[{"x":2},"lit",[{"y":{}}]]}}`,
		`{"a.b.$":"$.a"}`:               `{"a.b":1.0}`,
		`{"a$":"$.a","$":1}`:            `{"$":1,"a$":"$.a"}`,
		`{"x.$.$":"$.a"}`:               `{"x.$":1.0}`,
		`{"l":["$.a","States.UUID()"]}`: `{"l":["$.a","States.UUID()"]}`,
		`{"none.$":"$.x[*].y"}`:         `{"none":[]}`,
	} {
		template, problems := ParseTemplate(decode(t, text))
		if problems != nil {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		if v, err := template.Evaluate(s); err != nil || Encode(v) != want {
			t.Errorf("%s made %v, %v\nwant %s", text, v, err, want)
		}
	}
}

func TestZeroTemplateMakesNull(t *testing.T) {
	if v, err := (Template{}).Evaluate(Scope{Input: map[string]any{}}); v != nil || err != nil {
		t.Errorf("made %v, %v", v, err)
	}
}

func TestTemplateLeavesItselfAndTheInputAlone(t *testing.T) {
	source, input := decode(t, `{"keep":{"k":[1]},"x.$":"$.in"}`), decode(t, `{"in":{"y":1}}`)
	template, _ := ParseTemplate(source)
	for range 2 {
		if v, err := template.Evaluate(Scope{Input: input}); err != nil || Encode(v) != `{"keep":{"k":[1]},"x":{"y":1}}` {
			t.Fatalf("made %v, %v", v, err)
		}
	}
	if Encode(source) != `{"keep":{"k":[1]},"x.$":"$.in"}` || Encode(input) != `{"in":{"y":1}}` {
		t.Errorf("now %s and %s", Encode(source), Encode(input))
	}
}

func TestTemplateFailsAtItsFirstField(t *testing.T) {
	template, problems := ParseTemplate(decode(t, `{"z.$":"$.z","a":[{"value.$":"$.nope"}]}`))
	if problems != nil {
		t.Fatal(problems)
	}
	for range 20 {
		_, err := template.Evaluate(Scope{Input: decode(t, `{"x":1}`)})
		var f *Failure
		if !errors.As(err, &f) || f.Reason != `The JSONPath '$.nope' specified for the field 'value.$' could not be found in the input '{"x":1}'` {
			t.Fatalf("got %v", err)
		}
	}
}

func TestTemplateProblems(t *testing.T) {
	bad := func(within, field string) Problem {
		return Problem{Within: within, Message: "The value for the field '" + field + "' must be a valid JSONPath or a valid intrinsic function call"}
	}
	for text, want := range map[string][]Problem{
		`{"parsed.$":"States.StringToJson('\\x')"}`: {bad("", "parsed.$")},
		`{"x.$":1}`:                              {bad("", "x.$")},
		`{"x.$":null}`:                           {bad("", "x.$")},
		`{"x.$":{"y.$":"$.a"}}`:                  {bad("", "x.$")},
		`{"x.$":"text"}`:                         {bad("", "x.$")},
		`{"b":{"l":[0,{"x.$":"$."}]},"a.$":"x"}`: {bad("", "a.$"), bad("/b/l[1]", "x.$")},
		`{"a":1,"a.$":"$.a"}`:                    {{Message: "The fields 'a' and 'a.$' cannot stand together"}},
		`{"o":{"a":1,"a.$":"$.a"}}`:              {{Within: "/o", Message: "The fields 'a' and 'a.$' cannot stand together"}},
		`[{"x.$":"$.a"}]`:                        {{Message: "A payload template must be an object but is an array"}},
		`"$.a"`:                                  {{Message: "A payload template must be an object but is a string"}},
		`null`:                                   {{Message: "A payload template must be an object but is null"}},
	} {
		_, problems := ParseTemplate(decode(t, text))
		for i, p := range problems {
			if p.Detail == "" && strings.Contains(p.Message, "'") {
				t.Errorf("%s: no detail in %v", text, p)
			}
			problems[i].Detail = ""
		}
		if !reflect.DeepEqual(problems, want) {
			t.Errorf("%s: %v\nwant %v", text, problems, want)
		}
	}
}

func FuzzParseTemplate(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a.$":"$.a","b":[{"c.$":"States.UUID()"}]}`, `{"a":1,"a.$":"$"}`, `{"x.$":"States.Format('{}', $.a[?(@.b)])"}`, `{".$":"$$"}`} {
		f.Add(seed)
	}
	s := scope(f, store, store)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Decode([]byte(text))
		if err != nil {
			return
		}
		template, problems := ParseTemplate(v)
		if problems != nil {
			return
		}
		made, err := template.Evaluate(s)
		var failure *Failure
		switch {
		case err == nil:
			Encode(made)
		case !errors.As(err, &failure):
			t.Errorf("%q failed with %T", text, err)
		}
	})
}
