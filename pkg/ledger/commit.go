package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"
)

// DefaultMaxAttempts is how often a version may fail before it is quarantined.
const DefaultMaxAttempts = 3

// Commit is the outcome of one run.
type Commit struct {
	Run   string
	Token int64 // the run's fencing token, from 1
	// At is the run's cutoff, kept with its rows. A retry must give the same.
	At time.Time
	// Rows are the outcomes, Done or Failed, in any order, each key once. Their
	// Attempts are those of the Candidate (Candidate.Row sets them): the commit
	// adds one to a failed row, and quarantines it at MaxAttempts. They are read
	// once, and may be more than memory holds. An error among them ends the
	// commit with that error. Nil is none.
	Rows iter.Seq2[Row, error]
	// MaxAttempts is how often a version may fail; 0 means DefaultMaxAttempts.
	MaxAttempts int
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
// ErrFenced, and nothing is committed.
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
	from, err := l.load(ctx)
	if err != nil {
		return Committed{}, Head{}, err
	}
	if before, ok := from.commitment(c.Run, c.Token); ok {
		return Committed{Commitment: before, Already: true}, from.Head, nil
	}
	if err := from.admit(c.Token); err != nil {
		return Committed{}, Head{}, err
	}
	committed := Committed{Commitment: Commitment{Run: c.Run, Token: c.Token}}
	segments, err := l.writeOutcomes(ctx, c, &committed.Commitment, from.Generation+1)
	if err != nil {
		return Committed{}, Head{}, err
	}
	for _, s := range segments {
		committed.Bytes += s.Bytes
	}
	head, err := l.swap(ctx, from, func(h *Head) (bool, error) {
		if _, landed := h.commitment(c.Run, c.Token); landed {
			return false, nil
		}
		if err := h.admit(c.Token); err != nil {
			return false, err
		}
		h.Token = c.Token
		h.Segments = append(h.Segments, segments...)
		h.remember(committed.Commitment, l.limits.commits)
		h.Marks = h.marksAfter(c, committed.Commitment, l.limits.marks)
		return true, nil
	})
	if err != nil {
		return Committed{}, Head{}, err
	}
	return committed, head, nil
}

// remember appends a commit and forgets the oldest ones beyond most.
func (h *Head) remember(c Commitment, most int) {
	h.Commits = append(h.Commits, c)
	h.Commits = h.Commits[max(0, len(h.Commits)-most):]
}

// writeOutcomes writes the segments of a commit and counts what they hold.
func (l *Ledger) writeOutcomes(ctx context.Context, c Commit, sum *Commitment, generation int64) ([]Segment, error) {
	mark := newCommitMark(c.Run, c.At)
	vanished, err := c.vanished(mark)
	if err != nil {
		return nil, err
	}
	rows, err := c.sorted(ctx)
	if err != nil {
		return nil, err
	}
	defer rows.close()
	out := segmentsWriter{ledger: l, generation: generation}
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
		return nil, err
	}
	for i := range vanished {
		sum.count(gone)
		if err := out.add(ctx, &vanished[i]); err != nil {
			return nil, err
		}
	}
	return out.close(ctx)
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
		if err := row.check(); err != nil {
			return nil, err
		}
		r := record{key: []byte(row.Key), tag: parseTag(row.ETag), size: row.Size}
		if err := r.judge(row, c.maxAttempts()); err != nil {
			return nil, err
		}
		if err := rows.add(ctx, r); err != nil {
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
	switch {
	case c.Run == "":
		return errors.New("no run given")
	case len(c.Run) > maxRunBytes || !utf8.ValidString(c.Run):
		return fmt.Errorf("run %.60q…: longer than %d bytes, or not UTF-8", c.Run, maxRunBytes)
	case c.Token < 1:
		return fmt.Errorf("token %d: tokens begin at 1", c.Token)
	case c.MaxAttempts < 0:
		return fmt.Errorf("MaxAttempts %d is negative", c.MaxAttempts)
	}
	return nil
}

func (c Commit) maxAttempts() int {
	if c.MaxAttempts == 0 {
		return DefaultMaxAttempts
	}
	return c.MaxAttempts
}

// judge turns what happened in this run into where the version stands now.
func (r *record) judge(row Row, maxAttempts int) error {
	switch row.Outcome {
	case Done:
		r.outcome, r.attempts = Done, 0
	case Failed:
		r.outcome, r.attempts = Failed, row.Attempts+1
		if r.attempts >= maxAttempts {
			r.outcome = Quarantined
		}
	default:
		return fmt.Errorf("key %q: a run ends with %q or %q, not with %q", row.Key, Done, Failed, row.Outcome)
	}
	return nil
}

func (c *Commitment) count(o Outcome) {
	switch o {
	case Done:
		c.Done++
	case Failed:
		c.Failed++
	case Quarantined:
		c.Quarantined++
	case gone:
		c.Gone++
	}
}
