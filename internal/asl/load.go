package asl

import (
	"time"
	"unicode/utf8"
)

// LoadOption changes how a definition is loaded.
type LoadOption func(*loader)

// Substitute replaces ${Name} placeholders by values, as CloudFormation's DefinitionSubstitutions do.
func Substitute(values map[string]string) LoadOption {
	return func(l *loader) { l.substitutions = values }
}

// Derive gives values for placeholders that Substitute has none for.
func Derive(value func(name string) string) LoadOption {
	return func(l *loader) { l.derive = value }
}

// Load parses a definition and refuses it unless all of it can be executed. The error is a [*DefinitionError] with
// everything that is wrong with the definition, or a [*PlaceholderError].
func Load(definition []byte, options ...LoadOption) (*Definition, error) {
	l := &loader{stateNames: map[string]bool{}, labels: map[string]bool{}}
	for _, option := range options {
		option(l)
	}
	definition, err := l.substitute(definition)
	if err != nil {
		return nil, err
	}
	def := &Definition{}
	if top := parseSource(definition, &l.diagnoses); top != nil {
		def = l.machine(top)
	}
	if l.diagnoses != nil {
		return nil, &DefinitionError{l.diagnoses}
	}
	return def, nil
}

// Validate returns what ValidateStateMachineDefinition says of a definition that [Load] returned err for.
func Validate(err *DefinitionError) Validation {
	if err == nil {
		return Validation{Result: "OK", Diagnostics: []Diagnostic{}}
	}
	return Validation{Result: "FAIL", Diagnostics: err.Diagnostics}
}

// A loader builds a definition, and collects all that is wrong with it on the way.
type loader struct {
	diagnoses
	substitutions map[string]string
	derive        func(name string) string
	stateNames    map[string]bool
	labels        map[string]bool
}

func (l *loader) machine(top *node) *Definition {
	f := l.open(top)
	if language := f.get("QueryLanguage"); language != nil && language.scalar == "JSONata" {
		l.notExecuted(language.location(), "QueryLanguage 'JSONata' is not executed by this interpreter, only 'JSONPath'")
		return nil
	}
	f.choice("QueryLanguage", "JSONPath", "JSONata")
	f.comment()
	f.text("Version")
	def := &Definition{flow: l.flow(f)}
	if seconds := f.seconds("TimeoutSeconds", 1); seconds != nil {
		def.timeout = time.Duration(*seconds) * time.Second
	}
	f.close()
	return def
}

// flow loads the states of a machine, a branch or an item processor, whose other fields the caller asks for.
func (l *loader) flow(f *fields) *flow {
	f.required("States", "StartAt") // in the order of AWS
	start, states := f.text("StartAt"), f.typed("States", isObject)
	if states == nil {
		return nil
	}
	fl := &flow{states: map[string]*state{}}
	g := &graph{loader: l, flow: fl, states: states}
	if start != nil {
		fl.start = *start
		g.edge("", fl.start, f.get("StartAt").location())
	} else {
		g.vague = true
	}
	for _, m := range states.members {
		l.stateName(m.key, m.value)
		s := l.state(m.key, m.value, g)
		fl.states[m.key] = s
		g.vague = g.vague || s == nil
	}
	if len(states.members) == 0 {
		l.schema(states.location(), "There must be at least one state")
		return fl
	}
	g.check()
	return fl
}

func (l *loader) stateName(name string, n *node) {
	if length := utf8.RuneCountInString(name); length == 0 || length > 80 {
		l.report(CodeStateName, n.location(), "A state's name has 1 to 80 characters, not %d", length)
	}
	if l.stateNames[name] {
		l.report(CodeDuplicate, n.location(), "Duplicate State name: %s", name)
	}
	l.stateNames[name] = true
}
