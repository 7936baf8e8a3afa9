package process

import (
	"bytes"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// members splits a valid JSON object into the texts of its keys (in quotes) and
// values. (encoding/json would drop a duplicate key, replace half a surrogate
// pair, and forget the order of keys.)
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		rest := bytes.TrimLeft(object[1:], jsonSpace)
		for rest[0] != '}' {
			n := stringLength(rest)
			key := rest[:n]
			rest = bytes.TrimLeft(rest[n:], jsonSpace+":")
			n = valueLength(rest)
			if !yield(key, rest[:n]) {
				return
			}
			rest = bytes.TrimLeft(rest[n:], jsonSpace+",")
		}
	}
}

// stringLength is the length of the JSON string at the start of b, quotes included.
func stringLength(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueLength is the length of the JSON value at the start of b.
func valueLength(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += stringLength(b[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of the object around a number or a word
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
}

// cellOf takes a value's text; whole is false when a string holds half a
// surrogate pair, which no UTF-8 can say.
func cellOf(value []byte) (c cell, whole bool) {
	switch value[0] {
	case 'n':
		return cell{}, true
	case 't', 'f':
		return cell{kind: boolKind, text: value}, true
	case '{', '[':
		var compact bytes.Buffer
		compactJSON(&compact, value)
		return cell{kind: nestedKind, text: compact.Bytes()}, true
	case '"':
		text, whole := unquote(value)
		return cell{kind: stringKind, text: []byte(text)}, whole
	}
	return cell{kind: numberKind, text: value}, true
}

// compactJSON drops the space between tokens and touches no token.
func compactJSON(to *bytes.Buffer, value []byte) {
	for len(value) > 0 {
		n := 1
		switch {
		case value[0] == '"':
			n = stringLength(value)
			to.Write(value[:n])
		case bytes.IndexByte([]byte(jsonSpace), value[0]) < 0:
			to.WriteByte(value[0])
		}
		value = value[n:]
	}
}

// unquote decodes a valid JSON string; whole is false when it holds half a
// surrogate pair.
func unquote(quoted []byte) (text string, whole bool) {
	quoted = quoted[1 : len(quoted)-1]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted), true
	}
	out := make([]byte, 0, len(quoted))
	for len(quoted) > 0 {
		if quoted[0] != '\\' {
			out = append(out, quoted[0])
			quoted = quoted[1:]
			continue
		}
		escape := quoted[1]
		quoted = quoted[2:]
		switch escape {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := codeUnit(quoted)
			quoted = quoted[4:]
			if utf16.IsSurrogate(r) {
				if !bytes.HasPrefix(quoted, []byte(`\u`)) {
					return "", false
				}
				if r = utf16.DecodeRune(r, codeUnit(quoted[2:])); r == utf8.RuneError {
					return "", false
				}
				quoted = quoted[6:]
			}
			out = utf8.AppendRune(out, r)
		default: // " \ /
			out = append(out, escape)
		}
	}
	return string(out), true
}

func codeUnit(hex []byte) rune {
	unit, _ := strconv.ParseUint(string(hex[:4]), 16, 16) // the text is valid JSON
	return rune(unit)
}
