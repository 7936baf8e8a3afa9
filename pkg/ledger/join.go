package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// joined is what one span came to.
type joined struct {
	span
	listed  int64
	skipped map[Reason]int64
	oldest  time.Time // LastModified of what is due and not done yet; zero for nothing
	gone    int64
	names   []string // the first keys that are gone
	dead    int64    // rows that newer ones override, and marks
	settled string   // the last key before the first that is not settled, "" for none
	open    bool     // there is one that is not settled
}

// joiner is a merge-join of one span's listing with the ledger's rows.
type joiner struct {
	*survey
	claim *claim
	rows  *mergedRows
	row   *record // the next row that was not joined yet
	last  string  // the last key listed
	joined
}

// join lists a span to its end.
func (s *survey) join(ctx context.Context, c *claim) (joined, error) {
	at := s.claimed(c)
	j := joiner{survey: s, claim: c, last: at.after, joined: joined{span: at, skipped: map[Reason]int64{}}}
	j.rows = s.ledger.mergeSpan(s.indexes, s.head.Segments, s.prefix, at)
	defer j.rows.close()
	if err := j.nextRow(ctx); err != nil {
		return joined{}, err
	}
	if err := j.list(ctx); err != nil {
		return joined{}, err
	}
	j.span = s.close(c)
	for j.row != nil && !j.ends(string(j.row.key)) {
		if err := j.vanished(ctx); err != nil {
			return joined{}, err
		}
	}
	j.dead += j.rows.hidden
	return j.joined, nil
}

func (s *survey) claimed(c *claim) span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.span
}

// list goes on where it was when the server had enough of it for a while.
func (j *joiner) list(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		from := j.last
		err := j.listOn(ctx)
		if !errors.As(err, new(*slowListing)) {
			return err
		}
		if j.last != from {
			attempt = 0
		}
		if attempt >= j.ledger.limits.attempts {
			return err
		}
		if err := j.ledger.wait(ctx, attempt); err != nil {
			return err
		}
	}
}

// slowListing is a listing that the server had enough of. The ledger's reads may
// be refused the same way, but there is no going on after them: a row is lost.
type slowListing struct{ error }

func (e *slowListing) Unwrap() error { return e.error }

// listOn lists from the last key to the end of the span. It trusts no lister:
// the order and the end of the listing are checked here, whatever the
// implementation does.
func (j *joiner) listOn(ctx context.Context) error {
	ticket, err := j.pace.ask(ctx)
	if err != nil {
		return err
	}
	asking := true
	answered := func(slow bool) {
		if asking {
			j.pace.answered(ticket, slow)
		}
		asking = false
	}
	defer answered(false)
	for page, err := range j.src.List(ctx, bucket.ListOptions{Prefix: j.prefix, StartAfter: j.last}) {
		answered(page.SlowDowns > 0 || errors.Is(err, bucket.ErrSlowDown))
		if err != nil {
			err = fmt.Errorf("the listing broke off after %d files: %w", j.listed, err)
			if errors.Is(err, bucket.ErrSlowDown) {
				return &slowListing{err}
			}
			return err
		}
		ended, err := j.page(ctx, &page)
		if ended || err != nil {
			return err
		}
		if ticket, err = j.pace.ask(ctx); err != nil {
			return err
		}
		asking = true
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: it stopped after %d files without a last page", bucket.ErrListing, j.listed)
}

// page joins a page with the rows, and tells whether it ended the span.
func (j *joiner) page(ctx context.Context, page *bucket.Page) (ended bool, err error) {
	at := j.last
	if n := len(page.Entries); n > 0 {
		at = page.Entries[n-1].Key
		for _, i := range [...]int{0, n / 2, n - 1} {
			j.alphabet.learn(strings.TrimPrefix(page.Entries[i].Key, j.prefix))
		}
	}
	end := span{upTo: j.reached(j.claim, at, page.Last)}
	for i := range page.Entries {
		e := &page.Entries[i]
		if e.Key <= j.last {
			return false, fmt.Errorf("%w: key %q came after %q", bucket.ErrListing, e.Key, j.last)
		}
		if !strings.HasPrefix(e.Key, j.prefix) {
			return false, fmt.Errorf("%w: key %q is not below %q", bucket.ErrListing, e.Key, j.prefix)
		}
		if end.ends(e.Key) {
			return true, ctx.Err()
		}
		j.last = e.Key
		if err := j.meet(ctx, e); err != nil {
			return false, err
		}
	}
	return page.Last, ctx.Err()
}

// meet brings a listed file together with its row, if it has one.
func (j *joiner) meet(ctx context.Context, e *bucket.Entry) error {
	for j.row != nil && string(j.row.key) < e.Key {
		if err := j.vanished(ctx); err != nil {
			return err
		}
	}
	j.listed++
	if j.row == nil || string(j.row.key) != e.Key {
		return j.decide(ctx, e, nil)
	}
	if err := j.decide(ctx, e, j.row); err != nil {
		return err
	}
	return j.nextRow(ctx)
}

// vanished passes over a row whose key was not listed. Whether it was selected
// does not matter: the listing is of everything below the prefix.
func (j *joiner) vanished(ctx context.Context) error {
	j.gone++
	if len(j.names) < j.ledger.limits.gone {
		j.names = append(j.names, string(j.row.key))
	}
	return j.nextRow(ctx)
}

// nextRow moves on to the next row that is not a mark.
func (j *joiner) nextRow(ctx context.Context) (err error) {
	for {
		j.row, err = j.rows.next(ctx)
		if err != nil || j.row == nil || j.row.outcome != gone {
			return err
		}
		if !j.ends(string(j.row.key)) {
			j.dead++
		}
	}
}

// decide counts a file, and hands it on if it is due.
func (j *joiner) decide(ctx context.Context, e *bucket.Entry, row *record) error {
	d, reason := j.judge(e, row, j.cutoff)
	j.settle(e.Key, reason)
	if reason == "" {
		if d.kind != Reprocessed {
			j.oldest = older(j.oldest, d.LastModified)
		}
		return j.found(ctx, d)
	}
	j.joined.skipped[reason]++
	if j.survey.skipped == nil {
		return nil
	}
	return j.survey.skipped(verdict(d, reason, row))
}

// older is the earlier of two times, of which a zero one is none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// settle notes how far a listing in key order need not be repeated: a file is
// settled unless a later run may take it at this version.
func (j *joiner) settle(key string, reason Reason) {
	switch reason {
	case "", DeferTooYoung, DeferBackoff:
		j.open = true
	}
	if !j.open {
		j.settled = key
	}
}

// judge says under what a file is due, or why it is not.
func (s *selector) judge(e *bucket.Entry, row *record, cutoff time.Time) (due, Reason) {
	d := due{Candidate: Candidate{File: File{Key: e.Key, ETag: e.ETag, Size: e.Size, LastModified: e.LastModified}}}
	reason := s.outside(e)
	if reason == "" {
		reason = s.standing(&d, row)
	}
	if reason == "" {
		reason = s.deferred(e, row, d.kind, cutoff)
	}
	return d, reason
}

// standing compares a file with its row: why it is due, or why it is not.
func (s *selector) standing(d *due, row *record) (skip Reason) {
	switch {
	case row == nil, row.outcome == Due && row.tag == tag{}:
		d.kind = New
		return ""
	case row.size != d.Size || row.tag != parseTag(d.ETag):
		d.kind = Changed
		return ""
	}
	d.Attempts = row.attempts
	outdated := s.isOutdated(row)
	switch {
	case row.outcome == Due, row.outcome == Failed, row.outcome == Quarantined && outdated:
		d.kind, d.Suspect = Retried, row.suspect
		if outdated {
			d.Attempts = 0
		}
		return ""
	case s.Reprocess:
		d.kind, d.Attempts = Reprocessed, 0
		return ""
	case row.outcome == Done:
		return SkipDone
	}
	return SkipQuarantined
}

// isOutdated reports a row that was committed under other processing settings.
func (s *selector) isOutdated(row *record) bool {
	return s.Settings != "" && row.commit.settings != "" && row.commit.settings != s.Settings
}
