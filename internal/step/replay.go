package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// What runs committed to the ledger can be had again from the records that they
// leave: the summary says that a run committed, the manifest which versions it
// had in hand, and the results what became of each.

// grantRecords is a run at one token, as a listing shows its records.
type grantRecords struct {
	run       string
	token     int64
	manifests []string // their keys, without those that have no batch
	summary   bool
}

// emptyManifest is the most bytes of a manifest without a batch.
const emptyManifest = 4

// grants lists the runs that left records, or the records of one run, in the
// order of their tokens.
func (r *run) grants(ctx context.Context, run string) ([]grantRecords, error) {
	var found []grantRecords
	for after, more := "", true; more; {
		var err error
		if after, more, err = r.grantsAfter(ctx, run, after, &found); err != nil {
			return nil, fmt.Errorf("list run records: %w", err)
		}
	}
	slices.SortFunc(found, func(a, b grantRecords) int { return cmp.Compare(a.token, b.token) })
	return found, nil
}

// grantsAfter lists until the end, or until a page ends among the results of a
// run: there may be thousands of them, and nothing is to be learned from their
// names. Then the listing is to go on behind them.
func (r *run) grantsAfter(ctx context.Context, run, after string, found *[]grantRecords) (next string, more bool, err error) {
	prefix := recordsPrefix(r.config, run)
	for page, err := range r.state.List(ctx, bucket.ListOptions{Prefix: prefix, StartAfter: after}) {
		if err != nil {
			return "", false, err
		}
		var last recordKey
		for _, e := range page.Entries {
			key, ok := parseRecord(r.config, e.Key)
			if !ok {
				continue
			}
			last = key
			if n := len(*found); n == 0 || (*found)[n-1].run != key.run || (*found)[n-1].token != key.token {
				*found = append(*found, grantRecords{run: key.run, token: key.token})
			}
			g := &(*found)[len(*found)-1]
			if _, isManifest := callOf(key.name); isManifest && e.Size > emptyManifest {
				g.manifests = append(g.manifests, e.Key)
			}
			g.summary = g.summary || key.name == "summary.json"
		}
		if page.Last {
			return "", false, nil
		}
		if folder, _, inside := strings.Cut(last.name, "/"); inside {
			return keysOf(r.config, last.run, last.token).after(folder), true, nil
		}
	}
	return "", false, fmt.Errorf("%w: it stopped without a last page", bucket.ErrListing)
}

// RunProblem is what the records of a run leave open.
type RunProblem struct {
	Run     string `json:"run"`
	Token   int64  `json:"token"`
	Problem string `json:"problem"`
}

// replay tells again what runs told the ledger.
type replay struct {
	*run
	runs     int              // that were told of
	tokens   map[string]int64 // of those, the highest of each
	problems []RunProblem
}

// rows yields what the commits of all runs wrote, in the order of their
// tokens: a later row overrides an earlier one of the same key.
//
// Of a run without a summary nothing is known of what it did: its files are due.
// One whose records are not those that were committed tells nothing. Both are
// problems and no errors: the files are processed again.
func (p *replay) rows(ctx context.Context) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		grants, err := p.grants(ctx, "")
		if err != nil {
			yield(ledger.Row{}, err)
			return
		}
		for _, a := range grants {
			err := p.tell(ctx, a, func(row ledger.Row) error {
				if !yield(row, nil) {
					return errStopped
				}
				return nil
			})
			switch {
			case err == errStopped:
				return
			case err != nil:
				yield(ledger.Row{}, fmt.Errorf("read the records of run %s, token %d: %w", a.run, a.token, err))
				return
			}
		}
	}
}

func (p *replay) problem(a grantRecords, format string, args ...any) {
	p.problems = append(p.problems, RunProblem{Run: a.run, Token: a.token, Problem: fmt.Sprintf(format, args...)})
}

// tell yields the rows of one run.
func (p *replay) tell(ctx context.Context, a grantRecords, yield func(ledger.Row) error) error {
	keys := keysOf(p.config, a.run, a.token)
	if !a.summary {
		return p.tellUnknown(ctx, a, yield)
	}
	var summary Summary
	err := p.readJSON(ctx, keys.summary(), &summary)
	switch {
	case isMalformed(err), errors.Is(err, bucket.ErrNotFound):
		p.problem(a, "its summary cannot be read: %v", err)
		return nil
	case err != nil:
		return err
	case summary.Source.Bucket != p.config.Source.Bucket:
		return nil // of another ledger
	}
	told := telling{replay: p, keys: keys, summary: summary, yield: yield}
	err = told.tell(ctx)
	switch {
	case errors.Is(err, bucket.ErrPrecondition):
		p.problem(a, "its manifest was overwritten after it was processed")
		return nil
	case errors.Is(err, bucket.ErrNotFound):
		p.problem(a, "its manifest is not there any more")
		return nil
	case isMalformed(err):
		p.problem(a, "its manifest or a result cannot be read: %v", err)
		return nil
	case err != nil:
		return err
	}
	if told.doubt != "" {
		p.problem(a, "%s", told.doubt)
	}
	p.runs++
	p.tokens[a.run] = a.token // attempts come in the order of their tokens
	return nil
}

// tellUnknown makes due what a run without a summary had in hand: it may have
// published versions that are not current.
func (p *replay) tellUnknown(ctx context.Context, a grantRecords, yield func(ledger.Row) error) error {
	if len(a.manifests) == 0 {
		return nil
	}
	p.problem(a, "it left no summary, so that nothing is known of what it did, and its files are due; it failed, or is still at work")
	for _, key := range a.manifests {
		err := readManifest(ctx, p.state, ObjectRef{Bucket: p.state.Name(), Key: key}, func(b Batch) error {
			for _, f := range b.Files {
				if err := yield(ledger.Row{Key: f.Key, Outcome: ledger.Due, Run: a.run}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !isMalformed(err) && !errors.Is(err, bucket.ErrNotFound) {
			return err
		}
	}
	return nil
}

// isMalformed tells an object that is not the JSON it should be from one that
// could not be read.
func isMalformed(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// telling is one run told again.
type telling struct {
	*replay
	keys    runKeys
	summary Summary
	yield   func(ledger.Row) error
	doubt   string
}

// tell counts the results first: where they are not those that were committed,
// nothing is told of the run. A call that ended after the commit may have left
// another result.
func (t *telling) tell(ctx context.Context) error {
	var done, failed, open int64
	err := t.each(ctx, func(f FileResult) error {
		switch f.Outcome {
		case OutcomeDone:
			done++
		case OutcomeFailed:
			failed++
		default:
			open++
		}
		return nil
	})
	s := t.summary
	switch {
	case err != nil:
		return err
	case done != s.Done || failed != s.Failed || open != s.Superseded+s.Archived+s.Deferred:
		t.doubt = fmt.Sprintf("its results are not those that were committed: they have %d files done, %d failed and %d left, its summary has %d, %d and %d",
			done, failed, open, s.Done, s.Failed, s.Superseded+s.Archived+s.Deferred)
		return nil
	}
	return t.each(ctx, func(f FileResult) error { return t.tellRow(f.row()) })
}

// each yields the results as the commit decided them.
func (t *telling) each(ctx context.Context, do func(FileResult) error) error {
	return t.eachResult(ctx, t.keys, t.summary.Manifest, func(b batchResults) error {
		for _, f := range b.files {
			if err := do(f.decided(t.summary.Done > 0)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *telling) tellRow(row ledger.Row) error {
	commit := ledger.Commit{
		Run: t.summary.Run, Token: t.summary.Token, At: t.summary.Cutoff, Settings: t.summary.Settings,
		MaxAttempts: cmp.Or(t.summary.MaxAttempts, t.config.Failure.MaxAttempts),
	}
	judged, err := commit.Judged(row)
	if err != nil {
		return err
	}
	return t.yield(judged)
}
