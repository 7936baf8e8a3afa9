package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Merging keeps the segments few without rewriting the ledger.
//
// Of the newest segments, a merge takes as many as it can while the oldest it
// takes is no larger than the others together, they are at least eight, and
// they come to at most 32 MiB. So a row is rewritten only when its segment at
// least doubles: about ten times on its way into a segment that is too large
// to be merged again, and then never. Ten million rows are some fourteen such
// segments and a few small ones.
//
// What merging by size does not reach are rows in large segments that newer
// rows override, or whose keys are gone. Discovery counts them on its way
// (Upkeep.Dead); once half of all rows are dead, the next commit rewrites the
// whole, which is paid for by the rows it drops and takes the order of one
// more discovery. Its output is cut into segments of 32 MiB.
//
// A merge swaps the head after, and apart from, the commit that caused it. It
// gives up quietly when another writer came first.

// plan picks the segments to merge, from and up to to; it is empty when there
// is nothing worth doing.
func (l *Ledger) plan(segments []Segment, dead int64) (from, to int) {
	to = len(segments)
	var rows, sum int64
	for _, s := range segments {
		rows += s.Rows
	}
	if rows > 0 && dead*2 >= rows {
		return 0, to
	}
	from = to
	for i := to - 1; i >= 0; i-- {
		newer := sum
		sum += segments[i].Bytes
		if sum > l.limits.mergeBytes {
			break
		}
		if to-i >= l.limits.mergeCount && segments[i].Bytes <= newer {
			from = i
		}
	}
	return from, to
}

// maintain merges what is due and clears away what nobody reads any more. It
// returns how many segments it merged.
func (l *Ledger) maintain(ctx context.Context, head Head, c Commit) (int, error) {
	from, to := l.plan(head.Segments, c.Upkeep.Dead)
	if from == to {
		return 0, nil
	}
	merged, err := l.mergeRange(ctx, head, from, to, c.Token)
	if err != nil {
		return merged, fmt.Errorf("merge %d ledger segments: %w", to-from, err)
	}
	return merged, nil
}

func (l *Ledger) mergeRange(ctx context.Context, head Head, from, to int, token int64) (int, error) {
	inputs := head.Segments[from:to]
	outputs, err := l.rewrite(ctx, inputs, head.Segments[:from], head.Generation+1, token)
	if err != nil {
		return 0, err
	}
	current, err := l.load(ctx)
	if err != nil {
		return 0, err
	}
	cleared, clearErr := l.clear(ctx, current)
	after, err := l.swap(ctx, current, func(h *Head) (bool, error) {
		at := slices.Index(h.Segments, inputs[0])
		if h.Token != token || at < 0 || at+len(inputs) > len(h.Segments) || !slices.Equal(h.Segments[at:at+len(inputs)], inputs) {
			return false, nil // another writer came first, or this swap had landed
		}
		h.Segments = slices.Replace(h.Segments, at, at+len(inputs), outputs...)
		h.Retired = slices.DeleteFunc(h.Retired, func(r Retired) bool { return cleared[r.Name] })
		for _, s := range inputs {
			h.Retired = append(h.Retired, Retired{Name: s.Name, Since: current.now})
		}
		return true, nil
	})
	if err != nil || slices.Contains(after.Segments, inputs[0]) {
		return 0, errors.Join(err, clearErr)
	}
	return len(inputs), clearErr
}

// rewrite merges the inputs into new segments. A mark of a vanished key is
// kept while an older segment may still hold the key.
func (l *Ledger) rewrite(ctx context.Context, inputs, older []Segment, generation, token int64) ([]Segment, error) {
	rows := l.merge(inputs)
	defer rows.close()
	out := segmentsWriter{ledger: l, generation: generation, token: token}
	for {
		r, err := rows.next(ctx)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return out.close(ctx)
		}
		if r.outcome == gone && !mayHold(older, string(r.key)) {
			continue
		}
		if err := out.add(ctx, r); err != nil {
			return nil, err
		}
	}
}

func mayHold(segments []Segment, key string) bool {
	return slices.ContainsFunc(segments, func(s Segment) bool { return s.First <= key && key <= s.Last })
}
