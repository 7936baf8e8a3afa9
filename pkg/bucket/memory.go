package bucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"
)

// Memory is a bucket in memory with S3's semantics: conditions are atomic,
// listings are ordered and consistent, the server has a clock of whole
// seconds. It is a Bucket's equal for tests; the conformance test of this
// package holds both to the same rules.
type Memory struct {
	name string

	mu      sync.Mutex
	objects map[string]memoryObject
	now     func() time.Time
	before  func(op, key string) error
	after   func(op, key string) error
}

type memoryObject struct {
	body     []byte
	etag     string
	class    string
	modified time.Time
}

// NewMemory returns an empty bucket. Its clock is now, or time.Now where now
// is nil.
func NewMemory(name string, now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{name: name, objects: map[string]memoryObject{}, now: now}
}

// Fault installs hooks that may fail a call ("get", "put", "delete", "list";
// for a listing key is the prefix): before runs in place of the call, after
// runs once it took effect, so that its error stands for a lost reply. Either
// may be nil.
func (m *Memory) Fault(before, after func(op, key string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// Name returns the bucket's name.
func (m *Memory) Name() string { return m.name }

// SetStorageClass puts an object that is already there into a storage class.
func (m *Memory) SetStorageClass(key, class string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.class = class
	m.objects[key] = o
}

// SetLastModified changes an object's LastModified, as a multipart upload that
// started long ago does.
func (m *Memory) SetLastModified(key string, t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.modified = t
	m.objects[key] = o
}

// Get is Bucket.Get.
func (m *Memory) Get(ctx context.Context, key string, c Condition) (*Object, error) {
	var found *Object
	err := m.call(ctx, "get", key, func(now time.Time) error {
		o, ok := m.objects[key]
		switch {
		case !ok:
			return m.answer("get", key, http.StatusNotFound, ErrNotFound, now)
		case c.IfMatch != "" && c.IfMatch != o.etag:
			return m.answer("get", key, http.StatusPreconditionFailed, ErrPrecondition, now)
		case c.IfNoneMatch != "" && c.IfNoneMatch == o.etag:
			return m.answer("get", key, http.StatusNotModified, ErrNotModified, now)
		}
		found = &Object{
			Body: io.NopCloser(bytes.NewReader(o.body)), Key: key, ETag: o.etag,
			Size: int64(len(o.body)), LastModified: o.modified, ServerTime: now,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Put is Bucket.Put. The ETag is the body's MD5, as S3's is for a plain PUT.
func (m *Memory) Put(ctx context.Context, key string, body io.ReadSeeker, _ string, c Condition) (Written, error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return Written{}, m.answer("put", key, 0, err, time.Time{})
	}
	var written Written
	err = m.call(ctx, "put", key, func(now time.Time) error {
		o, exists := m.objects[key]
		switch {
		case c.IfNoneMatch == "*" && exists:
			return m.answer("put", key, http.StatusPreconditionFailed, ErrPrecondition, now)
		case c.IfMatch != "" && !exists:
			return m.answer("put", key, http.StatusNotFound, ErrNotFound, now)
		case c.IfMatch != "" && c.IfMatch != o.etag:
			return m.answer("put", key, http.StatusPreconditionFailed, ErrPrecondition, now)
		}
		etag := fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(content)))
		m.objects[key] = memoryObject{body: content, etag: etag, modified: now}
		written = Written{ETag: etag, ServerTime: now}
		return nil
	})
	if err != nil {
		return Written{}, err
	}
	return written, nil
}

// Delete is Bucket.Delete.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.call(ctx, "delete", key, func(time.Time) error {
		delete(m.objects, key)
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
	var keys []string
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	page := Page{ServerTime: now, Last: len(keys) <= size}
	for _, key := range keys[:min(size, len(keys))] {
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
		return m.answer(op, key, 0, err, time.Time{})
	}
	m.mu.Lock()
	before, after := m.before, m.after
	m.mu.Unlock()
	if before != nil {
		if err := before(op, key); err != nil {
			return m.fault(op, key, err)
		}
	}
	m.mu.Lock()
	err := do(m.now().UTC().Truncate(time.Second))
	m.mu.Unlock()
	if err == nil && after != nil {
		err = after(op, key)
		if err != nil {
			return m.fault(op, key, err)
		}
	}
	return err
}

func (m *Memory) answer(op, key string, status int, kind error, now time.Time) error {
	return &CallError{Op: op, Bucket: m.name, Key: key, Status: status, ServerTime: now, kind: kind, err: kind}
}

// fault passes a hook's error on with the status its kind stands for; any
// other error is an answer that never came.
func (m *Memory) fault(op, key string, err error) error {
	status := 0
	for s, kind := range map[int]error{
		http.StatusNotFound: ErrNotFound, http.StatusNotModified: ErrNotModified,
		http.StatusPreconditionFailed: ErrPrecondition, http.StatusConflict: ErrConflict,
	} {
		if errors.Is(err, kind) {
			status = s
		}
	}
	return m.answer(op, key, status, err, time.Time{})
}
