package process

import (
	"bufio"
	"fmt"
	"io"
)

// lineReader splits text into physical lines of bounded length.
type lineReader struct {
	section *io.SectionReader
	r       *bufio.Reader
	end     byte // '\n', or '\r' for files that end lines as Mac OS did before X
	limit   int
	offset  int64 // of the next line
	line    int64 // number of the line last read, from 1
	buf     []byte
}

func newLineReader(section *io.SectionReader, end byte, limit int) *lineReader {
	return &lineReader{section: section, r: bufio.NewReaderSize(section, 64<<10), end: end, limit: limit}
}

// next gives a line and what ended it: "\n", "\r\n", "\r", or nothing at the
// end of the text. Both are valid until the next call.
func (l *lineReader) next() (line, terminator []byte, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice(l.end)
		l.buf = append(l.buf, part...)
		if len(l.buf) > l.limit {
			return nil, nil, tooLong(l.line+1, l.limit)
		}
		if err == nil || err == io.EOF && len(l.buf) > 0 {
			break
		}
		if err != bufio.ErrBufferFull {
			return nil, nil, err
		}
	}
	l.offset += int64(len(l.buf))
	l.line++
	n := len(l.buf)
	if n > 0 && l.buf[n-1] == l.end {
		n--
	}
	if n > 0 && l.end == '\n' && l.buf[n-1] == '\r' {
		n--
	}
	return l.buf[:n], l.buf[n:], nil
}

// back makes the line that begins at offset the next one again.
func (l *lineReader) back(offset, line int64) error {
	if _, err := l.section.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	l.r.Reset(l.section)
	l.offset, l.line = offset, line-1
	return nil
}

func tooLong(line int64, limit int) error {
	return fmt.Errorf("%w: line %d begins a record longer than %d bytes; check for a missing line end or closing quote, or raise MaxRecordBytes",
		ErrUnsupported, line, limit)
}
