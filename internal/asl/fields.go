package asl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// fields reads the members of one object of a definition. What nobody has asked for when it is closed is refused.
type fields struct {
	*loader
	n     *node
	asked map[string]bool
}

func (l *loader) open(n *node) *fields {
	f := &fields{loader: l, n: n, asked: map[string]bool{}}
	if n.kind != isObject {
		l.expected(n, string(isObject))
	}
	return f
}

func (l *loader) expected(n *node, what string) {
	l.schema(n.location(), "Expected value of type %s", what)
}

// get returns a field, nil if it is absent.
func (f *fields) get(name string) *node {
	f.asked[name] = true
	for _, m := range f.n.members {
		if m.key == name {
			return m.value
		}
	}
	return nil
}

// typed returns a field if it is there and of the given kind.
func (f *fields) typed(name string, want kind) *node {
	n := f.get(name)
	if n != nil && n.kind != want {
		f.expected(n, string(want))
		return nil
	}
	return n
}

// close refuses all fields that were not asked for: those that AWS has but this interpreter does not execute by saying
// so, all others as AWS does.
func (f *fields) close(notExecuted ...string) {
	for _, m := range f.n.members {
		if f.asked[m.key] {
			continue
		}
		switch {
		case slices.Contains(notExecuted, m.key):
			f.notExecuted(f.n.location(), "Field '%s' is not executed by this interpreter", m.key)
		case slices.Contains(jsonataFields, m.key):
			f.schema(f.n.location(), "The QueryLanguage is set to 'JSONPath', but field '%s' is only supported for the 'JSONata' QueryLanguage", m.key)
		default:
			f.unsupported(f.n.location(), m.key)
		}
	}
}

var jsonataFields = []string{"Arguments", "Output", "Items", "Condition"}

// comment accepts Comment, which has no effect.
func (f *fields) comment() { f.typed("Comment", isString) }

// required reports those of the fields that are absent, and whether none is.
func (f *fields) required(names ...string) bool {
	var absent []string
	for _, name := range names {
		if f.get(name) == nil {
			absent = append(absent, name)
		}
	}
	if absent != nil {
		f.loader.required(f.n.location(), absent...)
	}
	return absent == nil
}

// exclusive reports fields that must not stand together.
func (f *fields) exclusive(names ...string) {
	present := 0
	for _, name := range names {
		if f.get(name) != nil {
			present++
		}
	}
	if present > 1 {
		f.oneOf(f.n.location(), names...)
	}
}

func (f *fields) text(name string) *string {
	n := f.typed(name, isString)
	if n == nil {
		return nil
	}
	s := n.scalar.(string)
	return &s
}

// integer reads a whole number between two bounds.
func (f *fields) integer(name string, least, most int64) *int64 {
	n := f.get(name)
	if n == nil {
		return nil
	}
	v, ok := payload.Int64(n.scalar)
	switch {
	case !ok:
		f.expected(n, "Integer")
	case v < least:
		f.schema(n.location(), "Minimum value is %d", least)
	case v > most:
		f.schema(n.location(), "Maximum value is %d", most)
	default:
		return &v
	}
	return nil
}

// number reads a number, which may have a fraction, between two bounds.
func (f *fields) number(name string, least, most float64) *float64 {
	n := f.get(name)
	if n == nil {
		return nil
	}
	number, ok := n.scalar.(interface{ Float64() (float64, error) })
	if !ok {
		f.expected(n, "Float")
		return nil
	}
	v, err := number.Float64()
	switch {
	case err != nil:
		f.expected(n, "Float")
	case v < least:
		f.schema(n.location(), "Minimum value is %s", floatText(least))
	case v > most:
		f.schema(n.location(), "Maximum value is %s", floatText(most))
	default:
		return &v
	}
	return nil
}

// choice reads a text that is one of a few.
func (f *fields) choice(name string, values ...string) string {
	s := f.text(name)
	if s == nil {
		return ""
	}
	if !slices.Contains(values, *s) {
		f.schema(f.get(name).location(), "The field '%s' should have one of these values: [%s]", name, strings.Join(values, ", "))
	}
	return *s
}

// seconds reads a time-out or a literal wait.
func (f *fields) seconds(name string, least int64) *int64 {
	return f.integer(name, least, int64(longestWait/time.Second))
}

// path reads an InputPath, OutputPath or ItemsPath; null is allowed where it has a meaning.
func (f *fields) path(name string, nullable bool) optionalPath {
	n := f.get(name)
	switch {
	case n == nil:
		return optionalPath{}
	case n.kind == isNull && nullable:
		return optionalPath{none: true}
	case n.kind != isString:
		f.expected(n, string(isString))
		return optionalPath{}
	}
	p, err := payload.ParsePath(n.scalar.(string))
	if err != nil {
		f.add(Diagnostic{Code: CodeSchema, Location: n.location(), Message: fmt.Sprintf("Invalid path '%s'", n.scalar), Detail: err.Error()})
		return optionalPath{}
	}
	return optionalPath{path: &p}
}

// reference reads a reference path on the input.
func (f *fields) reference(name string) *payload.Reference {
	return f.parsedReference(name, payload.ParseReference)
}

func (f *fields) parsedReference(name string, parse func(string) (payload.Reference, error)) *payload.Reference {
	n := f.typed(name, isString)
	if n == nil {
		return nil
	}
	r, err := parse(n.scalar.(string))
	if err != nil {
		f.schema(n.location(), "%v", err)
		return nil
	}
	return &r
}

func (f *fields) resultPathField() resultPath {
	if n := f.get("ResultPath"); n != nil && n.kind == isNull {
		return resultPath{discard: true}
	}
	return resultPath{reference: f.reference("ResultPath")}
}

// template reads a payload template.
func (f *fields) template(name string) *payload.Template {
	n := f.typed(name, isObject)
	if n == nil {
		return nil
	}
	t, problems := payload.ParseTemplate(n.value())
	for _, p := range problems {
		f.add(Diagnostic{Code: CodeSchema, Location: n.location() + p.Within, Message: p.Message, Detail: p.Detail})
	}
	if problems != nil {
		return nil
	}
	return &t
}

// expression reads ErrorPath or CausePath.
func (f *fields) expression(name string) *payload.Expression {
	n := f.typed(name, isString)
	if n == nil {
		return nil
	}
	e, err := payload.ParseExpression(name, n.scalar.(string))
	if err != nil {
		p := err.(payload.Problem)
		f.add(Diagnostic{Code: CodeSchema, Location: n.location(), Message: p.Message, Detail: p.Detail})
		return nil
	}
	return &e
}

// count reads a whole number given by a literal or by a reference path.
func (f *fields) count(name string, most int64) (count, bool) {
	f.exclusive(name, name+"Path")
	n := count{field: name + "Path", path: f.reference(name + "Path")}
	literal := f.integer(name, 0, most)
	if literal != nil {
		n.literal = *literal
	}
	return n, literal != nil || n.path != nil
}
