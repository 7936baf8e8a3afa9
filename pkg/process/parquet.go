package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

const (
	// OutputName is the Parquet output of a file.
	OutputName = "parquet"
	// RejectedName is the output that keeps a file's rejected records, published
	// before [OutputName]: one JSON object a line, with the record's number and
	// first line (both from 1), the reason, and its text as "raw", or as
	// "rawBase64" when it is not UTF-8.
	RejectedName = "_rejected.ndjson"

	outputType   = "application/vnd.apache.parquet"
	rejectedType = "application/x-ndjson"
)

// Parquet is the built-in [Processor]: delimited text (.csv, .tsv; the
// delimiter, the line ends and a byte order mark, also of UTF-16, are found out;
// blank lines are no records), JSON arrays of objects (.json) and an object a line (.ndjson, .jsonl, .json), each plain,
// .gz or .zst, to one Parquet file with the source's column names in the
// source's order and the narrowest type that holds every value of a column.
//
// No value changes silently. A column becomes int64, double, boolean, date,
// timestamp (UTC with a zone in the text, local without) or string, in that
// order of preference, only if every value in the whole file fits: "007", "+1",
// "NA", "1e309", or a decimal with more digits than a double keeps, makes it a
// string column with the text as written. Nested JSON, and JSON columns that
// mix kinds, become JSON text. Null is an empty field, a quoted empty field in
// a typed column, a JSON null, or a missing key; nothing else.
//
// A record that is no row (wrong number of fields, wrong quoting, invalid
// UTF-8, a duplicate key) is kept in [RejectedName]. A file with records but no
// good one is [ErrMalformed]; one without any is a success without outputs,
// except that a header alone gives an output with no rows.
type Parquet struct {
	cfg Config
}

// NewParquet refuses negative limits.
func NewParquet(cfg Config) (*Parquet, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Parquet{cfg: cfg}, nil
}

// Process implements [Processor].
func (p *Parquet) Process(ctx context.Context, in File, out Publisher) (Outcome, error) {
	outcome, err := p.process(ctx, in, out)
	if err != nil {
		return Outcome{}, fmt.Errorf("process %q: %w", in.Key, ownTrouble(err))
	}
	return outcome, nil
}

// ownTrouble marks an error that is not the file's: what is left are the body,
// the publisher, and temporary files.
func ownTrouble(err error) error {
	if errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnsupported) {
		return err
	}
	return notFile{err}
}

type notFile struct{ error }

func (e notFile) Unwrap() []error { return []error{ErrNotFile, e.error} }

// Settings stand for all that decides which files this processor takes, and what
// it makes of them. Files that failed under other settings are worth another try.
func (p *Parquet) Settings() string {
	return fmt.Sprintf("parquet 2 maxBytes=%d maxRecordBytes=%d", p.cfg.MaxBytes, p.cfg.MaxRecordBytes)
}

func (p *Parquet) process(ctx context.Context, in File, out Publisher) (Outcome, error) {
	format, err := formatOf(in.Key)
	if err != nil {
		return Outcome{}, err
	}
	temp := &scratch{dir: p.cfg.ScratchDir}
	defer temp.close()

	text, err := p.spoolText(ctx, in, format.compression, temp)
	if err != nil {
		return Outcome{}, err
	}
	rejects := &rejects{temp: temp}
	table, err := p.survey(ctx, text, format.syntax, rejects)
	if err != nil {
		return Outcome{}, err
	}
	if err := table.check(rejects); err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Rows: table.rows, Rejected: rejects.count}
	if len(table.names) == 0 {
		return outcome, nil
	}

	output, err := temp.create()
	if err != nil {
		return Outcome{}, err
	}
	again, err := p.open(text, format.syntax)
	if err != nil {
		return Outcome{}, err
	}
	if err := p.writeTable(ctx, output, in, table, again); err != nil {
		return Outcome{}, err
	}
	if rejects.count > 0 {
		if err := rejects.flush(); err != nil {
			return Outcome{}, err
		}
		if err := publish(ctx, out, Output{Name: RejectedName, ContentType: rejectedType, Rejected: outcome.Rejected}, rejects.file, &outcome); err != nil {
			return Outcome{}, err
		}
	}
	visible := Output{Name: OutputName, ContentType: outputType, Rows: outcome.Rows, Rejected: outcome.Rejected}
	if err := publish(ctx, out, visible, output, &outcome); err != nil {
		return Outcome{}, err
	}
	return outcome, nil
}

func publish(ctx context.Context, out Publisher, output Output, file *os.File, outcome *Outcome) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	output.Body = io.NewSectionReader(file, 0, size)
	if err := out.Publish(ctx, output); err != nil {
		return fmt.Errorf("publish %s: %w", output.Name, err)
	}
	outcome.Bytes += size
	outcome.Outputs = append(outcome.Outputs, output.Name)
	return nil
}

// Empty implements [Emptier].
func (p *Parquet) Empty(ctx context.Context, in File, previous io.ReaderAt, size int64, out Publisher) error {
	fail := func(err error) error { return fmt.Errorf("empty the output of %q: %w", in.Key, ownTrouble(err)) }
	there, err := parquet.OpenFile(previous, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fail(fmt.Errorf("read the output that is there: %w", err))
	}
	temp := &scratch{dir: p.cfg.ScratchDir}
	defer temp.close()
	file, err := temp.create()
	if err != nil {
		return fail(err)
	}
	if err := parquet.NewWriter(file, append(footer(in), there.Schema())...).Close(); err != nil {
		return fail(fmt.Errorf("write Parquet: %w", err))
	}
	if err := publish(ctx, out, Output{Name: OutputName, ContentType: outputType}, file, &Outcome{}); err != nil {
		return fail(err)
	}
	return nil
}

// open gives the records of the text from its start.
func (p *Parquet) open(text *spool, s syntax) (records, error) {
	switch s {
	case csvSyntax:
		return p.openDelimited(text, ',')
	case tsvSyntax:
		return p.openDelimited(text, '\t')
	}
	return openJSON(text, s, p.cfg.MaxRecordBytes)
}

func (p *Parquet) openDelimited(text *spool, likeliest byte) (records, error) {
	d, err := sniffDialect(text, likeliest)
	if err != nil {
		return nil, err
	}
	return newCSVRecords(text.section(text.size), d, p.cfg.MaxRecordBytes)
}
