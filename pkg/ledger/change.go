package ledger

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A change is what one writer does to the ledger: new segments, then one swap
// of the head. It happens once for its run and token, however often it is sent.
type change struct {
	Commitment
	// write writes the rows and counts them. Nil writes none.
	write func(ctx context.Context, out *segmentsWriter, sum *Commitment) error
	// apply makes the segments a part of the head. It may be called again, for
	// another head.
	apply func(h *Head, written []Segment, sum Commitment)
}

// check refuses what the head cannot carry.
func (c Commitment) check() error {
	switch {
	case c.Run == "":
		return errors.New("no run given")
	case len(c.Run) > maxRunBytes || !utf8.ValidString(c.Run):
		return fmt.Errorf("run %.60q…: longer than %d bytes, or not UTF-8", c.Run, maxRunBytes)
	case c.Token < 1:
		return fmt.Errorf("token %d: tokens begin at 1", c.Token)
	}
	return nil
}

// change returns what the change came to, and the head that has it.
func (l *Ledger) change(ctx context.Context, c change) (Committed, Head, error) {
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
	committed := Committed{Commitment: c.Commitment}
	segments, err := l.writeSegments(ctx, from.Generation+1, c.Token, func(out *segmentsWriter) error {
		if c.write == nil {
			return nil
		}
		return c.write(ctx, out, &committed.Commitment)
	})
	if err != nil {
		return Committed{}, Head{}, err
	}
	committed.Bytes = bytesOf(segments)
	head, err := l.swap(ctx, from, func(h *Head) (bool, error) {
		if _, landed := h.commitment(c.Run, c.Token); landed {
			return false, nil
		}
		if err := h.admit(c.Token); err != nil {
			return false, err
		}
		h.Token = c.Token
		c.apply(h, segments, committed.Commitment)
		h.remember(committed.Commitment, l.limits.commits)
		return true, nil
	})
	if err != nil {
		return Committed{}, Head{}, err
	}
	return committed, head, nil
}

// writeSegments uploads the segments of rows that write adds, in key order.
func (l *Ledger) writeSegments(ctx context.Context, generation, token int64, write func(out *segmentsWriter) error) ([]Segment, error) {
	out := segmentsWriter{ledger: l, generation: generation, token: token}
	if err := write(&out); err != nil {
		return nil, err
	}
	return out.close(ctx)
}

func bytesOf(segments []Segment) (n int64) {
	for _, s := range segments {
		n += s.Bytes
	}
	return n
}

// remember appends a commit and forgets the oldest ones beyond most.
func (h *Head) remember(c Commitment, most int) {
	h.Commits = append(h.Commits, c)
	h.Commits = h.Commits[max(0, len(h.Commits)-most):]
}

func (c *Commitment) count(o Outcome) {
	switch o {
	case Done:
		c.Done++
	case Failed:
		c.Failed++
	case Quarantined:
		c.Quarantined++
	case Due:
		c.Due++
	case gone:
		c.Gone++
	}
}
