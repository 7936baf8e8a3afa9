package asl

import (
	"regexp"
	"slices"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_.:]+)\}`)

// substitute replaces the placeholders of a definition. A value keeps its meaning inside a JSON string, whatever it
// holds; outside of strings, as for a number, it stands as it is.
func (l *loader) substitute(definition []byte) ([]byte, error) {
	var missing []string
	text := placeholder.ReplaceAllStringFunc(string(definition), func(found string) string {
		name := placeholder.FindStringSubmatch(found)[1]
		value, ok := l.substitutions[name]
		if !ok && l.derive != nil {
			value, ok = l.derive(name), true
		}
		if !ok {
			if !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
			return found
		}
		quoted := payload.Encode(value)
		return quoted[1 : len(quoted)-1]
	})
	if missing != nil {
		return nil, &PlaceholderError{missing}
	}
	return []byte(text), nil
}
