package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Segment format, version 2. Integers of fixed width are little-endian,
// "uvarint" is encoding/binary's; checksums are CRC-32C.
//
//	segment = magic (8) block… index footer (44)
//	frame   = kind (1: 'B' block, 'I' index) number (4) length (4) checksum (4) payload
//	          The checksum covers the nine bytes before it and the payload;
//	          frames are numbered from 0, so that a lost one is noticed at once.
//	block   = uvarint rows, uvarint raw, uvarint packed, columns (packed bytes
//	          of zstd, raw bytes unpacked), then 16 bytes for every ETag that is
//	          an MD5, which nothing would compress
//	columns = twelve times: uvarint length, bytes (see block_writer.go)
//	index   = uvarint raw, zstd of: uvarint blocks; for each block: uvarint
//	          length of its frame, uvarint rows, uvarint bytes shared with the
//	          key before, uvarint length and bytes of the rest of its first key;
//	          then uvarint length and bytes of the segment's last key
//	footer  = offset of the index (8) rows (8) rows that are marks (8)
//	          blocks (4) checksum over the offset up to here (4) end magic (12)
//
// Rows are in key order (UTF-8 bytes), each key once. A key is what it shares
// with the key before at either end, and the bytes in between; a block's first
// key shares nothing, so that a block can be read by itself. Rows of a block
// are stored by column: what repeats costs next to nothing, and 16 bytes of
// ETag and the digits of a size are what a row comes to.
const (
	segmentMagic  = "LOCKSEG\x02"
	segmentEnd    = "\x02LOCKSEG-END"
	frameHeader   = 1 + 4 + 4 + 4
	footerBytes   = 8 + 8 + 8 + 4 + 4 + len(segmentEnd)
	kindBlock     = byte('B')
	kindIndex     = byte('I')
	maxBlockBytes = 4 << 20  // of a block, packed or not
	maxIndexBytes = 64 << 20 // of an index, unpacked
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a row as segments hold it. From a reader its key is valid until
// the next record is read.
type record struct {
	key      []byte
	tag      tag
	size     int64
	outcome  Outcome
	attempts int
	commit   commitMark
	suspect  bool
	// cut: what older rows published does not hold any more; the key was gone.
	cut bool
	// place and shown are what is visible of the file: under which name and token,
	// and of which version. A zero place is what older rows say.
	place place
	shown tag
}

// commitMark is what the rows of one commit have in common.
type commitMark struct {
	run      string
	at       int64 // Unix seconds, 0 for unknown
	settings string
}

// place is what the outputs that one run published have in common.
type place struct {
	token int64
	name  string
}

func newCommitMark(run string, at time.Time, settings string) commitMark {
	mark := commitMark{run: run, settings: settings}
	if !at.IsZero() {
		mark.at = at.Unix()
	}
	return mark
}

// inherit takes over what an older row of the same key says of the visible
// output. It returns false when nothing more is to be learned from older rows.
func (r *record) inherit(older *record) (more bool) {
	switch {
	case r.place != place{} || r.cut:
		return false
	case older.outcome == gone:
		r.cut = true
		return false
	}
	r.place, r.shown, r.cut = older.place, older.shown, older.cut
	return r.place == place{} && !r.cut
}

func (r *record) row() Row {
	row := Row{
		Key: string(r.key), ETag: r.tag.String(), Size: r.size,
		Outcome: r.outcome, Attempts: r.attempts, Run: r.commit.run, Settings: r.commit.settings, Suspect: r.suspect,
	}
	if r.place != (place{}) {
		row.Published = Published{ETag: r.shown.String(), Token: r.place.token, Name: r.place.name}
	}
	if r.commit.at != 0 {
		row.At = time.Unix(r.commit.at, 0).UTC()
	}
	return row
}

// record is the row as a segment holds it.
func (r Row) record() record {
	next := record{
		key: []byte(r.Key), tag: parseTag(r.ETag), size: r.Size, suspect: r.Suspect,
		outcome: r.Outcome, attempts: r.Attempts, commit: newCommitMark(r.Run, r.At, r.Settings),
	}
	if p := r.Published; p != (Published{}) {
		next.place, next.shown = place{token: p.Token, name: p.Name}, parseTag(p.ETag)
	}
	return next
}

// outcomeCodes are the bytes of the outcomes in a segment. Never renumber.
var outcomeCodes = [...]Outcome{1: Done, 2: Failed, 3: Quarantined, 4: gone, 5: Due}

// Flags in the byte of an outcome.
const (
	flagSuspect = 0x80
	flagCut     = 0x40
	outcomeBits = 0x3f
)

func outcomeCode(o Outcome) (byte, error) {
	for code, outcome := range outcomeCodes {
		if outcome == o && code > 0 {
			return byte(code), nil
		}
	}
	return 0, fmt.Errorf("outcome %q is none of done, failed, quarantined, due", o)
}

func frameHead(kind byte, number uint32, payload []byte) [frameHeader]byte {
	var h [frameHeader]byte
	h[0] = kind
	binary.LittleEndian.PutUint32(h[1:], number)
	binary.LittleEndian.PutUint32(h[5:], uint32(len(payload)))
	sum := crc32.Update(crc32.Checksum(h[:9], castagnoli), castagnoli, payload)
	binary.LittleEndian.PutUint32(h[9:], sum)
	return h
}

// segmentStats is what a writer wrote, and what a reader found at the end.
type segmentStats struct {
	rows, gone  int64
	first, last string
	bytes       int64
}

// footer is the fixed end of a segment.
type footer struct {
	index      int64 // offset of the index frame
	rows, gone int64
	blocks     uint32
}

func (f footer) encode() []byte {
	b := make([]byte, 0, footerBytes)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.index))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.rows))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.gone))
	b = binary.LittleEndian.AppendUint32(b, f.blocks)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, segmentEnd...)
}

func decodeFooter(b []byte) (footer, error) {
	if len(b) != footerBytes || string(b[32:]) != segmentEnd {
		return footer{}, fmt.Errorf("no end mark where one should be")
	}
	if crc32.Checksum(b[:28], castagnoli) != binary.LittleEndian.Uint32(b[28:]) {
		return footer{}, fmt.Errorf("the checksum of the footer is wrong")
	}
	return footer{
		index:  int64(binary.LittleEndian.Uint64(b)),
		rows:   int64(binary.LittleEndian.Uint64(b[8:])),
		gone:   int64(binary.LittleEndian.Uint64(b[16:])),
		blocks: binary.LittleEndian.Uint32(b[24:]),
	}, nil
}
