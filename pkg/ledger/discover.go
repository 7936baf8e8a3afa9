package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Discovery says what a listing came to. Every listed file is in exactly one
// of New, Changed, Retried, Reprocessed (these are taken), Skipped and Left.
type Discovery struct {
	Listed      int64            `json:"listed"`
	New         int64            `json:"new"`
	Changed     int64            `json:"changed"`     // known at another version
	Retried     int64            `json:"retried"`     // failed before at this version
	Reprocessed int64            `json:"reprocessed"` // taken only because of Reprocess
	Bytes       int64            `json:"bytes"`       // of the files taken
	Skipped     map[Reason]int64 `json:"skipped"`
	Left        int64            `json:"left"`      // for later runs, by MaxFiles or MaxBytes
	LeftBytes   int64            `json:"leftBytes"` // of those
	Gone        int64            `json:"gone"`      // keys of the ledger that were not listed
	Upkeep      Upkeep           `json:"upkeep"`
}

// Taken counts the files handed out.
func (d Discovery) Taken() int64 { return d.New + d.Changed + d.Retried + d.Reprocessed }

// Upkeep is what a complete listing teaches the ledger about itself. It goes
// into the commit of the same run.
type Upkeep struct {
	// Gone are the first 10,000 vanished keys; the next discovery finds the others.
	Gone []string `json:"gone,omitempty"`
	// Dead counts rows that newer rows override, and marks of vanished keys.
	Dead int64 `json:"dead,omitempty"`
}

// Discover lists the selection's prefix and calls take, in key order, for each
// file that is new, modified, or to be retried. cutoff is the run's one time,
// by the server's clock.
//
// take is called while the listing is still going on. Nothing it was given may
// be committed, or even processed, unless Discover returns nil: a listing that
// broke off or lost its order is an error, as is a ledger that cannot be read.
// An error of take ends the discovery with that error.
//
// Call Fence first where an older run may still be about.
func (l *Ledger) Discover(ctx context.Context, src Lister, sel Selection, cutoff time.Time, take func(Candidate) error) (Discovery, error) {
	if err := sel.Validate(); err != nil {
		return Discovery{}, fmt.Errorf("discover: %w", err)
	}
	if sel.MinAge > 0 && cutoff.IsZero() {
		return Discovery{}, errors.New("discover: a MinAge needs a cutoff")
	}
	head, err := l.Head(ctx)
	if err != nil {
		return Discovery{}, fmt.Errorf("discover: %w", err)
	}
	d := discoverer{
		selector: newSelector(sel), cutoff: cutoff, take: take, goneLimit: l.limits.gone,
		found: Discovery{Skipped: map[Reason]int64{}},
	}
	d.rows = l.merge(head.Segments, d.prefix)
	defer d.rows.close()
	if err := d.run(ctx, src); err != nil {
		return Discovery{}, fmt.Errorf("discover: %w", err)
	}
	return d.found, nil
}

// discoverer is one discovery: a merge-join of the listing with the ledger.
type discoverer struct {
	selector
	cutoff    time.Time
	take      func(Candidate) error
	goneLimit int
	rows      *mergedRows
	row       *record // the next row of the ledger that was not joined yet
	marks     int64   // rows that were marks of vanished keys
	full      bool    // a limit was reached
	found     Discovery
}

func (d *discoverer) run(ctx context.Context, src Lister) error {
	if err := d.nextRow(ctx); err != nil {
		return err
	}
	if err := d.list(ctx, src); err != nil {
		return err
	}
	for d.row != nil {
		if err := d.vanished(ctx); err != nil {
			return err
		}
	}
	d.found.Upkeep.Dead = d.rows.read - d.rows.kept + d.marks
	return nil
}

// list trusts no lister: the order and the end of the listing are checked
// here, whatever the implementation does.
func (d *discoverer) list(ctx context.Context, src Lister) error {
	last, listed := "", false
	for page, err := range src.List(ctx, bucket.ListOptions{Prefix: d.prefix}) {
		if err != nil {
			return fmt.Errorf("the listing broke off after %d files: %w", d.found.Listed, err)
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if listed && e.Key <= last {
				return fmt.Errorf("%w: key %q came after %q", bucket.ErrListing, e.Key, last)
			}
			if e.Key == "" || !strings.HasPrefix(e.Key, d.prefix) {
				return fmt.Errorf("%w: key %q is not below %q", bucket.ErrListing, e.Key, d.prefix)
			}
			last, listed = e.Key, true
			if err := d.join(ctx, e); err != nil {
				return err
			}
		}
		if page.Last {
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: it stopped after %d files without a last page", bucket.ErrListing, d.found.Listed)
}

// join brings a listed file together with its row, if it has one.
func (d *discoverer) join(ctx context.Context, e *bucket.Entry) error {
	for d.row != nil && string(d.row.key) < e.Key {
		if err := d.vanished(ctx); err != nil {
			return err
		}
	}
	d.found.Listed++
	if d.row == nil || string(d.row.key) != e.Key {
		return d.decide(e, nil)
	}
	if err := d.decide(e, d.row); err != nil {
		return err
	}
	return d.nextRow(ctx)
}

// vanished passes over a row whose key was not listed. Whether it was selected
// does not matter: the listing is of the whole prefix.
func (d *discoverer) vanished(ctx context.Context) error {
	d.found.Gone++
	if len(d.found.Upkeep.Gone) < d.goneLimit {
		d.found.Upkeep.Gone = append(d.found.Upkeep.Gone, string(d.row.key))
	}
	return d.nextRow(ctx)
}

// nextRow moves on to the next row that is not a mark.
func (d *discoverer) nextRow(ctx context.Context) (err error) {
	for {
		d.row, err = d.rows.next(ctx)
		if err != nil || d.row == nil || d.row.outcome != gone {
			return err
		}
		d.marks++
	}
}

// decide counts a file, and takes it if it is to be processed now.
func (d *discoverer) decide(e *bucket.Entry, row *record) error {
	if reason := d.outside(e); reason != "" {
		d.found.Skipped[reason]++
		return nil
	}
	c := Candidate{File: File{Key: e.Key, ETag: e.ETag, Size: e.Size, LastModified: e.LastModified}}
	count, reason := d.standing(&c, row)
	if reason == "" {
		reason = d.deferred(e, d.cutoff)
	}
	if reason != "" {
		d.found.Skipped[reason]++
		return nil
	}
	if d.full = d.full || !d.fits(e.Size); d.full {
		d.found.Left++
		d.found.LeftBytes += e.Size
		return nil
	}
	*count++
	d.found.Bytes += e.Size
	if err := d.take(c); err != nil {
		return fmt.Errorf("take %q: %w", e.Key, err)
	}
	return nil
}

// standing compares a file with its row: under what it counts if it is taken,
// or why it is not.
func (d *discoverer) standing(c *Candidate, row *record) (count *int64, skip Reason) {
	switch {
	case row == nil:
		return &d.found.New, ""
	case row.size != c.Size || row.tag != parseTag(c.ETag):
		return &d.found.Changed, ""
	case row.outcome == Failed:
		c.Attempts = row.attempts
		return &d.found.Retried, ""
	case d.Reprocess:
		return &d.found.Reprocessed, ""
	case row.outcome == Done:
		return nil, SkipDone
	}
	return nil, SkipQuarantined
}

func (d *discoverer) fits(size int64) bool {
	taken := d.found.Taken()
	return (d.MaxFiles == 0 || taken < int64(d.MaxFiles)) &&
		(d.MaxBytes == 0 || taken == 0 || size <= d.MaxBytes-d.found.Bytes)
}
