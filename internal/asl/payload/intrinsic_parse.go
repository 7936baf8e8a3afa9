package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxCalls is how many calls one field may hold, nested ones included: "you
// can nest up to 10 intrinsic functions within a field" (developer guide).
const maxCalls = 10

// call is one call of an intrinsic function.
type call struct {
	name     string
	function function
	args     []argument
}

// argument is what stands between the commas of a call.
type argument interface {
	evaluate(Scope) (any, *Failure)
}

type (
	scalar  struct{ value any } // a number, null, true or false
	pathArg struct{ path Path }
	quoted  struct { // 'text'
		pieces []piece
		bare   bool // a brace stands alone and is not escaped
	}
)

// piece is a part of a quoted string: literal text, or a {} that
// States.Format fills.
type piece struct {
	text string
	hole bool
}

// parseCall reads a whole call such as States.Format('{}', $.a).
func parseCall(text string) (*call, error) {
	p := callParser{rest: text}
	c, err := p.call()
	if err != nil {
		return nil, err
	}
	if p.rest != "" {
		return nil, fmt.Errorf("%q stands behind the call", p.rest)
	}
	return c, nil
}

type callParser struct {
	rest  string
	calls int
}

func (p *callParser) call() (*call, error) {
	name, after, ok := strings.Cut(p.rest, "(")
	if !ok {
		return nil, errors.New("it is neither a path, which starts with $, nor a call like States.UUID()")
	}
	f, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("there is no function %q", name)
	}
	if p.calls++; p.calls > maxCalls {
		return nil, fmt.Errorf("it holds more than %d calls", maxCalls)
	}
	p.rest = after
	args, err := p.arguments()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(args) < f.min || len(args) > f.max {
		return nil, fmt.Errorf("%s takes %s, not %d", name, f.arity(), len(args))
	}
	if f.check != nil {
		if err := f.check(args); err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
	}
	return &call{name, f, args}, nil
}

// arguments reads up to and with the closing parenthesis.
func (p *callParser) arguments() ([]argument, error) {
	p.skipBlanks()
	if p.accept(")") {
		return nil, nil
	}
	var args []argument
	for {
		p.skipBlanks()
		a, err := p.argument()
		if err != nil {
			return nil, err
		}
		args = append(args, a)
		p.skipBlanks()
		switch {
		case p.accept(","):
		case p.accept(")"):
			return args, nil
		case p.rest == "":
			return nil, errors.New("the closing parenthesis is missing")
		default:
			return nil, fmt.Errorf("expected ',' or ')' before %q", p.rest)
		}
	}
}

func (p *callParser) argument() (argument, error) {
	switch {
	case p.accept("'"):
		return p.quoted()
	case strings.HasPrefix(p.rest, "$"):
		text := p.take(pathEnd(p.rest))
		path, err := parsePath(strings.TrimRight(text, blanks), notInShorthand)
		return pathArg{path}, err
	case strings.HasPrefix(p.rest, "States."):
		return p.call()
	}
	end := strings.IndexAny(p.rest, blanks+",()'")
	if end < 0 {
		end = len(p.rest)
	}
	switch word := p.take(end); {
	case word == "null":
		return scalar{nil}, nil
	case word == "true" || word == "false":
		return scalar{word == "true"}, nil
	case isNumber(word):
		return scalar{withoutNegativeZero(json.Number(word))}, nil
	case word == "":
		return nil, errors.New("an argument is missing")
	default:
		return nil, fmt.Errorf("%q is no argument: expected a path, a call, a number, null, true, false or a string in single quotes", word)
	}
}

// quoted reads a string whose opening quote has been read. A backslash escapes
// the four signs that have a meaning; before any other it is an error.
func (p *callParser) quoted() (argument, error) {
	var q quoted
	var text strings.Builder
	for {
		i := strings.IndexAny(p.rest, `'\{}`)
		if i < 0 {
			return nil, errors.New("a string lacks its closing quote")
		}
		text.WriteString(p.take(i))
		switch sign := p.rest[0]; {
		case p.accept("'"):
			q.pieces = append(q.pieces, piece{text: text.String()})
			return q, nil
		case p.accept("{}"):
			q.pieces = append(q.pieces, piece{text: text.String()}, piece{text: "{}", hole: true})
			text.Reset()
		case sign != '\\':
			q.bare = true
			text.WriteString(p.take(1))
		case len(p.rest) > 1 && strings.IndexByte(`'{}\`, p.rest[1]) >= 0:
			text.WriteByte(p.rest[1])
			p.take(2)
		default:
			return nil, fmt.Errorf(`%q in a string is no escape: only \', \{, \} and \\ are`, p.rest[:min(2, len(p.rest))])
		}
	}
}

const blanks = " \t\r\n"

func (p *callParser) skipBlanks() { p.rest = strings.TrimLeft(p.rest, blanks) }

// accept consumes the token if it comes next.
func (p *callParser) accept(token string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, token)
	return ok
}

// take consumes n bytes.
func (p *callParser) take(n int) string {
	text := p.rest[:n]
	p.rest = p.rest[n:]
	return text
}

// pathEnd finds where the path at the beginning of text ends: at a comma or a
// parenthesis that does not stand in brackets.
func pathEnd(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth > 0 && (c == '\'' || c == '"'):
			if _, rest, err := parseQuoted(text[i:]); err == nil {
				i = len(text) - len(rest) - 1
			}
		case depth <= 0 && (c == ',' || c == ')'):
			return i
		}
	}
	return len(text)
}

func (c *call) evaluate(s Scope) (any, *Failure) {
	values := make([]any, len(c.args))
	for i, a := range c.args {
		v, f := a.evaluate(s)
		if f != nil {
			return nil, f
		}
		values[i] = v
	}
	v, err := c.function.apply(s, c, values)
	if err != nil {
		return nil, &Failure{
			Name:   ErrorRuntime,
			Reason: "Invalid arguments in " + c.name,
			Detail: err.Error(),
		}
	}
	return v, nil
}

func (q quoted) evaluate(Scope) (any, *Failure) {
	var b strings.Builder
	for _, p := range q.pieces {
		b.WriteString(p.text)
	}
	return b.String(), nil
}

func (l scalar) evaluate(Scope) (any, *Failure) { return l.value, nil }

func (a pathArg) evaluate(s Scope) (any, *Failure) {
	if !a.path.context && s.Input == nil {
		return nil, nullInput()
	}
	v, missing := a.path.find(s)
	switch {
	case missing == nil:
		return v, nil
	case missing.kind == noArray:
		return nil, notFound(missing.reason)
	}
	// AWS names a context path with one $ and prints the input all the same.
	return nil, notFound("The JsonPath argument for the field '" + strings.Replace(a.path.text, "$$", "$", 1) +
		"' could not be found in the input '" + Encode(s.Input) + "'")
}
