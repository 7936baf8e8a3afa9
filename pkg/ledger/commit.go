package ledger

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// DefaultMaxAttempts is how often a version may fail before it is quarantined.
const DefaultMaxAttempts = 3

// Commit is the outcome of one run.
type Commit struct {
	Run   string
	Token int64 // the run's fencing token, from 1
	// At is the run's cutoff, kept with its rows. A retry must give the same.
	At time.Time
	// Rows are the outcomes, Done, Failed or Due, in any order, each key once. Their
	// Attempts are those of the Candidate (Candidate.Row sets them): the commit
	// adds one to a failed row, and quarantines it at MaxAttempts. They are read
	// once, and may be more than memory holds. An error among them ends the
	// commit with that error. Nil is none.
	Rows iter.Seq2[Row, error]
	// MaxAttempts is how often a version may fail; 0 means DefaultMaxAttempts.
	MaxAttempts int
	// Settings stand for the processing settings of the run.
	Settings string
	// Upkeep is what the run's discovery returned, handed on as it is.
	Upkeep Upkeep
}

// EachRow yields the rows of a slice, for a Commit whose rows are in memory.
func EachRow(rows []Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Committed says what a commit came to.
type Committed struct {
	Commitment
	// Already is true when this (run, token) had been committed before: the
	// counts are of that commit, and nothing was written.
	Already bool `json:"already"`
	// Bytes is the size of the segments written.
	Bytes int64 `json:"bytes"`
	// Merged counts the segments that were merged into larger ones afterwards.
	Merged int `json:"merged"`
	// MergeErr is why merging failed. The commit stands; a later one tries again.
	MergeErr error `json:"-"`
}

// Commit adds the outcomes of a run to the ledger: new segments (one, unless
// they are very many), then one swap of the head. It costs in proportion to its
// rows; afterwards it may merge segments, reading at most 32 MiB of them (see
// merge.go).
//
// It may be sent again after any error, with the same rows: a commit that
// landed is recognised by its run and token. A newer token in the ledger is
// ErrFenced, and nothing is committed. A commit closes the open manifests of its
// token.
func (l *Ledger) Commit(ctx context.Context, c Commit) (Committed, error) {
	if err := c.check(); err != nil {
		return Committed{}, fmt.Errorf("commit to ledger: %w", err)
	}
	committed, head, err := l.commit(ctx, c)
	if err != nil {
		return Committed{}, fmt.Errorf("commit run %s to ledger: %w", c.Run, err)
	}
	if !committed.Already {
		committed.Merged, committed.MergeErr = l.maintain(ctx, head, c)
	}
	return committed, nil
}

func (l *Ledger) commit(ctx context.Context, c Commit) (Committed, Head, error) {
	return l.change(ctx, change{
		Commitment: Commitment{Run: c.Run, Token: c.Token},
		write:      c.write,
		apply: func(h *Head, written []Segment, sum Commitment) {
			h.Segments = append(h.Segments, written...)
			h.Marks = h.marksAfter(c, sum, l.limits.marks)
			h.Open = slices.DeleteFunc(h.Open, func(m OpenManifest) bool { return m.Token == c.Token })
		},
	})
}

// write writes the rows of a commit, and the marks of vanished keys.
func (c Commit) write(ctx context.Context, out *segmentsWriter, sum *Commitment) error {
	mark := newCommitMark(c.Run, c.At, c.Settings)
	vanished, err := c.vanished(mark)
	if err != nil {
		return err
	}
	rows, err := c.sorted(ctx)
	if err != nil {
		return err
	}
	defer rows.close()
	var last []byte
	err = rows.each(func(r record) error {
		if last != nil && string(r.key) == string(last) {
			return fmt.Errorf("key %q has two outcomes", r.key)
		}
		last = r.key
		for len(vanished) > 0 && byKey(vanished[0], r) <= 0 {
			// A key with an outcome was there after all.
			if byKey(vanished[0], r) < 0 {
				sum.count(gone)
				if err := out.add(ctx, &vanished[0]); err != nil {
					return err
				}
			}
			vanished = vanished[1:]
		}
		r.commit = mark
		sum.count(r.outcome)
		return out.add(ctx, &r)
	})
	if err != nil {
		return err
	}
	for i := range vanished {
		sum.count(gone)
		if err := out.add(ctx, &vanished[i]); err != nil {
			return err
		}
	}
	return nil
}

// sorted reads the commit's rows, checks and judges each, and brings them into
// key order.
func (c Commit) sorted(ctx context.Context) (_ *sorter[record], err error) {
	rows := newSorter(ctx, packRecord, unpackRecord, byKey)
	defer func() {
		if err != nil {
			rows.close()
		}
	}()
	if c.Rows == nil {
		return rows, nil
	}
	for row, err := range c.Rows {
		if err != nil {
			return nil, err
		}
		judged, err := c.Judged(row)
		if err != nil {
			return nil, err
		}
		if err := rows.add(ctx, judged.record()); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func byKey(a, b record) int { return bytes.Compare(a.key, b.key) }

// vanished are the marks of vanished keys, in key order.
func (c Commit) vanished(mark commitMark) ([]record, error) {
	marks := make([]record, 0, len(c.Upkeep.Gone))
	for _, key := range c.Upkeep.Gone {
		if err := (Row{Key: key}).check(); err != nil {
			return nil, err
		}
		marks = append(marks, record{key: []byte(key), outcome: gone, commit: mark})
	}
	slices.SortFunc(marks, byKey)
	return slices.CompactFunc(marks, func(a, b record) bool { return byKey(a, b) == 0 }), nil
}

func (c Commit) check() error {
	if c.MaxAttempts < 0 {
		return fmt.Errorf("MaxAttempts %d is negative", c.MaxAttempts)
	}
	return Commitment{Run: c.Run, Token: c.Token}.check()
}

func (c Commit) maxAttempts() int {
	if c.MaxAttempts == 0 {
		return DefaultMaxAttempts
	}
	return c.MaxAttempts
}

// Judged turns what happened in the run into where the version stands after it:
// the row that the commit writes.
func (c Commit) Judged(row Row) (Row, error) {
	if err := row.check(); err != nil {
		return Row{}, err
	}
	switch row.Outcome {
	case Done:
		row.Attempts = 0
	case Failed:
		row.Attempts++
		if row.Attempts >= c.maxAttempts() {
			row.Outcome = Quarantined
		}
	case Due:
	default:
		return Row{}, fmt.Errorf("key %q: a run ends with %q, %q or %q, not with %q", row.Key, Done, Failed, Due, row.Outcome)
	}
	row.Run, row.At, row.Settings = c.Run, c.At, c.Settings
	return row, nil
}
