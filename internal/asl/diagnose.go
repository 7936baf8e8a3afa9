package asl

import (
	"fmt"
	"strings"
)

// severityError is that of every diagnostic: AWS also has warnings, this package has none.
const severityError = "ERROR"

// Codes of diagnostics. All but the last are those of ValidateStateMachineDefinition.
const (
	CodeJSON        = "INVALID_JSON_DESCRIPTION"
	CodeSchema      = "SCHEMA_VALIDATION_FAILED"
	CodeTarget      = "MISSING_TRANSITION_TARGET"
	CodeEnd         = "MISSING_END_STATE"
	CodeDuplicate   = "DUPLICATE_STATE_NAME"
	CodeStateName   = "INVALID_STATE_NAME"
	CodeLabel       = "INVALID_LABEL_NAME"
	CodeSameLabel   = "DUPLICATE_LABEL_NAME"
	CodeNotExecuted = "NOT_EXECUTED" // AWS would accept it, this interpreter does not execute it
)

// A Diagnostic is one reason to refuse a definition, in the form of ValidateStateMachineDefinition.
type Diagnostic struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Location string `json:"location,omitempty"` // such as /States/X/Choices[0]/Next
	Detail   string `json:"-"`                  // what to do about it, where the message does not say
}

func (d Diagnostic) String() string {
	text := d.Code + ": " + d.Message
	if d.Location != "" {
		text += " at " + d.Location
	} else if d.Code == CodeEnd {
		text += " at null" // as AWS writes it
	}
	return text
}

// A DefinitionError holds all the reasons for which a definition is refused.
type DefinitionError struct {
	Diagnostics []Diagnostic
}

// Error is the message of CreateStateMachine's InvalidDefinition.
func (e *DefinitionError) Error() string {
	texts := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		texts[i] = d.String()
	}
	return "Invalid State Machine Definition: '" + strings.Join(texts, ", ") + "'"
}

// A PlaceholderError lists the ${…} placeholders of a definition that no substitution was given for.
type PlaceholderError struct {
	Names []string
}

func (e *PlaceholderError) Error() string {
	return fmt.Sprintf("no substitution for ${%s}: give each a value", strings.Join(e.Names, "}, ${"))
}

// Validation is the answer of ValidateStateMachineDefinition.
type Validation struct {
	Result      string       `json:"result"` // OK or FAIL
	Diagnostics []Diagnostic `json:"diagnostics"`
	Truncated   bool         `json:"truncated"`
}

// diagnoses collects diagnostics.
type diagnoses []Diagnostic

func (d *diagnoses) report(code, location, format string, args ...any) {
	d.add(Diagnostic{Code: code, Location: location, Message: fmt.Sprintf(format, args...)})
}

func (d *diagnoses) add(one Diagnostic) {
	one.Severity = severityError
	*d = append(*d, one)
}

// schema reports a fault in the form of the definition.
func (d *diagnoses) schema(location, format string, args ...any) {
	d.report(CodeSchema, location, format, args...)
}

func (d *diagnoses) required(location string, fields ...string) {
	d.schema(location, "These fields are required: [%s]", strings.Join(fields, ", "))
}

func (d *diagnoses) unsupported(location, field string) {
	d.schema(location, "Field '%s' is not supported", field)
}

func (d *diagnoses) oneOf(location string, fields ...string) {
	d.schema(location, "There should only be one of the following fields: [%s]", strings.Join(fields, ", "))
}

func (d *diagnoses) notExecuted(location, format string, args ...any) {
	d.report(CodeNotExecuted, location, format, args...)
}
