package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
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
	// Oldest is the earliest LastModified among the files that are due, taken or
	// left; zero when none is. Those that are due by Reprocess alone do not count:
	// they were processed.
	Oldest time.Time `json:"oldest,omitzero"`
	// After is where the listing began, with Lexicographic; "" is the beginning.
	After  string `json:"after,omitempty"`
	Upkeep Upkeep `json:"upkeep"`
}

// Taken counts the files handed out.
func (d *Discovery) Taken() int64 { return d.New + d.Changed + d.Retried + d.Reprocessed }

func (d *Discovery) count(taken due) {
	d.Bytes += taken.Size
	switch taken.kind {
	case New:
		d.New++
	case Changed:
		d.Changed++
	case Retried:
		d.Retried++
	case Reprocessed:
		d.Reprocessed++
	}
}

// add counts a span, of which the others come in key order.
func (d *Discovery) add(j *joined, mostGone int) {
	d.Listed += j.listed
	d.Oldest = older(d.Oldest, j.oldest)
	for reason, n := range j.skipped {
		d.Skipped[reason] += n
	}
	d.Gone += j.gone
	d.Upkeep.Dead += j.dead
	d.Upkeep.Gone = append(d.Upkeep.Gone, j.names[:min(len(j.names), mostGone-len(d.Upkeep.Gone))]...)
}

// Upkeep is what a listing teaches the ledger about itself. It goes into the
// commit of the same run; of a run that takes nothing, Mark goes to Settle.
type Upkeep struct {
	// Gone are the first 10,000 vanished keys; the next discovery finds the others.
	Gone []string `json:"gone,omitempty"`
	// Dead counts rows that newer rows override, and marks of vanished keys.
	Dead int64 `json:"dead,omitempty"`
	// Mark is how far the next listing may skip, with Lexicographic.
	Mark *Mark `json:"mark,omitempty"`
}

// Discover lists the selection's prefix, in parallel where there is much to
// list, and calls take for each file that is new, modified, or to be retried:
// in key order, or the oldest first. cutoff is the run's one time, by the
// server's clock.
//
// take is called once the listing is complete. A listing that broke off or
// lost its order is an error, as is a ledger that cannot be read. An error of
// take ends the discovery with that error. Nothing that take was given may be
// committed, or even processed, unless Discover returns nil.
//
// It holds a page and a block of each overlapping segment for each of at most
// 16 listings in memory, and up to 100,000 of the files that are due; of more
// the rest waits in the directory for temporary files. When the server says
// slow down, it lists less at a time; other errors of the listing end it.
//
// Call Begin first where an older run may still be about.
func (l *Ledger) Discover(ctx context.Context, src Lister, sel Selection, cutoff time.Time, take func(Candidate) error) (Discovery, error) {
	found, err := l.discover(ctx, src, sel, cutoff, discovery{
		take: func(d due) error { return take(d.Candidate) },
	})
	if err != nil {
		return Discovery{}, fmt.Errorf("discover: %w", err)
	}
	return found, nil
}

// Verdict is what a discovery makes of one listed file.
type Verdict struct {
	File
	// Kind is why the file is taken; zero if it is not.
	Kind Kind
	// Reason is why it is not taken; "" if it is.
	Reason Reason
	// Attempts counts the failed attempts at this version so far.
	Attempts int
	// Suspect is as in a Candidate.
	Suspect bool
	// Row is what the ledger knows of the key, at whatever version; nil for
	// nothing, and from Plan for what is taken or left.
	Row *Row
}

// Plan tells what Discover would make of every listed file, and lists as it
// does. Once the listing is complete it calls toDo for each file that would
// be taken, or left by MaxFiles or MaxBytes. Where skipped is not nil, it calls
// that for all others, in key order and while the listing goes on, which is then
// one page after the other.
func (l *Ledger) Plan(ctx context.Context, src Lister, sel Selection, cutoff time.Time, toDo, skipped func(Verdict) error) (Discovery, error) {
	var failed error
	found, err := l.discover(ctx, src, sel, cutoff, discovery{
		take: func(d due) error { return toDo(verdict(d, "", nil)) },
		leave: func(d due) {
			if failed == nil {
				failed = toDo(verdict(d, LeftForLater, nil))
			}
		},
		skipped: skipped,
	})
	if err = errors.Join(err, failed); err != nil {
		return Discovery{}, fmt.Errorf("plan: %w", err)
	}
	return found, nil
}

func verdict(d due, reason Reason, row *record) Verdict {
	v := Verdict{File: d.File, Kind: d.kind, Reason: reason, Attempts: d.Attempts, Suspect: d.Suspect}
	if reason != "" {
		v.Kind = 0
	}
	if row != nil {
		known := row.row()
		v.Row = &known
	}
	return v
}

// discovery is who wants to know what of a discovery.
type discovery struct {
	take  func(due) error
	leave func(due) // may be nil
	// skipped may be nil. Else it is called in key order, and files are listed one
	// page after the other.
	skipped func(Verdict) error
}

func (l *Ledger) discover(ctx context.Context, src Lister, sel Selection, cutoff time.Time, d discovery) (Discovery, error) {
	if err := sel.Validate(); err != nil {
		return Discovery{}, err
	}
	if cutoff.IsZero() && sel.needsCutoff() {
		return Discovery{}, errors.New("a selection with MinAge, Backoff or Lexicographic needs a cutoff")
	}
	head, err := l.Head(ctx)
	if err != nil {
		return Discovery{}, err
	}
	chosen := l.newChoice(ctx, sel, d.leave)
	defer chosen.files.close()
	s := survey{
		ledger: l, selector: newSelector(sel), head: head, src: src, cutoff: cutoff,
		found: chosen.files.add, skipped: d.skipped, workers: l.limits.listings,
	}
	if d.skipped != nil {
		s.workers = 1
	}
	found := Discovery{Skipped: map[Reason]int64{}, After: head.startAfter(sel, cutoff)}
	spans, err := s.run(ctx, found.After)
	if err != nil {
		return Discovery{}, err
	}
	for i := range spans {
		found.add(&spans[i], l.limits.gone)
	}
	found.Upkeep.Mark = head.newMark(sel, cutoff, found.After, spans)
	if found.After != "" {
		found.Upkeep.Dead = 0 // it was not counted in all of the ledger
	}
	err = chosen.each(&found, func(f due) error {
		if err := d.take(f); err != nil {
			return fmt.Errorf("take %q: %w", f.Key, err)
		}
		return ctx.Err()
	})
	return found, err
}
