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
	"sync"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// What the ledger was told can be told again from the records that runs leave:
// the summary says that a run was committed, the manifest which versions it had
// in hand, and the results what became of each.

// attempt is a run at one token, as a listing shows its records.
type attempt struct {
	run      string
	token    int64
	manifest int64 // bytes; 0 for none
	summary  bool
}

// emptyManifest is the most bytes of a manifest without a batch.
const emptyManifest = 4

// attempts lists the runs that left records, or the attempts of one run, in
// the order of their tokens.
func (r *run) attempts(ctx context.Context, run string) ([]attempt, error) {
	var found []attempt
	for after, more := "", true; more; {
		var err error
		if after, more, err = r.attemptsAfter(ctx, run, after, &found); err != nil {
			return nil, fmt.Errorf("list run records: %w", err)
		}
	}
	slices.SortFunc(found, func(a, b attempt) int { return cmp.Compare(a.token, b.token) })
	return found, nil
}

// attemptsAfter lists until the end, or until a page ends among the results of
// a run: there may be thousands of them, and nothing is to be learned from
// their names. Then the listing is to go on behind them.
func (r *run) attemptsAfter(ctx context.Context, run, after string, found *[]attempt) (next string, more bool, err error) {
	prefix := recordsPrefix(r.config, run)
	for page, err := range r.state.List(ctx, bucket.ListOptions{Prefix: prefix, StartAfter: after}) {
		if err != nil {
			return "", false, err
		}
		var last attemptKey
		for _, e := range page.Entries {
			key, ok := parseAttempt(r.config, e.Key)
			if !ok {
				continue
			}
			last = key
			if n := len(*found); n == 0 || (*found)[n-1].run != key.run || (*found)[n-1].token != key.token {
				*found = append(*found, attempt{run: key.run, token: key.token})
			}
			switch a := &(*found)[len(*found)-1]; key.name {
			case "manifest.json":
				a.manifest = e.Size
			case "summary.json":
				a.summary = true
			}
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
// A run without a summary tells nothing, whatever it did; nor does one whose
// manifest is not the one that was processed. Both are problems and no errors:
// their files are processed again, which writes the same outputs.
func (p *replay) rows(ctx context.Context) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		attempts, err := p.attempts(ctx, "")
		if err != nil {
			yield(ledger.Row{}, err)
			return
		}
		for _, a := range attempts {
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

func (p *replay) problem(a attempt, format string, args ...any) {
	p.problems = append(p.problems, RunProblem{Run: a.run, Token: a.token, Problem: fmt.Sprintf(format, args...)})
}

// tell yields the rows of one run.
func (p *replay) tell(ctx context.Context, a attempt, yield func(ledger.Row) error) error {
	keys := keysOf(p.config, a.run, a.token)
	if !a.summary {
		if a.manifest > emptyManifest {
			p.problem(a, "it left no summary, so that nothing is known of what it did; it failed, or is still at work")
		}
		return nil
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
	told := telling{replay: p, keys: keys, summary: summary, yield: yield, unproven: map[int]string{}}
	err = told.tell(ctx)
	switch {
	case errors.Is(err, bucket.ErrPrecondition):
		p.problem(a, "its manifest was overwritten after it was processed")
		return nil
	case errors.Is(err, bucket.ErrNotFound):
		p.problem(a, "its manifest is not there any more")
		return nil
	case isMalformed(err):
		p.problem(a, "its manifest cannot be read: %v", err)
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

	mu       sync.Mutex
	unproven map[int]string // batches without a result that can be read, and why

	done, failed, crashed int64
	doubt                 string
}

func (t *telling) tell(ctx context.Context) error {
	manifest := ObjectRef{Bucket: t.state.Name(), Key: t.keys.manifest(), ETag: t.summary.Manifest}
	// Under atomicity "run" a run with a failure took its outputs back, and told
	// the ledger of the failures alone: its summary has no file done.
	undone := t.summary.Atomicity == AtomicityRun && t.summary.Done == 0
	err := t.eachBatch(ctx, manifest, t.read, func(f FileResult) error {
		row, told := f.row()
		switch {
		case f.crashed:
			t.crashed++
			return nil
		case !told:
			return nil
		case row.Outcome == ledger.Failed:
			t.failed++
		case undone:
			return nil
		default:
			t.done++
		}
		return t.tellRow(row)
	})
	if err != nil {
		return err
	}
	if t.done != t.summary.Done || t.failed+t.crashed != t.summary.Failed {
		t.doubt = fmt.Sprintf("its results are not those that were committed: they have %d files done and %d failed, its summary has %d and %d", t.done, t.failed, t.summary.Done, t.summary.Failed)
		if t.crashed > 0 {
			t.doubt += fmt.Sprintf("; nothing is known of %d files without a result", t.crashed)
		}
		return nil
	}
	return t.tellCrashed(ctx, manifest)
}

// tellCrashed tells of the batches without a result, once the summary bears out
// that they were failed attempts, and not results that somebody removed since.
func (t *telling) tellCrashed(ctx context.Context, manifest ObjectRef) error {
	if t.crashed == 0 {
		return nil
	}
	return readManifest(ctx, t.state, manifest, func(batch Batch) error {
		why, missing := t.unproven[batch.Number]
		if !missing {
			return nil
		}
		for _, f := range crashed(batch, why) {
			row, _ := f.row()
			if err := t.tellRow(row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *telling) read(ctx context.Context, batch Batch) ([]FileResult, error) {
	results, err := t.readResult(ctx, t.keys, batch)
	if isMalformed(err) {
		results, err = crashed(batch, "the result of its batch cannot be read"), nil
	}
	if err == nil && len(results) > 0 && results[0].crashed {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unproven[batch.Number] = results[0].Error
	}
	return results, err
}

func (t *telling) tellRow(row ledger.Row) error {
	commit := ledger.Commit{
		Run: t.summary.Run, Token: t.summary.Token, At: t.summary.Cutoff,
		MaxAttempts: cmp.Or(t.summary.MaxAttempts, t.config.Failure.MaxAttempts),
	}
	judged, err := commit.Judged(row)
	if err != nil {
		return err
	}
	return t.yield(judged)
}
