package payload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ParsePath reads a path such as $.a.b, $['a b'][0], $.list[*].x, $..x,
// $.list[?(@.n > 1)] or $$.Execution.Id.
//
// The dialect is that of AWS, which is older than RFC 9535: a key after a dot
// may hold a hyphen and other signs ($.detail-type), $.['a'] means $['a'], a
// filter stands in parentheses, and a filter on an object tests the object
// itself. What Jayway JsonPath and RFC 9535 read differently, or what the
// developer guide says is not supported, is refused: several keys in one
// bracket, a slice with a step or with two ends of which one is negative,
// functions, and a filter that uses $ or a function.
func ParsePath(text string) (Path, error) {
	return parsePath(text, notInKey)
}

// parsePath reads a path in which a key after a dot may not hold the runes of
// the given kind.
func parsePath(text string, forbidden func(rune) bool) (Path, error) {
	p := Path{text: text}
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return Path{}, badPath(text, "does not start with $")
	}
	if after, ok := strings.CutPrefix(rest, "$"); ok {
		p.context, rest = true, after
	}
	for rest != "" {
		st, after, err := parseStep(rest, forbidden)
		if err != nil {
			return Path{}, badPath(text, err.Error())
		}
		p.steps = append(p.steps, st)
		rest = after
	}
	return p, nil
}

// parseStep reads the step at the beginning of text: .name, ..name, [0], …
func parseStep(text string, forbidden func(rune) bool) (st step, rest string, err error) {
	rest = text
	switch {
	case strings.HasPrefix(text, ".."):
		st.deep = true
		rest = text[2:]
	case strings.HasPrefix(text, "."):
		rest = text[1:]
	case !strings.HasPrefix(text, "["):
		return step{}, "", fmt.Errorf("needs a '.' or '[' before %q", text)
	}
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		st.selector, rest, err = parseBracket(inner)
		return st, rest, err
	}
	if after, ok := strings.CutPrefix(rest, "*"); ok {
		st.selector = wildcard{}
		return st, after, nil
	}
	name := rest
	if end := strings.IndexAny(rest, ".["); end >= 0 {
		name = rest[:end]
	}
	if name == "" {
		return step{}, "", errors.New("lacks a key after the dot")
	}
	if i := strings.IndexFunc(name, forbidden); i >= 0 {
		r, _ := utf8.DecodeRuneInString(name[i:])
		return step{}, "", fmt.Errorf("has %q in the key %q: write such a key in brackets and quotes; functions are not supported", r, name)
	}
	st.selector = key(name)
	return st, rest[len(name):], nil
}

// notInShorthand reports the signs that a key after a dot may not hold in the
// argument of an intrinsic function, where the developer guide asks for
// brackets sooner than elsewhere.
func notInShorthand(r rune) bool {
	return r < 0x80 && !isWord(byte(r)) || r == utf8.RuneError
}

// notInKey reports the signs that a key after a dot may not hold.
func notInKey(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError || strings.ContainsRune(`()]*?@,:'"\`, r)
}

// parseBracket reads what follows a '[', and the ']'.
func parseBracket(text string) (sel selector, rest string, err error) {
	text = strings.TrimLeft(text, " ")
	if text == "" {
		return nil, "", errors.New("ends inside a bracket")
	}
	switch text[0] {
	case '\'', '"':
		var name string
		if name, rest, err = parseQuoted(text); err != nil {
			return nil, "", err
		}
		sel = key(name)
		rest = strings.TrimLeft(rest, " ")
		if strings.HasPrefix(rest, ",") {
			return nil, "", errors.New("has several keys in one bracket: AWS and RFC 9535 read that differently")
		}
	case '*':
		sel, rest = wildcard{}, text[1:]
	case '?':
		return parseFilter(text)
	default:
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return nil, "", errors.New("lacks a ']'")
		}
		sel, err = parseIndexes(text[:end])
		rest = text[end:]
	}
	if err != nil {
		return nil, "", err
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), "]")
	if !ok {
		return nil, "", errors.New("lacks a ']'")
	}
	return sel, rest, nil
}

// parseIndexes reads 0, -1, 0,2 or a slice.
func parseIndexes(text string) (selector, error) {
	if from, to, ok := strings.Cut(text, ":"); ok {
		return parseSlice(from, to)
	}
	var list indexes
	for part := range strings.SplitSeq(text, ",") {
		i, err := parseIndex(part)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	if len(list) == 1 {
		return index(list[0]), nil
	}
	return list, nil
}

func parseSlice(from, to string) (selector, error) {
	if strings.Contains(to, ":") {
		return nil, errors.New("has a slice with a step, which AWS and RFC 9535 read differently")
	}
	var s slice
	for _, end := range []struct {
		text string
		set  **int
	}{{from, &s.from}, {to, &s.to}} {
		if strings.TrimSpace(end.text) == "" {
			continue
		}
		i, err := parseIndex(end.text)
		if err != nil {
			return nil, err
		}
		*end.set = &i
	}
	switch {
	case s.from == nil && s.to == nil:
		return nil, errors.New("has a slice without ends: write [*]")
	case s.from != nil && s.to != nil && (*s.from < 0 || *s.to < 0):
		return nil, errors.New("has a slice with two ends of which one is negative, which AWS and RFC 9535 read differently")
	}
	return s, nil
}

func parseIndex(text string) (int, error) {
	text = strings.Trim(text, " ")
	i, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(i) != text {
		return 0, fmt.Errorf("has %q in brackets, which is neither a quoted key nor an index", text)
	}
	return i, nil
}

// parseQuoted reads a string in quotes of either kind at the beginning of text.
func parseQuoted(text string) (value, rest string, err error) {
	quote, text := text[0], text[1:]
	var b strings.Builder
	for text != "" {
		switch {
		case text[0] == quote:
			return b.String(), text[1:], nil
		case text[0] == '\\':
			r, size := unescape(text)
			if size == 0 {
				return "", "", fmt.Errorf("has an unknown escape in a quoted key, at %q", text)
			}
			b.WriteRune(r)
			text = text[size:]
		default:
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return "", "", errors.New("has a quoted key without its closing quote")
}

// unescape reads the escape at the beginning of text. Size 0 means that there
// is no such escape.
func unescape(text string) (r rune, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch c := text[1]; c {
	case '\\', '\'', '"', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		high, ok := hex4(text[2:])
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(high) {
			return high, 6
		}
		if strings.HasPrefix(text[6:], `\u`) {
			if low, ok := hex4(text[8:]); ok && utf16.DecodeRune(high, low) != utf8.RuneError {
				return utf16.DecodeRune(high, low), 12
			}
		}
	}
	return 0, 0
}

func hex4(text string) (rune, bool) {
	if len(text) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:4], 16, 16)
	return rune(n), err == nil
}
