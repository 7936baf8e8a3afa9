package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// adds one to a failed row, and quarantines it at MaxAttempts.
	Rows []Row
	// MaxAttempts is how often a version may fail; 0 means DefaultMaxAttempts.
	MaxAttempts int
	// Upkeep is what the run's discovery returned, handed on as it is.
	Upkeep Upkeep
}

// Committed says what a commit came to.
type Committed struct {
	Commitment
	// Already is true when this (run, token) had been committed before: the
	// counts are of that commit, and nothing was written.
	Already bool `json:"already"`
	// Bytes is the size of the segment written.
	Bytes int64 `json:"bytes"`
	// Merged counts the segments that were merged into larger ones afterwards.
	Merged int `json:"merged"`
	// MergeErr is why merging failed. The commit stands; a later one tries again.
	MergeErr error `json:"-"`
}

// Commit adds the outcomes of a run to the ledger: one new segment, then one
// swap of the head. It costs in proportion to its rows; afterwards it may
// merge segments, reading at most 32 MiB of them (see merge.go).
//
// It may be sent again after any error, with the same rows: a commit that
// landed is recognised by its run and token. A newer token in the ledger is
// ErrFenced, and nothing is committed.
func (l *Ledger) Commit(ctx context.Context, c Commit) (Committed, error) {
	records, sum, err := c.records()
	if err != nil {
		return Committed{}, fmt.Errorf("commit to ledger: %w", err)
	}
	committed, head, err := l.commit(ctx, c, records, sum)
	if err != nil {
		return Committed{}, fmt.Errorf("commit run %s to ledger: %w", c.Run, err)
	}
	if !committed.Already {
		committed.Merged, committed.MergeErr = l.maintain(ctx, head, c)
	}
	return committed, nil
}

func (l *Ledger) commit(ctx context.Context, c Commit, records []record, sum Commitment) (Committed, Head, error) {
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
	var segments []Segment
	if len(records) > 0 {
		s, err := l.writeSegment(ctx, records, from.Generation+1)
		if err != nil {
			return Committed{}, Head{}, err
		}
		segments = append(segments, s)
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
		h.Commits = append(h.Commits, sum)
		h.Commits = h.Commits[max(0, len(h.Commits)-l.limits.commits):]
		return true, nil
	})
	if err != nil {
		return Committed{}, Head{}, err
	}
	committed := Committed{Commitment: sum}
	for _, s := range segments {
		committed.Bytes += s.Bytes
	}
	return committed, head, nil
}

func (l *Ledger) writeSegment(ctx context.Context, records []record, generation int64) (Segment, error) {
	b, err := l.newSegment()
	if err != nil {
		return Segment{}, fmt.Errorf("write segment: %w", err)
	}
	for i := range records {
		if err := b.add(&records[i]); err != nil {
			return Segment{}, fmt.Errorf("write segment: %w", err)
		}
	}
	return l.putSegment(ctx, b, generation)
}

// records checks the commit and returns what it adds, in key order.
func (c Commit) records() ([]record, Commitment, error) {
	sum := Commitment{Run: c.Run, Token: c.Token}
	if err := c.check(); err != nil {
		return nil, sum, err
	}
	mark := newCommitMark(c.Run, c.At)
	records := make([]record, 0, len(c.Rows)+len(c.Upkeep.Gone))
	for _, row := range c.Rows {
		if err := row.check(); err != nil {
			return nil, sum, err
		}
		r := record{key: []byte(row.Key), tag: parseTag(row.ETag), size: row.Size, commit: mark}
		if err := r.judge(row, c.maxAttempts()); err != nil {
			return nil, sum, err
		}
		sum.count(r.outcome)
		records = append(records, r)
	}
	slices.SortFunc(records, byKey)
	for i := 1; i < len(records); i++ {
		if string(records[i].key) == string(records[i-1].key) {
			return nil, sum, fmt.Errorf("key %q has two outcomes", records[i].key)
		}
	}
	return c.addGone(records, mark, &sum)
}

func byKey(a, b record) int { return strings.Compare(string(a.key), string(b.key)) }

// addGone adds a mark for each vanished key; a key with an outcome was there
// after all.
func (c Commit) addGone(records []record, mark commitMark, sum *Commitment) ([]record, Commitment, error) {
	rows := records
	for _, key := range c.Upkeep.Gone {
		r := record{key: []byte(key), outcome: gone, commit: mark}
		if err := (Row{Key: key}).check(); err != nil {
			return nil, *sum, err
		}
		if _, there := slices.BinarySearchFunc(rows, r, byKey); !there {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, byKey)
	records = slices.CompactFunc(records, func(a, b record) bool { return byKey(a, b) == 0 })
	sum.Gone = int64(len(records) - len(rows))
	return records, *sum, nil
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
	}
}
