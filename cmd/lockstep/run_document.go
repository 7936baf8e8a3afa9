package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// document is a JSON object whose members keep their order, and their texts.
// A name may be in it twice: that is for step.ParseConfig to refuse.
type document []member

type member struct {
	name  string
	value json.RawMessage
}

func parseDocument(text []byte) (document, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	opening, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if opening != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var d document
	for decoder.More() {
		var m member
		token, err := decoder.Token()
		if err == nil {
			m.name, _ = token.(string) // nothing else comes here in JSON
			err = decoder.Decode(&m.value)
		}
		if err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		d = append(d, m)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return d, nil
}

// text is the document as compact JSON.
func (d document) text() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range d {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(m.name))
		b.WriteByte(':')
		_ = json.Compact(&b, m.value) // it was decoded
	}
	b.WriteByte('}')
	return b.Bytes()
}

// get is the value of a member, or nil.
func (d document) get(name string) json.RawMessage {
	if i := d.index(name); i >= 0 {
		return d[i].value
	}
	return nil
}

func (d document) index(name string) int {
	return slices.IndexFunc(d, func(m member) bool { return m.name == name })
}

// with is the document with a value at the path, whose objects are made where
// they are missing.
func (d document) with(path []string, value json.RawMessage) (document, error) {
	if len(path) > 1 {
		inner := document{}
		if there := d.get(path[0]); there != nil {
			var err error
			if inner, err = parseDocument(there); err != nil {
				return nil, fmt.Errorf("%s is %s, which has no members", path[0], there)
			}
		}
		inner, err := inner.with(path[1:], value)
		if err != nil {
			return nil, err
		}
		value = inner.text()
	}
	d = slices.Clone(d)
	if i := d.index(path[0]); i >= 0 {
		d[i].value = value
		return d, nil
	}
	return append(d, member{path[0], value}), nil
}

// assign is the document with an assignment of the command line, path=value:
// lock.priority=10. What is no JSON value is a string.
func (d document) assign(assignment string) (document, error) {
	path, text, ok := strings.Cut(assignment, "=")
	names := strings.Split(path, ".")
	if !ok || slices.Contains(names, "") {
		return nil, fmt.Errorf("%q is not path=value, such as selection.reprocess=true", assignment)
	}
	value := json.RawMessage(text)
	if !json.Valid(value) {
		value = quoted(text)
	}
	return d.with(names, value)
}

// quoted is text as a JSON string.
func quoted(text string) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
