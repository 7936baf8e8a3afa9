package payload

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// checkFormat judges a template that is written in the call: its holes are
// counted, and a brace that stands alone needs its backslash.
func checkFormat(args []argument) error {
	template, ok := args[0].(quoted)
	if !ok {
		return nil
	}
	if template.bare {
		return errors.New(`has a brace that stands alone in its template: write \{ or \}`)
	}
	holes := 0
	for _, p := range template.pieces {
		if p.hole {
			holes++
		}
	}
	if holes != len(args)-1 {
		return fmt.Errorf("has %d {} in its template but %d values for them", holes, len(args)-1)
	}
	return nil
}

// format fills the {} of the first argument with the others. In a template
// that comes from the data a backslash has no meaning (not recorded).
func format(_ Scope, c *call, args []any) (any, error) {
	template, err := asString(args[0])
	if err != nil {
		return nil, err
	}
	var pieces []string
	if q, ok := c.args[0].(quoted); ok {
		for _, p := range q.pieces {
			if !p.hole {
				pieces = append(pieces, p.text)
			}
		}
	} else {
		pieces = strings.Split(template, "{}")
	}
	if len(pieces) != len(args) {
		return nil, fmt.Errorf("the template has %d {} but there are %d values", len(pieces)-1, len(args)-1)
	}
	var b strings.Builder
	b.WriteString(pieces[0])
	for i, v := range args[1:] {
		writeJava(&b, v)
		b.WriteString(pieces[i+1])
	}
	return b.String(), nil
}

// writeJava writes a value as Java's toString does: strings without quotes,
// objects as {Id=1, Name=x}, arrays as [1, 2]. Objects are recorded, arrays are
// not. The order of members is not promised on AWS; here it is that of keys.
func writeJava(b *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		b.WriteString(v)
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeJava(b, e)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, k := range sortedKeys(v) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(k)
			b.WriteByte('=')
			writeJava(b, v[k])
		}
		b.WriteByte('}')
	default:
		b.WriteString(Encode(v))
	}
}

// stringToJSON reads JSON text; blank text is null (recorded for "" and " ").
func stringToJSON(_ Scope, _ *call, args []any) (any, error) {
	text, err := asString(args[0])
	if err != nil {
		return nil, err
	}
	if strings.Trim(text, blanks) == "" {
		return nil, nil
	}
	return Decode([]byte(text))
}

func jsonToString(_ Scope, _ *call, args []any) (any, error) {
	return Encode(args[0]), nil
}

// checkJSONMerge asks for the literal false: deep merging does not exist.
func checkJSONMerge(args []argument) error {
	if args[2] != (scalar{false}) {
		return errors.New("needs the literal false as its third argument: there is no deep merge")
	}
	return nil
}

func jsonMerge(_ Scope, _ *call, args []any) (any, error) {
	a, err := asObject(args[0])
	if err != nil {
		return nil, err
	}
	b, err := asObject(args[1])
	if err != nil {
		return nil, err
	}
	merged := maps.Clone(a)
	maps.Copy(merged, b)
	return merged, nil
}

// stringSplit cuts at every character of the second argument and drops empty
// parts (measured). What an empty second argument does is not known.
func stringSplit(_ Scope, _ *call, args []any) (any, error) {
	text, err := asString(args[0])
	if err != nil {
		return nil, err
	}
	delimiters, err := asString(args[1])
	if err != nil {
		return nil, err
	}
	if delimiters == "" {
		return nil, errors.New("there is no delimiter")
	}
	parts := []any{}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(delimiters, r) }) {
		parts = append(parts, part)
	}
	return parts, nil
}

// base64Encode writes one line, however long (measured).
func base64Encode(_ Scope, _ *call, args []any) (any, error) {
	text, err := asLimitedString(args[0])
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.EncodeToString([]byte(text)), nil
}

// base64Decode forgives as MIME decoders do: it skips what is not in the
// alphabet and needs no padding (measured). Nothing is read behind a padding
// sign, and bytes that are not UTF-8 become U+FFFD; neither was recorded.
func base64Decode(_ Scope, _ *call, args []any) (any, error) {
	text, err := asLimitedString(args[0])
	if err != nil {
		return nil, err
	}
	text, _, _ = strings.Cut(text, "=")
	text = strings.Map(func(r rune) rune {
		if r < 0x80 && (isWord(byte(r)) && r != '_' || r == '+' || r == '/') {
			return r
		}
		return -1
	}, text)
	if len(text)%4 == 1 {
		text = text[:len(text)-1] // six bits make no byte
	}
	decoded, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return string([]rune(string(decoded))), nil
}

// hash takes a string or the text of a number or boolean (numbers measured).
// What AWS makes of other values before hashing is not known.
func hash(_ Scope, _ *call, args []any) (any, error) {
	data := args[0]
	switch data.(type) {
	case json.Number, bool:
		data = Encode(data)
	}
	text, err := asLimitedString(data)
	if err != nil {
		return nil, err
	}
	algorithm, err := asString(args[1])
	if err != nil {
		return nil, err
	}
	switch algorithm {
	case "MD5":
		sum := md5.Sum([]byte(text))
		return hex.EncodeToString(sum[:]), nil
	case "SHA-1":
		sum := sha1.Sum([]byte(text))
		return hex.EncodeToString(sum[:]), nil
	case "SHA-256":
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:]), nil
	case "SHA-384":
		sum := sha512.Sum384([]byte(text))
		return hex.EncodeToString(sum[:]), nil
	case "SHA-512":
		sum := sha512.Sum512([]byte(text))
		return hex.EncodeToString(sum[:]), nil
	}
	return nil, fmt.Errorf("%q is none of MD5, SHA-1, SHA-256, SHA-384, SHA-512", algorithm)
}
