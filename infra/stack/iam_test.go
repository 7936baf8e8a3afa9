package stack_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// A statement of a policy, with CloudFormation's functions as text.
type statement struct {
	sid, effect        string
	actions, resources []string
	conditions         map[string]any
	principal          any
}

func statementsOf(t *testing.T, document any) []statement {
	t.Helper()
	var all []statement
	list, is := at(document, "Statement").([]any)
	if !is {
		t.Fatalf("no statements in %v", document)
	}
	for _, one := range list {
		s := statement{
			sid: fmt.Sprint(at(one, "Sid")), effect: at(one, "Effect").(string),
			actions: texts(at(one, "Action")), resources: texts(at(one, "Resource")), principal: at(one, "Principal"),
		}
		s.conditions, _ = at(one, "Condition").(map[string]any)
		all = append(all, s)
	}
	return all
}

// texts makes a list of what may be one text or many.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, fmt.Sprint(one))
		}
		return all
	}
	return nil
}

// grants are the statements of every policy that is attached to a role.
func (tpl template) grants(t *testing.T, role string) []statement {
	t.Helper()
	var all []statement
	for _, kind := range []string{"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"} {
		for _, policy := range tpl.ofType(kind) {
			if slices.Contains(texts(at(policy.Properties, "Roles")), "${"+role+"}") {
				all = append(all, statementsOf(t, policy.Properties["PolicyDocument"])...)
			}
		}
	}
	if extra := at(tpl.Resources[role].Properties, "ManagedPolicyArns"); extra != nil {
		t.Errorf("role %s has policies that others write: %v", role, extra)
	}
	return all
}

// roleOf is the logical id of the role of a function or state machine.
func (tpl template) roleOf(t *testing.T, id, property string) string {
	t.Helper()
	arn, _ := at(tpl.Resources[id].Properties, property).(string)
	role, is := strings.CutSuffix(strings.TrimPrefix(arn, "${"), ".Arn}")
	if !is || tpl.Resources[role].Type != "AWS::IAM::Role" {
		t.Fatalf("%s has no role of the stack: %q", id, arn)
	}
	return role
}

// lines shows grants one by one: action, resource and condition.
func lines(statements []statement) []string {
	var all []string
	for _, s := range statements {
		for _, resource := range s.resources {
			line := strings.Join(s.actions, " ") + " on " + resource
			if s.conditions != nil {
				line += fmt.Sprint(" if ", s.conditions)
			}
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}

// A request is what IAM decides on.
type request struct {
	action, resource string
	keys             map[string]string // the condition keys that the request has
}

// permits decides as IAM does: some statement allows it and none denies it.
func permits(statements []statement, r request) bool {
	return decided(statements, r, "Allow") && !decided(statements, r, "Deny")
}

func decided(statements []statement, r request, effect string) bool {
	return slices.ContainsFunc(statements, func(s statement) bool {
		return s.effect == effect && matchesAny(s.actions, r.action) && matchesAny(s.resources, r.resource) && holds(s.conditions, r.keys)
	})
}

func matchesAny(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return like(pattern, text) })
}

// like matches with * over everything, slashes too.
func like(pattern, text string) bool {
	flat := strings.NewReplacer("/", "\x01", "[", "\\[")
	matched, err := path.Match(flat.Replace(pattern), strings.ReplaceAll(text, "/", "\x01"))
	return err == nil && matched
}

// holds evaluates the operators that the stack uses. All must hold.
func holds(conditions map[string]any, keys map[string]string) bool {
	for operator, tests := range conditions {
		for key, wanted := range tests.(map[string]any) {
			value, present := keys[key]
			var fits bool
			switch operator {
			case "StringLike":
				fits = present && matchesAny(texts(wanted), value)
			case "StringLikeIfExists":
				fits = !present || matchesAny(texts(wanted), value)
			case "Null":
				fits = (wanted == "true") == !present
			case "Bool":
				fits = present && value == wanted
			case "NumericLessThan":
				fits = false // the tests speak TLS 1.3
			default:
				panic("no such operator: " + operator)
			}
			if !fits {
				return false
			}
		}
	}
	return true
}
