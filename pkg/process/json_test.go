package process

import (
	"fmt"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	tests := []struct {
		name, key, text string
		want            string
		rejected        string
	}{
		{"an array", "a.json", `[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]`,
			lines("a INT64, b STRING", `1, "x"`, `2, "y"`), ""},
		{"an array over lines", "a.JSON", "\n[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  }\n]\n",
			lines("a INT64", "1", "2"), ""},
		{"an object a line", "a.ndjson", "{\"a\":1}\n\n  {\"a\":2}\r\n{\"a\":3}",
			lines("a INT64", "1", "2", "3"), ""},
		{"an object a line, called .json", "a.json", "{\"a\":1}\n{\"a\":2}\n", lines("a INT64", "1", "2"), ""},
		{"byte order mark", "a.jsonl", "\xef\xbb\xbf{\"a\":1}\n", lines("a INT64", "1"), ""},
		{"keys by first appearance, missing ones null", "a.jsonl", lines(`{"b":1,"a":null}`, `{"c":true,"a":"x"}`, `{}`),
			lines("b INT64, a STRING, c BOOLEAN", "1, null, null", `null, "x", true`, "null, null, null"), ""},
		{"integers and decimals by form", "a.jsonl", lines(`{"i":1,"f":1.0,"m":1,"z":-0}`, `{"i":9007199254740993,"f":2,"m":0.5,"z":0}`),
			lines("i INT64, f DOUBLE, m DOUBLE, z DOUBLE", "1, 1, 1, -0", "9007199254740993, 2, 0.5, 0"), ""},
		{"a mix that a double would round", "a.jsonl", lines(`{"a":9007199254740993}`, `{"a":0.5}`),
			lines("a STRING", `"9007199254740993"`, `"0.5"`), ""},
		{"integers over int64", "a.jsonl", lines(`{"a":18446744073709551615}`, `{"a":1}`),
			lines("a STRING", `"18446744073709551615"`, `"1"`), ""},
		{"a number in quotes is a string", "a.jsonl", lines(`{"a":"1","b":"true","c":"2024-01-01","d":""}`),
			lines("a STRING, b STRING, c DATE, d STRING", `"1", "true", 2024-01-01, ""`), ""},
		{"nested values stay JSON", "a.jsonl", `{"a": {"x": [1.0, 10000000000000000000000]}, "b": [ "p q" , "\n" ], "c": null}`,
			lines("a JSON, b JSON, c STRING", `{"x":[1.0,10000000000000000000000]}, ["p q","\n"], null`), ""},
		{"kinds that meet become JSON", "a.jsonl", lines(`{"a":1,"b":true}`, `{"a":"1<","b":1}`, `{"a":{},"b":null}`),
			lines("a JSON, b JSON", `1, true`, `"1<", 1`, `{}, null`), ""},
		{"escapes", "a.jsonl", `{"k\u0065y":"\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00\u0000","":1}`,
			lines(`key STRING, column_2 INT64`, `"\"\\/\b\f\n\r\tü😀\x00", 1`), ""},
		{"elements that are no objects", "a.json", `[{"a":1}, 2, null, {"a":3}]`,
			lines("a INT64", "1", "3"),
			lines(`{"record":2,"line":1,"reason":"it is not a JSON object","raw":"2"}`,
				`{"record":3,"line":1,"reason":"it is not a JSON object","raw":"null"}`)},
		{"bad lines", "a.ndjson", lines(`{"a":1}`, `{"a":`, `[1]`, `{"a":NaN}`, `{"a":2} {"a":3}`, "{\"a\":\"\xff\"}", `{"a":4}`),
			lines("a INT64", "1", "4"),
			lines(`{"record":2,"line":2,"reason":"it is not valid JSON: unexpected end of JSON input","raw":"{\"a\":"}`,
				`{"record":3,"line":3,"reason":"it is not a JSON object","raw":"[1]"}`,
				`{"record":4,"line":4,"reason":"it is not valid JSON: invalid character 'N' looking for beginning of value","raw":"{\"a\":NaN}"}`,
				`{"record":5,"line":5,"reason":"it is not valid JSON: invalid character '{' after top-level value","raw":"{\"a\":2} {\"a\":3}"}`,
				`{"record":6,"line":6,"reason":"it is not valid UTF-8","rawBase64":"eyJhIjoi/yJ9"}`)},
		{"duplicate keys, however written", "a.jsonl", lines(`{"a":1,"new":1,"\u0061":2}`, `{"a":3,"b":{"x":1,"x":2}}`),
			lines("a INT64, b JSON", `3, {"x":1,"x":2}`),
			lines(`{"record":1,"line":1,"reason":"the key \"\\u0061\" is there twice","raw":"{\"a\":1,\"new\":1,\"\\u0061\":2}"}`)},
		{"half a surrogate pair", "a.jsonl", lines(`{"a":"\ud83d"}`, `{"\udc00":1}`, `{"a":"\ud83dx"}`, `{"a":["\ud83d"]}`),
			lines("a JSON", `["\ud83d"]`),
			lines(`{"record":1,"line":1,"reason":"the value of \"a\" holds half a surrogate pair","raw":"{\"a\":\"\\ud83d\"}"}`,
				`{"record":2,"line":2,"reason":"a key holds half a surrogate pair: \"\\udc00\"","raw":"{\"\\udc00\":1}"}`,
				`{"record":3,"line":3,"reason":"the value of \"a\" holds half a surrogate pair","raw":"{\"a\":\"\\ud83dx\"}"}`)},
		{"rejected elements know their line", "a.json", "[\n{\"a\":1},\n\n7,\n{\"a\":\n2}, 8]",
			lines("a INT64", "1", "2"),
			lines(`{"record":2,"line":4,"reason":"it is not a JSON object","raw":"7"}`,
				`{"record":4,"line":6,"reason":"it is not a JSON object","raw":"8"}`)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			outcome, out, err := run(t, test.key, test.text, Config{})
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, out.content[OutputName]); got != test.want {
				t.Errorf("output\n%swant\n%s", got, test.want)
			}
			if got := string(out.content[RejectedName]); got != test.rejected {
				t.Errorf("rejected\n%swant\n%s", got, test.rejected)
			}
			rows, rejected := strings.Count(test.want, "\n")-1, strings.Count(test.rejected, "\n")
			if outcome.Rows != int64(rows) || outcome.Rejected != int64(rejected) {
				t.Errorf("outcome %+v, want %d rows and %d rejected", outcome, rows, rejected)
			}
		})
	}
}

func TestJSONThatFailsWhole(t *testing.T) {
	tests := []struct{ name, key, text, says string }{
		{"CSV", "a.json", "a,b\n1,2\n", "it begins with 'a'"},
		{"a lone number", "a.json", "7", "it begins with '7'"},
		{"an array, called .ndjson", "a.ndjson", "[{\"a\":1},\n{\"a\":2}\n]", "name it .json"},
		{"CSV, called .ndjson", "a.ndjson", "a,b\n1,2\n", "not one of its 2 records is good; the first, on line 1"},
		{"one object over lines", "a.json", "{\n\"a\":\n{}\n}", "line 1 is not a whole JSON object"},
		{"an object around the array", "a.json", "{\"data\":[\n{\"id\":1},\n{\"id\":2}\n]}", "line 1 is not a whole JSON object"},
		{"cut behind the bracket", "a.json", "[", "ends in the middle (line 1, element 1)"},
		{"cut in an element", "a.json", "[{\"a\":1},\n{\"a\":", "ends in the middle (line 2, element 2)"},
		{"cut in a string", "a.json", `[{"a":"x]`, "ends in the middle"},
		{"cut behind an element", "a.json", `[{"a":1}`, "ends in the middle"},
		{"cut behind a comma", "a.json", `[{"a":1},`, "ends in the middle (line 1, element 2)"},
		{"a comma too many", "a.json", `[{"a":1},]`, "element 2 of the JSON array"},
		{"a comma too few", "a.json", `[{"a":1}{"a":2}]`, "element 1 of the JSON array"},
		{"a wrong bracket", "a.json", `[{"a":1]]`, "element 1 of the JSON array"},
		{"no JSON number", "a.json", `[{"a":NaN}]`, "element 1 of the JSON array"},
		{"text behind the array", "a.json", `[{"a":1}] x`, "but 'x' follows"},
		{"a second array", "a.json", "[{\"a\":1}]\n[{\"a\":2}]", "line 2: the JSON array has ended, but '[' follows"},
		{"no object at all", "a.json", `[1,2]`, "not one of its 2 records is good"},
		{"no key at all", "a.json", `[{},{}]`, "none of its 2 objects has a key"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := run(t, test.key, test.text, Config{})
			wantError(t, err, ErrMalformed, test.says)
		})
	}
}

func TestDataUsedAsKeysIsRefused(t *testing.T) {
	var text strings.Builder
	for i := range maxColumns/1000 + 1 {
		text.WriteString("{")
		for j := range 1000 {
			fmt.Fprintf(&text, "\"user-%d\":1,", i*1000+j)
		}
		text.WriteString("\"all\":0}\n")
	}
	_, _, err := run(t, "a.ndjson", text.String(), Config{})
	wantError(t, err, ErrUnsupported, "more than 10000 columns")
}
