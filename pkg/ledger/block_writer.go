package ledger

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// The columns of a block, in the order of the format.
const (
	colHead      = iota // uvarint: bytes the key shares with the beginning of the key before
	colTail             // uvarint: bytes it shares with its end
	colMiddle           // uvarint: how many bytes lie in between
	colKeys             // those bytes
	colSizes            // uvarint
	colOutcomes         // byte: outcome, and flags
	colAttempts         // uvarint
	colCommits          // uvarint: which of colRuns
	colTags             // byte: form; then a uvarint of parts, or a uvarint length and the ETag
	colRuns             // varint of Unix seconds, uvarint length, run, uvarint length, settings
	colPlaces           // uvarint token, uvarint length, name
	colPublished        // uvarint: 0 for what older rows say; else twice the number of colPlaces plus two, plus one where the version is not the row's: then a uvarint length and its ETag
	columns
)

// blockWriter gathers rows by column.
type blockWriter struct {
	rows    int
	column  [columns][]byte
	sums    []byte
	commits map[commitMark]uint64
	places  map[place]uint64
	last    []byte
	packer  *zstd.Encoder
}

func newBlockWriter() (*blockWriter, error) {
	// One block is far below any window; the default would allocate megabytes.
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	return &blockWriter{commits: map[commitMark]uint64{}, places: map[place]uint64{}, packer: packer}, nil
}

func (w *blockWriter) add(r *record) error {
	code, err := outcomeCode(r.outcome)
	if err != nil {
		return err
	}
	head, tail := 0, 0
	if w.rows > 0 {
		head, tail = sharedEnds(w.last, r.key)
	}
	middle := r.key[head : len(r.key)-tail]
	w.uvarint(colHead, head)
	w.uvarint(colTail, tail)
	w.uvarint(colMiddle, len(middle))
	w.column[colKeys] = append(w.column[colKeys], middle...)
	w.column[colSizes] = binary.AppendUvarint(w.column[colSizes], uint64(r.size))
	if r.suspect {
		code |= flagSuspect
	}
	if r.cut {
		code |= flagCut
	}
	w.column[colOutcomes] = append(w.column[colOutcomes], code)
	w.uvarint(colAttempts, r.attempts)
	w.addCommit(r.commit)
	w.addTag(r.tag)
	w.addPublished(r)
	w.last = append(w.last[:0], r.key...)
	w.rows++
	return nil
}

func (w *blockWriter) uvarint(column, v int) {
	w.column[column] = binary.AppendUvarint(w.column[column], uint64(v))
}

func (w *blockWriter) text(column int, s string) {
	w.uvarint(column, len(s))
	w.column[column] = append(w.column[column], s...)
}

func (w *blockWriter) addCommit(c commitMark) {
	number, known := w.commits[c]
	if !known {
		number = uint64(len(w.commits))
		w.commits[c] = number
		w.column[colRuns] = binary.AppendVarint(w.column[colRuns], c.at)
		w.text(colRuns, c.run)
		w.text(colRuns, c.settings)
	}
	w.column[colCommits] = binary.AppendUvarint(w.column[colCommits], number)
}

func (w *blockWriter) addPublished(r *record) {
	if r.place == (place{}) {
		w.uvarint(colPublished, 0)
		return
	}
	number, known := w.places[r.place]
	if !known {
		number = uint64(len(w.places))
		w.places[r.place] = number
		w.column[colPlaces] = binary.AppendUvarint(w.column[colPlaces], uint64(r.place.token))
		w.text(colPlaces, r.place.name)
	}
	code := 2*number + 2
	if r.shown == r.tag {
		w.column[colPublished] = binary.AppendUvarint(w.column[colPublished], code)
		return
	}
	w.column[colPublished] = binary.AppendUvarint(w.column[colPublished], code+1)
	w.text(colPublished, r.shown.String())
}

func (w *blockWriter) addTag(t tag) {
	w.column[colTags] = append(w.column[colTags], byte(t.form))
	if t.form.hasSum() {
		w.sums = append(w.sums, t.sum[:]...)
	}
	if t.form.hasParts() {
		w.uvarint(colTags, int(t.parts))
	}
	if t.form == tagOther {
		w.text(colTags, t.other)
	}
}

// size is what the block weighs unpacked.
func (w *blockWriter) size() int {
	n := len(w.sums)
	for _, c := range w.column {
		n += len(c)
	}
	return n
}

// finish returns the payload of the block's frame and begins the next block.
func (w *blockWriter) finish() []byte {
	raw := make([]byte, 0, w.size()+columns*binary.MaxVarintLen32)
	for i, c := range w.column {
		raw = binary.AppendUvarint(raw, uint64(len(c)))
		raw = append(raw, c...)
		w.column[i] = c[:0]
	}
	packed := w.packer.EncodeAll(raw, nil)
	payload := make([]byte, 0, len(packed)+len(w.sums)+3*binary.MaxVarintLen32)
	payload = binary.AppendUvarint(payload, uint64(w.rows))
	payload = binary.AppendUvarint(payload, uint64(len(raw)))
	payload = binary.AppendUvarint(payload, uint64(len(packed)))
	payload = append(payload, packed...)
	payload = append(payload, w.sums...)
	w.sums, w.rows = w.sums[:0], 0
	clear(w.commits)
	clear(w.places)
	return payload
}

// sharedEnds counts the bytes that key has in common with the beginning and,
// beyond those, with the end of the key before it.
func sharedEnds(before, key []byte) (head, tail int) {
	n := min(len(before), len(key))
	for head < n && before[head] == key[head] {
		head++
	}
	n -= head
	for tail < n && before[len(before)-1-tail] == key[len(key)-1-tail] {
		tail++
	}
	return head, tail
}
