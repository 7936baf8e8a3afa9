package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// maxHeadBytes bounds what is read as a head: a few hundred segments.
const maxHeadBytes = 16 << 20

// version is a head as it was read.
type version struct {
	Head
	exists bool
	etag   string
	now    time.Time // the server's clock
}

func (l *Ledger) headKey() string { return l.prefix + "head.json" }

// Head reads the head. A ledger that was never written to has the zero Head.
func (l *Ledger) Head(ctx context.Context) (Head, error) {
	v, err := l.load(ctx)
	return v.Head, err
}

func (l *Ledger) load(ctx context.Context) (version, error) {
	v, damage, err := l.look(ctx)
	if err != nil {
		return version{}, err
	}
	if damage != nil {
		return version{}, damage
	}
	return v, nil
}

// look reads the head as it is. Of one that is damaged, the version has no Head.
func (l *Ledger) look(ctx context.Context) (v version, damage *DamagedError, err error) {
	object, err := l.store.Get(ctx, l.headKey(), bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) {
		now, _ := bucket.ServerTime(err)
		return version{now: now}, nil, nil
	}
	if err != nil {
		return version{}, nil, fmt.Errorf("read ledger head: %w", err)
	}
	defer object.Body.Close()
	v = version{exists: true, etag: object.ETag, now: object.ServerTime}
	v.Head, err = l.readHead(object.Body)
	if errors.As(err, &damage) {
		return v, damage, nil
	}
	if err != nil { // it was cut, or is of an older or a newer program
		return version{exists: true, etag: v.etag, now: v.now}, nil, err
	}
	return v, nil, nil
}

// readHead reads a version of the head.
func (l *Ledger) readHead(from io.Reader) (Head, error) {
	body, err := io.ReadAll(io.LimitReader(from, maxHeadBytes+1))
	switch {
	case err != nil:
		return Head{}, fmt.Errorf("read ledger head: %w", err)
	case len(body) > maxHeadBytes:
		return Head{}, &DamagedError{Object: l.headKey(), Reason: fmt.Sprintf("it is larger than %d bytes", maxHeadBytes)}
	}
	return decodeHead(body, l.headKey())
}

// Begun tells whether there is a head, so that a ledger that was never written
// to can be told from one whose head was deleted: that is ErrDamaged. It is for
// ledgers whose runs all call Fence before they commit.
func (l *Ledger) Begun(ctx context.Context) (bool, error) {
	v, err := l.loadOrNone(ctx)
	return v.exists, err
}

// loadOrNone is load for those who would take a missing head for a ledger that
// was never written to: where there are segments, somebody deleted it.
func (l *Ledger) loadOrNone(ctx context.Context) (version, error) {
	v, err := l.load(ctx)
	if err != nil || v.exists {
		return v, err
	}
	last, err := l.lastGeneration(ctx, 0)
	if err != nil || last == 0 {
		return v, err
	}
	if v, err = l.load(ctx); err != nil || v.exists { // the first one came just now
		return v, err
	}
	return version{}, &DamagedError{Object: l.headKey(), Reason: missingHead}
}

const missingHead = "it is not there, and beside it are segments that only a head can name"

// edit changes a head, or returns false when there is nothing left to change:
// that is how a swap whose reply was lost recognises its own work.
type edit func(h *Head) (changed bool, err error)

// swap applies an edit to the head at from, and to whatever head comes in
// between. Every failed PUT is followed by a read: the edit's effect is there,
// or somebody else's is, or neither is and the PUT is sent again. A PUT that
// arrives late meets a head of another generation and fails.
func (l *Ledger) swap(ctx context.Context, from version, apply edit) (Head, error) {
	known := from.exists
	var cause error
	for attempt := 0; ; attempt++ {
		next := from.clone()
		changed, err := apply(&next)
		if err != nil || !changed {
			return from.Head, err
		}
		if cause != nil && (attempt >= l.limits.attempts || !worthRetrying(cause)) {
			return Head{}, fmt.Errorf("swap ledger head: attempt %d: %w", attempt, cause)
		}
		next.Generation++
		if cause = l.put(ctx, from, next); cause == nil {
			return next, nil
		}
		if err := l.wait(ctx, attempt); err != nil {
			return Head{}, fmt.Errorf("swap ledger head: %w (outcome unknown after: %w)", err, cause)
		}
		if from, err = l.load(ctx); err != nil {
			return Head{}, fmt.Errorf("swap ledger head: %w (outcome unknown after: %w)", err, cause)
		}
		if known && !from.exists {
			return Head{}, fmt.Errorf("swap ledger head: %s disappeared in the meantime; restore it, or start over with an empty ledger", l.headKey())
		}
		known = from.exists
	}
}

// worthRetrying: 412 asks for another look at the head; 409 is transient.
func worthRetrying(err error) bool {
	return errors.Is(err, bucket.ErrPrecondition) || bucket.Transient(err)
}

func (l *Ledger) put(ctx context.Context, from version, next Head) error {
	body, err := encodeHead(next)
	if err != nil {
		return err
	}
	condition := bucket.Condition{IfMatch: from.etag}
	if !from.exists {
		condition = bucket.Condition{IfNoneMatch: "*"}
	}
	_, err = l.store.Put(ctx, l.headKey(), bytes.NewReader(body), "application/json", condition)
	return err
}

// clone copies the slices too: an edit may be applied again.
func (v version) clone() Head {
	h := v.Head
	h.Segments = slices.Clone(h.Segments)
	h.Commits = slices.Clone(h.Commits)
	h.Retired = slices.Clone(h.Retired)
	h.Open = slices.Clone(h.Open)
	h.Entries = slices.Clone(h.Entries)
	return h
}

// Fence records a run's token before the run discovers: from then on no older
// run can commit, so nothing is committed behind the back of the discovery
// that follows. A newer token there is ErrFenced. A head that was deleted is
// ErrDamaged, and not an empty ledger with which everything is done again.
func (l *Ledger) Fence(ctx context.Context, token int64) error {
	if token < 1 {
		return fmt.Errorf("fence ledger: token %d: tokens begin at 1", token)
	}
	from, err := l.loadOrNone(ctx)
	if err != nil {
		return fmt.Errorf("fence ledger: %w", err)
	}
	_, err = l.swap(ctx, from, func(h *Head) (bool, error) {
		if err := h.admit(token); err != nil || h.Token == token {
			return false, err
		}
		h.Token = token
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("fence ledger: %w", err)
	}
	return nil
}

// admit refuses a token older than the newest one seen.
func (h Head) admit(token int64) error {
	if token < h.Token {
		return &FencedError{Token: token, Seen: h.Token}
	}
	return nil
}
