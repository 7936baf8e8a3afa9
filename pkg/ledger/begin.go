package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Identity is what all runs of a ledger have in common: where files come from,
// where outputs go, and how they are named. A run with another one would mix up
// outputs.
type Identity struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Layout      string `json:"layout"`
	Table       string `json:"table"` // "" for none
}

type identityField struct{ name, have, want string }

// compare returns the fields in which two identities differ.
func (i Identity) compare(want Identity) []identityField {
	return slices.DeleteFunc([]identityField{
		{"source", i.Source, want.Source}, {"destination", i.Destination, want.Destination},
		{"layout", i.Layout, want.Layout}, {"table", i.Table, want.Table},
	}, func(f identityField) bool { return f.have == f.want })
}

// OpenManifest is the list of files that a run has in hand.
type OpenManifest struct {
	Run   string `json:"run"`
	Token int64  `json:"token"`
	Key   string `json:"key"` // of the manifest's object
	ETag  string `json:"etag"`
}

// Beginning is what a run says of itself before it discovers.
type Beginning struct {
	Token    int64
	Identity Identity
	// Landed reports whether the run committed under that token. It is asked about
	// a segment that no head names, and that its run may have written just before
	// it died. Nil takes every such run for dead.
	Landed func(ctx context.Context, run string, token int64) (bool, error)
}

// Begin is Fence for a run that discovers next: it also refuses a head that is an
// older version of itself (ErrDamaged), and a run of another identity
// (ErrIdentity). The first run of a ledger gives it its identity.
//
// Of the head that it returns, Open are the manifests of runs that are not
// committed. Those of older tokens go to Recover.
func (l *Ledger) Begin(ctx context.Context, b Beginning) (Head, error) {
	head, err := l.begin(ctx, b)
	if err != nil {
		return Head{}, fmt.Errorf("begin with ledger: %w", err)
	}
	return head, nil
}

func (l *Ledger) begin(ctx context.Context, b Beginning) (Head, error) {
	if b.Token < 1 {
		return Head{}, fmt.Errorf("token %d: tokens begin at 1", b.Token)
	}
	if b.Identity == (Identity{}) {
		return Head{}, errors.New("no identity given")
	}
	if err := l.checkNewest(ctx, b.Landed); err != nil {
		return Head{}, err
	}
	from, err := l.loadOrNone(ctx)
	if err != nil {
		return Head{}, err
	}
	return l.swap(ctx, from, func(h *Head) (bool, error) {
		if err := h.admit(b.Token); err != nil {
			return false, err
		}
		known := h.Identity
		if known == (Identity{}) {
			known = b.Identity
		}
		if known != b.Identity {
			return false, &IdentityError{Have: known, Want: b.Identity}
		}
		if h.Token == b.Token && h.Identity == known {
			return false, nil
		}
		h.Token, h.Identity = b.Token, known
		return true, nil
	})
}

// Adopt gives the ledger another identity, by an operator's word. Rows stay as
// they are: what is done is not done again in the new place.
func (l *Ledger) Adopt(ctx context.Context, token int64, to Identity) error {
	from, err := l.loadOrNone(ctx)
	if err == nil {
		_, err = l.swap(ctx, from, func(h *Head) (bool, error) {
			if err := h.admit(token); err != nil || h.Token == token && h.Identity == to {
				return false, err
			}
			h.Token, h.Identity, h.Marks = token, to, nil
			return true, nil
		})
	}
	if err != nil {
		return fmt.Errorf("adopt ledger: %w", err)
	}
	return nil
}

// OpenManifest puts a manifest into the head, before anything of it is processed.
// A run that has committed under its token opens no more: that is ErrFenced.
func (l *Ledger) OpenManifest(ctx context.Context, m OpenManifest) error {
	from, err := l.load(ctx)
	if err == nil {
		_, err = l.swap(ctx, from, func(h *Head) (bool, error) {
			if err := h.admit(m.Token); err != nil {
				return false, err
			}
			if _, committed := h.commitment(m.Run, m.Token); committed {
				return false, &FencedError{Token: m.Token, Seen: h.Token}
			}
			if slices.Contains(h.Open, m) {
				return false, nil
			}
			h.Token = m.Token
			h.Open = append(h.Open, m)
			return true, nil
		})
	}
	if err != nil {
		return fmt.Errorf("open manifest in ledger: %w", err)
	}
	return nil
}

// Recovery makes due what runs that died had in hand.
type Recovery struct {
	Run   string // that recovers
	Token int64
	Open  []OpenManifest           // of runs that died
	Keys  iter.Seq2[string, error] // of their files, in any order; more than once does no harm
}

// Recover makes the files of open manifests due, at whatever version they are,
// and takes the manifests out of the head: one segment, then one swap. It may be
// sent again after any error.
func (l *Ledger) Recover(ctx context.Context, r Recovery) (Committed, error) {
	c := change{
		Commitment: Commitment{Run: "recovery by " + r.Run, Token: r.Token},
		write: func(ctx context.Context, out *segmentsWriter, sum *Commitment) error {
			return r.write(ctx, out, sum)
		},
		apply: func(h *Head, written []Segment, _ Commitment) {
			h.Segments = append(h.Segments, written...)
			h.Open = slices.DeleteFunc(h.Open, func(m OpenManifest) bool { return slices.Contains(r.Open, m) })
			h.Marks = nil // what is to be found again may be anywhere
		},
	}
	if err := c.check(); err != nil {
		return Committed{}, fmt.Errorf("recover ledger: %w", err)
	}
	committed, _, err := l.change(ctx, c)
	if err != nil {
		return Committed{}, fmt.Errorf("recover ledger: %w", err)
	}
	return committed, nil
}

func (r Recovery) write(ctx context.Context, out *segmentsWriter, sum *Commitment) error {
	mark := newCommitMark(r.Run, time.Time{}, "")
	rows := func(yield func(Row, error) bool) {
		for key, err := range r.Keys {
			if !yield(Row{Key: key}, err) {
				return
			}
		}
	}
	for row, err := range Latest(ctx, rows) { // in order, each once
		if err != nil {
			return err
		}
		if err := row.check(); err != nil {
			return err
		}
		next := record{key: []byte(row.Key), outcome: Due, commit: mark}
		sum.count(Due)
		if err := out.add(ctx, &next); err != nil {
			return err
		}
	}
	return nil
}

// checkNewest refuses a head that is an older version of itself. A segment is
// named after the generation of the head that is to name it, and is written
// before. So a segment of a generation beyond the next one was named by a head
// that was there, and is not any more. One of the next generation may be left by
// a writer that died before it swapped the head: unless its run has landed.
//
// The segments are listed first: meanwhile the head only grows.
func (l *Ledger) checkNewest(ctx context.Context, landed func(context.Context, string, int64) (bool, error)) error {
	listed, err := l.load(ctx)
	if err != nil {
		return err
	}
	ahead, err := l.segmentsAfter(ctx, listed.Generation)
	if err != nil || len(ahead) == 0 {
		return err
	}
	head, err := l.load(ctx)
	if err != nil {
		return err
	}
	older := func(s aheadSegment) error {
		if !head.exists {
			return &DamagedError{Object: l.headKey(), Reason: missingHead}
		}
		return &DamagedError{Object: l.headKey(), Reason: fmt.Sprintf("it is an older version of itself: its generation is %d, and segment %s beside it is newer; `lockstep ledger restore` brings the latest version back", head.Generation, s.name)}
	}
	for _, s := range ahead {
		switch {
		case s.generation <= head.Generation:
		case s.generation > head.Generation+1:
			return older(s)
		case landed != nil:
			run, err := l.writerOf(ctx, s.name)
			if err != nil {
				return err
			}
			if is, err := landed(ctx, run, s.token); err != nil || is {
				if err == nil {
					err = older(s)
				}
				return err
			}
		}
	}
	return nil
}

// aheadSegment is what the name of a segment says.
type aheadSegment struct {
	name              string
	generation, token int64
}

func (l *Ledger) segmentsAfter(ctx context.Context, generation int64) (found []aheadSegment, err error) {
	after := fmt.Sprintf("%ssegments/%012d-~", l.prefix, generation)
	for page, err := range l.store.List(ctx, bucket.ListOptions{Prefix: l.prefix + "segments/", StartAfter: after}) {
		if err != nil {
			return nil, fmt.Errorf("list segments: %w", err)
		}
		for _, e := range page.Entries {
			if s, ok := parseSegmentName(e.Key[len(l.prefix):]); ok {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

func parseSegmentName(name string) (aheadSegment, bool) {
	parts := segmentName.FindStringSubmatch(name)
	if parts == nil {
		return aheadSegment{}, false
	}
	generation, err1 := strconv.ParseInt(parts[1], 10, 64)
	token, err2 := strconv.ParseInt(parts[2], 10, 64)
	return aheadSegment{name: name, generation: generation, token: token}, err1 == nil && err2 == nil
}

// writerOf is the run that wrote a segment which no head describes, "" where it
// cannot be read.
func (l *Ledger) writerOf(ctx context.Context, name string) (string, error) {
	source, err := l.openLoose(ctx, name)
	if errors.Is(err, ErrDamaged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer source.close()
	var r record
	if _, err := source.next(&r); err != nil {
		if errors.Is(err, ErrDamaged) {
			return "", nil
		}
		return "", err
	}
	return r.commit.run, nil
}
