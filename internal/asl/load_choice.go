package asl

import (
	"strings"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

func (s stateLoader) choices() []string {
	s.inputAndOutput()
	var w choiceWork
	if next := s.text("Default"); next != nil {
		w.fallback = *next
		s.graph.edge(s.to.name, *next, s.get("Default").location())
	}
	s.required("Choices")
	if list := s.typed("Choices", isArray); list != nil {
		if len(list.items) == 0 {
			s.schema(list.location(), "There must be at least one choice rule")
		}
		for _, n := range list.items {
			f := s.open(n)
			rule := choiceRule{condition: f.condition(true)}
			if f.required("Next") {
				if next := f.text("Next"); next != nil {
					rule.next = *next
					s.graph.edge(s.to.name, *next, f.get("Next").location())
				}
			} else {
				s.graph.vague = true
			}
			f.close("Assign")
			w.rules = append(w.rules, rule)
		}
	} else {
		s.graph.vague = true
	}
	s.to.work = w
	return []string{"Assign"}
}

// condition reads a rule, or what stands in And, Or or Not; the caller reads Next, which only a rule has, and closes.
func (f *fields) condition(rule bool) condition {
	f.comment()
	var found []string
	var made condition
	for _, m := range f.n.members {
		switch m.key {
		case "And", "Or":
			found = append(found, m.key)
			list := f.typed(m.key, isArray)
			if list == nil {
				continue
			}
			if len(list.items) == 0 {
				f.schema(list.location(), "There must be at least one condition")
			}
			var inner []condition
			for _, n := range list.items {
				inner = append(inner, f.inner(n))
			}
			if made = every(inner); m.key == "Or" {
				made = anyOf(inner)
			}
		case "Not":
			found = append(found, m.key)
			if n := f.typed("Not", isObject); n != nil {
				made = not{f.inner(n)}
			}
		default:
			operator, byPath, ok := comparisonName(m.key)
			if !ok {
				continue
			}
			found = append(found, m.key)
			made = f.comparison(m, operator, byPath)
		}
	}
	switch len(found) {
	case 0:
		f.schema(f.n.location(), "A choice rule needs a comparison, 'And', 'Or' or 'Not'")
	case 1:
	default:
		f.oneOf(f.n.location(), found...)
	}
	return made
}

func (f *fields) inner(n *node) condition {
	in := f.open(n)
	c := in.condition(false)
	in.close()
	return c
}

// comparisonName takes the name of a comparison apart: its operator, and whether it compares with a path.
func comparisonName(name string) (operator payload.Operator, byPath, ok bool) {
	if operator, ok = payload.ParseOperator(name); ok {
		return operator, false, true
	}
	base, cut := strings.CutSuffix(name, "Path")
	operator, ok = payload.ParseOperator(base)
	return operator, true, cut && ok && operator.HasPathForm()
}

func (f *fields) comparison(m member, operator payload.Operator, byPath bool) condition {
	c := comparison{operator: operator}
	f.asked[m.key] = true
	if byPath {
		c.path = f.parsedReference(m.key, payload.ParseVariable)
	} else {
		c.operand = m.value.value()
		if err := operator.CheckOperand(c.operand); err != nil {
			f.schema(m.value.location(), "%v", err)
		}
	}
	if !f.required("Variable") {
		return nil
	}
	if variable := f.parsedReference("Variable", payload.ParseVariable); variable != nil {
		c.variable = *variable
	}
	return c
}
