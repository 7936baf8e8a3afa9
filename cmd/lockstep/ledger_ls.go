package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// ledgerLs is "lockstep ledger ls".
type ledgerLs struct {
	rowFlags      `embed:""`
	Limit         int `placeholder:"N" help:"End after so many files; default: all."`
	pipelineFlags `embed:""`
}

// Help is the rest of "lockstep ledger ls --help".
func (ledgerLs) Help() string {
	return `Shows the files that meet all conditions given, in key order. A file is shown at the version that was processed last; the
source may have another one by now. RUN is who committed that outcome, AT that run's cutoff by S3's clock. How many there
were goes to standard error.

-o json prints one object a line: {"key", "etag", "size", "outcome", "attempts", "run", "at"}. "attempts" counts failed
attempts at this version; "at" is absent where somebody retried the file.

The whole ledger is read, except for files named by --key. No lock is taken: what a run commits meanwhile is not shown.

Exit codes: 0 the ledger could be read, whatever there was; ` + pipelineExitCodes
}

// Validate is called by the parser of the command line.
func (c ledgerLs) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d is less than nothing", c.Limit)
	}
	return c.rowFlags.Validate()
}

// Run implements the command.
func (c ledgerLs) Run(ctx context.Context, to *console) error {
	o, err := c.operator(ctx, to)
	if err != nil {
		return err
	}
	out := newRowWriter(to.Out, c.Output)
	more := false
	var sum tally
	for row, err := range o.Rows(ctx, c.filter(o)) {
		if err != nil {
			return c.ledgerFailed(ctx, to.Err, o, errors.Join(err, out.flush()))
		}
		if more = c.Limit > 0 && sum.rows == c.Limit; more {
			break
		}
		sum.add(row)
		if err := out.write(row); err != nil {
			return fmt.Errorf("print the files: %w", err)
		}
	}
	if err := out.flush(); err != nil {
		return fmt.Errorf("print the files: %w", err)
	}
	if c.Output == "text" {
		fmt.Fprintln(to.Err, sum.String())
	}
	if more {
		fmt.Fprintf(to.Err, "lockstep: there are more: --limit %d ended the list\n", c.Limit)
	}
	return nil
}

// tally counts rows.
type tally struct {
	rows, done, failed, quarantined int
}

func (t *tally) add(row ledger.Row) {
	t.rows++
	switch row.Outcome {
	case ledger.Done:
		t.done++
	case ledger.Failed:
		t.failed++
	case ledger.Quarantined:
		t.quarantined++
	}
}

// String is the counts for people.
func (t tally) String() string {
	return fmt.Sprintf("%s: %d done, %d failed, %d quarantined", files(int64(t.rows)), t.done, t.failed, t.quarantined)
}

// counted is a number of things, in words that fit.
func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

func files(n int64) string { return counted(n, "file", "files") }

// tableRows is how many rows are aligned with each other: a table of millions
// is printed while it is read.
const tableRows = 500

// rowWriter prints rows of the ledger as a table, or an object a line.
type rowWriter struct {
	encode *json.Encoder // nil for a table
	table  *table
}

func newRowWriter(w io.Writer, output string) *rowWriter {
	if output == "json" {
		return &rowWriter{encode: newLineEncoder(w)}
	}
	return &rowWriter{table: newTable(w, "KEY", "SIZE", "OUTCOME", "ATTEMPTS", "RUN", "AT")}
}

func (w *rowWriter) write(row ledger.Row) error {
	if w.encode != nil {
		return w.encode.Encode(row)
	}
	return w.table.row(plainKey(row.Key), row.Size, row.Outcome, row.Attempts, dash(oneLine(row.Run)), when(row.At))
}

func (w *rowWriter) flush() error {
	if w.table == nil {
		return nil
	}
	return w.table.flush()
}

// newLineEncoder writes an object a line, with keys as they are.
func newLineEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// table is a table that is printed a part at a time.
type table struct {
	out     *tabwriter.Writer
	header  []string
	written int
}

func newTable(w io.Writer, header ...string) *table {
	return &table{out: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), header: header}
}

func (t *table) row(cells ...any) error {
	if t.written == 0 {
		fmt.Fprintln(t.out, strings.Join(t.header, "\t"))
	}
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.out, "\t")
		}
		fmt.Fprint(t.out, cell)
	}
	fmt.Fprintln(t.out)
	if t.written++; t.written%tableRows == 0 {
		return t.out.Flush()
	}
	return nil
}

func (t *table) flush() error { return t.out.Flush() }

// plainKey is a key for a table: one that would break it is quoted.
func plainKey(key string) string {
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` {
		return quoted
	}
	return key
}

// when is a time for a table.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
