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
	ledger  *Ledger
	prefix  string
	pending []cursor // not opened, by first key, the last one first
	open    []*cursor
	key     []byte // last returned, or hidden

	read int64 // rows read
	kept int64 // rows returned
}

// cursor is a segment at its next row.
type cursor struct {
	segment Segment
	age     int // place among the segments; higher is newer
	source  *openSegment
	record  record
}

// merge reads the rows of the segments whose keys begin with prefix. The
// segments are in the order of the head.
func (l *Ledger) merge(segments []Segment, prefix string) *mergedRows {
	m := &mergedRows{ledger: l, prefix: prefix}
	for age, s := range segments {
		below := s.Last < prefix
		above := s.First > prefix && !strings.HasPrefix(s.First, prefix)
		if !below && !above {
			m.pending = append(m.pending, cursor{segment: s, age: age})
		}
	}
	slices.SortFunc(m.pending, func(a, b cursor) int { return strings.Compare(b.segment.First, a.segment.First) })
	return m
}

// next returns the next row, marks of vanished keys included, or nil at the
// end. The record is valid until the next call.
func (m *mergedRows) next(ctx context.Context) (*record, error) {
	for len(m.open) > 0 && m.key != nil && bytes.Equal(m.open[0].record.key, m.key) {
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	for len(m.pending) > 0 && (len(m.open) == 0 || m.pending[len(m.pending)-1].segment.First <= string(m.open[0].record.key)) {
		if err := m.openNext(ctx); err != nil {
			return nil, err
		}
	}
	if len(m.open) == 0 {
		return nil, nil
	}
	top := &m.open[0].record
	if !bytes.HasPrefix(top.key, []byte(m.prefix)) {
		return nil, nil
	}
	m.key = append(m.key[:0], top.key...)
	m.kept++
	return top, nil
}

func (m *mergedRows) openNext(ctx context.Context) error {
	c := m.pending[len(m.pending)-1]
	m.pending = m.pending[:len(m.pending)-1]
	source, err := m.ledger.openSegment(ctx, c.segment)
	if err != nil {
		return err
	}
	c.source = source
	m.open = append(m.open, &c)
	for {
		more, err := c.source.next(&c.record)
		if err != nil {
			return err
		}
		if !more { // its keys surround the prefix
			c.source.close()
			m.open = m.open[:len(m.open)-1]
			return nil
		}
		if string(c.record.key) >= m.prefix {
			m.read++
			m.up(len(m.open) - 1)
			return nil
		}
	}
}

// advance moves the first cursor on, and closes it after its last row.
func (m *mergedRows) advance() error {
	top := m.open[0]
	more, err := top.source.next(&top.record)
	if err != nil {
		return err
	}
	if more {
		m.read++
	} else {
		top.source.close()
		last := len(m.open) - 1
		m.open[0] = m.open[last]
		m.open = m.open[:last]
	}
	m.down(0)
	return nil
}

func (m *mergedRows) close() {
	for _, c := range m.open {
		c.source.close()
	}
	m.open = nil
}

// The open cursors are a heap: by key, of equal keys the newest first.
func (m *mergedRows) before(i, j int) bool {
	a, b := m.open[i], m.open[j]
	if c := bytes.Compare(a.record.key, b.record.key); c != 0 {
		return c < 0
	}
	return a.age > b.age
}

func (m *mergedRows) up(i int) {
	for i > 0 && m.before(i, (i-1)/2) {
		m.open[i], m.open[(i-1)/2] = m.open[(i-1)/2], m.open[i]
		i = (i - 1) / 2
	}
}

func (m *mergedRows) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.open); child++ {
			if m.before(child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		m.open[i], m.open[first] = m.open[first], m.open[i]
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
		rows := l.merge(head.Segments, "")
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
