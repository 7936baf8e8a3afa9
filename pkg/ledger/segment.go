package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Segment format, version 1. Integers of fixed width are little-endian,
// "uvarint" is encoding/binary's; checksums are CRC-32C.
//
//	segment = magic (8) block… index footer (44)
//	frame   = kind (1: 'B' block, 'I' index) number (4) length (4) checksum (4) payload
//	          The checksum covers the nine bytes before it and the payload;
//	          frames are numbered from 0, so that a lost one is noticed at once.
//	block   = uvarint rows, uvarint raw, uvarint packed, columns (packed bytes
//	          of zstd, raw bytes unpacked), then 16 bytes for every ETag that is
//	          an MD5, which nothing would compress
//	columns = ten times: uvarint length, bytes (see block_writer.go)
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
	segmentMagic  = "LOCKSEG\x01"
	segmentEnd    = "\x01LOCKSEG-END"
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
}

// commitMark is what the rows of one commit have in common.
type commitMark struct {
	run string
	at  int64 // Unix seconds, 0 for unknown
}

func newCommitMark(run string, at time.Time) commitMark {
	if at.IsZero() {
		return commitMark{run: run}
	}
	return commitMark{run: run, at: at.Unix()}
}

func (r *record) row() Row {
	row := Row{
		Key: string(r.key), ETag: r.tag.String(), Size: r.size,
		Outcome: r.outcome, Attempts: r.attempts, Run: r.commit.run,
	}
	if r.commit.at != 0 {
		row.At = time.Unix(r.commit.at, 0).UTC()
	}
	return row
}

// record is the row as a segment holds it.
func (r Row) record() record {
	return record{
		key: []byte(r.Key), tag: parseTag(r.ETag), size: r.Size,
		outcome: r.Outcome, attempts: r.Attempts, commit: newCommitMark(r.Run, r.At),
	}
}

// outcomeCodes are the bytes of the outcomes in a segment. Never renumber.
var outcomeCodes = [...]Outcome{1: Done, 2: Failed, 3: Quarantined, 4: gone}

func outcomeCode(o Outcome) (byte, error) {
	for code, outcome := range outcomeCodes {
		if outcome == o && code > 0 {
			return byte(code), nil
		}
	}
	return 0, fmt.Errorf("outcome %q is none of done, failed, quarantined", o)
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
