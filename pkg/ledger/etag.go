package ledger

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// tag is an ETag in 16 bytes where it is an MD5, alone or followed by a count
// of parts, and word for word where it is anything else. Two tags are equal
// exactly when their ETags are.
type tag struct {
	form  tagForm
	sum   [16]byte
	parts uint32
	other string
}

type tagForm byte

const (
	tagEmpty       tagForm = iota
	tagQuoted              // "d41d8cd98f00b204e9800998ecf8427e", with the quotes
	tagBare                // the same without
	tagQuotedParts         // "d41d8cd98f00b204e9800998ecf8427e-12"
	tagBareParts
	tagOther
	tagForms // how many there are
)

func (f tagForm) hasSum() bool   { return f >= tagQuoted && f <= tagBareParts }
func (f tagForm) hasParts() bool { return f == tagQuotedParts || f == tagBareParts }

func parseTag(etag string) tag {
	if etag == "" {
		return tag{}
	}
	t := tag{form: tagBare}
	inner := etag
	if len(etag) >= 34 && etag[0] == '"' && etag[len(etag)-1] == '"' {
		t.form, inner = tagQuoted, etag[1:len(etag)-1]
	}
	if !t.parseSum(inner) {
		return tag{form: tagOther, other: etag}
	}
	if len(inner) == 32 {
		return t
	}
	parts, ok := parseParts(inner[32:])
	if !ok {
		return tag{form: tagOther, other: etag}
	}
	t.form += tagQuotedParts - tagQuoted
	t.parts = parts
	return t
}

// parseSum reads 32 lower-case hex digits; upper case would not come back.
func (t *tag) parseSum(s string) bool {
	if len(s) < 32 {
		return false
	}
	for i := range t.sum {
		hi, lo := hexDigits[s[2*i]], hexDigits[s[2*i+1]]
		if hi|lo > 0x0f {
			return false
		}
		t.sum[i] = hi<<4 | lo
	}
	return true
}

// hexDigits are the values of the digits, and 0xff for what is none.
var hexDigits = func() (values [256]byte) {
	for i := range values {
		values[i] = 0xff
	}
	for value, digit := range []byte("0123456789abcdef") {
		values[digit] = byte(value)
	}
	return values
}()

// parseParts reads "-12". "-012" and "-+12" are left to be kept word for word.
func parseParts(s string) (uint32, bool) {
	digits, ok := strings.CutPrefix(s, "-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, false
	}
	return uint32(n), true
}

// String is the ETag exactly as it was.
func (t tag) String() string {
	if !t.form.hasSum() {
		return t.other
	}
	b := make([]byte, 0, 48)
	quoted := t.form == tagQuoted || t.form == tagQuotedParts
	if quoted {
		b = append(b, '"')
	}
	b = hex.AppendEncode(b, t.sum[:])
	if t.form.hasParts() {
		b = append(b, '-')
		b = strconv.AppendUint(b, uint64(t.parts), 10)
	}
	if quoted {
		b = append(b, '"')
	}
	return string(b)
}
