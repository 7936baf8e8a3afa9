package asl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// A node is a JSON value of a definition that knows its place and keeps the order of its members.
type node struct {
	at      string // location, in the notation of AWS; "" at the top
	members []member
	items   []*node
	scalar  any // json.Number, string, bool or nil
	kind    kind
}

type member struct {
	key   string
	value *node
}

type kind string

const (
	isObject  kind = "Object"
	isArray   kind = "Array"
	isString  kind = "String"
	isNumber  kind = "Number"
	isBoolean kind = "Boolean"
	isNull    kind = "Null"
)

// location is where diagnostics say the node is.
func (n *node) location() string {
	if n.at == "" {
		return "/"
	}
	return n.at
}

// value is the node as the data layer knows JSON.
func (n *node) value() any {
	switch n.kind {
	case isObject:
		object := make(map[string]any, len(n.members))
		for _, m := range n.members {
			object[m.key] = m.value.value()
		}
		return object
	case isArray:
		array := make([]any, len(n.items))
		for i, item := range n.items {
			array[i] = item.value()
		}
		return array
	}
	return n.scalar
}

// parseSource reads a definition's text. A key that stands twice is reported.
func parseSource(text []byte, d *diagnoses) *node {
	notObject := func() *node {
		d.schema("", "Definition must be a valid JSON object")
		return nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return notObject()
	}
	if !utf8.Valid(text) {
		d.report(CodeJSON, "", "The definition is not UTF-8")
		return nil
	}
	p := sourceParser{decoder: json.NewDecoder(bytes.NewReader(text)), diagnoses: d}
	p.decoder.UseNumber()
	top, err := p.value("")
	if err == nil {
		if _, err = p.decoder.Token(); err == nil {
			err = errors.New("there is text after the end of the definition")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		line, column := position(text, p.decoder.InputOffset())
		d.report(CodeJSON, "", "Invalid JSON: %v (line %d, column %d)", err, line, column)
		return nil
	}
	if top.kind != isObject {
		return notObject()
	}
	return top
}

func position(text []byte, offset int64) (line, column int) {
	before := string(text[:min(offset, int64(len(text)))])
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1
}

type sourceParser struct {
	decoder *json.Decoder
	*diagnoses
}

func (p sourceParser) value(at string) (*node, error) {
	token, err := p.decoder.Token()
	if err != nil {
		return nil, err
	}
	n := &node{at: at}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			n.kind = isObject
			return n, p.object(n)
		}
		n.kind = isArray
		return n, p.array(n)
	case string:
		n.kind, n.scalar = isString, t
	case json.Number:
		n.kind = isNumber
		n.scalar, err = payload.Decode([]byte(t)) // for the form that the data layer gives it
	case bool:
		n.kind, n.scalar = isBoolean, t
	default:
		n.kind = isNull
	}
	return n, err
}

func (p sourceParser) object(n *node) error {
	seen := map[string]bool{}
	for p.decoder.More() {
		token, err := p.decoder.Token()
		if err != nil {
			return err
		}
		key := fmt.Sprint(token) // always a string
		value, err := p.value(n.at + "/" + key)
		if err != nil {
			return err
		}
		if seen[key] {
			if strings.HasSuffix(n.at, "/States") {
				p.report(CodeDuplicate, value.at, "Duplicate State name: %s", key)
			} else {
				p.report(CodeJSON, value.at, "Duplicate field: %s", key)
			}
			continue
		}
		seen[key] = true
		n.members = append(n.members, member{key, value})
	}
	_, err := p.decoder.Token()
	return err
}

func (p sourceParser) array(n *node) error {
	for i := 0; p.decoder.More(); i++ {
		item, err := p.value(fmt.Sprintf("%s[%d]", n.at, i))
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := p.decoder.Token()
	return err
}
