package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const jsonSpace = " \t\r\n"

// openJSON tells an array from an object a line, by the first byte that is no
// space. Either may be damaged further on; what is neither is not what its name says.
func openJSON(text *spool, syntax syntax, limit int) (records, error) {
	first, err := firstByte(text)
	switch {
	case err == io.EOF: // nothing but space: no lines
	case err != nil:
		return nil, err
	case first == '[' && syntax == ndjsonSyntax:
		return nil, fmt.Errorf("%w: it holds a JSON array, not an object a line; name it .json", ErrMalformed)
	case first == '[':
		return newArrayRecords(text.section(text.size), limit), nil
	case first != '{' && syntax == jsonSyntax:
		return nil, fmt.Errorf("%w: it is not JSON: it begins with %q, where a .json file has an array of objects or an object a line",
			ErrMalformed, first)
	}
	lines := newLineReader(text.section(text.size), '\n', limit)
	return &lineRecords{lines: lines, table: newObjectTable(), strict: syntax == jsonSyntax}, nil
}

func firstByte(text *spool) (byte, error) {
	r := bufio.NewReader(text.section(text.size))
	for {
		b, err := r.ReadByte()
		if err != nil || strings.IndexByte(jsonSpace, b) < 0 {
			return b, err
		}
	}
}

// lineRecords reads an object a line (NDJSON, JSON Lines).
type lineRecords struct {
	lines  *lineReader
	table  objectTable
	strict bool // the first line must be an object, or the file is no NDJSON
}

func (r *lineRecords) columns() []string { return r.table.names }

func (r *lineRecords) next() (*record, error) {
	for {
		line, _, err := r.lines.next()
		if err != nil {
			return nil, err
		}
		text := bytes.Trim(line, jsonSpace)
		if len(text) == 0 {
			continue
		}
		rec, err := r.table.read(text, r.lines.line)
		if err == nil && r.strict && rec.number == 1 && rec.reason != "" {
			return nil, fmt.Errorf("%w: line %d is not a whole JSON object (%s); a .json file holds an array of objects or an object a line",
				ErrMalformed, rec.line, rec.reason)
		}
		return rec, err
	}
}

// objectTable turns the text of objects into records, giving each new key a column.
type objectTable struct {
	names  []string
	column map[string]int
	seen   map[string]bool // keys of the object being read
	keys   []string
	values []cell
	record record
}

func newObjectTable() objectTable {
	return objectTable{column: map[string]int{}, seen: map[string]bool{}}
}

// read takes one value's text. What is no good object is a rejected record.
func (t *objectTable) read(text []byte, line int64) (*record, error) {
	rec := &t.record
	rec.number++
	rec.line, rec.raw, rec.reason, rec.cells = line, text, rejectReason(text), rec.cells[:0]
	if rec.reason != "" {
		return rec, nil
	}
	// All members first: a key that only rejected records have is no column.
	clear(t.seen)
	t.keys, t.values = t.keys[:0], t.values[:0]
	for key, value := range members(text) {
		name, whole := unquote(key)
		if !whole {
			rec.reason = "a key holds half a surrogate pair: " + string(key)
			return rec, nil
		}
		if t.seen[name] {
			rec.reason = "the key " + string(key) + " is there twice"
			return rec, nil
		}
		c, whole := cellOf(value)
		if !whole {
			rec.reason = "the value of " + string(key) + " holds half a surrogate pair"
			return rec, nil
		}
		t.seen[name] = true
		t.keys = append(t.keys, name)
		t.values = append(t.values, c)
	}
	for i, key := range t.keys {
		column, ok := t.column[key]
		if !ok {
			if column = len(t.names); column == maxColumns {
				return nil, tooManyColumns(line)
			}
			t.column[key] = column
			t.names = append(t.names, key)
		}
		for len(rec.cells) <= column {
			rec.cells = append(rec.cells, cell{})
		}
		rec.cells[column] = t.values[i]
	}
	return rec, nil
}

func rejectReason(text []byte) string {
	switch {
	case !utf8.Valid(text):
		return notUTF8
	case !json.Valid(text):
		return "it is not valid JSON: " + json.Unmarshal(text, new(json.RawMessage)).Error()
	case text[0] != '{':
		return "it is not a JSON object"
	}
	return ""
}
