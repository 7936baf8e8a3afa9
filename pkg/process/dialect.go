package process

import (
	"bytes"
	"fmt"
	"io"
)

const (
	sampleBytes   = 64 << 10
	sampleRecords = 200
)

// sniffDialect looks at the head of delimited text. The delimiter is the one
// that splits most records into as many fields as the header; of equals, the
// one with more fields; of those, the likeliest for the file's name.
func sniffDialect(text *spool, likeliest byte) (dialect, error) {
	section := text.section(sampleBytes)
	sample := make([]byte, section.Size())
	if _, err := io.ReadFull(section, sample); err != nil {
		return dialect{}, err
	}
	if what := otherContent(sample); what != "" {
		return dialect{}, fmt.Errorf("%w: it is not delimited text, it looks like %s", ErrMalformed, what)
	}
	d := dialect{comma: likeliest, lineEnd: sniffLineEnd(sample)}
	if comma, length, ok := separatorLine(sample); ok {
		d.comma, d.skip = comma, length
		return d, nil
	}
	best := fit{}
	for _, comma := range append([]byte{likeliest}, ",;\t|"...) {
		candidate := dialect{comma: comma, lineEnd: d.lineEnd}
		f, err := fitOf(text.section(sampleBytes), candidate, text.size > sampleBytes)
		if err != nil {
			return dialect{}, err
		}
		if f.betterThan(best) {
			best, d.comma = f, comma
		}
	}
	return d, nil
}

// fit is how well a delimiter explains a sample.
type fit struct{ fields, matching, records int }

func (f fit) betterThan(other fit) bool {
	if f.fields < 2 || other.fields < 2 {
		return f.fields >= 2
	}
	// matching/records, compared without division
	if a, b := f.matching*other.records, other.matching*f.records; a != b {
		return a > b
	}
	return f.fields > other.fields
}

func fitOf(sample *io.SectionReader, d dialect, cut bool) (fit, error) {
	scanner, err := newCSVScanner(sample, d, sampleBytes)
	if err != nil {
		return fit{}, err
	}
	var f fit
	matched := false
	for f.records < sampleRecords {
		record, err := scanner.next()
		if err == io.EOF {
			if cut && f.records > 1 { // the sample's end is not the record's
				f.records--
				if matched {
					f.matching--
				}
			}
			break
		}
		if err != nil {
			return fit{}, err
		}
		if f.records == 0 {
			f.fields = len(scanner.fields)
		}
		f.records++
		if matched = record.broken == "" && len(scanner.fields) == f.fields; matched {
			f.matching++
		}
	}
	return f, nil
}

// sniffLineEnd finds files whose lines end in a lone CR: outside quotes there
// is a CR and no LF.
func sniffLineEnd(sample []byte) byte {
	quoted, cr := false, false
	for _, b := range sample {
		switch {
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '\n':
			return '\n'
		case b == '\r':
			cr = true
		}
	}
	if cr {
		return '\r'
	}
	return '\n'
}

// separatorLine knows the line with which spreadsheets name the delimiter.
func separatorLine(sample []byte) (comma byte, length int64, ok bool) {
	rest, ok := bytes.CutPrefix(sample, []byte("sep="))
	if !ok || len(rest) < 2 {
		return 0, 0, false
	}
	for _, end := range []string{"\r\n", "\n", "\r"} {
		if bytes.HasPrefix(rest[1:], []byte(end)) && rest[0] != '"' {
			return rest[0], int64(len("sep=") + 1 + len(end)), true
		}
	}
	return 0, 0, false
}

// otherContent names well-known content that a wrong name hides.
func otherContent(sample []byte) string {
	for _, magic := range []struct{ prefix, what string }{
		{"\x1f\x8b", "gzip (name it .gz)"},
		{"\x28\xb5\x2f\xfd", "zstd (name it .zst)"},
		{"PK\x03\x04", "a ZIP archive or a spreadsheet"},
		{"PAR1", "Parquet"},
		{"%PDF-", "PDF"},
		{"<?xml", "XML"},
		{"<!", "HTML or XML"},
		{"<html", "HTML"},
	} {
		if bytes.HasPrefix(sample, []byte(magic.prefix)) {
			return magic.what
		}
	}
	text := bytes.TrimLeft(sample, jsonSpace)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return ""
	}
	// A column may be called "[unit]"; JSON goes on with a key or an object.
	if rest := bytes.TrimLeft(text[1:], jsonSpace); len(rest) > 0 && (rest[0] == '"' || rest[0] == '{') {
		return "JSON"
	}
	return ""
}
