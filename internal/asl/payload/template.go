package payload

import (
	"fmt"
	"strings"
)

// Template is a payload template: Parameters, ItemSelector, ResultSelector, or
// the Parameters of an ItemReader or ResultWriter. The zero Template makes
// null.
type Template struct {
	root part
}

// part makes one value of a template.
type part interface {
	make(Scope) (any, error)
}

type (
	literal struct{ value any }
	object  []member // in the order of keys, so that the first failure is always the same one
	member  struct {
		key  string
		part part
	}
	list []part
)

// ParseTemplate reads a template from its JSON value, which must be an object.
// In it and in all objects and arrays below, a key that ends in ".$" has its
// value evaluated and loses those two characters; everything else is literal,
// including Comment. All problems are reported, in order of their place.
func ParseTemplate(v any) (Template, []Problem) {
	if _, ok := v.(map[string]any); !ok {
		return Template{}, []Problem{{Message: "A payload template must be an object but is " + kind(v)}}
	}
	var p templateParser
	root := p.part(v, "")
	if p.problems != nil {
		return Template{}, p.problems
	}
	return Template{root}, nil
}

// Evaluate builds the value that the template describes.
func (t Template) Evaluate(s Scope) (any, error) {
	if t.root == nil {
		return nil, nil
	}
	return t.root.make(s)
}

type templateParser struct {
	problems []Problem
}

func (p *templateParser) part(v any, within string) part {
	switch v := v.(type) {
	case map[string]any:
		return p.object(v, within)
	case []any:
		parts := make(list, len(v))
		for i, e := range v {
			parts[i] = p.part(e, fmt.Sprintf("%s[%d]", within, i))
		}
		return parts
	}
	return literal{v}
}

func (p *templateParser) object(v map[string]any, within string) object {
	parts := make(object, 0, len(v))
	for _, field := range sortedKeys(v) {
		name, dynamic := strings.CutSuffix(field, ".$")
		if !dynamic {
			parts = append(parts, member{field, p.part(v[field], within+"/"+field)})
			continue
		}
		if _, twice := v[name]; twice {
			p.report(within, Problem{
				Message: "The fields '" + name + "' and '" + field + "' cannot stand together",
				Detail:  "both make the field '" + name + "' of the result",
			})
			continue
		}
		text, ok := v[field].(string)
		if !ok {
			p.report(within, badExpression(field, "it is "+kind(v[field])))
			continue
		}
		e, err := ParseExpression(field, text)
		if err != nil {
			p.report(within, err.(Problem))
			continue
		}
		parts = append(parts, member{name, e})
	}
	return parts
}

func (p *templateParser) report(within string, problem Problem) {
	problem.Within = within
	p.problems = append(p.problems, problem)
}

func (l literal) make(Scope) (any, error) { return l.value, nil }

func (e Expression) make(s Scope) (any, error) { return e.Evaluate(s) }

func (o object) make(s Scope) (any, error) {
	made := make(map[string]any, len(o))
	for _, m := range o {
		v, err := m.part.make(s)
		if err != nil {
			return nil, err
		}
		made[m.key] = v
	}
	return made, nil
}

func (l list) make(s Scope) (any, error) {
	made := make([]any, len(l))
	for i, p := range l {
		v, err := p.make(s)
		if err != nil {
			return nil, err
		}
		made[i] = v
	}
	return made, nil
}
