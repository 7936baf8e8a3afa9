package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

var errBlock = errors.New("its columns do not fit together")

// blockReader reads the rows of one block after the other.
type blockReader struct {
	*unpackers
	rows    int // of the block
	left    int // not read yet
	raw     []byte
	column  [columns][]byte
	sums    []byte
	commits []commitMark
	places  []place
	key     []byte // of the row last read
	scratch []byte
}

// unpackers decompress, for many readers at once, within bounds of what a block
// and an index may come to.
type unpackers struct {
	block, index func() (*zstd.Decoder, error)
}

func newUnpackers() *unpackers {
	unpacker := func(limit uint64) func() (*zstd.Decoder, error) {
		return sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(limit))
		})
	}
	return &unpackers{block: unpacker(maxBlockBytes), index: unpacker(maxIndexBytes)}
}

func unpack(unpacker func() (*zstd.Decoder, error), packed, into []byte) ([]byte, error) {
	decoder, err := unpacker()
	if err != nil {
		return nil, err
	}
	raw, err := decoder.DecodeAll(packed, into)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return raw, nil
}

// load begins a block. It uses payload until the block is read.
func (b *blockReader) load(payload []byte) error {
	rows, payload, ok1 := takeUvarint(payload)
	size, payload, ok2 := takeUvarint(payload)
	packed, payload, ok3 := takeUvarint(payload)
	if !ok1 || !ok2 || !ok3 || rows == 0 || rows > size || size > maxBlockBytes || packed > uint64(len(payload)) {
		return errBlock
	}
	raw, err := unpack(b.unpackers.block, payload[:packed], b.raw[:0])
	if err != nil {
		return err
	}
	if uint64(len(raw)) != size {
		return errBlock
	}
	b.raw, b.sums = raw, payload[packed:]
	for i := range b.column {
		n, rest, ok := takeUvarint(raw)
		if !ok || n > uint64(len(rest)) {
			return errBlock
		}
		b.column[i], raw = rest[:n], rest[n:]
	}
	if len(raw) != 0 {
		return errBlock
	}
	b.rows, b.left = int(rows), int(rows)
	if err := b.loadCommits(); err != nil {
		return err
	}
	return b.loadPlaces()
}

func (b *blockReader) loadPlaces() error {
	b.places = b.places[:0]
	for len(b.column[colPlaces]) > 0 {
		token, ok1 := b.uvarint(colPlaces)
		name, ok2 := b.text(colPlaces, maxNameBytes)
		p := place{token: int64(token), name: name}
		if !ok1 || !ok2 || token > math.MaxInt64 || p == (place{}) {
			return errBlock
		}
		b.places = append(b.places, p)
	}
	return nil
}

func (b *blockReader) loadCommits() error {
	b.commits = b.commits[:0]
	for len(b.column[colRuns]) > 0 {
		at, n := binary.Varint(b.column[colRuns])
		if n <= 0 {
			return errBlock
		}
		b.column[colRuns] = b.column[colRuns][n:]
		run, ok1 := b.text(colRuns, maxRunBytes)
		settings, ok2 := b.text(colRuns, maxNameBytes)
		if !ok1 || !ok2 {
			return errBlock
		}
		b.commits = append(b.commits, commitMark{run: run, at: at, settings: settings})
	}
	return nil
}

// next reads one row into r. After the last row it checks that nothing of the
// block is left over.
func (b *blockReader) next(r *record) error {
	if err := b.nextKey(); err != nil {
		return err
	}
	r.key = b.key
	size, ok1 := b.uvarint(colSizes)
	attempts, ok2 := b.uvarint(colAttempts)
	commit, ok3 := b.uvarint(colCommits)
	flags, ok4 := b.byte(colOutcomes)
	outcome := flags & outcomeBits
	if !ok1 || !ok2 || !ok3 || !ok4 || size > math.MaxInt64 || attempts > math.MaxInt32 ||
		commit >= uint64(len(b.commits)) || outcome == 0 || int(outcome) >= len(outcomeCodes) {
		return errBlock
	}
	r.size, r.attempts = int64(size), int(attempts)
	r.outcome, r.commit = outcomeCodes[outcome], b.commits[commit]
	r.suspect, r.cut = flags&flagSuspect != 0, flags&flagCut != 0
	if !b.nextTag(&r.tag) || !b.nextPublished(r) {
		return errBlock
	}
	b.left--
	if b.left == 0 {
		return b.checkEmpty()
	}
	return nil
}

func (b *blockReader) nextKey() error {
	head, ok1 := b.uvarint(colHead)
	tail, ok2 := b.uvarint(colTail)
	middle, ok3 := b.uvarint(colMiddle)
	before := b.key
	if b.left == b.rows { // a block's first key shares nothing
		before = nil
	}
	if !ok1 || !ok2 || !ok3 || head > maxKeyBytes || tail > maxKeyBytes || middle > uint64(len(b.column[colKeys])) ||
		head+tail > uint64(len(before)) || head+middle+tail == 0 || head+middle+tail > maxKeyBytes {
		return errBlock
	}
	key := append(b.scratch[:0], before[:head]...)
	key = append(key, b.column[colKeys][:middle]...)
	key = append(key, before[uint64(len(before))-tail:]...)
	b.column[colKeys] = b.column[colKeys][middle:]
	// b.key still holds the last key of the block before: order holds across blocks.
	if bytes.Compare(key, b.key) <= 0 {
		return fmt.Errorf("key %q comes after %q", key, b.key)
	}
	b.scratch, b.key = b.key, key
	return nil
}

func (b *blockReader) nextTag(t *tag) bool {
	form, ok := b.byte(colTags)
	if !ok || tagForm(form) >= tagForms {
		return false
	}
	*t = tag{form: tagForm(form)}
	if t.form.hasSum() {
		if len(b.sums) < len(t.sum) {
			return false
		}
		b.sums = b.sums[copy(t.sum[:], b.sums):]
	}
	if t.form.hasParts() {
		parts, ok := b.uvarint(colTags)
		if !ok || parts > math.MaxUint32 {
			return false
		}
		t.parts = uint32(parts)
	}
	if t.form == tagOther {
		t.other, ok = b.text(colTags, maxTagBytes)
		return ok
	}
	return true
}

func (b *blockReader) nextPublished(r *record) bool {
	code, ok := b.uvarint(colPublished)
	r.place, r.shown = place{}, tag{}
	if !ok || code == 0 {
		return ok
	}
	number := code/2 - 1
	if code == 1 || number >= uint64(len(b.places)) {
		return false
	}
	r.place, r.shown = b.places[number], r.tag
	if code%2 == 1 {
		etag, ok := b.text(colPublished, maxTagBytes)
		r.shown = parseTag(etag)
		return ok && r.shown != r.tag
	}
	return true
}

func (b *blockReader) checkEmpty() error {
	for _, c := range b.column {
		if len(c) != 0 {
			return errBlock
		}
	}
	if len(b.sums) != 0 {
		return errBlock
	}
	return nil
}

func (b *blockReader) byte(column int) (byte, bool) {
	c := b.column[column]
	if len(c) == 0 {
		return 0, false
	}
	b.column[column] = c[1:]
	return c[0], true
}

func (b *blockReader) uvarint(column int) (uint64, bool) {
	v, rest, ok := takeUvarint(b.column[column])
	b.column[column] = rest
	return v, ok
}

func (b *blockReader) text(column, limit int) (string, bool) {
	n, ok := b.uvarint(column)
	c := b.column[column]
	if !ok || n > uint64(len(c)) || n > uint64(limit) {
		return "", false
	}
	b.column[column] = c[n:]
	return string(c[:n]), true
}

func takeUvarint(b []byte) (uint64, []byte, bool) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], true
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, b, false
	}
	return v, b[n:], true
}
