package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// segmentIndex says where the blocks of a segment are, so that a part of the
// segment can be read by itself. Like everything that is read of a segment it
// has been checked: against its checksum, the footer, and the head.
type segmentIndex struct {
	Segment
	blocks []blockPlace
	last   string // key of the segment
	body   []byte // the whole object, where it is small
}

// blockPlace is one line of an index.
type blockPlace struct {
	first  string // key
	offset int64  // of the frame in the object
	length int    // of the frame
	rows   int
}

// holding returns the blocks, from and up to to, that may have keys of s.
func (x *segmentIndex) holding(s span) (from, to int) {
	// A block's keys go up to the next block's first.
	from = max(0, sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].first > s.after })-1)
	to = len(x.blocks)
	if s.upTo != "" {
		to = sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].first > s.upTo })
	}
	return min(from, to), to
}

// indexes are the indexes of a head's segments, each read once, when it is
// needed first.
type indexes struct {
	ledger *Ledger
	fetch  int64 // bytes of blocks that a reader asks for at a time
	mu     sync.Mutex
	known  map[string]func(context.Context) (*segmentIndex, error)
}

// newIndexes is for so many readers at a time: the more, the less each holds.
func (l *Ledger) newIndexes(readers int) *indexes {
	return &indexes{
		ledger: l, fetch: min(l.limits.fetchBytes, l.limits.readBytes/int64(max(1, readers))),
		known: map[string]func(context.Context) (*segmentIndex, error){},
	}
}

func (x *indexes) of(ctx context.Context, s Segment) (*segmentIndex, error) {
	x.mu.Lock()
	read, known := x.known[s.Name]
	if !known {
		var once sync.Once
		var index *segmentIndex
		var err error
		read = func(ctx context.Context) (*segmentIndex, error) {
			once.Do(func() { index, err = x.ledger.readIndex(ctx, s) })
			return index, err
		}
		x.known[s.Name] = read
	}
	x.mu.Unlock()
	return read(ctx)
}

// readIndex reads the end of a segment, or the whole of a small one.
func (l *Ledger) readIndex(ctx context.Context, s Segment) (*segmentIndex, error) {
	key := l.prefix + s.Name
	from := s.Bytes - l.limits.tailBytes
	if s.Bytes <= l.limits.wholeBytes || from < 0 {
		from = 0
	}
	tail, err := l.readPart(ctx, s, from, s.Bytes-from, nil)
	if err != nil {
		return nil, err
	}
	damaged := func(format string, args ...any) error {
		return &DamagedError{Object: key, Reason: fmt.Sprintf(format, args...)}
	}
	if len(tail) < footerBytes {
		return nil, damaged("it has only %d bytes", s.Bytes)
	}
	end, err := decodeFooter(tail[len(tail)-footerBytes:])
	if err != nil {
		return nil, damaged("%v", err)
	}
	if end.index < int64(len(segmentMagic)) || end.index >= s.Bytes-int64(footerBytes) || end.rows != s.Rows || end.gone != s.Gone {
		return nil, damaged("its footer says %+v, the head says %d bytes, %d rows, %d gone", end, s.Bytes, s.Rows, s.Gone)
	}
	if end.index < from {
		missing, err := l.readPart(ctx, s, end.index, from-end.index, nil)
		if err != nil {
			return nil, err
		}
		tail, from = append(missing, tail...), end.index
	}
	index := &segmentIndex{Segment: s}
	payload, err := checkFrame(tail[end.index-from:len(tail)-footerBytes], kindIndex, end.blocks)
	if err != nil {
		return nil, damaged("its index: %v", err)
	}
	if err := index.decode(payload, end, l.unpackers); err != nil {
		return nil, damaged("its index: %v", err)
	}
	if index.blocks[0].first != s.First || index.last != s.Last {
		return nil, damaged("it holds keys %q to %q, the head says %q to %q", index.blocks[0].first, index.last, s.First, s.Last)
	}
	if from == 0 {
		index.body = tail
	}
	return index, nil
}

// readPart reads a part of a segment, into buffer where that is large enough.
func (l *Ledger) readPart(ctx context.Context, s Segment, offset, length int64, buffer []byte) ([]byte, error) {
	key := l.prefix + s.Name
	object, err := l.store.GetRange(ctx, key, bucket.Condition{}, offset, length)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return nil, missingSegment(key)
	case errors.Is(err, bucket.ErrRange):
		return nil, cmp.Or(l.checkSize(ctx, s), err) // cut, or behind an endpoint without ranges
	case err != nil:
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer object.Body.Close()
	part := slices.Grow(buffer[:0], int(length))[:length]
	if _, err := io.ReadFull(cutReader{object.Body}, part); err != nil {
		return nil, fmt.Errorf("read segment %s: %w", key, err)
	}
	return part, nil
}

func (l *Ledger) checkSize(ctx context.Context, s Segment) error {
	object, err := l.getSegment(ctx, s)
	if err == nil {
		object.Body.Close()
	}
	return err
}

// checkFrame returns the payload of a frame.
func checkFrame(frame []byte, kind byte, number uint32) ([]byte, error) {
	if len(frame) < frameHeader {
		return nil, fmt.Errorf("it has only %d bytes", len(frame))
	}
	payload := frame[frameHeader:]
	if want := frameHead(kind, number, payload); string(want[:]) != string(frame[:frameHeader]) {
		return nil, errors.New("wrong checksum, number, kind or length")
	}
	return payload, nil
}

var errIndex = errors.New("its parts do not fit together")

// decode reads what indexWriter wrote, and holds it against the footer.
func (x *segmentIndex) decode(payload []byte, end footer, u *unpackers) error {
	size, packed, ok := takeUvarint(payload)
	if !ok || size > maxIndexBytes {
		return errIndex
	}
	raw, err := unpack(u.index, packed, nil)
	if err != nil {
		return err
	}
	lines := unpacking{left: raw}
	if blocks := lines.number(); uint64(len(raw)) != size || blocks != uint64(end.blocks) || blocks > size || blocks == 0 {
		return errIndex
	}
	x.blocks = make([]blockPlace, 0, end.blocks)
	offset, rows, key := int64(len(segmentMagic)), int64(0), ""
	for range end.blocks {
		frame, count, shared := lines.number(), lines.number(), lines.number()
		rest := lines.bytes()
		if lines.err != nil || frame <= frameHeader || frame > maxBlockBytes+frameHeader || count == 0 || count > maxBlockBytes || shared > uint64(len(key)) {
			return errIndex
		}
		first := key[:shared] + string(rest)
		if first <= key || len(first) > maxKeyBytes {
			return errIndex
		}
		key = first
		x.blocks = append(x.blocks, blockPlace{first: first, offset: offset, length: int(frame), rows: int(count)})
		offset += int64(frame)
		rows += int64(count)
	}
	x.last = string(lines.bytes())
	if lines.err != nil || len(lines.left) > 0 || offset != end.index || rows != end.rows || x.last < key {
		return errIndex
	}
	return nil
}

// blocksReader reads some blocks of a segment, a few at a time: no connection
// stays open while the listing goes on beside it.
type blocksReader struct {
	ledger  *Ledger
	ctx     context.Context // of the discovery that reads
	index   *segmentIndex
	size    int64 // bytes to fetch at a time
	at      int   // the next block to load
	to      int
	fetched []byte // frames of the blocks from at on
	buffer  []byte // what was fetched; the block before it is read to its end by then
	block   *blockReader
}

func (r *blocksReader) next(into *record) (bool, error) {
	if r.block.left == 0 {
		if r.at == r.to {
			return false, nil
		}
		if err := r.load(); err != nil {
			return false, err
		}
	}
	fresh := r.block.left == r.block.rows
	if err := r.block.next(into); err != nil {
		return false, r.damaged(err)
	}
	if fresh && string(into.key) != r.index.blocks[r.at-1].first {
		return false, r.damaged(errors.New("it begins with another key than the index says"))
	}
	return true, nil
}

// load begins the next block.
func (r *blocksReader) load() error {
	place := r.index.blocks[r.at]
	if len(r.fetched) == 0 {
		if err := r.fetch(); err != nil {
			return err
		}
	}
	frame := r.fetched[:place.length]
	r.fetched = r.fetched[place.length:]
	payload, err := checkFrame(frame, kindBlock, uint32(r.at))
	r.at++
	if err == nil {
		err = r.block.load(payload)
	}
	if err == nil && r.block.rows != place.rows {
		err = fmt.Errorf("it has %d rows, the index says %d", r.block.rows, place.rows)
	}
	if err != nil {
		return r.damaged(err)
	}
	return nil
}

// fetch reads as many whole blocks as are worth one request.
func (r *blocksReader) fetch() error {
	first := r.index.blocks[r.at]
	length := int64(first.length)
	for i := r.at + 1; i < r.to && length+int64(r.index.blocks[i].length) <= r.size; i++ {
		length += int64(r.index.blocks[i].length)
	}
	if r.index.body != nil {
		r.fetched = r.index.body[first.offset : first.offset+length]
		return nil
	}
	var err error
	r.buffer, err = r.ledger.readPart(r.ctx, r.index.Segment, first.offset, length, r.buffer)
	r.fetched = r.buffer
	return err
}

func (r *blocksReader) damaged(err error) error {
	return &DamagedError{Object: r.ledger.prefix + r.index.Name, Reason: fmt.Sprintf("block %d: %v", r.at-1, err)}
}

func (r *blocksReader) close() {}
