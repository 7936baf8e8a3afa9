package payload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// parseFilter reads ?(…) and the ']' behind it. The expression itself is read
// and evaluated by the RFC 9535 library.
func parseFilter(text string) (selector, string, error) {
	end, err := checkFilter(text)
	if err != nil {
		return nil, "", err
	}
	parsed, err := jsonpath.Parse("$[" + text[:end] + "]")
	if err != nil {
		return nil, "", fmt.Errorf("has a filter that cannot be read: %w", err)
	}
	selectors := parsed.Query().Segments()[0].Selectors()
	f, ok := selectors[0].(*spec.FilterSelector)
	if !ok || len(selectors) != 1 {
		return nil, "", errors.New("has more than a filter in one bracket")
	}
	return filter{f}, text[end+1:], nil
}

// checkFilter finds the ']' that ends the filter, and refuses what RFC 9535
// allows in a filter but the developer guide does not.
func checkFilter(text string) (end int, err error) {
	if !strings.HasPrefix(strings.TrimLeft(text[1:], " "), "(") {
		return 0, errors.New("has a filter without parentheses: write [?(…)]")
	}
	depth := 0
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"':
			_, rest, err := parseQuoted(text[i:])
			if err != nil {
				return 0, err
			}
			i = len(text) - len(rest) - 1
		case '[':
			depth++
		case ']':
			if depth == 0 {
				return i, nil
			}
			depth--
		case '$':
			return 0, errors.New("has a filter that refers to another value by $, which AWS does not support")
		case '(':
			if isWord(text[i-1]) {
				return 0, errors.New("has a function in a filter, which AWS does not support")
			}
		}
	}
	return 0, errors.New("has a filter without its ']'")
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}
