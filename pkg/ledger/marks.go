package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Marks are what the head remembers for selections whose keys come in order
// (Selection.Lexicographic). They are of the one selection that was committed
// last; another one lists everything.
type Marks struct {
	// Selection identifies what the marks hold for.
	Selection string `json:"selection"`
	// Reconciled is the cutoff of the last listing of everything.
	Reconciled time.Time `json:"reconciled"`
	// Settled are in the order of their times.
	Settled []Settled `json:"settled"`
}

// Settled: at this cutoff every key up to Key was settled. It had been
// processed, was in quarantine, or was none of the selection's.
type Settled struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
}

// Mark is what one discovery adds to the marks.
type Mark struct {
	Selection string    `json:"selection"`
	After     string    `json:"after"` // where the listing began
	Key       string    `json:"key"`   // settled up to here; "" adds no mark
	At        time.Time `json:"at"`
	Whole     bool      `json:"whole"` // everything was listed
}

// identity is the same for selections that settle the same files.
func (s Selection) identity() string {
	body, err := json.Marshal([]any{folder(s.Prefix), s.Include, s.Exclude, s.ExcludePrefixes, s.MinSize, s.MaxSize, s.Since, s.Until})
	if err != nil {
		panic(err) // strings, numbers and times that Validate let pass
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// Settle puts the mark of a discovery that took nothing into the head, under
// the run's token. A run that takes something has its commit for that.
func (l *Ledger) Settle(ctx context.Context, token int64, mark Mark) error {
	from, err := l.load(ctx)
	if err != nil {
		return fmt.Errorf("settle ledger: %w", err)
	}
	_, err = l.swap(ctx, from, func(h *Head) (bool, error) {
		if err := h.admit(token); err != nil {
			return false, err
		}
		if h.Marks.has(mark) {
			return false, nil
		}
		h.Token, h.Marks = token, h.Marks.add(mark, l.limits.marks)
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("settle ledger: %w", err)
	}
	return nil
}

// has tells whether a mark adds nothing, or was added before: the reply got lost.
func (m *Marks) has(mark Mark) bool {
	if m == nil || m.Selection != mark.Selection || mark.Whole && !m.Reconciled.Equal(mark.At) {
		return false
	}
	return mark.Key == "" || slices.Contains(m.Settled, Settled{Key: mark.Key, At: mark.At})
}

// marksAfter are the marks after a commit. One of another selection that leaves
// files to be retried ends them: these files may be anywhere.
func (h Head) marksAfter(c Commit, sum Commitment, most int) *Marks {
	switch {
	case c.Upkeep.Mark != nil:
		return h.Marks.add(*c.Upkeep.Mark, most)
	case sum.Failed+sum.Due > 0:
		return nil
	}
	return h.Marks
}

// startAfter is the key behind which a listing may begin, or "" for everything.
func (h Head) startAfter(sel Selection, cutoff time.Time) (after string) {
	m := h.Marks
	if !sel.Lexicographic || m == nil || m.Selection != sel.identity() || cutoff.Sub(m.Reconciled) >= sel.Reconcile {
		return ""
	}
	for _, settled := range m.Settled {
		if cutoff.Sub(settled.At) >= sel.LookBack {
			after = settled.Key
		}
	}
	return after
}

// marksALookBack is how many marks there are for the time of one look-back: a
// listing begins by so much of it earlier than it might.
const marksALookBack = 100

// newMark is what the spans of a listing, in key order, teach about how far
// everything is settled. It is nil unless the selection is lexicographic.
func (h Head) newMark(sel Selection, cutoff time.Time, after string, spans []joined) *Mark {
	if !sel.Lexicographic {
		return nil
	}
	mark := Mark{Selection: sel.identity(), After: after, At: cutoff, Whole: after == ""}
	if m := h.Marks; m != nil && m.Selection == mark.Selection && len(m.Settled) > 0 &&
		cutoff.Sub(m.Settled[len(m.Settled)-1].At) < sel.LookBack/marksALookBack {
		return &mark
	}
	mark.Key = after
	for i := range spans {
		mark.Key = max(mark.Key, spans[i].settled)
		if spans[i].open {
			break
		}
	}
	return &mark
}

// add returns the marks with one more. It leaves out those before the one that
// the listing began at, since time only goes on.
func (m *Marks) add(mark Mark, most int) *Marks {
	next := Marks{Selection: mark.Selection}
	if m != nil && m.Selection == mark.Selection {
		next.Reconciled = m.Reconciled
		next.Settled = slices.Clone(m.Settled)
	}
	if mark.Whole {
		next.Reconciled = mark.At
	}
	began := slices.IndexFunc(next.Settled, func(s Settled) bool { return s.Key == mark.After })
	next.Settled = next.Settled[max(0, began):]
	if mark.Key != "" {
		next.Settled = append(next.Settled, Settled{Key: mark.Key, At: mark.At})
	}
	// Only a look-back that was made shorter leaves more than were made for it.
	if n := len(next.Settled); n > most {
		next.Settled = slices.Delete(next.Settled, 1, 1+n-most)
	}
	return &next
}
