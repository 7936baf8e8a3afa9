package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Verb is what an Edit does to a row.
type Verb int

const (
	Keep   Verb = iota // leave the row as it is
	Retry              // the next run takes this version, which has all its attempts again
	Forget             // the file is due, as one that was never seen; what is published stays known
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
// rows to be retried, and Due and Gone those forgotten: Due where an output is
// published.
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

// Reset makes every file due, as Forget does for one. Of a ledger that an older
// program wrote nothing is kept: its segments stay where they are, and Gone is 0.
//
// Due counts the files whose outputs stay known, Gone those that left.
func (l *Ledger) Reset(ctx context.Context, by string, token int64) (Committed, error) {
	if converted, err := l.convert(ctx, by, token); converted || err != nil {
		if err != nil {
			err = fmt.Errorf("reset ledger as %s: %w", by, err)
		}
		return Committed{Commitment: Commitment{Run: by, Token: token}}, err
	}
	committed, err := l.Edit(ctx, Edit{By: by, Token: token, Change: func(Row) Verb { return Forget }})
	if err != nil {
		return Committed{}, fmt.Errorf("reset ledger: %w", err)
	}
	return committed, nil
}

// convert replaces a head that an older program wrote by an empty one.
func (l *Ledger) convert(ctx context.Context, by string, token int64) (bool, error) {
	v, _, err := l.look(ctx)
	var old *OutdatedError
	if !errors.As(err, &old) {
		return false, nil
	}
	sum := Commitment{Run: by, Token: token}
	if err := sum.check(); err != nil {
		return false, err
	}
	if token < old.token {
		return false, &FencedError{Token: token, Seen: old.token}
	}
	next := Head{Token: token, Open: []OpenManifest{}, Entries: []json.RawMessage{}}
	if next.Generation, err = l.lastGeneration(ctx, old.generation); err != nil {
		return false, err
	}
	next.Generation++
	next.remember(sum, l.limits.commits)
	return true, l.install(ctx, v, next, sum)
}

// edit puts the token into the head before anything is read: no older run can
// commit behind the back of what follows.
func (l *Ledger) edit(ctx context.Context, c change) (Committed, error) {
	if err := c.check(); err != nil {
		return Committed{}, err
	}
	if err := l.checkNewest(ctx, nil); err != nil {
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
	mark := newCommitMark(e.By, time.Time{}, "")
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
			if row.Published != (Published{}) {
				r.outcome = Due
			}
		case Retry:
			if row.Outcome == Done {
				return fmt.Errorf("key %q is done, and so is not retried: forget it instead", row.Key)
			}
			r.tag, r.size, r.outcome, r.suspect = parseTag(row.ETag), row.Size, Failed, row.Suspect
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
