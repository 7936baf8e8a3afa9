package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// ErrIntact: the head that was to be replaced can be read.
var ErrIntact = errors.New("the head of the ledger is intact")

// Replacement is a new ledger in place of one that is damaged.
type Replacement struct {
	// By and Token are as in an Edit.
	By    string
	Token int64
	// Rows are all there is to know, as Rows yields them: in key order, each key
	// once, with the run and the time of each. They are read once. An error among
	// them ends the replacement with that error.
	Rows iter.Seq2[Row, error]
	// Intact allows to replace a head that can be read, as when a segment that it
	// names is lost. Without it such a head is ErrIntact.
	Intact bool
	// Identity is that of the new ledger where the old head cannot be read.
	Identity Identity
}

// Replace writes a new ledger, all of it or nothing: segments, then the head
// in one conditional PUT on what was there when it began, be it a head, an
// object that is none, or nothing. Until then the old one stands.
//
// It may be sent again after any error, with the same rows. A newer token in a
// head that can be read is ErrFenced. What else comes in between is an error.
func (l *Ledger) Replace(ctx context.Context, r Replacement) (Committed, error) {
	committed, err := l.replace(ctx, r)
	if err != nil {
		return Committed{}, fmt.Errorf("replace ledger as %s: %w", r.By, err)
	}
	return committed, nil
}

func (l *Ledger) replace(ctx context.Context, r Replacement) (Committed, error) {
	sum := Commitment{Run: r.By, Token: r.Token}
	if err := sum.check(); err != nil {
		return Committed{}, err
	}
	from, err := l.replaced(ctx, r)
	if err != nil {
		return Committed{}, err
	}
	if before, ok := from.commitment(r.By, r.Token); ok {
		return Committed{Commitment: before, Already: true}, nil
	}
	next := from.clone()
	if next.Identity == (Identity{}) {
		next.Identity = r.Identity
	}
	// Above that of every segment in the folder, whoever wrote it: a name never
	// comes back with another meaning.
	if next.Generation, err = l.lastGeneration(ctx, next.Generation); err != nil {
		return Committed{}, err
	}
	next.Generation++
	next.Token = r.Token
	next.retire(from.now)
	next.Segments, err = l.writeSegments(ctx, next.Generation, r.Token, func(out *segmentsWriter) error {
		return r.write(ctx, out, &sum)
	})
	if err != nil {
		return Committed{}, err
	}
	next.remember(sum, l.limits.commits)
	if err := l.install(ctx, from, next, sum); err != nil {
		return Committed{}, err
	}
	return Committed{Commitment: sum, Bytes: bytesOf(next.Segments)}, nil
}

// replaced is the head that is to go. One that can be read gets the token
// first, so that no older run commits to it meanwhile.
func (l *Ledger) replaced(ctx context.Context, r Replacement) (version, error) {
	v, damage, err := l.look(ctx)
	if err != nil || damage != nil || !v.exists {
		return v, err
	}
	if _, landed := v.commitment(r.By, r.Token); landed {
		return v, nil
	}
	if !r.Intact {
		return version{}, ErrIntact
	}
	if err := l.Fence(ctx, r.Token); err != nil {
		return version{}, err
	}
	return l.load(ctx)
}

// lastGeneration is the highest of least and of what the names of segments say.
func (l *Ledger) lastGeneration(ctx context.Context, least int64) (int64, error) {
	last := least
	for page, err := range l.store.List(ctx, bucket.ListOptions{Prefix: l.prefix + "segments/"}) {
		if err != nil {
			return 0, err
		}
		for _, e := range page.Entries {
			name := e.Key[len(l.prefix):]
			if !segmentName.MatchString(name) {
				continue
			}
			digits := name[len("segments/"):][:12]
			generation, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("segment %s: %w", name, err)
			}
			last = max(last, generation)
		}
	}
	return last, nil
}

func (r Replacement) write(ctx context.Context, out *segmentsWriter, sum *Commitment) error {
	if r.Rows == nil {
		return nil
	}
	for row, err := range r.Rows {
		if err != nil {
			return err
		}
		if err := row.check(); err != nil {
			return err
		}
		if !slices.Contains([]Outcome{Done, Failed, Quarantined, Due}, row.Outcome) {
			return fmt.Errorf("key %q: outcome %q is none of a row", row.Key, row.Outcome)
		}
		next := row.record()
		sum.count(row.Outcome)
		if err := out.add(ctx, &next); err != nil {
			return err
		}
	}
	return nil
}

// install puts next in the place of from. Unlike a swap it does not go on from
// what came in between: that would not be what was to be replaced.
func (l *Ledger) install(ctx context.Context, from version, next Head, sum Commitment) error {
	for attempt := 0; ; attempt++ {
		cause := l.put(ctx, from, next)
		if cause == nil {
			return nil
		}
		if err := l.wait(ctx, attempt); err != nil {
			return fmt.Errorf("swap ledger head: %w (outcome unknown after: %w)", err, cause)
		}
		now, damage, err := l.look(ctx)
		if err != nil {
			return fmt.Errorf("swap ledger head: %w (outcome unknown after: %w)", err, cause)
		}
		_, landed := now.commitment(sum.Run, sum.Token)
		switch {
		case landed:
			return nil
		case now.exists != from.exists || now.etag != from.etag:
			if damage == nil && now.Token > sum.Token {
				return now.admit(sum.Token)
			}
			return fmt.Errorf("swap ledger head: %s changed in the meantime; see what it is now, and start again", l.headKey())
		case attempt >= l.limits.attempts || !worthRetrying(cause):
			return fmt.Errorf("swap ledger head: attempt %d: %w", attempt+1, cause)
		}
	}
}
