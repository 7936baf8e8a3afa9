package bucket

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// rawPage is what is read of an answer to ListObjectsV2.
type rawPage struct {
	entries     []Entry // with keys as they were sent
	encoding    string  // of the keys
	isTruncated *bool   // nil where the answer does not say
	token       string
}

// plain reads XML that is elements in elements, and text in the innermost:
// there are no attributes, comments, sections or instructions, and no entities
// but those that need no declaration. Whatever differs makes it odd.
type plain struct {
	rest  []byte
	empty []byte // name of an element that ended in the tag that began it
	odd   bool

	unescaped []byte // text, until the next one
}

var roots = [][]byte{
	[]byte(`<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`),
	[]byte(`<ListBucketResult>`),
}

// readPlain reads an answer to ListObjectsV2, or returns false where it is not
// plain throughout. What it returns is what the SDK's decoder would; nothing
// that the SDK takes for an error is plain.
func readPlain(answer []byte) (*rawPage, bool) {
	rest := bytes.TrimPrefix(answer, []byte(`<?xml version="1.0" encoding="UTF-8"?>`))
	rest = bytes.TrimLeft(rest, "\n")
	for _, root := range roots {
		if rest, ok := bytes.CutPrefix(rest, root); ok && isPlainText(rest) {
			p := &plain{rest: rest}
			read := p.page([]byte("ListBucketResult"))
			return read, !p.odd && len(bytes.TrimSpace(p.rest)) == 0
		}
	}
	return nil, false
}

// isPlainText tells whether text is UTF-8 that XML allows and no parser changes.
// Source: Extensible Markup Language (XML) 1.0, sections 2.2 and 2.11.
func isPlainText(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return utf8.Valid(text) && !bytes.Contains(text, []byte("\uFFFE")) && !bytes.Contains(text, []byte("\uFFFF"))
}

// entryBytes is about what an object takes in an answer.
const entryBytes = 250

func (p *plain) page(name []byte) *rawPage {
	read := &rawPage{entries: make([]Entry, 0, len(p.rest)/entryBytes)}
	p.within(name, func(name []byte) {
		switch string(name) {
		case "Contents":
			read.entries = append(read.entries, p.entry(name))
		case "IsTruncated":
			read.isTruncated = new(parsed(p, name, strconv.ParseBool))
		case "NextContinuationToken":
			read.token = string(p.text(name))
		case "EncodingType":
			read.encoding = string(p.text(name))
		case "KeyCount", "MaxKeys":
			parsed(p, name, parseInt)
		case "CommonPrefixes": // nobody asked for them
			p.odd = true
		default:
			p.unread(name)
		}
	})
	return read
}

func (p *plain) entry(name []byte) (e Entry) {
	var isRestoring, expires bool
	p.within(name, func(name []byte) {
		switch string(name) {
		case "Key":
			e.Key = string(p.text(name))
		case "ETag":
			e.ETag = string(p.text(name))
		case "Size":
			e.Size = parsed(p, name, parseInt)
		case "LastModified":
			e.LastModified = p.time(name)
		case "StorageClass":
			e.StorageClass = storageClass(p.text(name))
		case "RestoreStatus":
			p.within(name, func(name []byte) {
				switch string(name) {
				case "IsRestoreInProgress":
					isRestoring = parsed(p, name, strconv.ParseBool)
				case "RestoreExpiryDate":
					p.time(name)
					expires = true
				default:
					p.unread(name)
				}
			})
		case "Owner":
			p.within(name, p.unread)
		default:
			p.unread(name)
		}
	})
	e.Restored = restored(isRestoring, expires)
	return e
}

// within calls read at each element of the one called name, and ends where
// that one does.
func (p *plain) within(name []byte, read func(name []byte)) {
	for {
		text, child, ended := p.next()
		p.odd = p.odd || len(bytes.TrimSpace(text)) > 0
		if ended || p.odd {
			p.odd = p.odd || !bytes.Equal(child, name)
			return
		}
		read(child)
	}
}

// text returns the text of the element called name, to its end. It is to be
// used before the next call.
func (p *plain) text(name []byte) []byte {
	text, next, ended := p.next()
	p.odd = p.odd || !ended || !bytes.Equal(next, name)
	return p.unescape(text)
}

// next returns the text before the next tag, the tag's name, and whether it
// ends an element.
func (p *plain) next() (text, name []byte, ends bool) {
	if p.empty != nil {
		name, p.empty = p.empty, nil
		return nil, name, true
	}
	text, rest, _ := bytes.Cut(p.rest, []byte{'<'})
	name, rest, ok := bytes.Cut(rest, []byte{'>'})
	p.rest = rest
	if name, ends = bytes.CutPrefix(name, []byte{'/'}); !ends {
		var isEmpty bool
		if name, isEmpty = bytes.CutSuffix(name, []byte{'/'}); isEmpty {
			p.empty = name
		}
	}
	p.odd = p.odd || !ok || !isLetters(name) || bytes.IndexByte(text, '>') >= 0
	return text, name, ends
}

func isLetters(name []byte) bool {
	for _, c := range name {
		if lower := c | 0x20; lower < 'a' || lower > 'z' {
			return false
		}
	}
	return len(name) > 0
}

// entities are the ones that XML knows without declaration.
var entities = map[string]string{"amp": "&", "apos": "'", "gt": ">", "lt": "<", "quot": `"`}

// unescape replaces entities.
func (p *plain) unescape(text []byte) []byte {
	if bytes.IndexByte(text, '&') < 0 {
		return text
	}
	p.unescaped = p.unescaped[:0]
	for {
		before, rest, found := bytes.Cut(text, []byte{'&'})
		p.unescaped = append(p.unescaped, before...)
		if !found {
			return p.unescaped
		}
		entity, rest, ok := bytes.Cut(rest, []byte{';'})
		text = rest
		if number, isNumber := bytes.CutPrefix(entity, []byte{'#'}); isNumber {
			p.unescaped = utf8.AppendRune(p.unescaped, p.character(string(number)))
		} else {
			character, isKnown := entities[string(entity)]
			ok = ok && isKnown
			p.unescaped = append(p.unescaped, character...)
		}
		p.odd = p.odd || !ok
	}
}

// character returns what a reference such as #34 or #x22 stands for.
func (p *plain) character(number string) rune {
	base := 10
	if digits, isHex := strings.CutPrefix(number, "x"); isHex {
		number, base = digits, 16
	}
	n, err := strconv.ParseUint(number, base, 21)
	r := rune(n)
	p.odd = p.odd || err != nil || !utf8.ValidRune(r) || !isPlainText([]byte(string(r)))
	return r
}

// parsed returns the value of the element called name.
func parsed[T any](p *plain, name []byte, parse func(string) (T, error)) T {
	value, err := parse(string(p.text(name)))
	p.odd = p.odd || err != nil
	return value
}

func parseInt(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// time returns the value of the element called name, as the SDK reads it.
func (p *plain) time(name []byte) (t time.Time) {
	err := t.UnmarshalText(p.text(name)) // RFC 3339
	p.odd = p.odd || err != nil
	return t
}

var storageClasses = types.ObjectStorageClass("").Values()

// storageClass returns a string that all entries share.
func storageClass(text []byte) string {
	for _, class := range storageClasses {
		if string(text) == string(class) {
			return string(class)
		}
	}
	return string(text)
}

// names are those that the SDK knows in an answer.
var names = []string{
	"ChecksumAlgorithm", "ChecksumType", "CommonPrefixes", "Contents", "ContinuationToken", "Delimiter", "DisplayName",
	"ETag", "EncodingType", "ID", "IsRestoreInProgress", "IsTruncated", "Key", "KeyCount", "LastModified", "MaxKeys",
	"Name", "NextContinuationToken", "Owner", "Prefix", "RestoreExpiryDate", "RestoreStatus", "Size", "StartAfter",
	"StorageClass",
}

// unread passes over an element that nothing is made of. A name that the SDK
// knows in other letters, upper for lower or lower for upper, it takes for that one.
func (p *plain) unread(name []byte) {
	if !slices.Contains(names, string(name)) {
		p.odd = p.odd || slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, string(name)) })
	}
	p.text(name)
}
