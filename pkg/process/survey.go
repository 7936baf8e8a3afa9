package process

import (
	"context"
	"fmt"
	"io"
)

// table is what the first reading of a file finds out.
type table struct {
	names   []string
	types   []columnType
	longest []int // text of each column, in bytes
	rows    int64
}

// survey reads the whole file once: it decides the columns and keeps what is rejected.
func (p *Parquet) survey(ctx context.Context, text *spool, s syntax, rejects *rejects) (*table, error) {
	records, err := p.open(text, s)
	if err != nil {
		return nil, err
	}
	t := &table{}
	var columns []column
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		record, err := records.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if record.reason != "" {
			if err := rejects.keep(record); err != nil {
				return nil, err
			}
			continue
		}
		t.rows++
		for i, cell := range record.cells {
			if i == len(columns) {
				columns = append(columns, newColumn())
			}
			columns[i].observe(cell)
		}
	}
	t.names = columnNames(records.columns())
	for i := range t.names {
		if i == len(columns) { // of a header without rows
			columns = append(columns, newColumn())
		}
		t.types = append(t.types, columns[i].decide())
		t.longest = append(t.longest, columns[i].longest)
	}
	return t, nil
}

// unbounded tells whether a column's texts are too long for statistics.
func (t *table) unbounded(column int) bool { return t.longest[column] > maxBoundBytes }

// check refuses a file that would succeed with nothing to show for its records.
func (t *table) check(rejects *rejects) error {
	switch {
	case t.rows == 0 && rejects.count > 0:
		return fmt.Errorf("%w: not one of its %d records is good; the first, on line %d: %s",
			ErrMalformed, rejects.count, rejects.firstLine, rejects.firstReason)
	case t.rows > 0 && len(t.names) == 0:
		return fmt.Errorf("%w: none of its %d objects has a key, so there are no columns", ErrMalformed, t.rows)
	}
	return nil
}
