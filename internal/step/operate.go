package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Operator is a person who looks after the ledger of a pipeline. Looking takes
// no lock and writes nothing; what changes the ledger is done under the
// pipeline's lock, and with its fencing token (Hold).
type Operator struct {
	run   *run
	books *ledger.Ledger
	owner string
	by    string
}

// Operate returns an operator of the pipeline that a run configuration is
// about. by is who it is, for people; owner is the name under which the lock is
// held, and unlike any other. Nothing is dialled.
func (s *Steps) Operate(config json.RawMessage, by, owner string) (*Operator, error) {
	r, err := s.begin(Execution{ID: owner, Name: "operator", Input: config})
	if err != nil {
		return nil, err
	}
	// Nobody who waits does an operator's work, so that no waiter makes one
	// superfluous; and a person waits beside it.
	if r.lock, err = r.openLock(lease.Config{Poll: time.Second}); err != nil {
		return nil, err
	}
	books, err := r.ledger()
	if err != nil {
		return nil, err
	}
	return &Operator{run: r, books: books, owner: owner, by: by}, nil
}

// Config is the configuration that the operator was given.
func (o *Operator) Config() RunConfig { return o.run.config }

// LedgerURL is where the ledger is.
func (o *Operator) LedgerURL() string {
	return "s3://" + o.run.state.Name() + "/" + LedgerPrefix(o.run.config)
}

// Lock is who has the pipeline's lock.
func (o *Operator) Lock(ctx context.Context) (lease.Status, error) { return o.run.lock.Inspect(ctx) }

// Hold has the pipeline's lock while work is at it. It waits for the lock for
// so long, and with 0 not at all: then a *lease.HeldError says who has it. The
// context of work ends, with lease.ErrLost as its cause, before anybody else
// can have the lock.
func (o *Operator) Hold(ctx context.Context, wait time.Duration, work func(ctx context.Context, token int64) error) error {
	grant, err := o.acquire(ctx, wait)
	if err != nil {
		return err
	}
	kept, stop := o.run.lock.Keep(ctx, grant)
	err = whyEnded(kept, work(kept, grant.Token))
	stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	if _, releaseErr := o.run.lock.Release(ctx, o.owner, grant.Token, o.by+" is done"); releaseErr != nil && !errors.Is(err, lease.ErrLost) {
		err = errors.Join(err, releaseErr)
	}
	return err
}

// giveBackTime is how long a release may take after the work has ended.
const giveBackTime = 10 * time.Second

func (o *Operator) acquire(ctx context.Context, wait time.Duration) (lease.Grant, error) {
	if wait <= 0 {
		return o.run.lock.TryAcquire(ctx, o.owner)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return o.run.lock.Acquire(ctx, o.owner)
}

// Filter chooses rows of the ledger: those that meet each of the conditions
// given. The zero value is all of them.
type Filter struct {
	Keys     []string // one of these
	Globs    []string // one of these matches the key below the source prefix, as in selection.include
	Outcomes []ledger.Outcome
	Runs     []string // one of these committed the row
}

// Any is true when there is a condition.
func (f Filter) Any() bool {
	return len(f.Keys)+len(f.Globs)+len(f.Outcomes)+len(f.Runs) > 0
}

// Validate refuses what is no glob.
func (f Filter) Validate() error {
	for _, glob := range f.Globs {
		if glob == "" || !doublestar.ValidatePattern(glob) {
			return fmt.Errorf("%q is not a glob; see github.com/bmatcuk/doublestar for the syntax", glob)
		}
	}
	return nil
}

// matches judges a row by the filter; keys are below prefix.
func (f Filter) matches(row ledger.Row, prefix string) bool {
	return (len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, row.Outcome)) &&
		(len(f.Runs) == 0 || slices.Contains(f.Runs, row.Run)) &&
		f.Names(row.Key, prefix)
}

// Names judges a key alone, by Keys and Globs. Globs are of what is below prefix.
func (f Filter) Names(key, prefix string) bool {
	rest, below := strings.CutPrefix(key, prefix)
	return (len(f.Keys) == 0 || slices.Contains(f.Keys, key)) &&
		(len(f.Globs) == 0 || below && slices.ContainsFunc(f.Globs, func(glob string) bool { return doublestar.MatchUnvalidated(glob, rest) }))
}

// Rows yields the rows of the ledger that f chooses, in key order. Rows of
// given keys are looked up, any other filter reads the whole ledger.
func (o *Operator) Rows(ctx context.Context, f Filter) iter.Seq2[ledger.Row, error] {
	rows := o.books.Rows(ctx)
	if len(f.Keys) > 0 {
		rows = o.rowsOf(ctx, f.Keys)
	}
	return func(yield func(ledger.Row, error) bool) {
		if _, err := o.books.Begun(ctx); err != nil {
			yield(ledger.Row{}, o.inLedger("read", err))
			return
		}
		for row, err := range rows {
			if err != nil {
				yield(ledger.Row{}, o.inLedger("read", err))
				return
			}
			if f.matches(row, o.run.config.Source.Prefix) && !yield(row, nil) {
				return
			}
		}
	}
}

func (o *Operator) rowsOf(ctx context.Context, keys []string) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			row, err := o.books.Row(ctx, key)
			if err != nil {
				yield(ledger.Row{}, err)
				return
			}
			if row != nil && !yield(*row, nil) {
				return
			}
		}
	}
}

// Retry has the next run take again what f chooses among the files that failed
// or are in quarantine, with all their attempts before them.
func (o *Operator) Retry(ctx context.Context, token int64, f Filter) (ledger.Committed, error) {
	return o.edit(ctx, token, "retry", func(row ledger.Row) ledger.Verb {
		if f.matches(row, o.run.config.Source.Prefix) && row.Outcome != ledger.Done {
			return ledger.Retry
		}
		return ledger.Keep
	})
}

// Forget takes what f chooses out of the ledger: these files are new.
func (o *Operator) Forget(ctx context.Context, token int64, f Filter) (ledger.Committed, error) {
	return o.edit(ctx, token, "forget", func(row ledger.Row) ledger.Verb {
		if f.matches(row, o.run.config.Source.Prefix) {
			return ledger.Forget
		}
		return ledger.Keep
	})
}

func (o *Operator) edit(ctx context.Context, token int64, verb string, change func(ledger.Row) ledger.Verb) (ledger.Committed, error) {
	committed, err := o.books.Edit(ctx, ledger.Edit{By: o.signature(verb), Token: token, Change: change})
	if err != nil {
		return ledger.Committed{}, o.inLedger(verb, err)
	}
	o.log(verb, token, committed)
	return committed, nil
}

// Reset empties the ledger: every file is new.
func (o *Operator) Reset(ctx context.Context, token int64) (ledger.Committed, error) {
	committed, err := o.books.Reset(ctx, o.signature("reset"), token)
	if err != nil {
		return ledger.Committed{}, o.inLedger("reset", err)
	}
	o.log("reset", token, committed)
	return committed, nil
}

// Identity is what the operator's configuration says of the ledger's places.
func (o *Operator) Identity() ledger.Identity { return o.run.config.identity() }

// Adopt gives the ledger the places of the operator's configuration: where files
// come from, where outputs go, and how they are named.
func (o *Operator) Adopt(ctx context.Context, token int64) error {
	if err := o.books.Adopt(ctx, token, o.run.config.identity()); err != nil {
		return o.inLedger("adopt", err)
	}
	o.run.log.Info("adopt", "by", o.by, "token", token, "identity", o.run.config.identity())
	return nil
}

// Restore brings the newest version of the ledger's head back that can be used;
// dry only says which.
func (o *Operator) Restore(ctx context.Context, token int64, dry bool) (ledger.Restored, error) {
	versions, ok := o.run.versions()
	if !ok {
		return ledger.Restored{}, o.inLedger("restore", errors.New("the state bucket gives no access to versions"))
	}
	restored, err := o.books.Restore(ctx, versions, token, dry)
	if err != nil {
		return ledger.Restored{}, o.inLedger("restore", err)
	}
	return restored, nil
}

// signature is what stands in the place of a run in rows that a person changed.
func (o *Operator) signature(verb string) string { return verb + " by " + o.by }

func (o *Operator) log(verb string, token int64, c ledger.Committed) {
	o.run.log.Info(verb, "by", o.by, "token", token, "done", c.Done, "failed", c.Failed, "quarantined", c.Quarantined, "gone", c.Gone)
}

func (o *Operator) inLedger(verb string, err error) error {
	return fmt.Errorf("%s ledger %s: %w", verb, o.LedgerURL(), err)
}

// Head is the head of the ledger, which counts what Verify reads.
func (o *Operator) Head(ctx context.Context) (ledger.Head, error) {
	if _, err := o.books.Begun(ctx); err != nil {
		return ledger.Head{}, err
	}
	return o.books.Head(ctx)
}

// Verify reads every byte of the ledger. The error has one *ledger.DamagedError
// for each object that is not what was written.
func (o *Operator) Verify(ctx context.Context) error { return o.books.Verify(ctx) }
