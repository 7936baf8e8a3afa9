package process

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText takes a byte order mark away and turns UTF-16 (which only its mark
// tells) into UTF-8. Any other text passes as it is: whether it is UTF-8 is
// judged record by record.
func decodeText(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	mark, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	var order binary.ByteOrder
	skip := 2
	switch {
	case bytes.HasPrefix(mark, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(mark, []byte("\x00\x00\xfe\xff")):
		return nil, fmt.Errorf("%w: it is UTF-32; save it as UTF-8", ErrUnsupported)
	case bytes.HasPrefix(mark, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(mark, []byte("\xfe\xff")):
		order = binary.BigEndian
	case bytes.HasPrefix(mark, []byte("\xef\xbb\xbf")):
		skip = 3
	default:
		return buffered, nil
	}
	if _, err := buffered.Discard(skip); err != nil {
		return nil, err
	}
	if order == nil {
		return buffered, nil
	}
	return &utf16Reader{r: buffered, order: order}, nil
}

// utf16Reader gives UTF-16 as UTF-8. Half a surrogate pair becomes the three
// bytes that its code point would have: no valid UTF-8, so the record that
// holds it is rejected, with nothing lost, instead of silently getting U+FFFD.
type utf16Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	out   []byte // decoded, not yet read
	buf   [utf8.UTFMax]byte
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(u.out) == 0 {
			if err := u.decode(); err != nil {
				if n > 0 && err == io.EOF {
					return n, nil
				}
				return n, err
			}
		}
		copied := copy(p[n:], u.out)
		u.out = u.out[copied:]
		n += copied
	}
	return n, nil
}

func (u *utf16Reader) decode() error {
	unit, err := u.r.Peek(2)
	if err != nil {
		if err == io.EOF && len(unit) == 1 {
			return fmt.Errorf("%w: its UTF-16 text ends in half a character", ErrMalformed)
		}
		return err
	}
	r := rune(u.order.Uint16(unit))
	size := 2
	if utf16.IsSurrogate(r) {
		pair, err := u.r.Peek(4)
		if err != nil && err != io.EOF {
			return err
		}
		if len(pair) == 4 {
			if whole := utf16.DecodeRune(r, rune(u.order.Uint16(pair[2:]))); whole != utf8.RuneError {
				r, size = whole, 4
			}
		}
	}
	if _, err := u.r.Discard(size); err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		u.out = append(u.buf[:0], 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
		return nil
	}
	u.out = utf8.AppendRune(u.buf[:0], r)
	return nil
}
