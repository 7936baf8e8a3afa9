package ledger

import (
	"encoding/binary"
	"errors"
	"time"
)

// A sorter's temporary file holds files and records in this form. It does
// not outlive the process that wrote it, and so has no version.

var errPacking = errors.New("the temporary file of a sort is damaged")

func packText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// unpacking reads what was packed; after the first error it yields zeros.
type unpacking struct {
	left []byte
	err  error
}

func (u *unpacking) number() uint64 {
	v, rest, ok := takeUvarint(u.left)
	if !ok {
		u.err = errPacking
	}
	u.left = rest
	return v
}

func (u *unpacking) bytes() []byte {
	n := u.number()
	if n > uint64(len(u.left)) {
		u.err = errPacking
		return nil
	}
	b := u.left[:n]
	u.left = u.left[n:]
	return b
}

func packRecord(r record) []byte {
	b := make([]byte, 0, len(r.key)+80)
	b = packText(b, string(r.key))
	b = packText(b, r.tag.String())
	b = binary.AppendUvarint(b, uint64(r.size))
	b = packText(b, string(r.outcome))
	b = binary.AppendUvarint(b, uint64(r.attempts))
	b = append(b, packBool(r.suspect))
	b = binary.AppendUvarint(b, uint64(r.place.token))
	b = packText(b, r.place.name)
	return packText(b, r.shown.String())
}

func packBool(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// unpackRecord returns a record without its commit mark, which all records of
// a sort share.
func unpackRecord(b []byte) (record, error) {
	u := unpacking{left: b}
	r := record{key: append([]byte(nil), u.bytes()...)}
	r.tag = parseTag(string(u.bytes()))
	r.size = int64(u.number())
	r.outcome = Outcome(u.bytes())
	r.attempts = int(u.number())
	r.suspect = u.number() == 1
	r.place.token = int64(u.number())
	r.place.name = string(u.bytes())
	r.shown = parseTag(string(u.bytes()))
	return r, u.err
}

func packDue(d due) []byte {
	b := make([]byte, 0, len(d.Key)+96)
	b = append(b, byte(d.kind), packBool(d.Suspect))
	b = packText(b, d.Key)
	b = packText(b, d.ETag)
	b = binary.AppendUvarint(b, uint64(d.Size))
	b = binary.AppendUvarint(b, uint64(d.Attempts))
	if d.LastModified.IsZero() {
		return b
	}
	b = binary.AppendVarint(b, d.LastModified.Unix())
	return binary.AppendUvarint(b, uint64(d.LastModified.Nanosecond()))
}

func unpackDue(b []byte) (due, error) {
	if len(b) < 2 {
		return due{}, errPacking
	}
	u := unpacking{left: b[2:]}
	d := due{kind: Kind(b[0])}
	d.Suspect = b[1] == 1
	d.Key, d.ETag = string(u.bytes()), string(u.bytes())
	d.Size, d.Attempts = int64(u.number()), int(u.number())
	if len(u.left) > 0 && u.err == nil {
		seconds, n := binary.Varint(u.left)
		u.left = u.left[max(n, 0):]
		d.LastModified = time.Unix(seconds, int64(u.number())).UTC()
	}
	return d, u.err
}
