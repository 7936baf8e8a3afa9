package payload

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/theory/jsonpath/spec"
)

// step goes from a node to some of its children or, when deep is set, to some
// of the children of the node and of everything below it.
type step struct {
	selector selector
	deep     bool
}

// selector chooses children of one node.
type selector interface {
	// pick appends the chosen children of node to found.
	pick(node, root any, found []any) []any
}

type (
	key      string // .name
	index    int    // [0], [-1]
	indexes  []int  // [0,1]
	slice    struct{ from, to *int }
	wildcard struct{} // .* or [*]
	filter   struct{ *spec.FilterSelector }
)

func (s step) definite() bool {
	switch s.selector.(type) {
	case key, index:
		return !s.deep
	}
	return false
}

// apply appends to found what the step reaches from node.
func (s step) apply(node, root any, found []any) []any {
	if !s.deep {
		return s.selector.pick(node, root, found)
	}
	if f, ok := s.selector.(filter); ok {
		// A descent meets every object itself; testing the elements of
		// arrays as well would find those objects twice.
		if f.matches(node, root) {
			found = append(found, node)
		}
	} else {
		found = s.selector.pick(node, root, found)
	}
	for _, child := range children(node) {
		found = s.apply(child, root, found)
	}
	return found
}

// children returns what an array or object holds, in a fixed order.
func children(node any) []any {
	switch node := node.(type) {
	case []any:
		return node
	case map[string]any:
		members := make([]any, 0, len(node))
		for _, k := range sortedKeys(node) {
			members = append(members, node[k])
		}
		return members
	}
	return nil
}

func (k key) pick(node, _ any, found []any) []any {
	if object, ok := node.(map[string]any); ok {
		if v, ok := object[string(k)]; ok {
			found = append(found, v)
		}
	}
	return found
}

func (i index) pick(node, _ any, found []any) []any {
	if array, ok := node.([]any); ok {
		// An index outside its array finds null: $.rows[*][0] was measured.
		v, _ := at(array, int(i))
		found = append(found, v)
	}
	return found
}

func (is indexes) pick(node, root any, found []any) []any {
	for _, i := range is {
		found = index(i).pick(node, root, found)
	}
	return found
}

func (s slice) pick(node, _ any, found []any) []any {
	array, ok := node.([]any)
	if !ok {
		return found
	}
	from, to := 0, len(array)
	if s.from != nil {
		from = fromEnd(*s.from, len(array))
	}
	if s.to != nil {
		to = fromEnd(*s.to, len(array))
	}
	from, to = max(from, 0), min(to, len(array))
	if from < to {
		found = append(found, array[from:to]...)
	}
	return found
}

func (wildcard) pick(node, _ any, found []any) []any {
	return append(found, children(node)...)
}

// pick tests the elements of an array, or an object itself.
func (f filter) pick(node, root any, found []any) []any {
	if array, ok := node.([]any); ok {
		for _, e := range array {
			if f.matches(e, root) {
				found = append(found, e)
			}
		}
		return found
	}
	if f.matches(node, root) {
		found = append(found, node)
	}
	return found
}

// matches applies the filter. The developer guide says that @ does not match
// scalar values, only objects.
func (f filter) matches(node, root any) bool {
	_, ok := node.(map[string]any)
	return ok && f.Eval(node, root)
}

// at returns the element at i, which counts from the end when negative.
func at(array []any, i int) (any, bool) {
	i = fromEnd(i, len(array))
	if i < 0 || i >= len(array) {
		return nil, false
	}
	return array[i], true
}

func fromEnd(i, length int) int {
	if i < 0 {
		return length + i
	}
	return i
}

// miss says why a definite path found nothing.
type miss struct {
	reason string // in the words of Jayway JsonPath
	kind   missKind
}

type missKind int

const (
	noProperty missKind = iota // an object lacks the key, or there is no object
	noArray                    // an index into something that is not an array
	noElement                  // the path ends at an index outside its array
)

// walk follows steps that are all definite. Of the reasons, "No results for
// path" and "Missing property in path" are recorded for keys and the one about
// arrays was measured by others; the rest is what the library does.
func walk(node any, steps []step) (any, *miss) {
	for i, st := range steps {
		switch sel := st.selector.(type) {
		case key:
			object, ok := node.(map[string]any)
			if !ok {
				return nil, &miss{kind: noProperty, reason: fmt.Sprintf(
					"Expected to find an object with property %s in path %s but found %s",
					fragment(st), normalized(steps[:i]), kind(node))}
			}
			if node, ok = object[string(sel)]; !ok {
				reason := "Missing property in path " + normalized(steps[:i+1])
				if i == len(steps)-1 {
					reason = "No results for path: " + normalized(steps)
				}
				return nil, &miss{kind: noProperty, reason: reason}
			}
		case index:
			array, ok := node.([]any)
			if !ok {
				return nil, &miss{kind: noArray, reason: fmt.Sprintf(
					"Filter: %s can only be applied to arrays. Current context is: %s",
					fragment(st), Encode(node))}
			}
			if node, ok = at(array, int(sel)); !ok {
				m := &miss{kind: noElement, reason: "No results for path: " + normalized(steps)}
				if i < len(steps)-1 {
					m.kind = noProperty
				}
				return nil, m
			}
		}
	}
	return node, nil
}

// normalized writes definite steps as $['a'][0].
func normalized(steps []step) string {
	text := "$"
	for _, st := range steps {
		text += fragment(st)
	}
	return text
}

func fragment(s step) string {
	switch sel := s.selector.(type) {
	case key:
		return "['" + string(sel) + "']"
	case index:
		return "[" + strconv.Itoa(int(sel)) + "]"
	}
	return ""
}

// kind names the type of a value in a sentence.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}
