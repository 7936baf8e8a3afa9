package local

import (
	"bytes"
	"io"
	"sync"
)

// lines lets many processes share one writer: each Write is whole lines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// tail passes the output of one process on, line by line, and keeps the end of it.
type tail struct {
	to io.Writer

	mu      sync.Mutex
	kept    []byte
	partial []byte
}

// Write never fails: a function must not notice that nobody can read its log.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	t.partial = append(t.partial, p...)
	if end := bytes.LastIndexByte(t.partial, '\n') + 1; end > 0 {
		_, _ = t.to.Write(t.partial[:end])
		t.partial = append(t.partial[:0], t.partial[end:]...)
	}
	return len(p), nil
}

// flush passes on a last line that has no end.
func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		_, _ = t.to.Write(append(t.partial, '\n'))
		t.partial = nil
	}
}

// text returns the end of what the process printed.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}
