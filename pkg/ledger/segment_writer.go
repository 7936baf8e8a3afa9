package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// segmentWriter writes one segment as a stream; it holds one block and the
// index. Rows must come in key order, each key once.
type segmentWriter struct {
	w         io.Writer
	blockRows int
	block     *blockWriter
	index     indexWriter
	stats     segmentStats
	first     []byte // of the block being gathered
	last      []byte
	frames    uint32
}

func newSegmentWriter(w io.Writer, blockRows int) (*segmentWriter, error) {
	block, err := newBlockWriter()
	if err != nil {
		return nil, err
	}
	s := &segmentWriter{w: w, blockRows: blockRows, block: block}
	return s, s.write([]byte(segmentMagic))
}

func (s *segmentWriter) add(r *record) error {
	if bytes.Compare(r.key, s.last) <= 0 {
		return fmt.Errorf("key %q comes after %q", r.key, s.last)
	}
	if s.block.rows == 0 {
		s.first = append(s.first[:0], r.key...)
	}
	if s.stats.rows == 0 {
		s.stats.first = string(r.key)
	}
	if err := s.block.add(r); err != nil {
		return fmt.Errorf("key %q: %w", r.key, err)
	}
	s.last = append(s.last[:0], r.key...)
	s.stats.rows++
	if r.outcome == gone {
		s.stats.gone++
	}
	// Half of the limit leaves room for the longest row.
	if s.block.rows >= s.blockRows || s.block.size() > maxBlockBytes/2 {
		return s.flush()
	}
	return nil
}

func (s *segmentWriter) flush() error {
	rows := s.block.rows
	n, err := s.frame(kindBlock, s.block.finish())
	if err != nil {
		return err
	}
	return s.index.add(s.first, n, rows)
}

// close writes what is left, and says what the segment holds. A segment
// without rows is not written: the caller checks stats.rows first.
func (s *segmentWriter) close() (segmentStats, error) {
	if s.block.rows > 0 {
		if err := s.flush(); err != nil {
			return segmentStats{}, err
		}
	}
	end := footer{index: s.stats.bytes, rows: s.stats.rows, gone: s.stats.gone, blocks: s.frames}
	if _, err := s.frame(kindIndex, s.packIndex()); err != nil {
		return segmentStats{}, err
	}
	if err := s.write(end.encode()); err != nil {
		return segmentStats{}, err
	}
	s.stats.last = string(s.last)
	return s.stats, nil
}

func (s *segmentWriter) packIndex() []byte {
	raw := s.index.finish(s.last)
	return s.block.packer.EncodeAll(raw, binary.AppendUvarint(nil, uint64(len(raw))))
}

func (s *segmentWriter) frame(kind byte, payload []byte) (int, error) {
	if int64(len(payload)) > maxIndexBytes || s.frames == math.MaxUint32 {
		return 0, fmt.Errorf("a segment of %d rows is too large", s.stats.rows)
	}
	head := frameHead(kind, s.frames, payload)
	s.frames++
	if err := s.write(head[:]); err != nil {
		return 0, err
	}
	return len(head) + len(payload), s.write(payload)
}

func (s *segmentWriter) write(b []byte) error {
	n, err := s.w.Write(b)
	s.stats.bytes += int64(n)
	return err
}

// indexWriter gathers where each block begins. Readers gather the same while
// they read, and compare.
type indexWriter struct {
	blocks  uint64
	entries []byte
	before  []byte
}

func (x *indexWriter) add(first []byte, frame, rows int) error {
	shared, _ := sharedEnds(x.before, first)
	x.entries = binary.AppendUvarint(x.entries, uint64(frame))
	x.entries = binary.AppendUvarint(x.entries, uint64(rows))
	x.entries = binary.AppendUvarint(x.entries, uint64(shared))
	x.entries = binary.AppendUvarint(x.entries, uint64(len(first)-shared))
	x.entries = append(x.entries, first[shared:]...)
	x.before = append(x.before[:0], first...)
	x.blocks++
	if len(x.entries) > maxIndexBytes/2 {
		return fmt.Errorf("a segment of %d blocks is too large", x.blocks)
	}
	return nil
}

func (x *indexWriter) finish(last []byte) []byte {
	raw := binary.AppendUvarint(nil, x.blocks)
	raw = append(raw, x.entries...)
	raw = binary.AppendUvarint(raw, uint64(len(last)))
	return append(raw, last...)
}
