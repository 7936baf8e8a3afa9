package asl

import "slices"

var stateTypes = []string{"Task", "Wait", "Pass", "Succeed", "Fail", "Choice", "Parallel", "Map"}

// state loads one state, as far as it can be understood.
func (l *loader) state(name string, n *node, g *graph) *state {
	f := l.open(n)
	if n.kind != isObject || !f.required("Type") {
		return nil
	}
	s := &state{name: name, kind: f.choice("Type", stateTypes...)}
	if !slices.Contains(stateTypes, s.kind) {
		return nil
	}
	f.comment()
	if f.choice("QueryLanguage", "JSONPath", "JSONata") == "JSONata" {
		l.notExecuted(f.get("QueryLanguage").location(), "QueryLanguage 'JSONata' is not executed by this interpreter, only 'JSONPath'")
		return nil
	}
	in := stateLoader{fields: f, to: s, graph: g}
	var notExecuted []string
	switch s.kind {
	case "Task":
		notExecuted = in.task()
	case "Wait":
		notExecuted = in.wait()
	case "Pass":
		notExecuted = in.pass()
	case "Succeed":
		in.inputAndOutput()
		g.terminal = true
		s.work = succeedWork{}
	case "Fail":
		in.fail()
	case "Choice":
		notExecuted = in.choices()
	case "Parallel":
		notExecuted = in.parallel()
	case "Map":
		notExecuted = in.maps()
	}
	f.close(notExecuted...)
	return s
}

// A stateLoader reads the fields of one state into it. The methods for the types of states return the fields of the
// type that AWS has and this interpreter does not execute.
type stateLoader struct {
	*fields
	to    *state
	graph *graph
}

// inputAndOutput reads the paths that all types but Fail have.
func (s stateLoader) inputAndOutput() {
	s.to.inputPath = s.path("InputPath", true)
	s.to.outputPath = s.path("OutputPath", true)
}

// transition reads Next or End.
func (s stateLoader) transition() {
	next, end := s.text("Next"), s.typed("End", isBoolean)
	ends := end != nil && end.scalar == true
	if ends {
		s.graph.terminal = true
		s.exclusive("Next", "End")
	}
	switch {
	case next != nil:
		s.to.next = *next
		s.graph.edge(s.to.name, *next, s.get("Next").location())
	case !ends:
		s.graph.vague = true
		if s.get("Next") == nil && (s.get("End") == nil || end != nil) {
			s.schema(s.n.location(), "There should be one of the following fields: [Next, End]")
		}
	}
}

func (s stateLoader) task() []string {
	s.inputAndOutput()
	s.transition()
	s.to.parameters = s.template("Parameters")
	s.to.resultSelector = s.template("ResultSelector")
	s.to.resultPath = s.resultPathField()
	s.retriers()
	s.catchers()
	s.exclusive("TimeoutSeconds", "TimeoutSecondsPath")
	w := taskWork{timeout: s.seconds("TimeoutSeconds", 1), timeoutPath: s.reference("TimeoutSecondsPath")}
	if s.required("Resource") {
		w.function = s.resource()
	}
	s.to.work = w
	return []string{"HeartbeatSeconds", "HeartbeatSecondsPath", "Credentials", "Assign"}
}

func (s stateLoader) wait() []string {
	s.inputAndOutput()
	s.transition()
	s.exclusive("Seconds", "SecondsPath", "Timestamp", "TimestampPath")
	w := waitWork{
		seconds: s.seconds("Seconds", 0), secondsPath: s.reference("SecondsPath"), timestampPath: s.reference("TimestampPath"),
	}
	if text := s.text("Timestamp"); text != nil {
		at, err := parseTimestamp(*text)
		if err != nil {
			s.expected(s.get("Timestamp"), "Timestamp")
		}
		w.timestamp = &at
	}
	if s.get("Seconds") == nil && w.timestamp == nil && s.get("SecondsPath") == nil && s.get("TimestampPath") == nil {
		s.schema(s.n.location(), "There should be one of the following fields: [Seconds, SecondsPath, Timestamp, TimestampPath]")
	}
	s.to.work = w
	return []string{"Assign"}
}

func (s stateLoader) pass() []string {
	s.inputAndOutput()
	s.transition()
	s.to.parameters = s.template("Parameters")
	s.to.resultPath = s.resultPathField()
	var w passWork
	if result := s.get("Result"); result != nil {
		w.result, w.hasResult = result.value(), true
	}
	s.to.work = w
	return []string{"Assign"}
}

func (s stateLoader) fail() {
	s.graph.terminal = true
	s.exclusive("Error", "ErrorPath")
	s.exclusive("Cause", "CausePath")
	s.to.work = failWork{
		failure:   FailureDetails{Error: s.text("Error"), Cause: s.text("Cause")},
		errorPath: s.expression("ErrorPath"), causePath: s.expression("CausePath"),
	}
}

func (s stateLoader) parallel() []string {
	s.inputAndOutput()
	s.transition()
	s.to.parameters = s.template("Parameters")
	s.to.resultSelector = s.template("ResultSelector")
	s.to.resultPath = s.resultPathField()
	s.retriers()
	s.catchers()
	var w parallelWork
	s.required("Branches")
	if branches := s.typed("Branches", isArray); branches != nil {
		if len(branches.items) == 0 {
			s.schema(branches.location(), "There must be at least one branch")
		}
		for _, branch := range branches.items {
			f := s.open(branch)
			f.comment()
			w.branches = append(w.branches, s.flow(f))
			f.close()
		}
	}
	s.to.work = w
	return []string{"Assign"}
}
