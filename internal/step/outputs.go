package step

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// Outputs are never deleted by a run. What an operator may want to remove are
// objects of this pipeline that no row of the ledger stands for: outputs of source
// files that are gone, or that a run left which died and whose file has another
// name or version since.

// StrayReason is why an object in the destination is not a row's output.
type StrayReason string

// The reasons.
const (
	StraySourceGone StrayReason = "sourceGone" // the ledger has no row of its source file
	StrayVersion    StrayReason = "version"    // it is of another version than the one that is published
	StrayFormer     StrayReason = "former"     // an older lockstep named it, and it has no metadata
)

// Stray is an object that no row of the ledger stands for.
type Stray struct {
	Key          string      `json:"key"`
	Reason       StrayReason `json:"reason"`
	Size         int64       `json:"size"` // bytes
	LastModified time.Time   `json:"lastModified"`
}

// WrongOutput is an output that is not what the ledger says of it.
type WrongOutput struct {
	Key     string `json:"key"`    // in the destination
	Source  string `json:"source"` // key of the source file
	Problem string `json:"problem"`
}

// OutputsReport is what the destination has, held against the ledger.
type OutputsReport struct {
	Listed  int64 `json:"listed"`  // objects below destination.prefix
	Backed  int64 `json:"backed"`  // outputs and asides that a row stands for
	Foreign int64 `json:"foreign"` // objects that this pipeline did not publish
	Pending int64 `json:"pending"` // outputs of files that are due or failed; a run settles them
	Strays  int64 `json:"strays"`
	Bytes   int64 `json:"bytes"` // of the strays
	Missing int64 `json:"missing"`
	Wrong   int64 `json:"wrong"`
}

// OutputsCheck says what is looked at, and who hears of it. The functions are
// called in key order, and may be nil.
type OutputsCheck struct {
	// Deep reads the metadata of every output, a request each.
	Deep  bool
	Stray func(Stray) error
	Wrong func(WrongOutput) error
}

// expected is an object that a row stands for.
type expected struct {
	key, source, etag string
	visible           bool
}

// CheckOutputs lists the destination and holds it against the ledger. It writes
// nothing and takes no lock: beside a run at work, what that run has published is
// not in the ledger yet.
func (o *Operator) CheckOutputs(ctx context.Context, c OutputsCheck) (OutputsReport, error) {
	check := &outputsCheck{Operator: o, OutputsCheck: c}
	if _, err := o.books.Begun(ctx); err != nil {
		return OutputsReport{}, o.inLedger("read", err)
	}
	next, stop := iter.Pull2(ledger.Latest(ctx, o.expectedOutputs(ctx)))
	defer stop()
	row, err, more := next()
	for entry, listErr := range o.listDestination(ctx) {
		if listErr != nil {
			return OutputsReport{}, listErr
		}
		for ; more && err == nil && row.Key < entry.Key; row, err, more = next() {
			if err := check.missing(toExpected(row)); err != nil {
				return OutputsReport{}, err
			}
		}
		if err != nil {
			return OutputsReport{}, o.inLedger("read", err)
		}
		check.report.Listed++
		if more && row.Key == entry.Key {
			if err := check.backed(ctx, toExpected(row)); err != nil {
				return OutputsReport{}, err
			}
			row, err, more = next()
			continue
		}
		if err := check.unknown(ctx, entry); err != nil {
			return OutputsReport{}, err
		}
	}
	for ; more && err == nil; row, err, more = next() {
		if err := check.missing(toExpected(row)); err != nil {
			return OutputsReport{}, err
		}
	}
	if err != nil {
		return OutputsReport{}, o.inLedger("read", err)
	}
	return check.report, nil
}

// expectedOutputs yields the objects that rows stand for, as rows that can be
// sorted: the key is the object's, and the source file's stands in place of a run.
func (o *Operator) expectedOutputs(ctx context.Context) iter.Seq2[ledger.Row, error] {
	return func(yield func(ledger.Row, error) bool) {
		for row, err := range o.books.Rows(ctx) {
			if err != nil {
				yield(ledger.Row{}, err)
				return
			}
			if row.Published == (ledger.Published{}) || !strings.HasPrefix(row.Key, o.run.config.Source.Prefix) {
				continue
			}
			for i, name := range []string{row.Published.Name, process.RejectedName} {
				key, err := outputKey(o.run.config, ledger.File{Key: row.Key, ETag: row.Published.ETag}, name)
				if err == nil && !yield(ledger.Row{Key: key, ETag: row.Published.ETag, Run: row.Key, Attempts: i}, nil) {
					return
				}
			}
		}
	}
}

func toExpected(row ledger.Row) expected {
	return expected{key: row.Key, source: row.Run, etag: row.ETag, visible: row.Attempts == 0}
}

// listDestination lists the destination, without the pipeline's own state.
func (o *Operator) listDestination(ctx context.Context) iter.Seq2[bucket.Entry, error] {
	c := o.run.config
	return func(yield func(bucket.Entry, error) bool) {
		complete := false
		for page, err := range o.run.destination.List(ctx, bucket.ListOptions{Prefix: c.Destination.Prefix}) {
			if err != nil {
				yield(bucket.Entry{}, fmt.Errorf("list the destination: %w", err))
				return
			}
			for _, e := range page.Entries {
				isState := c.State.Bucket == c.Destination.Bucket && strings.HasPrefix(e.Key, c.State.Prefix)
				if !isState && !yield(e, nil) {
					return
				}
			}
			complete = page.Last
		}
		if !complete {
			yield(bucket.Entry{}, errors.Join(fmt.Errorf("list the destination: %w", bucket.ErrListing), ctx.Err()))
		}
	}
}

type outputsCheck struct {
	*Operator
	OutputsCheck
	report OutputsReport
}

func (c *outputsCheck) missing(e expected) error {
	if !e.visible { // a file without rejected records has none
		return nil
	}
	c.report.Missing++
	return c.tellWrong(e, "it is not there; `lockstep ledger forget` has the next run make it anew")
}

func (c *outputsCheck) tellWrong(e expected, problem string) error {
	if c.Wrong == nil {
		return nil
	}
	return c.Wrong(WrongOutput{Key: e.key, Source: e.source, Problem: problem})
}

func (c *outputsCheck) backed(ctx context.Context, e expected) error {
	c.report.Backed++
	if !c.Deep || !e.visible {
		return nil
	}
	object, err := c.run.destination.Head(ctx, e.key)
	if err != nil {
		return fmt.Errorf("look at an output: %w", err)
	}
	p, ours := readMetadata(object.Metadata)
	switch {
	case !ours || !p.isOfPipeline(c.run.config.Pipeline) || p.source != sourceName(c.run.config.Source.Bucket, e.source):
		c.report.Wrong++
		return c.tellWrong(e, "somebody else wrote it")
	case p.version != escapedETag(e.etag):
		c.report.Wrong++
		return c.tellWrong(e, fmt.Sprintf("it is of version %s under token %d, and the ledger has version %s", p.etag(), p.token, e.etag))
	}
	return nil
}

// unknown judges an object that no row stands for.
func (c *outputsCheck) unknown(ctx context.Context, e bucket.Entry) error {
	object, err := c.run.destination.Head(ctx, e.Key)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at an object of the destination: %w", err)
	}
	p, ours := readMetadata(object.Metadata)
	switch {
	case ours && p.isOfPipeline(c.run.config.Pipeline):
		row, err := c.rowOf(ctx, e.Key, p)
		switch {
		case err != nil:
			return err
		case row == nil:
			return c.stray(e, StraySourceGone)
		case row.Outcome != ledger.Done:
			c.report.Pending++
			return nil
		case c.run.config.Destination.Versions == VersionsAll:
			c.report.Backed++
			return nil
		}
		return c.stray(e, StrayVersion)
	case len(object.Metadata) == 0 && formerOutput.MatchString(e.Key):
		return c.stray(e, StrayFormer)
	}
	c.report.Foreign++
	return nil
}

func (c *outputsCheck) stray(e bucket.Entry, reason StrayReason) error {
	c.report.Strays++
	c.report.Bytes += e.Size
	if c.Stray == nil {
		return nil
	}
	return c.Stray(Stray{Key: e.Key, Reason: reason, Size: e.Size, LastModified: e.LastModified})
}

// rowOf finds the row of the source file that an object is of: one of the
// beginnings of its key, the one whose hash the metadata has.
func (c *outputsCheck) rowOf(ctx context.Context, key string, p published) (*ledger.Row, error) {
	config := c.run.config
	rest := strings.TrimPrefix(key, config.Destination.Prefix)
	folder, base := "", rest
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		folder, base = rest[:i+1], rest[i+1:]
	}
	for _, name := range []string{base, strings.TrimPrefix(base, "_")} {
		for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
			source := config.Source.Prefix + folder + name[:end]
			if sourceName(config.Source.Bucket, source) == p.source {
				row, err := c.books.Row(ctx, source)
				if err != nil {
					return nil, c.inLedger("read", err)
				}
				return row, nil
			}
		}
	}
	return nil, nil
}

// ErrOpenManifest: a run has, or had, files in hand whose outcome is not
// committed; what it published may belong to no row yet.
var ErrOpenManifest = errors.New("a run has files in hand whose outcome is not committed")

// StrayOutputs counts the strays whose reason is one of those given, and calls
// each for every one of them.
func (o *Operator) StrayOutputs(ctx context.Context, reasons []StrayReason, each func(Stray) error) (OutputsReport, error) {
	var strays, bytes int64
	report, err := o.CheckOutputs(ctx, OutputsCheck{Stray: func(s Stray) error {
		if !slices.Contains(reasons, s.Reason) {
			return nil
		}
		strays, bytes = strays+1, bytes+s.Size
		return each(s)
	}})
	report.Strays, report.Bytes = strays, bytes
	return report, err
}

// CleanOutputs removes those strays, under the pipeline's lock. each is called
// before each is deleted, and ends the cleaning with its error.
func (o *Operator) CleanOutputs(ctx context.Context, reasons []StrayReason, each func(Stray) error) (OutputsReport, error) {
	head, err := o.books.Head(ctx)
	if err != nil {
		return OutputsReport{}, o.inLedger("read", err)
	}
	if len(head.Open) > 0 {
		return OutputsReport{}, fmt.Errorf("clean outputs: %w: run %s; let the next run end first", ErrOpenManifest, head.Open[0].Run)
	}
	report, err := o.StrayOutputs(ctx, reasons, func(s Stray) error {
		if err := stillHolding(ctx); err != nil {
			return err
		}
		if err := each(s); err != nil {
			return err
		}
		return o.run.destination.Delete(ctx, s.Key)
	})
	o.run.log.Info("outputs cleaned", "by", o.by, "objects", report.Strays, "bytes", report.Bytes)
	return report, err
}
