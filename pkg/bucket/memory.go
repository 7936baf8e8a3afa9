package bucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Memory is a bucket in memory with S3's semantics: conditions are atomic,
// listings are ordered and consistent, the server has a clock of whole
// seconds. It is a Bucket's equal for tests: the suite in buckettest holds
// both to the same rules, and s3test serves one over the S3 protocol.
type Memory struct {
	name string
	now  func() time.Time

	mu      sync.Mutex
	objects map[string]memoryObject
	keeps   bool                       // versions
	refuses bool                       // a create over a delete marker
	past    map[string][]memoryVersion // the oldest first; only where versions are kept
	written int                        // versions so far
	sorted  []string                   // the keys of objects in order; nil after one came or went
	before  func(op, key string) error
	after   func(op, key string) error
}

type memoryObject struct {
	body     []byte // never changed once stored
	etag     string
	class    string
	modified time.Time
	metadata map[string]string
	version  string // "" where no versions are kept
}

// memoryVersion is an object as it was, or a delete marker.
type memoryVersion struct {
	memoryObject
	marker bool
}

// KeepVersions makes the bucket keep versions from now on: a delete leaves a
// delete marker. refuseCreate makes a PUT with If-None-Match: * answer 412 where
// such a marker is the newest version, as some stores do; S3 takes the object for
// absent.
// Source: S3 User Guide, "How to prevent object overwrites with conditional writes".
func (m *Memory) KeepVersions(refuseCreate bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keeps, m.refuses, m.past = true, refuseCreate, map[string][]memoryVersion{}
	for key, o := range m.objects {
		m.keep(key, &o, false)
		m.objects[key] = o
	}
}

// keep adds a version. The caller holds mu.
func (m *Memory) keep(key string, o *memoryObject, marker bool) {
	if !m.keeps {
		return
	}
	m.written++
	o.version = fmt.Sprintf("v%08d", m.written)
	m.past[key] = append(m.past[key], memoryVersion{*o, marker})
}

// isMarked reports a delete marker as the newest version. The caller holds mu.
func (m *Memory) isMarked(key string) bool {
	past := m.past[key]
	return len(past) > 0 && past[len(past)-1].marker
}

// Versions is Bucket.Versions.
func (m *Memory) Versions(ctx context.Context, key string) ([]Version, error) {
	var found []Version
	err := m.call(ctx, "versions", key, func(time.Time) error {
		past := m.past[key]
		for i, v := range slices.Backward(past) {
			found = append(found, Version{
				VersionID: v.version, IsLatest: i == len(past)-1, DeleteMarker: v.marker, ETag: v.etag, Size: int64(len(v.body)), LastModified: v.modified,
			})
		}
		if o, ok := m.objects[key]; ok && !m.keeps {
			found = append(found, Version{VersionID: "null", IsLatest: true, ETag: o.etag, Size: int64(len(o.body)), LastModified: o.modified})
		}
		return nil
	})
	return found, err
}

// GetVersion is Bucket.GetVersion.
func (m *Memory) GetVersion(ctx context.Context, key, versionID string) (found *Object, err error) {
	err = m.call(ctx, "get", key, func(now time.Time) error {
		at := slices.IndexFunc(m.past[key], func(v memoryVersion) bool { return v.version == versionID })
		if at < 0 {
			return m.answer("get", key, http.StatusNotFound, "NoSuchVersion", now)
		}
		if m.past[key][at].marker {
			return m.answer("get", key, http.StatusMethodNotAllowed, "MethodNotAllowed", now)
		}
		found = m.past[key][at].object(key, now)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// DeleteVersion is Bucket.DeleteVersion.
func (m *Memory) DeleteVersion(ctx context.Context, key, versionID string) error {
	return m.call(ctx, "delete", key, func(time.Time) error {
		m.past[key] = slices.DeleteFunc(m.past[key], func(v memoryVersion) bool { return v.version == versionID })
		m.sorted = nil
		if past := m.past[key]; len(past) > 0 && !past[len(past)-1].marker {
			m.objects[key] = past[len(past)-1].memoryObject
		} else if m.keeps {
			delete(m.objects, key)
		}
		return nil
	})
}

// object is a stored object, open for reading.
func (o memoryObject) object(key string, now time.Time) *Object {
	return &Object{
		Body: io.NopCloser(bytes.NewReader(o.body)), Key: key, ETag: o.etag, VersionID: o.version,
		Size: int64(len(o.body)), LastModified: o.modified, ServerTime: now, Metadata: maps.Clone(o.metadata),
	}
}

// Head is Bucket.Head.
func (m *Memory) Head(ctx context.Context, key string) (found *Object, err error) {
	err = m.call(ctx, "head", key, func(now time.Time) error {
		o, ok := m.objects[key]
		if !ok {
			return m.missing("head", key, now)
		}
		found = o.object(key, now)
		found.Body = nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// missing is the answer about an object that is not there. The caller holds mu.
func (m *Memory) missing(op, key string, now time.Time) error {
	err := m.refuse(op, key, ErrNotFound, now)
	if call := (*CallError)(nil); m.isMarked(key) && errors.As(err, &call) {
		call.nature = ErrDeleteMarker
	}
	return err
}

// NewMemory returns an empty bucket. Its clock is now, or time.Now where now
// is nil.
func NewMemory(name string, now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{name: name, objects: map[string]memoryObject{}, now: now}
}

// Fault installs hooks that may fail a call ("get", "head", "put", "delete", "list", "versions";
// for a listing key is the prefix): before runs ahead of the call and its
// error stands in for it, after runs once the call took effect, so that its
// error stands for a lost reply. Either may be nil. A hook's ErrConflict,
// ErrSlowDown and the like become that answer; any other error an answer that
// never came. GetRange is a "get" as well, Upload a "put".
func (m *Memory) Fault(before, after func(op, key string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// Name returns the bucket's name.
func (m *Memory) Name() string { return m.name }

// Now returns the server's clock: UTC, whole seconds.
func (m *Memory) Now() time.Time { return m.now().UTC().Truncate(time.Second) }

// SetStorageClass moves an object into a storage class. It panics where there
// is no such object, because the test that asks for it is mistaken.
func (m *Memory) SetStorageClass(key, class string) {
	m.change(key, func(o *memoryObject) { o.class = class })
}

// SetLastModified changes an object's LastModified, as a multipart upload that
// started long ago does. It panics where there is no such object.
func (m *Memory) SetLastModified(key string, t time.Time) {
	m.change(key, func(o *memoryObject) { o.modified = t })
}

func (m *Memory) change(key string, change func(*memoryObject)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		panic(fmt.Sprintf("bucket: no object %q in memory to change", key))
	}
	change(&o)
	m.objects[key] = o
}

// Get is Bucket.Get.
func (m *Memory) Get(ctx context.Context, key string, c Condition) (*Object, error) {
	return m.get(ctx, key, c, 0, 0)
}

// GetRange is Bucket.GetRange.
func (m *Memory) GetRange(ctx context.Context, key string, c Condition, offset, length int64) (*Object, error) {
	if err := checkRange(offset, length); err != nil {
		return nil, callError("get", m.name, key, err)
	}
	return m.get(ctx, key, c, offset, length)
}

func (m *Memory) get(ctx context.Context, key string, c Condition, offset, length int64) (*Object, error) {
	var found *Object
	err := m.call(ctx, "get", key, func(now time.Time) error {
		o, ok := m.objects[key]
		switch {
		case !ok:
			return m.missing("get", key, now)
		case c.IfMatch != "" && !matches(c.IfMatch, o.etag):
			return m.refuse("get", key, ErrPrecondition, now)
		case c.IfNoneMatch != "" && matches(c.IfNoneMatch, o.etag):
			return m.refuse("get", key, ErrNotModified, now)
		case o.class == string(types.StorageClassGlacier), o.class == string(types.StorageClassDeepArchive):
			return m.answer("get", key, http.StatusForbidden, "InvalidObjectState", now)
		}
		part := o.body
		if offset > 0 || length > 0 {
			size := int64(len(o.body))
			if offset >= size || offset+length > size {
				return m.answer("get", key, http.StatusRequestedRangeNotSatisfiable, "InvalidRange", now)
			}
			if length == 0 {
				length = size - offset
			}
			part = o.body[offset : offset+length]
		}
		o.body = part
		found = o.object(key, now)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// matches compares a condition with an ETag. "*" is any version.
func matches(condition, etag string) bool { return condition == "*" || condition == etag }

// Put is Bucket.Put. The ETag is the body's MD5, as S3's is for a plain PUT.
func (m *Memory) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c Condition) (Written, error) {
	return m.PutWith(ctx, key, body, PutOptions{ContentType: contentType, Condition: c})
}

// PutWith is Bucket.PutWith.
func (m *Memory) PutWith(ctx context.Context, key string, body io.ReadSeeker, options PutOptions) (Written, error) {
	if err := options.check(); err != nil {
		return Written{}, callError("put", m.name, key, err)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return Written{}, callError("put", m.name, key, err)
	}
	return m.put(ctx, key, memoryObject{body: content, etag: fmt.Sprintf(`"%x"`, md5.Sum(content)), metadata: maps.Clone(options.Metadata)}, options.Condition)
}

// Upload is Bucket.Upload. It is a "put" to the hooks, once all of body is
// read. The ETag of a body of parts is no MD5 of it, as on S3.
func (m *Memory) Upload(ctx context.Context, key string, body io.Reader, _ string) (Written, error) {
	content, err := io.ReadAll(readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return body.Read(p)
	}))
	switch {
	case ctx.Err() != nil:
		return Written{}, callError("put", m.name, key, ctx.Err())
	case err != nil:
		return Written{}, bodyError(m.name, key, err)
	}
	return m.put(ctx, key, memoryObject{body: content, etag: uploadETag(content)}, Condition{})
}

type readerFunc func(p []byte) (int, error)

// Read is io.Reader.Read.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// uploadETag is the ETag that S3 gives to an upload: the MD5 of the MD5s of
// the parts, and how many there were.
func uploadETag(content []byte) string {
	if len(content) < partBytes {
		return fmt.Sprintf(`"%x"`, md5.Sum(content))
	}
	parts, whole := 0, md5.New()
	for part := range slices.Chunk(content, partBytes) {
		sum := md5.Sum(part)
		whole.Write(sum[:])
		parts++
	}
	return fmt.Sprintf(`"%x-%d"`, whole.Sum(nil), parts)
}

// put stores an object, whose body nobody else has.
func (m *Memory) put(ctx context.Context, key string, next memoryObject, c Condition) (Written, error) {
	var written Written
	err := m.call(ctx, "put", key, func(now time.Time) error {
		o, exists := m.objects[key]
		switch {
		case c.IfNoneMatch == "*" && (exists || m.refuses && m.isMarked(key)):
			return m.refuse("put", key, ErrPrecondition, now)
		case c.IfMatch != "" && !exists:
			return m.refuse("put", key, ErrNotFound, now)
		case c.IfMatch != "" && c.IfMatch != o.etag:
			return m.refuse("put", key, ErrPrecondition, now)
		}
		next.modified = now
		m.keep(key, &next, false)
		m.objects[key] = next
		if !exists {
			m.sorted = nil
		}
		written = Written{ETag: next.etag, VersionID: next.version, ServerTime: now}
		return nil
	})
	if err != nil {
		return Written{}, err
	}
	return written, nil
}

// Delete is Bucket.Delete.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.call(ctx, "delete", key, func(now time.Time) error {
		if _, exists := m.objects[key]; exists || m.keeps {
			delete(m.objects, key)
			m.keep(key, &memoryObject{modified: now}, true)
			m.sorted = nil
		}
		return nil
	})
}

// List is Bucket.List. Each page shows the bucket as it is when the page is
// asked for.
func (m *Memory) List(ctx context.Context, o ListOptions) iter.Seq2[Page, error] {
	size := int(o.PageSize)
	if size <= 0 || size > 1000 {
		size = 1000
	}
	return func(yield func(Page, error) bool) {
		for after := o.StartAfter; ; {
			var page Page
			err := m.call(ctx, "list", o.Prefix, func(now time.Time) error {
				page = m.page(o.Prefix, after, size, now)
				return nil
			})
			if err != nil {
				yield(Page{}, err)
				return
			}
			if !yield(page, nil) || page.Last {
				return
			}
			after = page.Entries[len(page.Entries)-1].Key
		}
	}
}

func (m *Memory) page(prefix, after string, size int, now time.Time) Page {
	if m.sorted == nil {
		m.sorted = make([]string, 0, len(m.objects))
		for key := range m.objects {
			m.sorted = append(m.sorted, key)
		}
		slices.Sort(m.sorted)
	}
	first, found := slices.BinarySearch(m.sorted, max(prefix, after))
	if found && m.sorted[first] == after {
		first++
	}
	page := Page{ServerTime: now, Last: true}
	for _, key := range m.sorted[first:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if len(page.Entries) == size {
			page.Last = false
			break
		}
		o := m.objects[key]
		page.Entries = append(page.Entries, Entry{
			Key: key, ETag: o.etag, StorageClass: o.class, Size: int64(len(o.body)), LastModified: o.modified,
		})
	}
	return page
}

// call runs one operation atomically between the fault hooks.
func (m *Memory) call(ctx context.Context, op, key string, do func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return callError(op, m.name, key, err)
	}
	m.mu.Lock()
	before, after := m.before, m.after
	m.mu.Unlock()
	if before != nil {
		if err := before(op, key); err != nil {
			return m.fault(op, key, err)
		}
	}
	if code := keyRefusal(key); code != "" && op != "list" {
		return m.answer(op, key, http.StatusBadRequest, code, m.Now())
	}
	m.mu.Lock()
	err := do(m.Now())
	m.mu.Unlock()
	if err == nil && after != nil {
		if err := after(op, key); err != nil {
			return m.fault(op, key, err)
		}
	}
	return err
}

// fault passes a hook's error on as the answer it stands for, or as none.
func (m *Memory) fault(op, key string, err error) error {
	for _, v := range verdicts {
		if errors.Is(err, v.kind) {
			return m.refuse(op, key, v.kind, m.Now())
		}
	}
	if errors.Is(err, ErrSlowDown) {
		return m.answer(op, key, http.StatusServiceUnavailable, "SlowDown", m.Now())
	}
	return callError(op, m.name, key, &smithyhttp.RequestSendError{Err: err})
}

// refuse is the answer behind a sentinel.
func (m *Memory) refuse(op, key string, kind error, now time.Time) error {
	for _, v := range verdicts {
		if v.kind == kind {
			return m.answer(op, key, v.status, v.code, now)
		}
	}
	panic("bucket: no answer stands for " + kind.Error())
}

func (m *Memory) answer(op, key string, status int, code string, now time.Time) error {
	err := fmt.Errorf("answer %d %s", status, code)
	return &CallError{
		Op: op, Bucket: m.name, Key: key, Status: status, Code: code, ServerTime: now,
		kind: kindOf(status, code), nature: natureOf(status, err), err: err,
	}
}
