// Package bucket is one S3 bucket as this project uses it: conditional reads
// and writes, exact keys, ordered listings, and the server's clock.
//
// It promises that
//   - ETags are opaque: what the server sent is sent back byte for byte;
//   - keys make the round trip exactly, whatever bytes they hold;
//   - a conditional PUT is sent once: the SDK's own retries are off for it,
//     because a retry after a lost reply meets the first attempt's own write
//     and looks like somebody else's;
//   - a listing that cannot be proven complete ends in an error, and so does a
//     range that is not exactly the part that was asked for;
//   - an upload of any length takes a bounded amount of memory, and one that
//     fails leaves neither an object nor parts of one;
//   - one Options value (encryption key, expected owner, checksum, requester
//     pays) rides on every call, so that a bucket policy is met everywhere or
//     nowhere.
//
// It does not decide what a failed write means: an error that is none of
// ErrNotFound, ErrNotModified, ErrPrecondition and ErrConflict may stand for a
// write that landed, and the caller has to read back. It never uses DELETE or
// COPY conditions, which several S3-compatible stores ignore.
//
// Keys are what S3 takes: 1 to 1,024 bytes of UTF-8 whose ".." segments never
// lead above the bucket. S3 itself refuses any other; Memory does the same.
package bucket

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Condition makes a request depend on the object's current version. The zero
// value asks for nothing.
type Condition struct {
	// IfMatch is an ETag as received; the request fails with ErrPrecondition
	// when the object has another one, and with ErrNotFound when there is none.
	IfMatch string
	// IfNoneMatch is "*" for a PUT that may only create (else ErrPrecondition),
	// or an ETag for a GET that returns ErrNotModified while it is current.
	IfNoneMatch string
}

func (c Condition) isZero() bool { return c == Condition{} }

// forPut refuses what S3 does not implement for a PUT. A store that ignores
// such a condition would write without any.
func (c Condition) forPut() error {
	switch {
	case c.IfMatch != "" && c.IfNoneMatch != "":
		return errors.New("a PUT takes IfMatch or IfNoneMatch, not both")
	case c.IfNoneMatch != "" && c.IfNoneMatch != "*":
		return errors.New(`a PUT takes only "*" for IfNoneMatch`)
	case c.IfMatch == "*":
		return errors.New(`a PUT takes an ETag for IfMatch, not "*"`)
	}
	return nil
}

// Object is one version of an object, open for reading. Close its Body.
type Object struct {
	Body         io.ReadCloser
	Key          string
	ETag         string // opaque, with quotes as the server sent them
	VersionID    string // empty where the bucket keeps no versions
	Size         int64  // bytes in Body: for a part of an object, the part's
	LastModified time.Time
	ServerTime   time.Time // the response's Date, whole seconds; never zero
	// Metadata is what was written with this version; names are in lower case.
	Metadata map[string]string
}

// PutOptions are what goes with a body.
type PutOptions struct {
	ContentType string
	// Metadata is kept with the object: names of a-z, 0-9 and "-", values of
	// printable US-ASCII, 2 KiB in all. It belongs to the version: a write without
	// metadata leaves none.
	Metadata  map[string]string
	Condition Condition
}

// maxMetadataBytes is S3's limit on all names and values together.
// Source: S3 User Guide, "Working with object metadata".
const maxMetadataBytes = 2 << 10

func (o PutOptions) check() error {
	size := 0
	for name, value := range o.Metadata {
		size += len(name) + len(value)
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') }) {
			return fmt.Errorf("metadata name %q: only a-z, 0-9 and \"-\" come back as they were", name)
		}
		if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("metadata %s is %q: only printable US-ASCII without spaces around it comes back as it was", name, value)
		}
	}
	if size > maxMetadataBytes {
		return fmt.Errorf("metadata has %d bytes; S3 takes %d", size, maxMetadataBytes)
	}
	return o.Condition.forPut()
}

// Version is one version of an object in a bucket that keeps versions.
type Version struct {
	VersionID    string
	IsLatest     bool
	DeleteMarker bool // the object was deleted then; there is no content
	ETag         string
	Size         int64 // bytes
	LastModified time.Time
}

// Written says what a PUT left behind.
type Written struct {
	ETag       string
	VersionID  string
	ServerTime time.Time // the response's Date, whole seconds; never zero
}

// Entry is one object in a listing.
type Entry struct {
	Key          string
	ETag         string
	StorageClass string // empty means STANDARD
	Restored     bool   // archived, and a copy can be read for a while
	Size         int64  // bytes
	LastModified time.Time
}

// Page is one page of a listing.
type Page struct {
	Entries    []Entry
	ServerTime time.Time // the response's Date, whole seconds; never zero
	// SlowDowns is how often the server refused this page with "slow down" (as
	// in ErrSlowDown) before it gave it. A client of many listings asks for
	// fewer at once when this grows.
	SlowDowns int
	// Last is true on the page that completes the listing. A listing that
	// stopped without such a page must not be taken as complete.
	Last bool
}

// ListOptions narrows a listing.
type ListOptions struct {
	Prefix     string // raw S3 prefix: "a" matches "ab"
	StartAfter string // list keys after this one, exclusively
	PageSize   int32  // keys a page, at most 1,000; zero means the server's default (1,000)
}
