package asl

import (
	"errors"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// choiceWork is a Choice state: the first rule that matches names the next state.
type choiceWork struct {
	rules    []choiceRule
	fallback string // Default; "" is none
}

type choiceRule struct {
	condition condition
	next      string
}

func (w choiceWork) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	next, err := w.choose(c, c.see(effective))
	if err != nil {
		return nil, "", err
	}
	output, err := c.state.outputPath.lookup(c.see(effective))
	return output, next, err
}

func (w choiceWork) choose(c *chain, see payload.Scope) (string, error) {
	for _, rule := range w.rules {
		holds, err := rule.condition.holds(see)
		var missing *missingVariable
		if errors.As(err, &missing) {
			return "", c.runtime("Invalid path '%s': The choice state's condition path references an invalid value.", missing.path)
		}
		if err != nil {
			return "", err
		}
		if holds {
			return rule.next, nil
		}
	}
	if w.fallback == "" {
		return "", c.runtime("Failed to transition out of the state. The state does not point to a next state.")
	}
	return w.fallback, nil
}

// A condition is a comparison, or a combination of conditions.
type condition interface {
	holds(see payload.Scope) (bool, error)
}

// missingVariable says that a comparison reads a value which is not there.
type missingVariable struct{ path payload.Reference }

func (m *missingVariable) Error() string { return "no value at " + m.path.String() }

type (
	// every is And: it stops at the first condition that does not hold.
	every []condition
	// anyOf is Or: it stops at the first condition that holds.
	anyOf []condition
	not   struct{ condition }
	// comparison compares a variable with a literal, or with what another path finds.
	comparison struct {
		variable payload.Reference
		operator payload.Operator
		operand  any
		path     *payload.Reference
	}
)

func (e every) holds(see payload.Scope) (bool, error) {
	for _, condition := range e {
		if holds, err := condition.holds(see); err != nil || !holds {
			return false, err
		}
	}
	return true, nil
}

func (a anyOf) holds(see payload.Scope) (bool, error) {
	for _, condition := range a {
		if holds, err := condition.holds(see); err != nil || holds {
			return holds, err
		}
	}
	return false, nil
}

func (n not) holds(see payload.Scope) (bool, error) {
	holds, err := n.condition.holds(see)
	return !holds, err
}

func (c comparison) holds(see payload.Scope) (bool, error) {
	value, err := c.variable.Lookup(see)
	if c.operator.IsPresence() {
		return (err == nil) == (c.operand == true), nil
	}
	if err != nil {
		return false, &missingVariable{c.variable}
	}
	operand := c.operand
	if c.path != nil {
		if operand, err = c.path.Lookup(see); err != nil {
			return false, &missingVariable{*c.path}
		}
	}
	return c.operator.Compare(value, operand), nil
}
