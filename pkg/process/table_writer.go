package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

const (
	// Metadata that ties an output to the version of its source, and to the run
	// that wrote it.
	metadataKey   = "lockstep.source.key"
	metadataETag  = "lockstep.source.etag"
	metadataToken = "lockstep.token"

	// maxDictionaryBytes is where a string column stops to profit from a dictionary.
	maxDictionaryBytes = 1 << 20

	// valueOverhead is what a value costs in a row group beside its bytes.
	valueOverhead = 8
)

// footer is what every output says of itself.
func footer(in File) []parquet.WriterOption {
	return []parquet.WriterOption{
		parquet.CreatedBy("lockstep", "2", "parquet-go"), // else it would depend on how we were built
		parquet.KeyValueMetadata(metadataKey, in.Key),
		parquet.KeyValueMetadata(metadataETag, in.ETag),
		parquet.KeyValueMetadata(metadataToken, strconv.FormatInt(in.Token, 10)),
	}
}

// writeTable reads the records a second time and writes the good ones.
func (p *Parquet) writeTable(ctx context.Context, to *os.File, in File, t *table, again records) error {
	options := append(footer(in), schemaOf(t), parquet.Compression(&parquet.Zstd), parquet.DictionaryMaxBytes(maxDictionaryBytes))
	for i, name := range t.names {
		if t.unbounded(i) {
			options = append(options, skipBounds(name)...)
		}
	}
	w := parquet.NewWriter(to, options...)
	row := make(parquet.Row, len(t.names))
	group := int64(0)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		record, err := again.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if record.reason != "" {
			continue
		}
		for i := range row {
			var v cell
			if i < len(record.cells) {
				v = record.cells[i]
			}
			value, err := valueOf(v, t.types[i])
			if err != nil {
				return fmt.Errorf("column %q, line %d: %w", t.names[i], record.line, err)
			}
			level := 1
			if value.IsNull() {
				level = 0
			}
			row[i] = value.Level(0, level, i)
			group += valueOverhead + int64(len(v.text))
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			return fmt.Errorf("write Parquet: %w", err)
		}
		if group >= p.cfg.RowGroupBytes {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write Parquet: %w", err)
			}
			group = 0
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// valueOf converts a value to the type that the survey found it to fit.
func valueOf(v cell, t columnType) (parquet.Value, error) {
	if v.kind == nullKind {
		return parquet.NullValue(), nil
	}
	switch t {
	case stringType:
		return parquet.ByteArrayValue(v.text), nil
	case jsonType:
		if v.kind != stringKind {
			return parquet.ByteArrayValue(v.text), nil
		}
		quoted, err := quoteJSON(v.text)
		return parquet.ByteArrayValue(quoted), err
	}
	if len(v.text) == 0 {
		return parquet.NullValue(), nil
	}
	ok := false
	var value parquet.Value
	switch t {
	case integerType:
		var n int64
		n, ok = integerOf(v.text)
		value = parquet.Int64Value(n)
	case doubleType:
		f, err := strconv.ParseFloat(string(v.text), 64)
		ok, value = err == nil, parquet.DoubleValue(f)
	case booleanType:
		ok, value = true, parquet.BooleanValue(v.text[0]|0x20 == 't')
	case dateType:
		var days int32
		days, ok = dateOf(v.text)
		value = parquet.Int32Value(days)
	case instantType, localType:
		var micros int64
		micros, _, ok = timestampOf(v.text)
		value = parquet.Int64Value(micros)
	}
	if !ok {
		return value, fmt.Errorf("%q does not fit the type that the column was given", v.text)
	}
	return value, nil
}

// quoteJSON is json.Marshal without the escapes that HTML would need.
func quoteJSON(text []byte) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(string(text))
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
