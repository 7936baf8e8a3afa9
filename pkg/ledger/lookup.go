package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Row is what the ledger knows of one key, nil for nothing. It reads the
// indexes of the segments around the key, and a block of each.
func (l *Ledger) Row(ctx context.Context, key string) (*Row, error) {
	head, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	r, err := l.lookUp(ctx, head, key)
	if r == nil || err != nil {
		return nil, err
	}
	row := r.row()
	return &row, nil
}

func (l *Ledger) lookUp(ctx context.Context, head Head, key string) (*record, error) {
	rows := l.mergeSpan(l.newIndexes(1), head.Segments, key, span{upTo: key})
	defer rows.close()
	r, err := rows.next(ctx)
	if err != nil || r == nil || r.outcome == gone {
		return nil, err
	}
	return r, nil
}

// SkipUnlisted is a Verdict of Explain, with Lexicographic: the file is due, but
// sorts before what is listed. The next listing of everything finds it.
const SkipUnlisted Reason = "unlisted"

// Explain tells what Discover would make of one listed file, as far as that
// does not depend on other files: by the selection and the ledger alone. It
// does not know how much a bounded run takes before it.
func (l *Ledger) Explain(ctx context.Context, e bucket.Entry, sel Selection, cutoff time.Time) (Verdict, error) {
	if err := sel.Validate(); err != nil {
		return Verdict{}, fmt.Errorf("explain: %w", err)
	}
	s := newSelector(sel)
	if !strings.HasPrefix(e.Key, s.prefix) {
		return Verdict{}, fmt.Errorf("explain: key %q is not below the prefix %q", e.Key, s.prefix)
	}
	head, err := l.Head(ctx)
	if err != nil {
		return Verdict{}, fmt.Errorf("explain: %w", err)
	}
	row, err := l.lookUp(ctx, head, e.Key)
	if err != nil {
		return Verdict{}, fmt.Errorf("explain: %w", err)
	}
	d, reason := s.judge(&e, row, cutoff)
	if reason == "" && e.Key <= head.startAfter(sel, cutoff) {
		reason = SkipUnlisted
	}
	return verdict(d, reason, row), nil
}

// Outside returns a function that says why a listed file is none of the
// selection's, whatever the ledger knows of it, or "".
func (s Selection) Outside() func(bucket.Entry) Reason {
	c := newSelector(s)
	return func(e bucket.Entry) Reason { return c.outside(&e) }
}
