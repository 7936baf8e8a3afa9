package payload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decode reads exactly one JSON text.
//
// Numbers keep their digits; only the integer -0 becomes 0, as it does on AWS.
// When an object has a key twice the last one counts. Text that is not UTF-8,
// or that goes on after the value, is an error.
func Decode(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("decode JSON: the text is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the text is empty")
		}
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decode JSON: the text goes on after the value, at byte %d", d.InputOffset())
	}
	return withoutNegativeZero(v), nil
}

// withoutNegativeZero replaces the integer -0 by 0 everywhere in v, a value
// that nobody else has seen yet.
func withoutNegativeZero(v any) any {
	switch v := v.(type) {
	case json.Number:
		if v == "-0" {
			return json.Number("0")
		}
	case []any:
		for i, e := range v {
			v[i] = withoutNegativeZero(e)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = withoutNegativeZero(e)
		}
	}
	return v
}

// DecodeUnique is Decode for text that a person wrote: it also refuses an
// object that has a key twice, and says where.
func DecodeUnique(text []byte) (any, error) {
	v, err := Decode(text)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := checkUnique(d, ""); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return v, nil
}

// checkUnique consumes one value, known to be well formed, that stands at the
// given place.
func checkUnique(d *json.Decoder, place string) error {
	open, err := d.Token()
	if err != nil {
		return err
	}
	switch open {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			if seen[key] {
				return fmt.Errorf("the key %q stands twice at %q", key, cmp.Or(place, "/"))
			}
			seen[key] = true
			if err := checkUnique(d, place+"/"+key); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := checkUnique(d, fmt.Sprintf("%s[%d]", place, i)); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// Encode writes v as compact JSON: no spaces, keys in sorted order, nothing
// escaped that JSON does not require to be. It panics if v holds a Go value
// that is not a JSON value of this package: that is a fault in the program.
func Encode(v any) string {
	w := encoder{number: json.Number.String}
	w.value(v)
	return w.String()
}

type encoder struct {
	strings.Builder
	number func(json.Number) string
}

func (w *encoder) value(v any) {
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case json.Number:
		if !isNumber(string(v)) {
			panic(fmt.Sprintf("payload: %q is not a JSON number", string(v)))
		}
		w.WriteString(w.number(v))
	case string:
		w.text(v)
	case []any:
		w.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			w.value(e)
		}
		w.WriteByte(']')
	case map[string]any:
		w.WriteByte('{')
		for i, k := range sortedKeys(v) {
			if i > 0 {
				w.WriteByte(',')
			}
			w.text(k)
			w.WriteByte(':')
			w.value(v[k])
		}
		w.WriteByte('}')
	default:
		panic(fmt.Sprintf("payload: a %T is not a JSON value", v))
	}
}

// text exists because encoding/json escapes U+2028 and U+2029, which would
// change the text that States.JsonToString hands on.
func (w *encoder) text(s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			w.WriteByte('\\')
			w.WriteRune(r)
		case '\b':
			w.WriteString(`\b`)
		case '\f':
			w.WriteString(`\f`)
		case '\n':
			w.WriteString(`\n`)
		case '\r':
			w.WriteString(`\r`)
		case '\t':
			w.WriteString(`\t`)
		default:
			if r < ' ' {
				fmt.Fprintf(w, `\u%04X`, r)
			} else {
				w.WriteRune(r)
			}
		}
	}
	w.WriteByte('"')
}

// sortedKeys fixes the order in which the members of an object are visited.
func sortedKeys(object map[string]any) []string {
	return slices.Sorted(maps.Keys(object))
}

// Equal reports whether a and b are the same JSON value. Numbers are compared
// by value, so that 1 equals 1.0; the order of keys does not matter.
func Equal(a, b any) bool { return canonical(a) == canonical(b) }

// canonical returns a text that two values share exactly when they are equal.
func canonical(v any) string {
	w := encoder{number: canonicalNumber}
	w.value(v)
	return w.String()
}

// canonicalNumber writes equal numbers alike: an integer as it stands, and any
// other number as an integer if it is whole.
func canonicalNumber(n json.Number) string {
	if !strings.ContainsAny(string(n), ".eE") {
		return string(n)
	}
	f := float(n)
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}

// compareNumbers orders by value: integers exactly, all others as the binary64
// that the states language promises to compare.
func compareNumbers(a, b json.Number) int {
	x, xWhole := new(big.Int).SetString(string(a), 10)
	y, yWhole := new(big.Int).SetString(string(b), 10)
	if xWhole && yWhole {
		return x.Cmp(y)
	}
	f, g := float(a), float(b)
	switch {
	case f < g:
		return -1
	case f > g:
		return 1
	}
	return 0
}

// float returns the binary64 nearest to n; beyond its range, an infinity.
func float(n json.Number) float64 {
	f, _ := strconv.ParseFloat(string(n), 64)
	return f
}

// Integer returns n as a JSON number.
func Integer(n int64) json.Number {
	return json.Number(strconv.FormatInt(n, 10))
}

// Int64 returns the integer that v is. It is false for a number with a
// fraction or an exponent (1.0 is none), one beyond 64 bits, and anything that
// is not a number.
func Int64(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

// isNumber reports whether text is a JSON number and nothing else.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	return json.Valid([]byte(text)) && !strings.ContainsAny(text, " \t\r\n")
}
