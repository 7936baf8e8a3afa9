package ledger

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
)

// mergedRows reads segments as one: in key order, each key once, as its newest
// segment has it. A segment is opened when its first key is due and closed
// after its last, so that only those that overlap are in memory, a block each.
type mergedRows struct {
	open    func(context.Context, Segment) (rowSource, error)
	prefix  string
	span    span
	pending []cursor // not opened, by first key, the last one first
	heap    []*cursor
	key     []byte // last returned
	current record // last returned

	hidden int64 // rows that newer ones override
}

// rowSource yields the rows of a segment, or of some of its blocks, in order.
type rowSource interface {
	// next reads a row into r, whose key is valid until the next call, and
	// returns false after the last one.
	next(r *record) (bool, error)
	close()
}

// cursor is a segment at its next row.
type cursor struct {
	segment Segment
	age     int // place among the segments; higher is newer
	source  rowSource
	record  record
}

// merge reads all rows of the segments, which are in the order of the head.
func (l *Ledger) merge(segments []Segment) *mergedRows {
	return mergeRows(segments, "", span{}, func(ctx context.Context, s Segment) (rowSource, error) {
		return l.openSegment(ctx, s)
	})
}

// mergeSpan reads the rows of a span whose keys begin with prefix.
func (l *Ledger) mergeSpan(x *indexes, segments []Segment, prefix string, s span) *mergedRows {
	return mergeRows(segments, prefix, s, func(ctx context.Context, segment Segment) (rowSource, error) {
		index, err := x.of(ctx, segment)
		if err != nil {
			return nil, err
		}
		from, to := index.holding(span{after: max(s.after, prefix), upTo: s.upTo})
		return &blocksReader{ledger: l, ctx: ctx, index: index, size: x.fetch, at: from, to: to, block: &blockReader{unpackers: l.unpackers}}, nil
	})
}

func mergeRows(segments []Segment, prefix string, s span, open func(context.Context, Segment) (rowSource, error)) *mergedRows {
	m := &mergedRows{open: open, prefix: prefix, span: s}
	for age, segment := range segments {
		below := segment.Last < prefix || segment.Last <= s.after
		above := segment.First > prefix && !strings.HasPrefix(segment.First, prefix) || s.ends(segment.First)
		if !below && !above {
			m.pending = append(m.pending, cursor{segment: segment, age: age})
		}
	}
	slices.SortFunc(m.pending, func(a, b cursor) int { return strings.Compare(b.segment.First, a.segment.First) })
	return m
}

// next returns the next row, marks of vanished keys included, or nil at the
// end. What the row does not say of the visible output it has from older rows of
// its key. The record is valid until the next call.
func (m *mergedRows) next(ctx context.Context) (*record, error) {
	for len(m.pending) > 0 && (len(m.heap) == 0 || m.pending[len(m.pending)-1].segment.First <= string(m.heap[0].record.key)) {
		if err := m.openNext(ctx); err != nil {
			return nil, err
		}
	}
	if len(m.heap) == 0 {
		return nil, nil
	}
	top := &m.heap[0].record
	if !bytes.HasPrefix(top.key, []byte(m.prefix)) || m.span.ends(string(top.key)) {
		return nil, nil
	}
	m.key = append(m.key[:0], top.key...)
	m.current = *top
	m.current.key = m.key
	inherits := m.current.outcome != gone
	for first := true; len(m.heap) > 0 && bytes.Equal(m.heap[0].record.key, m.key); first = false {
		if !first {
			m.hidden++
			inherits = inherits && m.current.inherit(&m.heap[0].record)
		}
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	return &m.current, nil
}

// begins tells whether a row is not before the part that is read.
func (m *mergedRows) begins(r *record) bool {
	return string(r.key) > m.span.after && string(r.key) >= m.prefix
}

func (m *mergedRows) openNext(ctx context.Context) error {
	c := m.pending[len(m.pending)-1]
	m.pending = m.pending[:len(m.pending)-1]
	source, err := m.open(ctx, c.segment)
	if err != nil {
		return err
	}
	c.source = source
	m.heap = append(m.heap, &c)
	for {
		more, err := c.source.next(&c.record)
		if err != nil {
			return err
		}
		if !more { // its keys surround the part
			c.source.close()
			m.heap = m.heap[:len(m.heap)-1]
			return nil
		}
		if m.begins(&c.record) {
			m.up(len(m.heap) - 1)
			return nil
		}
	}
}

// advance moves the first cursor on, and closes it after its last row.
func (m *mergedRows) advance() error {
	top := m.heap[0]
	more, err := top.source.next(&top.record)
	if err != nil {
		return err
	}
	if !more {
		top.source.close()
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
	}
	m.down(0)
	return nil
}

func (m *mergedRows) close() {
	for _, c := range m.heap {
		c.source.close()
	}
	m.heap = nil
}

// The open cursors are a heap: by key, of equal keys the newest first.
func (m *mergedRows) before(i, j int) bool {
	a, b := m.heap[i], m.heap[j]
	if c := bytes.Compare(a.record.key, b.record.key); c != 0 {
		return c < 0
	}
	return a.age > b.age
}

func (m *mergedRows) up(i int) {
	for i > 0 && m.before(i, (i-1)/2) {
		m.heap[i], m.heap[(i-1)/2] = m.heap[(i-1)/2], m.heap[i]
		i = (i - 1) / 2
	}
}

func (m *mergedRows) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.before(child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		m.heap[i], m.heap[first] = m.heap[first], m.heap[i]
		i = first
	}
}

// Rows yields the rows of the ledger in key order, as of one head. It ends
// with an error where the ledger cannot be read; the rows before it are good.
func (l *Ledger) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		head, err := l.Head(ctx)
		if err != nil {
			yield(Row{}, err)
			return
		}
		rows := l.merge(head.Segments)
		defer rows.close()
		for {
			r, err := rows.next(ctx)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if r == nil {
				return
			}
			if r.outcome != gone && !yield(r.row(), nil) {
				return
			}
		}
	}
}
