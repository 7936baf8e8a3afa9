package payload

import (
	"maps"
	"slices"
	"strings"
)

// Reference is a reference path: a path that can name one place only, made of
// $, fixed keys and fixed indexes. The zero Reference is not valid.
type Reference struct {
	path Path
}

// notReference is AWS's sentence for what is no reference path.
func notReference(why string) Problem {
	return Problem{Message: "Value is not a Reference Path: " + why}
}

// ParseReference reads a reference path on the input: ResultPath, SecondsPath
// and the other numeric paths. $$ is refused, as AWS refuses it there. The
// error is a [Problem] with AWS's sentence, "Value is not a Reference Path: …".
func ParseReference(text string) (Reference, error) {
	r, err := ParseVariable(text)
	if err == nil && r.path.context {
		return Reference{}, notReference("it starts with '$$', and this field cannot read the context object")
	}
	return r, err
}

// ParseVariable reads a reference path that may also start with $$: the
// Variable of a Choice rule and the paths it is compared with.
func ParseVariable(text string) (Reference, error) {
	if !strings.HasPrefix(text, "$") {
		return Reference{}, notReference("Reference path didn't start with '$'")
	}
	p, err := ParsePath(text)
	if err != nil {
		return Reference{}, notReference(err.Error())
	}
	for _, st := range p.steps {
		if i, ok := st.selector.(index); !st.definite() || ok && i < 0 {
			return Reference{}, notReference(badPath(text,
				"may hold only fixed keys and indexes: no wildcard, slice, filter, descent or negative index").Error())
		}
	}
	return Reference{p}, nil
}

// String returns the path as it was written.
func (r Reference) String() string { return r.path.text }

// Lookup returns what the reference names, or fails as [Path.Lookup] does.
// Most fields have a sentence of their own for a path that leads to nothing;
// test the error for [ErrNotFound] and write that instead.
func (r Reference) Lookup(s Scope) (any, error) { return r.path.Lookup(s) }

// Insert returns raw with result put at the place that r names, as ResultPath
// does. Objects that are missing on the way are created; $ alone returns
// result. raw itself is not changed. Where r cannot be applied (a key below
// something that is not an object, an index that does not exist) the failure
// is named [ErrorReferencePathConflict].
func (r Reference) Insert(raw, result any) (any, error) {
	v, ok := insert(raw, r.path.steps, result)
	if !ok {
		return nil, &Failure{
			Name:   ErrorReferencePathConflict,
			Reason: "Unable to apply ReferencePath " + r.path.text + " to input " + Encode(raw),
		}
	}
	return v, nil
}

// insert copies only what lies on the way; the rest is shared.
func insert(node any, steps []step, result any) (v any, ok bool) {
	if len(steps) == 0 {
		return result, true
	}
	switch sel := steps[0].selector.(type) {
	case key:
		object, ok := node.(map[string]any)
		if !ok {
			return nil, false
		}
		child, exists := object[string(sel)]
		if !exists {
			child = map[string]any{}
		}
		if child, ok = insert(child, steps[1:], result); !ok {
			return nil, false
		}
		object = maps.Clone(object)
		object[string(sel)] = child
		return object, true
	case index:
		array, ok := node.([]any)
		if !ok || int(sel) >= len(array) {
			return nil, false
		}
		child, ok := insert(array[sel], steps[1:], result)
		if !ok {
			return nil, false
		}
		array = slices.Clone(array)
		array[sel] = child
		return array, true
	}
	return nil, false
}
