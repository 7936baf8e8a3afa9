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

// Rebuilt says what a ledger was written from, and what is in it.
type Rebuilt struct {
	Salvaged    int64        `json:"salvaged"` // rows from segments that can be read
	Replayed    int64        `json:"replayed"` // rows from the records of runs
	Runs        int          `json:"runs"`     // whose records were read
	Done        int64        `json:"done"`
	Failed      int64        `json:"failed"`
	Quarantined int64        `json:"quarantined"`
	Due         int64        `json:"due"`      // without an outcome
	Vanished    int64        `json:"vanished"` // keys that the source does not have any more, and the ledger will not
	Unknown     int64        `json:"unknown"`  // files of the selection that only the source knows: they are new
	Lost        []LostObject `json:"lost"`     // objects of the old ledger that cannot be read
	Problems    []RunProblem `json:"problems"` // what the records leave open
}

// LostObject is an object of a ledger that cannot be read, or not to its end.
type LostObject struct {
	Object string `json:"object"` // S3 URL
	Reason string `json:"reason"`
}

// Rows counts the rows of the ledger.
func (r Rebuilt) Rows() int64 { return r.Done + r.Failed + r.Quarantined + r.Due }

// Sources say what a ledger is rebuilt from, beside the records of the runs.
type Sources struct {
	// Segments: what can still be read of the old ledger is to be trusted.
	Segments bool
	// Intact allows to replace a head that can be read.
	Intact bool
}

// Foretell says what Rebuild would write. It writes nothing.
func (o *Operator) Foretell(ctx context.Context, from Sources) (Rebuilt, error) {
	b := o.builder(from)
	for _, err := range b.rows(ctx) {
		if err != nil {
			return Rebuilt{}, o.inLedger("rebuild", err)
		}
	}
	return b.result(), nil
}

// Rebuild writes a new ledger in place of one that is damaged or missing: the
// latest that its segments and the records of the runs tell of each key, of
// those keys that a complete listing of the source still has, or that lie
// outside of the source prefix.
//
// What it cannot know is what neither has: runs whose records were removed or
// that left no summary, whose files are due; what people retried, forgot or reset,
// where the segment is lost; and that a file was deleted and came back the same.
// Files that were done are then processed again, which replaces their outputs; one
// that was forgotten by hand may count as done, and has to be forgotten again.
func (o *Operator) Rebuild(ctx context.Context, token int64, from Sources) (Rebuilt, error) {
	b := o.builder(from)
	committed, err := o.books.Replace(ctx, ledger.Replacement{
		By: o.signature("rebuild"), Token: token, Rows: b.rows(ctx), Intact: from.Intact, Identity: o.run.config.identity(),
	})
	if err != nil {
		return Rebuilt{}, o.inLedger("rebuild", err)
	}
	o.log("rebuild", token, committed)
	return b.result(), nil
}

// builder makes the rows of a ledger.
type builder struct {
	*replay
	books    *ledger.Ledger
	segments bool
	counted  Rebuilt
}

func (o *Operator) builder(from Sources) *builder {
	return &builder{
		replay: &replay{run: o.run, tokens: map[string]int64{}}, books: o.books, segments: from.Segments,
		counted: Rebuilt{Lost: []LostObject{}, Problems: []RunProblem{}},
	}
}

func (b *builder) result() Rebuilt {
	b.counted.Runs = b.runs
	b.counted.Problems = append(b.counted.Problems, b.problems...)
	return b.counted
}

// rows yields the rows of the new ledger, and counts them.
func (b *builder) rows(ctx context.Context) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		source, stop := b.openSource(ctx)
		defer stop()
		for f, err := range b.facts(ctx) {
			if err != nil {
				yield(ledger.Row{}, err)
				return
			}
			if strings.HasPrefix(f.Key, b.config.Source.Prefix) {
				there, err := source.has(f.Key)
				if err != nil {
					yield(ledger.Row{}, err)
					return
				}
				if !there {
					b.counted.Vanished++
					continue
				}
			}
			b.count(f)
			if !yield(f.Row, nil) {
				return
			}
		}
		if err := source.end(); err != nil {
			yield(ledger.Row{}, err)
			return
		}
		b.counted.Unknown = source.passed
	}
}

// fact is a row, and whether a segment told it, or the records of a run.
type fact struct {
	ledger.Row
	salvaged bool
}

func (b *builder) count(f fact) {
	if f.salvaged {
		b.counted.Salvaged++
	} else {
		b.counted.Replayed++
	}
	switch f.Outcome {
	case ledger.Done:
		b.counted.Done++
	case ledger.Failed:
		b.counted.Failed++
	case ledger.Quarantined:
		b.counted.Quarantined++
	case ledger.Due:
		b.counted.Due++
	}
}

// facts yields, in key order, the later of what the segments and the records
// tell of each key.
func (b *builder) facts(ctx context.Context) iter.Seq2[fact, error] {
	return func(yield func(fact, error) bool) {
		next, stop := iter.Pull2(ledger.Latest(ctx, b.replay.rows(ctx)))
		defer stop()
		record, err, more := next()
		// before yields the records that come before a key.
		before := func(key string, end bool) bool {
			for more && err == nil && (end || record.Key < key) {
				if !yield(fact{Row: record}, nil) {
					return false
				}
				record, err, more = next()
			}
			if err != nil {
				yield(fact{}, err)
			}
			return err == nil
		}
		for old, oldErr := range b.salvage(ctx) {
			if oldErr != nil {
				yield(fact{}, oldErr)
				return
			}
			if !before(old.Key, false) {
				return
			}
			told := fact{old, true}
			if more && record.Key == old.Key {
				earlier := record
				if b.isLater(record, old) {
					told, earlier = fact{Row: record}, old
				}
				if earlier.Published.Token > told.Published.Token { // an output is replaced under a higher token alone
					told.Published = earlier.Published
				}
				record, err, more = next()
			}
			if !yield(told, nil) {
				return
			}
		}
		before("", true)
	}
}

// isLater compares a record with the row of a segment: by the tokens of their
// runs or, where the segment's run left no records, by time. A row without a
// time was retried, nobody knows when: to process its file once more is the safe
// mistake.
func (b *builder) isLater(record, segment ledger.Row) bool {
	if segment.At.IsZero() {
		return false
	}
	if token, known := b.tokens[segment.Run]; known && token != b.tokens[record.Run] {
		return b.tokens[record.Run] > token
	}
	return record.At.After(segment.At)
}

func (b *builder) salvage(ctx context.Context) iter.Seq2[ledger.Row, error] {
	if !b.segments {
		return func(func(ledger.Row, error) bool) {}
	}
	return b.books.Salvage(ctx, func(d *ledger.DamagedError) {
		b.counted.Lost = append(b.counted.Lost, LostObject{Object: "s3://" + b.state.Name() + "/" + d.Object, Reason: d.Reason})
	})
}

// sourceListing is a complete listing, asked for keys in their order.
type sourceListing struct {
	next    func() (bucket.Entry, error, bool)
	outside func(bucket.Entry) ledger.Reason
	entry   bucket.Entry
	begun   bool
	ended   bool
	passed  int64 // entries of the selection that were not asked for
}

func (b *builder) openSource(ctx context.Context) (_ *sourceListing, stop func()) {
	next, stop := iter.Pull2(b.listed(ctx))
	return &sourceListing{next: next, outside: b.config.selection().Outside()}, stop
}

// has tells whether a key is listed, which comes after all keys that were asked
// for before.
func (s *sourceListing) has(key string) (bool, error) {
	for !s.begun || !s.ended && s.entry.Key < key {
		if err := s.advance(true); err != nil {
			return false, err
		}
	}
	if s.ended || s.entry.Key != key {
		return false, nil
	}
	return true, s.advance(false)
}

// end reads the listing to its end.
func (s *sourceListing) end() error {
	for !s.ended {
		if err := s.advance(true); err != nil {
			return err
		}
	}
	return nil
}

// advance moves to the next entry; the present one was passed over or not.
func (s *sourceListing) advance(passed bool) error {
	if s.begun && passed && s.outside(s.entry) == "" {
		s.passed++
	}
	entry, err, more := s.next()
	s.entry, s.begun, s.ended = entry, true, !more
	return err
}

// listed yields what the source has, all of it or an error.
func (b *builder) listed(ctx context.Context) iter.Seq2[bucket.Entry, error] {
	return func(yield func(bucket.Entry, error) bool) {
		complete := false
		for page, err := range b.source.List(ctx, bucket.ListOptions{Prefix: b.config.Source.Prefix}) {
			if err != nil {
				yield(bucket.Entry{}, fmt.Errorf("list the source: %w", err))
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			complete = page.Last
		}
		if !complete {
			yield(bucket.Entry{}, errors.Join(fmt.Errorf("list the source: %w", bucket.ErrListing), ctx.Err()))
		}
	}
}
