package ledger

import (
	"context"
	"fmt"
	"time"
)

// Verb is what an Edit does to a row.
type Verb int

const (
	Keep   Verb = iota // leave the row as it is
	Retry              // the next run takes this version, which has all its attempts again
	Forget             // the key counts as one that was never seen
)

// Edit is a change of rows that no run made, but a person who looks after the
// ledger.
type Edit struct {
	// By is who made it. It stands in the rows in place of a run and, with
	// Token, identifies the edit: one that landed is not done again.
	By    string
	Token int64 // a fencing token, as a run has one, from 1
	// Change is called once for each row, in key order. Only what failed or is in
	// quarantine can be retried; what is done is forgotten to have it again.
	Change func(Row) Verb
}

// Edit changes rows, all of them or none: one new segment (unless they are very
// many), then one swap of the head. It reads the whole ledger and writes in
// proportion to what changes. Of the counts that it returns, Failed are the
// rows to be retried and Gone those forgotten.
//
// It may be sent again after any error. A newer token in the ledger is
// ErrFenced, and nothing is changed; so is, from the beginning of the edit on,
// the commit of any run with an older one.
func (l *Ledger) Edit(ctx context.Context, e Edit) (Committed, error) {
	c := change{
		Commitment: Commitment{Run: e.By, Token: e.Token},
		write: func(ctx context.Context, out *segmentsWriter, sum *Commitment) error {
			return l.writeEdited(ctx, e, out, sum)
		},
		apply: func(h *Head, written []Segment, _ Commitment) {
			h.Segments = append(h.Segments, written...)
			h.Marks = nil // what is to be found again may be anywhere
		},
	}
	committed, err := l.edit(ctx, c)
	if err != nil {
		return Committed{}, fmt.Errorf("edit ledger as %s: %w", e.By, err)
	}
	return committed, nil
}

// Reset forgets every row, without reading any. Token and generation stay, and
// the segments go as merged ones do: not before those who read them are done.
// Gone counts the rows of all segments, overridden ones included.
func (l *Ledger) Reset(ctx context.Context, by string, token int64) (Committed, error) {
	from, err := l.load(ctx)
	if err != nil {
		return Committed{}, fmt.Errorf("reset ledger as %s: %w", by, err)
	}
	c := change{
		Commitment: Commitment{Run: by, Token: token, Gone: from.Rows()},
		apply:      func(h *Head, _ []Segment, _ Commitment) { h.retire(from.now) },
	}
	committed, err := l.edit(ctx, c)
	if err != nil {
		return Committed{}, fmt.Errorf("reset ledger as %s: %w", by, err)
	}
	return committed, nil
}

// edit puts the token into the head before anything is read: no older run can
// commit behind the back of what follows.
func (l *Ledger) edit(ctx context.Context, c change) (Committed, error) {
	if err := c.check(); err != nil {
		return Committed{}, err
	}
	if err := l.Fence(ctx, c.Token); err != nil {
		return Committed{}, err
	}
	committed, _, err := l.change(ctx, c)
	return committed, err
}

func (l *Ledger) writeEdited(ctx context.Context, e Edit, out *segmentsWriter, sum *Commitment) error {
	// Without a time, no pause after a failure is left to wait for.
	mark := newCommitMark(e.By, time.Time{})
	for row, err := range l.Rows(ctx) {
		if err != nil {
			return err
		}
		r := record{key: []byte(row.Key), commit: mark}
		switch e.Change(row) {
		case Keep:
			continue
		case Forget:
			r.outcome = gone
		case Retry:
			if row.Outcome == Done {
				return fmt.Errorf("key %q is done, and so is not retried: forget it instead", row.Key)
			}
			r.tag, r.size, r.outcome = parseTag(row.ETag), row.Size, Failed
		}
		sum.count(r.outcome)
		if err := out.add(ctx, &r); err != nil {
			return err
		}
	}
	return nil
}

// retire takes every segment out of the head, and what was known of them.
func (h *Head) retire(now time.Time) {
	for _, s := range h.Segments {
		h.Retired = append(h.Retired, Retired{Name: s.Name, Since: now})
	}
	h.Segments, h.Marks = nil, nil
}
