package payload

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

const intrinsicInput = `{
  "null": null, "one": 1, "float": 1.1, "zero": 0.0, "yes": true, "text": "Ada", "json": "{\"foo\": \"bar\"}",
  "template": "n={}, {}", "arr": [1,2,3,4,5,6,7,8,9], "empty": [], "dup": [1,2,3,3,1,4],
  "obj": {"b": 2, "a": {"x": [1, "y", null]}}, "json1": {"a":{"a1":1},"b":2,"d":3}, "json2": {"a":{"a3":1},"c":3,"d":4},
  "mixed": [1, 1.0, "1", true, "true", null, {"k":1,"l":2}, {"l":2,"k":1.0}, [1]],
  "a b": "bracketed", "csv": "a,,b,", "blank": " \t\n"
}`

func TestIntrinsics(t *testing.T) {
	s := scope(t, intrinsicInput, `{"Execution":{"Id":"arn:x","Input":{"n":2}},"StateMachine":{"Name":"M","Id":"arn:m"}}`)
	for text, want := range map[string]string{
		// States.Array
		`States.Array()`: `[]`,
		`States.Array(1, 'a', null, true, false, -2.50, 1e3, -0)`:          `[1,"a",null,true,false,-2.50,1e3,0]`,
		`States.Array($.null, $.zero, $.obj)`:                              `[null,0.0,{"a":{"x":[1,"y",null]},"b":2}]`,
		`States.Array( $.one ,$['a b'] , $.arr[0,1] )`:                     `[1,"bracketed",[1,2]]`,
		`States.Array($.arr[?(@.x == ',)')], $.nope[*])`:                   `[[],[]]`,
		`States.Array($$.Execution.Input.n, States.Array(States.Array()))`: `[2,[[]]]`,
		"States.Array('a\nb')":                                             `["a\nb"]`,
		`States.Array('it\'s', '\{\}', '\\', '{"a":1}', '{}')`:             `["it's","{}","\\","{\"a\":1}","{}"]`,
		`States.Array('', ' ,) ', 'é🚀')`:                                   `[""," ,) ","é🚀"]`,

		// States.Format: null, numbers, strings and JSON-looking strings recorded
		`States.Format('x {}.', $.null)`:                   `"x null."`,
		`States.Format('{}', $.one)`:                       `"1"`,
		`States.Format('{}', $.float)`:                     `"1.1"`,
		`States.Format('{}|{}', $.zero, $.yes)`:            `"0.0|true"`,
		`States.Format('{}', $.json)`:                      `"{\"foo\": \"bar\"}"`,
		`States.Format('{}', $$.StateMachine)`:             `"{Id=arn:m, Name=M}"`,
		`States.Format('{}', $.obj)`:                       `"{a={x=[1, y, null]}, b=2}"`,
		`States.Format('{}', $.empty)`:                     `"[]"`,
		`States.Format('no holes')`:                        `"no holes"`,
		`States.Format('')`:                                `""`,
		`States.Format('{}{}', 'a', 'b')`:                  `"ab"`,
		`States.Format('\{{}\}', 'a')`:                     `"{a}"`,
		`States.Format('\{\} \' \\ {}', '{}')`:             `"{} ' \\ {}"`,
		`States.Format($.template, 1, 'x')`:                `"n=1, x"`,
		`States.Format('Name: \'{}\', "{}"', 'G', 'M')`:    `"Name: 'G', \"M\""`,
		`States.Format('{}', States.Format('{}', $.text))`: `"Ada"`,
		`States.Format('  {}  ', 'x')`:                     `"  x  "`,

		// JSON
		`States.StringToJson('')`:                                     `null`,
		`States.StringToJson(' ')`:                                    `null`,
		`States.StringToJson($.blank)`:                                `null`,
		`States.StringToJson('-0')`:                                   `0`,
		`States.StringToJson('1.1')`:                                  `1.1`,
		`States.StringToJson('"Hello"')`:                              `"Hello"`,
		`States.StringToJson($.json)`:                                 `{"foo":"bar"}`,
		`States.StringToJson(' [1, {"a": null}] ')`:                   `[1,{"a":null}]`,
		`States.JsonToString($.arr)`:                                  `"[1,2,3,4,5,6,7,8,9]"`,
		`States.JsonToString($.obj)`:                                  `"{\"a\":{\"x\":[1,\"y\",null]},\"b\":2}"`,
		`States.JsonToString($.text)`:                                 `"\"Ada\""`,
		`States.JsonToString($.null)`:                                 `"null"`,
		`States.JsonToString('<&>')`:                                  `"\"<&>\""`,
		`States.StringToJson(States.JsonToString($.obj))`:             `{"a":{"x":[1,"y",null]},"b":2}`,
		`States.JsonMerge($.json1, $.json2, false)`:                   `{"a":{"a3":1},"b":2,"c":3,"d":4}`,
		`States.JsonMerge($.json1, States.StringToJson('{}'), false)`: `{"a":{"a1":1},"b":2,"d":3}`,

		// Arrays
		`States.ArrayLength($.arr)`:                                   `9`,
		`States.ArrayLength($.empty)`:                                 `0`,
		`States.ArrayLength($.nope[*].x)`:                             `0`,
		`States.ArrayGetItem($.arr, 5)`:                               `6`,
		`States.ArrayGetItem($.arr, 0)`:                               `1`,
		`States.ArrayGetItem($.arr, 1.9)`:                             `2`,
		`States.ArrayGetItem($.empty, 999)`:                           `null`,
		`States.ArrayPartition($.arr, 4)`:                             `[[1,2,3,4],[5,6,7,8],[9]]`,
		`States.ArrayPartition($.arr, 3)`:                             `[[1,2,3],[4,5,6],[7,8,9]]`,
		`States.ArrayPartition($.arr, 4.9)`:                           `[[1,2,3,4],[5,6,7,8],[9]]`,
		`States.ArrayPartition($.empty, 3)`:                           `[]`,
		`States.ArrayPartition($.dup, 2147483647)`:                    `[[1,2,3,3,1,4]]`,
		`States.ArrayRange(1, 9, 2)`:                                  `[1,3,5,7,9]`,
		`States.ArrayRange(1, 10, 2)`:                                 `[1,3,5,7,9]`,
		`States.ArrayRange(-2, 2, 2)`:                                 `[-2,0,2]`,
		`States.ArrayRange(5, 1, -2)`:                                 `[5,3,1]`,
		`States.ArrayRange(3, 3, 1)`:                                  `[3]`,
		`States.ArrayRange(3, 3, -1)`:                                 `[3]`,
		`States.ArrayRange(5, 1, 1)`:                                  `[]`,
		`States.ArrayRange(1, 5, -1)`:                                 `[]`,
		`States.ArrayRange(1.4, 5.6, 2.2)`:                            `[1,3,5]`,
		`States.ArrayRange(1.6, 1.4, 1)`:                              `[1]`,
		`States.ArrayRange(5.4, -0.6, -2.4)`:                          `[5,3,1]`,
		`States.ArrayLength(States.ArrayRange(1, 1000, 1))`:           `1000`,
		`States.ArrayLength(States.ArrayRange(1000, 1, -1))`:          `1000`,
		`States.ArrayUnique($.dup)`:                                   `[1,2,3,4]`,
		`States.ArrayUnique($.empty)`:                                 `[]`,
		`States.ArrayUnique($.mixed)`:                                 `[1,"1",true,"true",null,{"k":1,"l":2},[1]]`,
		`States.ArrayContains($.arr, 5)`:                              `true`,
		`States.ArrayContains($.arr, 10)`:                             `false`,
		`States.ArrayContains($.arr, '5')`:                            `true`,
		`States.ArrayContains(States.Array('true'), true)`:            `true`,
		`States.ArrayContains(States.Array(0), false)`:                `false`,
		`States.ArrayContains($.mixed, null)`:                         `true`,
		`States.ArrayContains($.empty, 1)`:                            `false`,
		`States.ArrayContains(States.Array($.obj, $.json1), $.json1)`: `true`,
		`States.ArrayContains(States.Array($.obj), $.json1)`:          `false`,

		// Maths: all but the sums at the borders recorded
		`States.MathAdd(1.5, 1.51)`:              `4`,
		`States.MathAdd(-1.5, -1.51)`:            `-3`,
		`States.MathAdd(1.49, 1.5)`:              `3`,
		`States.MathAdd(0.5, 0)`:                 `1`,
		`States.MathAdd(-0.5, 0)`:                `0`,
		`States.MathAdd(2.5, 0)`:                 `3`,
		`States.MathAdd(-2.5, 0)`:                `-2`,
		`States.MathAdd(0.49999999999999994, 0)`: `0`,
		`States.MathAdd(111, -1)`:                `110`,
		`States.MathAdd(1e2, 1)`:                 `101`,
		`States.MathAdd(2147483646, 1)`:          `2147483647`,
		`States.MathAdd(-2147483647, -1)`:        `-2147483648`,
		`States.MathRandom(7, 8)`:                `7`,
		`States.MathRandom(7.9, 8.9)`:            `7`,
		`States.MathRandom(-1, 0, 5)`:            `-1`,

		// Text
		`States.StringSplit('1,2,3,4,5', ',')`:                             `["1","2","3","4","5"]`,
		`States.StringSplit('This.is+a,test=string', '.+,=')`:              `["This","is","a","test","string"]`,
		`States.StringSplit($.csv, ',')`:                                   `["a","b"]`,
		`States.StringSplit('', ',')`:                                      `[]`,
		`States.StringSplit(',,', ',')`:                                    `[]`,
		`States.StringSplit(' , ', ',')`:                                   `[" "," "]`,
		`States.StringSplit('aébéc', 'é')`:                                 `["a","b","c"]`,
		`States.StringSplit('abc', 'x')`:                                   `["abc"]`,
		`States.ArrayGetItem(States.StringSplit($$.Execution.Id, ':'), 1)`: `"x"`,
		`States.Base64Encode('Data to encode')`:                            `"RGF0YSB0byBlbmNvZGU="`,
		`States.Base64Encode('')`:                                          `""`,
		`States.Base64Encode('héllo→')`:                                    `"aMOpbGxv4oaS"`,
		`States.Base64Decode('RGF0YSB0byBlbmNvZGU=')`:                      `"Data to encode"`,
		`States.Base64Decode('aGVsbG8')`:                                   `"hello"`,
		`States.Base64Decode(' YWJj ZA== ')`:                               `"abcd"`,
		`States.Base64Decode('!Y!W!J!j')`:                                  `"abc"`,
		`States.Base64Decode('YWJjZ')`:                                     `"abc"`,
		`States.Base64Decode('/w==')`:                                      `"` + "\uFFFD" + `"`,
		`States.Base64Decode('')`:                                          `""`,
		`States.Hash('input data', 'MD5')`:                                 `"812f45842bc6d66ee14572ce20db8e86"`,
		`States.Hash('hello', 'SHA-1')`:                                    `"aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"`,
		`States.Hash('input data', 'SHA-256')`:                             `"b4a697a057313163aee33cd8d40c66e9f0f177e00cac2de32475ffff6169c3e3"`,
		`States.Hash('hello', 'SHA-384')`:                                  `"59e1748777448c69de6b800d7a33bbfb9ff1b463e44354c3553bcdb9c666fa90125a3c79f90397bdf5f6a13de828684f"`,
		`States.Hash('hello', 'SHA-512')`:                                  `"9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043"`,
		`States.Hash($.one, 'MD5')`:                                        `"c4ca4238a0b923820dcc509a6f75849b"`,

		// ten calls are allowed
		`States.Array(States.Array(),States.Array(),States.Array(),States.Array(),States.Array(),States.Array(),States.Array(),States.Array(),States.Array())`: `[[],[],[],[],[],[],[],[],[]]`,
	} {
		if v, err := evaluate(t, text, s); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := Encode(v); got != want {
			t.Errorf("%s = %s, want %s", text, got, want)
		}
	}
}

func TestIntrinsicsFail(t *testing.T) {
	s := scope(t, intrinsicInput, `{}`)
	for text, detail := range map[string]string{
		`States.ArrayContains($.text, 1)`:               "expected an array but found a string",
		`States.ArrayLength($.obj)`:                     "expected an array but found an object",
		`States.ArrayUnique(null)`:                      "expected an array but found null",
		`States.ArrayGetItem($.arr, 9)`:                 "no item 9 in an array of 9",
		`States.ArrayGetItem($.arr, -1)`:                "no item -1",
		`States.ArrayGetItem($.empty, -1)`:              "no item -1",
		`States.ArrayGetItem($.arr, '1')`:               "expected a number but found a string",
		`States.ArrayGetItem(1, 1)`:                     "expected an array",
		`States.ArrayPartition($.arr, 0)`:               "not positive",
		`States.ArrayPartition($.arr, 0.9)`:             "not positive",
		`States.ArrayPartition($.arr, -2)`:              "not positive",
		`States.ArrayPartition($.arr, null)`:            "expected a number",
		`States.ArrayPartition('x', 1)`:                 "expected an array",
		`States.ArrayRange(1, 10, 0)`:                   "zero",
		`States.ArrayRange(1, 10, 0.49)`:                "zero",
		`States.ArrayRange(1, 1001, 1)`:                 "more than 1000",
		`States.ArrayRange(-2147483648, 2147483647, 1)`: "more than 1000",
		`States.ArrayRange('a', 5, 1)`:                  "expected a number",
		`States.ArrayRange(1, 5, true)`:                 "expected a number but found a boolean",
		`States.Base64Encode(1)`:                        "expected a string but found a number",
		`States.Base64Decode($.arr)`:                    "expected a string but found an array",
		`States.Format($.template, 1)`:                  "has 2 {} but there are 1",
		`States.Format($.one)`:                          "expected a string",
		`States.Hash('x', 'SHA-224')`:                   `"SHA-224" is none of`,
		`States.Hash('x', 'sha-256')`:                   `is none of`,
		`States.Hash('x', 1)`:                           "expected a string",
		`States.Hash($.obj, 'MD5')`:                     "expected a string but found an object",
		`States.JsonMerge($.arr, $.obj, false)`:         "expected an object but found an array",
		`States.JsonMerge($.obj, $.null, false)`:        "expected an object but found null",
		`States.MathAdd('1', 1)`:                        "expected a number but found a string",
		`States.MathAdd(1, false)`:                      "expected a number but found a boolean",
		`States.MathAdd(2147483647, 1)`:                 "no 32-bit integer",
		`States.MathAdd(-2147483648, -1)`:               "no 32-bit integer",
		`States.MathAdd(3000000000, 1)`:                 "3000000000 is no 32-bit integer",
		`States.MathAdd(2147483647.5, -1)`:              "no 32-bit integer",
		`States.MathAdd(1e999, 1)`:                      "no 32-bit integer",
		`States.MathRandom(1, 1)`:                       "no integer from 1 to before 1",
		`States.MathRandom(1.4, 1.6)`:                   "no integer",
		`States.MathRandom(10, 5)`:                      "no integer",
		`States.MathRandom('a', 5)`:                     "expected a number",
		`States.MathRandom(1, null)`:                    "expected a number but found null",
		`States.MathRandom(1, 5, 'seed')`:               "seed",
		`States.MathRandom(1, 5, 2.6)`:                  "seed",
		`States.StringSplit(1, ',')`:                    "expected a string",
		`States.StringSplit('a', null)`:                 "expected a string but found null",
		`States.StringSplit('a', '')`:                   "no delimiter",
		`States.StringToJson('{bad}')`:                  "invalid character",
		`States.StringToJson('1 2')`:                    "goes on",
		`States.StringToJson($.one)`:                    "expected a string",
	} {
		v, err := evaluate(t, text, s)
		var f *Failure
		if !errors.As(err, &f) {
			t.Errorf("%s = %v, %v", text, v, err)
			continue
		}
		name, _, _ := strings.Cut(text, "(")
		want := "The function '" + text + "' had the following error: Invalid arguments in " + name
		if f.Name != ErrorRuntime || f.Reason != want || !strings.Contains(f.Detail, detail) || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %s, %s (%s), want a word about %q", text, f.Name, f.Reason, f.Detail, detail)
		}
	}
}

func TestIntrinsicsLimitText(t *testing.T) {
	for _, text := range []string{`States.Base64Encode($.s)`, `States.Base64Decode($.s)`, `States.Hash($.s, 'MD5')`} {
		if v, err := evaluate(t, text, Scope{Input: map[string]any{"s": strings.Repeat("é", 10_000)}}); err != nil {
			t.Errorf("%s of 10000 characters: %v, %v", text, v, err)
		}
		if v, err := evaluate(t, text, Scope{Input: map[string]any{"s": strings.Repeat("a", 10_001)}}); err == nil {
			t.Errorf("%s took 10001 characters: %v", text, v)
		}
	}
	v, err := evaluate(t, `States.Base64Encode($.s)`, Scope{Input: map[string]any{"s": strings.Repeat("a", 10_000)}})
	if text, _ := v.(string); err != nil || len(text) != 13_336 {
		t.Errorf("10000 letters became %d characters, %v", len(text), err)
	}
}

func TestIntrinsicsAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		`States.Nope()`:                       `no function "States.Nope"`,
		`States.format('x')`:                  `no function "States.format"`,
		`States.Format ('x')`:                 `no function "States.Format "`,
		`Array()`:                             `no function "Array"`,
		`States.UUID`:                         "neither a path",
		`States.UUID(`:                        "an argument is missing",
		`States.UUID()x`:                      `"x" stands behind`,
		`States.UUID() `:                      `stands behind`,
		`States.UUID(1)`:                      "takes 0 arguments, not 1",
		`States.Array(1`:                      "closing parenthesis is missing",
		`States.Array(1,`:                     "an argument is missing",
		`States.Array(1,)`:                    "an argument is missing",
		`States.Array(,1)`:                    "an argument is missing",
		`States.Array(1 2)`:                   `expected ',' or ')' before "2)"`,
		`States.Array('a'b)`:                  "expected ',' or ')'",
		`States.Array('a)`:                    "closing quote",
		`States.Array("a")`:                   "is no argument",
		`States.Array(abc)`:                   "is no argument",
		`States.Array(01)`:                    "is no argument",
		`States.Array(+1)`:                    "is no argument",
		`States.Array(1.)`:                    "is no argument",
		`States.Array(NaN)`:                   "is no argument",
		`States.Array(True)`:                  "is no argument",
		`States.Array(States.Nope())`:         "no function",
		`States.Array(States.UUID)`:           "neither a path",
		`States.Array($.)`:                    "lacks a key",
		`States.Array($.a.length())`:          "",
		`States.Array($.detail-type)`:         `has '-'`,
		`States.Array($.a b)`:                 `has ' '`,
		`States.Array($.a[0)`:                 "lacks a ']'",
		`States.Array($['a)`:                  "closing quote",
		`States.StringToJson('\x')`:           "is no escape",
		`States.StringToJson('\n')`:           "is no escape",
		`States.StringToJson('\"')`:           "is no escape",
		`States.StringToJson('\`:              "is no escape",
		`States.Format()`:                     "takes at least 1 arguments, not 0",
		`States.Format('{}')`:                 "has 1 {} in its template but 0 values",
		`States.Format('{}', 1, 2)`:           "has 1 {} in its template but 2 values",
		`States.Format('\{\}', 1)`:            "has 0 {} in its template but 1 values",
		`States.Format('{"a":{}}', 1)`:        "brace that stands alone",
		`States.Format('{', 1)`:               "brace that stands alone",
		`States.Format('}')`:                  "brace that stands alone",
		`States.Format('{ }', 1)`:             "brace that stands alone",
		`States.JsonMerge($.a, $.b)`:          "takes 3 arguments, not 2",
		`States.JsonMerge($.a, $.b, true)`:    "literal false",
		`States.JsonMerge($.a, $.b, $.c)`:     "literal false",
		`States.JsonMerge($.a, $.b, 'false')`: "literal false",
		`States.JsonMerge($.a, $.b, null)`:    "literal false",
		`States.MathRandom(1)`:                "takes 2 or 3 arguments, not 1",
		`States.MathRandom(1, 2, 3, 4)`:       "takes 2 or 3 arguments, not 4",
		`States.ArrayLength()`:                "takes 1 argument, not 0",
		`States.ArrayRange(1, 2)`:             "takes 3 arguments, not 2",
		`States.Array(` + strings.Repeat(`States.Array(`, 10) + strings.Repeat(`)`, 11): "more than 10 calls",
		strings.Repeat(`States.Array(`, 100_000):                                        "more than 10 calls",
	} {
		e, err := ParseExpression("v.$", text)
		var p Problem
		switch {
		case err == nil:
			t.Errorf("%.80q was taken: %v", text, e)
		case !errors.As(err, &p) || !strings.Contains(p.Detail, why):
			t.Errorf("%.80q: %v, want a word about %q", text, err, why)
		}
	}
}

func TestRandomnessComesFromTheScope(t *testing.T) {
	const seed = 20260131
	draw := func() []string {
		s := Scope{Input: map[string]any{}, Random: rand.NewPCG(seed, 0)}
		var drawn []string
		for range 20 {
			id, err := evaluate(t, `States.UUID()`, s)
			if err != nil {
				t.Fatal(err)
			}
			n, err := evaluate(t, `States.MathRandom(-5, 5)`, s)
			if err != nil {
				t.Fatal(err)
			}
			drawn = append(drawn, id.(string), Encode(n))
		}
		return drawn
	}
	first, second := draw(), draw()
	v4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for i, v := range first {
		if v != second[i] {
			t.Fatalf("seed %d: draw %d was %s, then %s", seed, i, v, second[i])
		}
		switch i % 2 {
		case 0:
			if !v4.MatchString(v) || seen[v] {
				t.Errorf("seed %d: %s is no new version 4 UUID", seed, v)
			}
			seen[v] = true
		case 1:
			if n, ok := Int64(decode(t, v)); !ok || n < -5 || n >= 5 {
				t.Errorf("seed %d: %s is outside -5 to 5", seed, v)
			}
		}
	}
}

func TestSeededRandomIsTheSameEachTime(t *testing.T) {
	values := map[string]bool{}
	for range 10 {
		v, err := evaluate(t, `States.MathRandom(1, 1000000, 42)`, Scope{Input: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		values[Encode(v)] = true
	}
	if len(values) != 1 {
		t.Errorf("one seed gave %v", values)
	}
	a, _ := evaluate(t, `States.UUID()`, Scope{})
	b, _ := evaluate(t, `States.UUID()`, Scope{})
	if a == b {
		t.Errorf("without a source two UUIDs were %v", a)
	}
}

func FuzzParseExpression(f *testing.F) {
	for _, seed := range []string{
		`$`, `States.UUID()`, `States.Format('{} \'\{', $.a, $$['b'][0])`, `States.Array(1, null, States.StringSplit('a,b', ','))`,
		`States.JsonMerge($.a, $.b, false)`, `States.Base64Decode('!Y=')`, `States.Format('\`, `States.ArrayRange(1, 9e9, 0.5)`, `States.Array($[`,
		`States.StringToJson('[1')`, `States.MathRandom(-1e5, 5, 7)`, `States.Hash($.text, 'MD5')`,
	} {
		f.Add(seed)
	}
	s := scope(f, intrinsicInput, store)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpression("v.$", text)
		if err != nil {
			return
		}
		v, err := e.Evaluate(s)
		var failure *Failure
		switch {
		case err == nil:
			Encode(v)
		case !errors.As(err, &failure):
			t.Errorf("%q failed with %T", text, err)
		}
	})
}
