package payload

import (
	"encoding/json"
	"strings"
	"testing"
)

// decode reads a JSON text of a test.
func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := Decode([]byte(text))
	if err != nil {
		t.Fatalf("test data %s: %v", text, err)
	}
	return v
}

func TestDecodeThenEncode(t *testing.T) {
	for text, want := range map[string]string{
		`0`:                                    `0`,
		`0.0`:                                  `0.0`,
		`3.3`:                                  `3.3`,
		`1.10`:                                 `1.10`,
		`1e3`:                                  `1e3`,
		`-0`:                                   `0`,
		`[-0,{"a":-0},-0.0]`:                   `[0,{"a":0},-0.0]`,
		`123456789012345678901234567890`:       `123456789012345678901234567890`,
		` { "b" : [ 1 , "x" ] , "a" : null } `: `{"a":null,"b":[1,"x"]}`,
		`"<>&"`:                                `"<>&"`,
		`"\u003c\/"`:                           `"</"`,
		`"é\u00e9\ud83d\ude80"`:                `"éé🚀"`,
		`"\u2028\u2029"`:                       "\"\u2028\u2029\"",
		`"\"\\\b\f\n\r\t\u0001\u001f"`:         `"\"\\\b\f\n\r\t\u0001\u001F"`,
		`true`:                                 `true`,
		`null`:                                 `null`,
		`[]`:                                   `[]`,
		`{}`:                                   `{}`,
		`{"a":1,"a":2}`:                        `{"a":2}`,
	} {
		if got := Encode(decode(t, text)); got != want {
			t.Errorf("%s came out as %s, want %s", text, got, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:         "empty",
		`  `:       "empty",
		`{} {}`:    "goes on",
		`1 x`:      "goes on",
		`nothing`:  "invalid character",
		`{"a":1`:   "unexpected EOF",
		`01`:       "goes on",
		"\"\xff\"": "UTF-8",
		`{a:1}`:    "invalid character",
		`{"a":1,}`: "invalid character",
		`NaN`:      "invalid character",
		"\"a\nb\"": "invalid character",
		"[1]\x00":  "goes on",
	} {
		v, err := Decode([]byte(text))
		if err == nil {
			t.Errorf("%q was taken as %s", text, Encode(v))
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a word about %q", text, err, want)
		}
	}
}

func TestDecodeUnique(t *testing.T) {
	for text, where := range map[string]string{
		`{"a":1,"b":{"a":2},"c":[{"a":1},{"a":2}]}`: "",
		`7`:                          "",
		`{"a":1,"b":2,"a":3}`:        `"a" stands twice at "/"`,
		`{"States":{"X":{},"X":{}}}`: `"X" stands twice at "/States"`,
		`{"l":[0,[{"k":1,"k":1}]]}`:  `"k" stands twice at "/l[1][0]"`,
		`{"a":1,"\u0061":2}`:         `"a" stands twice at "/"`,
	} {
		v, err := DecodeUnique([]byte(text))
		switch {
		case where == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case where == "" && !Equal(v, decode(t, text)):
			t.Errorf("%s came out as %s", text, Encode(v))
		case where != "" && (err == nil || !strings.Contains(err.Error(), where)):
			t.Errorf("%s: %v, want %s", text, err, where)
		}
	}
	if _, err := DecodeUnique([]byte(`{"a":`)); err == nil {
		t.Error("broken text was taken")
	}
}

func TestEncodePanicsOnWhatIsNoJSON(t *testing.T) {
	for _, v := range []any{1, 1.5, json.Number("x"), json.Number(""), json.Number(" 1"), json.Number("01"), []string{"a"}, map[string]any{"a": []int{1}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%#v was encoded", v)
				}
			}()
			Encode(v)
		}()
	}
}

func TestEqual(t *testing.T) {
	groups := []string{ // values of one line are equal, of different lines not
		`0 0.0 -0.0 0e5`,
		`1 1.0 10e-1 1E0`,
		`1.5 15e-1 1.50`,
		`9007199254740993`,
		`9007199254740992`,
		`123456789012345678901234567890`,
		`null`, `true`, `false`, `""`, `"1"`, `"null"`, `[]`, `{}`, `[1] [1.0]`, `[[1]]`, `[1,2]`, `[2,1]`,
		`{"a":1,"b":[2]} {"b":[2.0],"a":1}`,
		`{"a":1}`,
		`{"a":null}`,
	}
	type member struct {
		group int
		value any
	}
	var all []member
	for g, line := range groups {
		for _, text := range strings.Fields(line) {
			all = append(all, member{g, decode(t, text)})
		}
	}
	for _, a := range all {
		for _, b := range all {
			if got, want := Equal(a.value, b.value), a.group == b.group; got != want {
				t.Errorf("Equal(%s, %s) = %v", Encode(a.value), Encode(b.value), got)
			}
		}
	}
}

func TestInt64(t *testing.T) {
	for text, want := range map[string]int64{`0`: 0, `-7`: -7, `9223372036854775807`: 1<<63 - 1} {
		if got, ok := Int64(decode(t, text)); !ok || got != want {
			t.Errorf("Int64(%s) = %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{`1.0`, `1e2`, `9223372036854775808`, `"1"`, `null`, `true`, `[1]`} {
		if got, ok := Int64(decode(t, text)); ok {
			t.Errorf("Int64(%s) = %d", text, got)
		}
	}
	if Integer(-12) != "-12" {
		t.Errorf("Integer(-12) = %s", Integer(-12))
	}
}
