package payload

import (
	"errors"
	"strings"
	"testing"
)

const store = `{
  "a": {"b": {"c": 1}},
  "a b": 2, "it's": 3, "q\"q": 4, "back\\slash": 5, "dot.ted": 6, "": 7, "ключ": 8,
  "detail-type": "T", "xs/y": "S", "0": "zero", "null": null, "true": "word",
  "items": [{"n": 1, "v": "x"}, {"n": 2}, {"n": 3, "v": "z"}],
  "list": [10, 20, 30, 40], "matrix": [[1, 2], [3], []],
  "o": {"z": 1, "m": 2, "a": 3}
}`

func scope(t testing.TB, input, context string) Scope {
	t.Helper()
	return Scope{Input: decode(t, input), Context: decode(t, context)}
}

func TestPathFinds(t *testing.T) {
	s := scope(t, store, `{"Execution":{"Id":"arn","Input":{"k":[5]}},"a":"context"}`)
	for text, want := range map[string]string{
		`$.a.b.c`:                              `1`,
		`$.a.b`:                                `{"c":1}`,
		`$['a']["b"].c`:                        `1`,
		`$.['a'].['b'].c`:                      `1`,
		`$[ 'a' ][ "b" ]`:                      `{"c":1}`,
		`$['a b']`:                             `2`,
		`$["it's"]`:                            `3`,
		`$['it\'s']`:                           `3`,
		`$['q"q']`:                             `4`,
		`$["q\"q"]`:                            `4`,
		`$['q\u0022q']`:                        `4`,
		`$['back\\slash']`:                     `5`,
		`$['dot.ted']`:                         `6`,
		`$['']`:                                `7`,
		`$.ключ`:                               `8`,
		`$['\u043a\u043b\u044e\u0447']`:        `8`,
		`$.detail-type`:                        `"T"`,
		`$.xs/y`:                               `"S"`,
		`$.0`:                                  `"zero"`,
		`$.null`:                               `null`,
		`$.true`:                               `"word"`,
		`$.list[0]`:                            `10`,
		`$.list[-1]`:                           `40`,
		`$.list.[1]`:                           `20`,
		`$.list[0,2]`:                          `[10,30]`,
		`$.list[-1, 0, 0, 9]`:                  `[40,10,10,null]`,
		`$.list[1:3]`:                          `[20,30]`,
		`$.list[:1]`:                           `[10]`,
		`$.list[-2:]`:                          `[30,40]`,
		`$.list[:-3]`:                          `[10]`,
		`$.list[2:99]`:                         `[30,40]`,
		`$.list[-9:]`:                          `[10,20,30,40]`,
		`$.list[:-9]`:                          `[]`,
		`$.list[3:1]`:                          `[]`,
		`$.list[7:]`:                           `[]`,
		`$.a[0:1]`:                             `[]`,
		`$.list[*]`:                            `[10,20,30,40]`,
		`$.list.*`:                             `[10,20,30,40]`,
		`$.o.*`:                                `[3,2,1]`,
		`$.o[*]`:                               `[3,2,1]`,
		`$.a.b.c[*]`:                           `[]`,
		`$.items[*].v`:                         `["x","z"]`,
		`$.items[*].nope`:                      `[]`,
		`$.nope[*]`:                            `[]`,
		`$.nope[*].value`:                      `[]`,
		`$.nope[:1]`:                           `[]`,
		`$.matrix[*][0]`:                       `[1,3,null]`,
		`$.matrix[*][*]`:                       `[1,2,3]`,
		`$..c`:                                 `[1]`,
		`$..nope`:                              `[]`,
		`$.items..n`:                           `[1,2,3]`,
		`$.o..*`:                               `[3,2,1]`,
		`$.matrix..[0]`:                        `[[1,2],1,3,null]`,
		`$..['b']`:                             `[{"c":1}]`,
		`$.items[?(@.n > 1)]`:                  `[{"n":2},{"n":3,"v":"z"}]`,
		`$.items[?(@.n >= 1 && @.v == 'z')].n`: `[3]`,
		`$.items[?(@.v)]`:                      `[{"n":1,"v":"x"},{"n":3,"v":"z"}]`,
		`$.items[?(!(@.v))].n`:                 `[2]`,
		`$.items[?(@['v'] == "x")].n`:          `[1]`,
		`$.items[?(@.v == ')]')]`:              `[]`,
		`$.items[ ?(@.n == 2.0) ].n`:           `[2]`,
		`$.items[?(@.n == 9 || @.n < 2)].n`:    `[1]`,
		`$.list[?(@ > 10)]`:                    `[]`,              // @ matches objects only
		`$.a[?(@.b)]`:                          `[{"b":{"c":1}}]`, // an object is tested itself
		`$.list[0][?(@.b)]`:                    `[]`,
		`$.items..[?(@.n == 3)].v`:             `["z"]`,
		`$$.Execution.Id`:                      `"arn"`,
		`$$.a`:                                 `"context"`,
		`$$['Execution'].Input.k[0]`:           `5`,
		`$$..k`:                                `[[5]]`,
	} {
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v, err := p.Lookup(s)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := Encode(v); got != want {
			t.Errorf("%s found %s, want %s", text, got, want)
		}
		if p.String() != text || p.OnContext() != strings.HasPrefix(text, "$$") || p.IsRoot() {
			t.Errorf("%s calls itself %s, context %v, root %v", text, p, p.OnContext(), p.IsRoot())
		}
	}
}

func TestWholeDocument(t *testing.T) {
	s := scope(t, `{"x":1}`, `{"y":2}`)
	for text, want := range map[string]string{`$`: `{"x":1}`, `$$`: `{"y":2}`} {
		p, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := p.Lookup(s); err != nil || Encode(v) != want || !p.IsRoot() {
			t.Errorf("%s found %v, %v, root %v", text, v, err, p.IsRoot())
		}
	}
	p, _ := ParsePath(`$`)
	if v, err := p.Lookup(Scope{}); err != nil || v != nil {
		t.Errorf("$ on null: %v, %v", v, err)
	}
}

func TestPathLeadsToNothing(t *testing.T) {
	s := scope(t, `{"a":{"b":"text"},"l":[1],"nil":null}`, `{"State":{}}`)
	for text, want := range map[string]string{
		`$.NoSuch`:              `Invalid path '$.NoSuch' : No results for path: $['NoSuch']`,
		`$.no.such.result.path`: `Invalid path '$.no.such.result.path' : Missing property in path $['no']`,
		`$.a.x`:                 `Invalid path '$.a.x' : No results for path: $['a']['x']`,
		`$['a']["x"].y`:         `Invalid path '$['a']["x"].y' : Missing property in path $['a']['x']`,
		`$.l[0].x`:              `Invalid path '$.l[0].x' : Expected to find an object with property ['x'] in path $['l'][0] but found a number`,
		`$.nil.x`:               `Invalid path '$.nil.x' : Expected to find an object with property ['x'] in path $['nil'] but found null`,
		`$.a[0]`:                `Invalid path '$.a[0]' : Filter: [0] can only be applied to arrays. Current context is: {"b":"text"}`,
		`$.l[3]`:                `Invalid path '$.l[3]' : No results for path: $['l'][3]`,
		`$.l[-2]`:               `Invalid path '$.l[-2]' : No results for path: $['l'][-2]`,
		`$.l[3].x`:              `Invalid path '$.l[3].x' : No results for path: $['l'][3]['x']`,
		`$$.State.RetryCount`:   `Invalid path '$$.State.RetryCount' : No results for path: $['State']['RetryCount']`,
	} {
		p, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		v, err := p.Lookup(s)
		var f *Failure
		if !errors.As(err, &f) {
			t.Errorf("%s found %v, %v", text, v, err)
			continue
		}
		if f.Name != "States.Runtime" || f.Reason != want || !errors.Is(err, ErrNotFound) {
			t.Errorf("%s failed with %s: %s\nwant %s", text, f.Name, f.Reason, want)
		}
	}
}

func TestPathOnNullInput(t *testing.T) {
	p, _ := ParsePath(`$.a`)
	_, err := p.Lookup(Scope{})
	if err == nil || err.Error() != "Unable to apply Path transformation to null or empty input." || !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	p, _ = ParsePath(`$$.a`)
	if _, err = p.Lookup(Scope{}); err == nil || !strings.HasPrefix(err.Error(), "Invalid path '$$.a'") {
		t.Errorf("got %v", err)
	}
}

func TestQuotedKeys(t *testing.T) {
	s := Scope{Input: map[string]any{"\b\f\n\r\t/\\\"'é🚀]": "found"}}
	for _, text := range []string{
		`$['\b\f\n\r\t\/\\\"\'\u00e9\uD83D\ude80]']`,
		`$["\b\f\n\r\t/\\\"'é🚀]"]`,
		"$['\\b\\f\n\r\t/\\\\\"\\'é🚀]']", // control characters as they are
	} {
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if v, err := p.Lookup(s); err != nil || v != "found" {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

func TestPathIsRefused(t *testing.T) {
	for text, why := range map[string]string{
		``:                        "does not start with $",
		`a`:                       "does not start with $",
		` $.a`:                    "does not start with $",
		`$a`:                      "needs a '.' or '['",
		`$$$.a`:                   "needs a '.' or '['",
		`$.`:                      "lacks a key",
		`$.a.`:                    "lacks a key",
		`$...a`:                   "lacks a key",
		`$..`:                     "lacks a key",
		`$.a b`:                   `has ' '`,
		`$.a `:                    `has ' '`,
		"$.a\n":                   `has '\n'`,
		`$.a.length()`:            `functions are not supported`,
		`$.a,b`:                   `has ','`,
		`$.a*`:                    `has '*'`,
		`$.*a`:                    "needs a '.' or '['",
		`$.a:b`:                   `has ':'`,
		`$.a?`:                    `has '?'`,
		`$.a@`:                    `has '@'`,
		`$.'a'`:                   `has '\''`,
		"$.\xff":                  `in the key`,
		`$[`:                      "ends inside",
		`$[0`:                     "lacks a ']'",
		`$['a'`:                   "lacks a ']'",
		`$['a`:                    "closing quote",
		`$['a\x']`:                "escape",
		`$['\u12']`:               "escape",
		`$['\ud800']`:             "escape",
		`$['\u']`:                 "escape",
		`$['\ud83d\u0041']`:       "escape",
		`$['\`:                    "escape",
		`$['a','b']`:              "several keys",
		`$['a',0]`:                "several keys",
		`$[0,'a']`:                "neither a quoted key nor an index",
		`$[a]`:                    "neither a quoted key nor an index",
		`$[]`:                     "neither a quoted key nor an index",
		`$[01]`:                   "neither a quoted key nor an index",
		`$[-0]`:                   "neither a quoted key nor an index",
		`$[1.5]`:                  "neither a quoted key nor an index",
		`$[99999999999999999999]`: "neither a quoted key nor an index",
		`$[0,]`:                   "neither a quoted key nor an index",
		`$[:]`:                    "slice without ends",
		`$[::2]`:                  "step",
		`$[0:2:1]`:                "step",
		`$[1:-1]`:                 "two ends",
		`$[-3:2]`:                 "two ends",
		`$[a:b]`:                  "neither a quoted key nor an index",
		`$[*`:                     "lacks a ']'",
		`$[?@.a]`:                 "without parentheses",
		`$[?(@.a)`:                "without its ']'",
		`$[?(@.a == $.b)]`:        "refers to another value",
		`$[?(length(@.a) > 1)]`:   "function in a filter",
		`$[?(@.a =~ /x/)]`:        "cannot be read",
		`$[?(@.a in ['x'])]`:      "cannot be read",
		`$[?(@.a == 'x)]`:         "closing quote",
		`$[?(@.a), 0]`:            "more than a filter",
		`$[?()]`:                  "cannot be read",
	} {
		p, err := ParsePath(text)
		if err == nil {
			t.Errorf("%q was taken: %+v", text, p)
		} else if !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want a word about %q", text, err, why)
		}
	}
}

func TestFindsInFixedOrder(t *testing.T) {
	p, _ := ParsePath(`$..*`)
	s := Scope{Input: decode(t, `{"e":1,"d":[2,{"c":3,"b":4}],"a":{"z":5,"y":6}}`)}
	want := `[{"y":6,"z":5},[2,{"b":4,"c":3}],1,6,5,2,{"b":4,"c":3},4,3]`
	for range 50 {
		if v, _ := p.Lookup(s); Encode(v) != want {
			t.Fatalf("found %s, want %s", Encode(v), want)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{`$`, `$$.a['b'][0]`, `$.list[-2:]`, `$..[?(@.n > 1 && !(@.v == "x"))]`, `$.a.`, `$[`, `$['\ud83d\ude80']`, `$[0,1]..*`, `$[?(@`, `$.a.length()`} {
		f.Add(seed)
	}
	s := scope(f, store, store)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		v, err := p.Lookup(s)
		var failure *Failure
		switch {
		case err == nil:
			Encode(v)
		case !errors.As(err, &failure):
			t.Errorf("%q failed with %T", text, err)
		}
		if r, err := ParseVariable(text); err == nil {
			if _, err := r.Insert(s.Input, "x"); err != nil && !errors.As(err, &failure) {
				t.Errorf("%q failed with %T", text, err)
			}
		}
	})
}
