package asl

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	anyARN      = regexp.MustCompile(`^arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:[0-9]*:.+$`)
	functionARN = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:[A-Za-z0-9_-]+(:[A-Za-z0-9_$-]+)?$`)
	invokeARN   = regexp.MustCompile(`^arn:aws[a-z-]*:states:::lambda:invoke$`)
)

// resource reads the Resource of a Task: the ARN of a function, or "" for lambda:invoke, whose Parameters it checks.
func (s stateLoader) resource() string {
	text := s.text("Resource")
	if text == nil {
		return ""
	}
	at := s.get("Resource").location()
	switch {
	case functionARN.MatchString(*text):
		return *text
	case invokeARN.MatchString(*text):
		s.invokeParameters()
	case anyARN.MatchString(*text):
		s.notExecuted(at, "The resource '%s' is not executed by this interpreter, only Lambda functions and arn:aws:states:::lambda:invoke", *text)
	default:
		s.schema(at, "Value is not a valid resource ARN")
	}
	return ""
}

// invokeParameters checks the names, and the literals that would change what an invocation is.
func (s stateLoader) invokeParameters() {
	n := s.get("Parameters")
	if n == nil || n.kind != isObject {
		s.required("Parameters")
		return
	}
	f := s.open(n)
	for _, name := range []string{"FunctionName", "Payload", "Qualifier", "LogType", "InvocationType", "ClientContext"} {
		literal, dynamic := f.get(name), f.get(name+".$")
		switch {
		case name == "FunctionName" && literal == nil && dynamic == nil:
			s.loader.required(n.location(), name)
		case name == "InvocationType" && (dynamic != nil || literal != nil && literal.scalar != "RequestResponse"):
			s.notExecuted(n.location(), "InvocationType is not executed by this interpreter, except for 'RequestResponse'")
		}
	}
	for _, m := range n.members {
		if !f.asked[m.key] {
			s.schema(n.location(), "The field \"%s\" is not supported by Step Functions", strings.TrimSuffix(m.key, ".$"))
		}
	}
}

// retriers reads Retry.
func (s stateLoader) retriers() {
	list := s.typed("Retry", isArray)
	if list == nil {
		return
	}
	for i, n := range list.items {
		f := s.open(n)
		f.comment()
		r := retrier{interval: time.Second, attempts: 3, backoff: 2}
		r.errorEquals = f.errorEquals(i == len(list.items)-1)
		if v := f.seconds("IntervalSeconds", 1); v != nil {
			r.interval = time.Duration(*v) * time.Second
		}
		if v := f.integer("MaxAttempts", 0, 99999999); v != nil {
			r.attempts = int(*v)
		}
		if v := f.number("BackoffRate", 1, 1e9); v != nil {
			r.backoff = *v
		}
		if v := f.integer("MaxDelaySeconds", 1, 31622399); v != nil {
			r.maxDelay = time.Duration(*v) * time.Second
			if r.maxDelay <= r.interval {
				s.schema(f.get("MaxDelaySeconds").location(), "MaxDelaySeconds must be greater than IntervalSeconds")
			}
		}
		r.jitter = f.choice("JitterStrategy", "FULL", "NONE") == "FULL"
		f.close()
		s.to.retry = append(s.to.retry, r)
	}
}

// catchers reads Catch.
func (s stateLoader) catchers() {
	list := s.typed("Catch", isArray)
	if list == nil {
		return
	}
	for i, n := range list.items {
		f := s.open(n)
		f.comment()
		c := catcher{errorEquals: f.errorEquals(i == len(list.items)-1), resultPath: f.resultPathField()}
		if f.required("Next") {
			if next := f.text("Next"); next != nil {
				c.next = *next
				s.graph.edge(s.to.name, c.next, f.get("Next").location())
			}
		}
		f.close("Assign")
		s.to.catch = append(s.to.catch, c)
	}
}

// errorEquals reads the error names of a retrier or catcher. Names that nobody knows are just names.
func (f *fields) errorEquals(last bool) []string {
	if !f.required("ErrorEquals") {
		return nil
	}
	list := f.typed("ErrorEquals", isArray)
	if list == nil {
		return nil
	}
	if len(list.items) == 0 {
		f.schema(list.location(), "There must be at least one error name")
	}
	var names []string
	for _, n := range list.items {
		name, ok := n.scalar.(string)
		if !ok {
			f.expected(n, string(isString))
			continue
		}
		names = append(names, name)
	}
	if slices.Contains(names, errorAll) && (len(names) > 1 || !last) {
		f.schema(list.location(), "'%s' must appear alone, and only in the last entry", errorAll)
	}
	return names
}
