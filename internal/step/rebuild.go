package step

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Rebuilt says what the records of the runs came to.
type Rebuilt struct {
	Runs        int          `json:"runs"` // that were told of
	Done        int64        `json:"done"`
	Failed      int64        `json:"failed"`
	Quarantined int64        `json:"quarantined"`
	Vanished    int64        `json:"vanished"` // keys that the source does not have any more, and the ledger will not
	Problems    []RunProblem `json:"problems"` // what the records leave open; these files are processed again
}

// Rows counts the rows of the ledger.
func (r Rebuilt) Rows() int64 { return r.Done + r.Failed + r.Quarantined }

// Foretell says what Rebuild would write. It writes nothing.
func (o *Operator) Foretell(ctx context.Context) (Rebuilt, error) {
	b := builder{replay: &replay{run: o.run}, counted: Rebuilt{Problems: []RunProblem{}}}
	for _, err := range b.rows(ctx) {
		if err != nil {
			return Rebuilt{}, o.inLedger("rebuild", err)
		}
	}
	return b.result(), nil
}

// Rebuild writes a new ledger out of the records of the runs, in place of one
// that is damaged or missing, or of any with intact: the latest that they tell
// of each key, of those keys that a complete listing of the source still has,
// or that lie outside of the source prefix.
//
// What it cannot know is what has no record: runs whose records were removed,
// or that left no summary, and what people retried, forgot or reset by hand.
// Files that were done by such runs are processed again, which writes the same
// outputs.
func (o *Operator) Rebuild(ctx context.Context, token int64, intact bool) (Rebuilt, error) {
	b := builder{replay: &replay{run: o.run}, counted: Rebuilt{Problems: []RunProblem{}}}
	committed, err := o.books.Replace(ctx, ledger.Replacement{
		By: o.signature("rebuild"), Token: token, Rows: b.rows(ctx), Intact: intact,
	})
	if err != nil {
		return Rebuilt{}, o.inLedger("rebuild", err)
	}
	o.log("rebuild", token, committed)
	return b.result(), nil
}

// builder makes the rows of a ledger out of the records of runs.
type builder struct {
	*replay
	counted Rebuilt
}

func (b *builder) result() Rebuilt {
	b.counted.Runs = b.runs
	b.counted.Problems = append(b.counted.Problems, b.problems...)
	return b.counted
}

// rows yields the rows in key order, and counts them.
func (b *builder) rows(ctx context.Context) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		listed, stop := iter.Pull2(b.listed(ctx))
		defer stop()
		at, ended := "", false
		for row, err := range ledger.Latest(ctx, b.replay.rows(ctx)) {
			if err != nil {
				yield(ledger.Row{}, err)
				return
			}
			below := strings.HasPrefix(row.Key, b.config.Source.Prefix)
			for below && !ended && at < row.Key {
				key, err, more := listed()
				if err != nil {
					yield(ledger.Row{}, err)
					return
				}
				at, ended = key, !more
			}
			if below && (ended || at != row.Key) {
				b.counted.Vanished++
				continue
			}
			b.count(row.Outcome)
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (b *builder) count(o ledger.Outcome) {
	switch o {
	case ledger.Done:
		b.counted.Done++
	case ledger.Failed:
		b.counted.Failed++
	case ledger.Quarantined:
		b.counted.Quarantined++
	}
}

// listed yields the keys of the source, all of them or an error.
func (b *builder) listed(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		complete := false
		for page, err := range b.source.List(ctx, bucket.ListOptions{Prefix: b.config.Source.Prefix}) {
			if err != nil {
				yield("", fmt.Errorf("list the source: %w", err))
				return
			}
			for _, e := range page.Entries {
				if !yield(e.Key, nil) {
					return
				}
			}
			complete = page.Last
		}
		if !complete {
			yield("", errors.Join(fmt.Errorf("list the source: %w", bucket.ErrListing), ctx.Err()))
		}
	}
}
