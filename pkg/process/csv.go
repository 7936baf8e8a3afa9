package process

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// dialect is how one file of delimited text is written.
type dialect struct {
	comma   byte
	lineEnd byte
	skip    int64 // leading bytes that are no record (a "sep=;" line)
}

// csvScanner splits delimited text into records as RFC 4180 has them, and
// beyond it: a quote inside an unquoted field is text, and a line whose quoting
// cannot be right is given alone, as broken, with scanning resumed at the next
// line. Records, blank lines and broken lines together are the whole text.
// (encoding/csv turns CRLF inside a field into LF, knows no lone CR, and after
// a stray quote keeps neither the text nor the rows behind it.)
type csvScanner struct {
	lines *lineReader
	comma byte

	raw    []byte // the record's text, with inner line ends
	text   []byte // the fields' texts, one after another
	fields []csvField
	quoted bool // inside a quoted field
}

type csvField struct {
	end    int // of its text; it begins where the field before ends
	quoted bool
}

// scanned is one record: fields of the scanner are valid when broken is "".
type scanned struct {
	line   int64
	raw    []byte
	broken string
}

func newCSVScanner(section *io.SectionReader, d dialect, limit int) (*csvScanner, error) {
	s := &csvScanner{lines: newLineReader(section, d.lineEnd, limit), comma: d.comma}
	if d.skip > 0 {
		if err := s.lines.back(d.skip, 2); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *csvScanner) next() (scanned, error) {
	s.raw, s.text, s.fields, s.quoted = s.raw[:0], s.text[:0], s.fields[:0], false
	var line, terminator []byte
	var err error
	for len(line) == 0 { // blank lines are no records
		if line, terminator, err = s.lines.next(); err != nil {
			return scanned{}, err
		}
	}
	first := s.lines.line
	firstLength, resume := len(line), s.lines.offset
	s.raw = append(s.raw, line...)
	for {
		switch s.feed(line) {
		case complete:
			return scanned{line: first, raw: s.raw}, nil
		case broken:
			return s.giveUp(first, firstLength, resume, "text follows a closing quote (a quote inside a quoted field is written twice)")
		}
		s.raw = append(s.raw, terminator...)
		s.text = append(s.text, terminator...)
		line, terminator, err = s.lines.next()
		if err == io.EOF {
			return s.giveUp(first, firstLength, resume, "a quote is opened here and never closed")
		}
		if err != nil {
			return scanned{}, err
		}
		if len(s.raw)+len(line) > s.lines.limit {
			return scanned{}, tooLong(first, s.lines.limit)
		}
		s.raw = append(s.raw, line...)
	}
}

// giveUp takes the first line alone: behind a stray quote stand good records,
// and they are found again from the next line on.
func (s *csvScanner) giveUp(line int64, length int, resume int64, reason string) (scanned, error) {
	if s.lines.line != line {
		if err := s.lines.back(resume, line+1); err != nil {
			return scanned{}, err
		}
	}
	return scanned{line: line, raw: s.raw[:length], broken: reason}, nil
}

type csvState int

const (
	complete csvState = iota
	open              // the line ended inside a quoted field
	broken
)

func (s *csvScanner) feed(b []byte) csvState {
	for {
		if !s.quoted {
			if len(b) > 0 && b[0] == '"' {
				s.quoted, b = true, b[1:]
				continue
			}
			i := bytes.IndexByte(b, s.comma)
			if i < 0 {
				s.endField(b, false)
				return complete
			}
			s.endField(b[:i], false)
			b = b[i+1:]
			continue
		}
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			s.text = append(s.text, b...)
			return open
		}
		s.text = append(s.text, b[:i]...)
		b = b[i+1:]
		switch {
		case len(b) == 0:
			s.endField(nil, true)
			return complete
		case b[0] == '"':
			s.text = append(s.text, '"')
			b = b[1:]
		case b[0] == s.comma:
			s.endField(nil, true)
			s.quoted, b = false, b[1:]
		default:
			return broken
		}
	}
}

func (s *csvScanner) endField(rest []byte, quoted bool) {
	s.text = append(s.text, rest...)
	s.fields = append(s.fields, csvField{end: len(s.text), quoted: quoted})
}

// csvRecords gives the records below the header.
type csvRecords struct {
	scanner *csvScanner
	names   []string
	record  record
}

func newCSVRecords(section *io.SectionReader, d dialect, limit int) (*csvRecords, error) {
	scanner, err := newCSVScanner(section, d, limit)
	if err != nil {
		return nil, err
	}
	r := &csvRecords{scanner: scanner}
	header, err := scanner.next()
	switch {
	case err == io.EOF:
		return r, nil // no header, no records
	case err != nil:
		return nil, err
	case header.broken != "":
		return nil, fmt.Errorf("%w: its header (line %d) cannot be read: %s", ErrMalformed, header.line, header.broken)
	case !utf8.Valid(header.raw):
		return nil, fmt.Errorf("%w: its header (line %d) is not UTF-8; is it Latin-1, or no text at all?", ErrMalformed, header.line)
	case bytes.IndexByte(header.raw, 0) >= 0:
		return nil, fmt.Errorf("%w: its header (line %d) has NUL bytes; is it UTF-16 without its mark, or no text at all?", ErrMalformed, header.line)
	case len(scanner.fields) > maxColumns:
		return nil, tooManyColumns(header.line)
	}
	start := 0
	for _, field := range scanner.fields {
		r.names = append(r.names, string(scanner.text[start:field.end]))
		start = field.end
	}
	return r, nil
}

func (r *csvRecords) columns() []string { return r.names }

func (r *csvRecords) next() (*record, error) {
	scanned, err := r.scanner.next()
	if err != nil {
		return nil, err
	}
	rec := &r.record
	rec.number++
	rec.line, rec.raw, rec.cells, rec.reason = scanned.line, scanned.raw, rec.cells[:0], scanned.broken
	if !utf8.Valid(scanned.raw) {
		rec.reason = notUTF8
	}
	if rec.reason != "" {
		return rec, nil
	}
	if got, want := len(r.scanner.fields), len(r.names); got != want {
		rec.reason = fmt.Sprintf("its number of fields is %d, the header's is %d", got, want)
		return rec, nil
	}
	start := 0
	for _, field := range r.scanner.fields {
		c := cell{kind: textKind, text: r.scanner.text[start:field.end]}
		if len(c.text) == 0 && !field.quoted {
			c.kind = nullKind
		}
		rec.cells = append(rec.cells, c)
		start = field.end
	}
	return rec, nil
}

const notUTF8 = "it is not valid UTF-8"

func tooManyColumns(line int64) error {
	return fmt.Errorf("%w: with line %d it has more than %d columns; are data used as keys?", ErrUnsupported, line, maxColumns)
}
