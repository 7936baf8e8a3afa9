package process

import "fmt"

const (
	defaultMaxBytes       = 4 << 30
	defaultMaxRecordBytes = 16 << 20
	defaultRowGroupBytes  = 64 << 20

	// maxColumns guards against data that is used as keys ({"user-1": …}, {"user-2": …}):
	// such a file would need a column per row.
	maxColumns = 10_000
)

// Config bounds what one call of [Parquet.Process] may take. The zero value is sane.
type Config struct {
	// ScratchDir is where temporary files live; default: the system's. One call
	// needs room for the decompressed file plus its outputs.
	ScratchDir string
	// MaxBytes is the largest decompressed file, in bytes; default 4 GiB. A
	// larger one (a decompression bomb) is ErrUnsupported.
	MaxBytes int64
	// MaxRecordBytes is the longest record, in bytes; default 16 MiB. A longer
	// one is ErrUnsupported. A few records are in memory at once.
	MaxRecordBytes int
	// RowGroupBytes is how many bytes of values a row group holds before it is
	// written; default 64 MiB. About twice as much is in memory at once.
	RowGroupBytes int64
}

func (c Config) withDefaults() (Config, error) {
	if c.MaxBytes < 0 || c.MaxRecordBytes < 0 || c.RowGroupBytes < 0 {
		return c, fmt.Errorf("process: a limit is negative (MaxBytes %d, MaxRecordBytes %d, RowGroupBytes %d): use 0 for the default",
			c.MaxBytes, c.MaxRecordBytes, c.RowGroupBytes)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if c.MaxRecordBytes == 0 {
		c.MaxRecordBytes = defaultMaxRecordBytes
	}
	if c.RowGroupBytes == 0 {
		c.RowGroupBytes = defaultRowGroupBytes
	}
	return c, nil
}
