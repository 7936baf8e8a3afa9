package ledger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// segmentReader reads one segment as a stream, holding one block and the
// index. Every byte is checked: a segment that was cut, changed, joined or
// reordered ends in a *DamagedError and not in fewer rows.
type segmentReader struct {
	name    string
	src     *bufio.Reader
	payload []byte
	block   *blockReader
	index   indexWriter // what the index should say
	stats   segmentStats
	frames  uint32
	ended   bool
	err     error
}

// newSegmentReader reads from src, naming errors after name.
func newSegmentReader(src io.Reader, name string, u *unpackers) *segmentReader {
	return &segmentReader{name: name, src: bufio.NewReaderSize(src, 64<<10), block: &blockReader{unpackers: u}}
}

// next reads one row into r, and returns false after the last one: by then the
// whole segment was checked. r.key is valid until the next call. An error
// stays.
func (s *segmentReader) next(r *record) (bool, error) {
	if s.ended || s.err != nil {
		return false, s.err
	}
	if s.block.left == 0 {
		s.ended, s.err = s.nextBlock()
		if s.ended || s.err != nil {
			return false, s.err
		}
	}
	if err := s.block.next(r); err != nil {
		s.err = s.damaged("block %d: %v", s.frames-1, err)
		return false, s.err
	}
	if s.block.left == s.block.rows-1 {
		if s.stats.rows == 0 {
			s.stats.first = string(r.key)
		}
		frame := frameHeader + len(s.payload)
		if s.err = s.index.add(r.key, frame, s.block.rows); s.err != nil {
			return false, s.err
		}
	}
	s.stats.rows++
	if r.outcome == gone {
		s.stats.gone++
	}
	return true, nil
}

// nextBlock loads the next block, or checks the end of the segment.
func (s *segmentReader) nextBlock() (end bool, err error) {
	if s.stats.bytes == 0 {
		magic := make([]byte, len(segmentMagic))
		if err := s.read(magic); err != nil {
			return false, err
		}
		if string(magic) != segmentMagic {
			return false, s.damaged("it begins with %q, not with the mark of a segment of version %d", magic, segmentMagic[7])
		}
	}
	offset := s.stats.bytes
	kind, err := s.frame()
	if err != nil {
		return false, err
	}
	switch kind {
	case kindBlock:
		if err := s.block.load(s.payload); err != nil {
			return false, s.damaged("block %d: %v", s.frames-1, err)
		}
		return false, nil
	case kindIndex:
		if err := s.checkIndex(); err != nil {
			return false, err
		}
		return true, s.checkFooter(offset)
	}
	return false, s.damaged("frame %d is of the unknown kind %q", s.frames-1, kind)
}

// frame reads a frame into s.payload.
func (s *segmentReader) frame() (kind byte, err error) {
	var head [frameHeader]byte
	if err := s.read(head[:]); err != nil {
		return 0, err
	}
	kind = head[0]
	length := int64(binary.LittleEndian.Uint32(head[5:]))
	limit := int64(maxBlockBytes)
	if kind == kindIndex {
		limit = maxIndexBytes
	}
	if length > limit {
		return 0, s.damaged("frame %d claims %d bytes", s.frames, length)
	}
	if err := s.readPayload(int(length)); err != nil {
		return 0, err
	}
	if want := frameHead(kind, s.frames, s.payload); want != head {
		return 0, s.damaged("frame %d: wrong checksum or number", s.frames)
	}
	s.frames++
	return kind, nil
}

// readPayload grows with what arrives, not with what the header claims.
func (s *segmentReader) readPayload(length int) error {
	const step = 1 << 20
	s.payload = s.payload[:0]
	for len(s.payload) < length {
		have, n := len(s.payload), min(step, length-len(s.payload))
		s.payload = append(s.payload, make([]byte, n)...)
		if err := s.read(s.payload[have:]); err != nil {
			return err
		}
	}
	return nil
}

func (s *segmentReader) checkIndex() error {
	size, packed, ok := takeUvarint(s.payload)
	if !ok || size > maxIndexBytes {
		return s.damaged("its index claims %d bytes", size)
	}
	raw, err := unpack(s.block.index, packed, nil)
	if err != nil {
		return s.damaged("unpack its index: %v", err)
	}
	if uint64(len(raw)) != size || !bytes.Equal(raw, s.index.finish(s.block.key)) {
		return s.damaged("its index does not match its blocks")
	}
	s.stats.last = string(s.block.key)
	return nil
}

func (s *segmentReader) checkFooter(indexOffset int64) error {
	raw := make([]byte, footerBytes)
	if err := s.read(raw); err != nil {
		return err
	}
	got, err := decodeFooter(raw)
	if err != nil {
		return s.damaged("%v", err)
	}
	want := footer{index: indexOffset, rows: s.stats.rows, gone: s.stats.gone, blocks: s.frames - 1}
	if got != want || want.rows == 0 {
		return s.damaged("its footer says %+v, it holds %+v", got, want)
	}
	switch _, err := s.src.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return s.damaged("it goes on after its end")
	default:
		return fmt.Errorf("read %s: %w", s.name, err)
	}
}

// read fills b. Only the end of src is damage; any other error is the road.
func (s *segmentReader) read(b []byte) error {
	n, err := io.ReadFull(s.src, b)
	s.stats.bytes += int64(n)
	switch err {
	case nil:
		return nil
	case io.EOF, io.ErrUnexpectedEOF:
		return s.damaged("it ends after %d bytes, in the middle", s.stats.bytes)
	}
	return fmt.Errorf("read %s: %w", s.name, err)
}

func (s *segmentReader) damaged(format string, args ...any) error {
	return &DamagedError{Object: s.name, Reason: fmt.Sprintf(format, args...)}
}
