package payload

import (
	"errors"
	"strings"
	"testing"
)

func TestReferenceIsRefused(t *testing.T) {
	for text, why := range map[string]string{
		``:             "Reference path didn't start with '$'",
		`foo`:          "Reference path didn't start with '$'",
		`$$.Execution`: "cannot read the context object",
		`$$`:           "cannot read the context object",
		`$.a[*]`:       "may hold only fixed keys and indexes",
		`$.*`:          "may hold only fixed keys and indexes",
		`$..a`:         "may hold only fixed keys and indexes",
		`$.a[0:1]`:     "may hold only fixed keys and indexes",
		`$.a[0,1]`:     "may hold only fixed keys and indexes",
		`$.a[-1]`:      "may hold only fixed keys and indexes",
		`$.a[?(@.b)]`:  "may hold only fixed keys and indexes",
		`$.a,b`:        `has ','`,
		`$.a.length()`: "functions",
		`$.`:           "lacks a key",
	} {
		_, err := ParseReference(text)
		if err == nil || !strings.HasPrefix(err.Error(), "Value is not a Reference Path: ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want a word about %q", text, err, why)
		}
	}
	if _, err := ParseReference("x"); err.Error() != "Value is not a Reference Path: Reference path didn't start with '$'" {
		t.Errorf("AWS writes it otherwise: %v", err)
	}
}

func TestVariableMayReadTheContext(t *testing.T) {
	r, err := ParseVariable(`$$.Execution.Input['a b'][0]`)
	if err != nil {
		t.Fatal(err)
	}
	s := Scope{Context: decode(t, `{"Execution":{"Input":{"a b":[7]}}}`)}
	if v, err := r.Lookup(s); err != nil || Encode(v) != `7` {
		t.Errorf("found %v, %v", v, err)
	}
	if r.String() != `$$.Execution.Input['a b'][0]` {
		t.Errorf("calls itself %s", r)
	}
	if _, err := r.Lookup(Scope{Context: decode(t, `{}`)}); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing context: %v", err)
	}
}

func TestInsert(t *testing.T) {
	for _, c := range []struct{ raw, path, result, want string }{
		{`{"a":1}`, `$`, `"r"`, `"r"`},
		{`"text"`, `$`, `null`, `null`},
		{`{"a":1}`, `$.r`, `{"x":1}`, `{"a":1,"r":{"x":1}}`},
		{`{"a":1}`, `$.a`, `[2]`, `{"a":[2]}`},
		{`{}`, `$.a.b.c`, `1`, `{"a":{"b":{"c":1}}}`},
		{`{"detail":{"id":7}}`, `$.detail.shipped_output`, `[]`, `{"detail":{"id":7,"shipped_output":[]}}`},
		{`{"a":{"b":1}}`, `$['a']["c d"]`, `2`, `{"a":{"b":1,"c d":2}}`},
		{`{"a":[1,2]}`, `$.a[1]`, `"r"`, `{"a":[1,"r"]}`},
		{`[{"x":1}]`, `$[0].y`, `2`, `[{"x":1,"y":2}]`},
		{`{"a":[{"b":1}]}`, `$.a[0].c.d`, `2`, `{"a":[{"b":1,"c":{"d":2}}]}`},
	} {
		raw := decode(t, c.raw)
		r, err := ParseReference(c.path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Insert(raw, decode(t, c.result))
		if err != nil || Encode(v) != c.want {
			t.Errorf("%s at %s of %s: %v, %v\nwant %s", c.result, c.path, c.raw, v, err, c.want)
		}
		if !Equal(raw, decode(t, c.raw)) {
			t.Errorf("inserting at %s changed the input %s to %s", c.path, c.raw, Encode(raw))
		}
	}
}

func TestInsertFails(t *testing.T) {
	for _, c := range []struct{ raw, path, reason string }{
		{`"input1"`, `$.someTaskResult`, `Unable to apply ReferencePath $.someTaskResult to input "input1"`},
		{`[1]`, `$.r`, `Unable to apply ReferencePath $.r to input [1]`},
		{`null`, `$.r`, `Unable to apply ReferencePath $.r to input null`},
		{`{"a":"text"}`, `$.a.b`, `Unable to apply ReferencePath $.a.b to input {"a":"text"}`},
		{`{"a":null}`, `$.a.b`, `Unable to apply ReferencePath $.a.b to input {"a":null}`},
		{`{"a":[1]}`, `$.a[1]`, `Unable to apply ReferencePath $.a[1] to input {"a":[1]}`},
		{`{"a":{}}`, `$.a[0]`, `Unable to apply ReferencePath $.a[0] to input {"a":{}}`},
		{`{}`, `$.a[0]`, `Unable to apply ReferencePath $.a[0] to input {}`},
	} {
		r, err := ParseReference(c.path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Insert(decode(t, c.raw), "r")
		var f *Failure
		if !errors.As(err, &f) {
			t.Errorf("%s took %s: %v, %v", c.raw, c.path, v, err)
			continue
		}
		if f.Name != "States.ReferencePathConflict" || f.Reason != c.reason || errors.Is(err, ErrNotFound) {
			t.Errorf("%s failed with %s: %s\nwant %s", c.path, f.Name, f.Reason, c.reason)
		}
	}
}
