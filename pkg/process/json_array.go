package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// arrayRecords reads the elements of one JSON array. The array is one document:
// where its syntax is wrong, or it is cut, the file is malformed. An element
// that is valid JSON but no good object is a rejected record.
type arrayRecords struct {
	r     *bufio.Reader
	limit int
	table objectTable
	line  int64 // of the next byte
	begun bool
	text  []byte
}

func newArrayRecords(text io.Reader, limit int) *arrayRecords {
	return &arrayRecords{r: bufio.NewReaderSize(text, 64<<10), limit: limit, table: newObjectTable(), line: 1}
}

func (a *arrayRecords) columns() []string { return a.table.names }

func (a *arrayRecords) next() (*record, error) {
	if !a.begun {
		a.begun = true
		if _, err := a.skipSpace(); err != nil { // the '[' that openJSON saw
			return nil, err
		}
		b, err := a.skipSpace()
		if err != nil {
			return nil, a.malformed(err)
		}
		if b == ']' {
			return nil, a.end()
		}
		return a.element(b)
	}
	b, err := a.skipSpace()
	if err == nil && b == ']' {
		return nil, a.end()
	}
	if err == nil {
		b, err = a.skipSpace() // over the comma, where element stopped
	}
	if err != nil {
		return nil, a.malformed(err)
	}
	return a.element(b)
}

// element reads the value that begins with b, up to the ',' or ']' behind it,
// which stays unread.
func (a *arrayRecords) element(b byte) (*record, error) {
	a.text = a.text[:0]
	line := a.line
	depth, inString, escaped := 0, false, false
	for {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = b == '\\', b != '"'
		case b == '"':
			inString = true
		case b == '[' || b == '{':
			depth++
		case depth == 0 && (b == ',' || b == ']'):
			if err := a.r.UnreadByte(); err != nil {
				return nil, err
			}
			text := bytes.TrimRight(a.text, jsonSpace)
			if !json.Valid(text) {
				return nil, a.malformed(json.Unmarshal(text, new(json.RawMessage)))
			}
			return a.table.read(text, line)
		case b == ']' || b == '}':
			depth--
		}
		if len(a.text) == a.limit {
			return nil, tooLong(line, a.limit)
		}
		a.text = append(a.text, b)
		var err error
		if b, err = a.readByte(); err != nil {
			return nil, a.malformed(err)
		}
	}
}

// end wants nothing but space after the array.
func (a *arrayRecords) end() error {
	b, err := a.skipSpace()
	switch {
	case err == io.EOF:
		return io.EOF
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: line %d: the JSON array has ended, but %q follows", ErrMalformed, a.line, b)
}

func (a *arrayRecords) malformed(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: the JSON array ends in the middle (line %d, element %d); was the file cut?", ErrMalformed, a.line, a.table.record.number+1)
	}
	return fmt.Errorf("%w: line %d: element %d of the JSON array: %w", ErrMalformed, a.line, a.table.record.number+1, err)
}

func (a *arrayRecords) skipSpace() (byte, error) {
	for {
		b, err := a.readByte()
		if err != nil || strings.IndexByte(jsonSpace, b) < 0 {
			return b, err
		}
	}
}

func (a *arrayRecords) readByte() (byte, error) {
	b, err := a.r.ReadByte()
	if err == nil && b == '\n' {
		a.line++
	}
	return b, err
}
