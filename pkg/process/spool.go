package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a zstd frame may ask for; it is what
// `zstd --long` (27 bits) needs.
const maxWindow = 128 << 20

// spool is a file's text, decompressed and in UTF-8, on disk: the types of the
// columns are known only after the last row, so the text is read twice.
type spool struct {
	file *os.File
	size int64
}

// section is the text from its start, at most n bytes of it.
func (s *spool) section(n int64) *io.SectionReader {
	return io.NewSectionReader(s.file, 0, min(n, s.size))
}

func (p *Parquet) spoolText(ctx context.Context, in File, c compression, temp *scratch) (*spool, error) {
	file, err := temp.create()
	if err != nil {
		return nil, err
	}
	body := &bodyReader{body: in.Body, stopped: func() error { return context.Cause(ctx) }}
	text, err := decompress(body, c)
	if err != nil {
		return nil, body.blame(in, err)
	}
	defer text.Close()

	decoded, err := decodeText(text)
	if err != nil {
		return nil, body.blame(in, err)
	}
	disk := &diskWriter{file: file}
	size, err := io.Copy(disk, io.LimitReader(decoded, p.cfg.MaxBytes+1))
	if disk.err != nil {
		return nil, fmt.Errorf("write temporary file: %w", disk.err)
	}
	if err == nil && size > p.cfg.MaxBytes {
		return nil, fmt.Errorf("%w: its text is longer than %d bytes; split the file or raise MaxBytes", ErrUnsupported, p.cfg.MaxBytes)
	}
	if err := body.blame(in, err); err != nil {
		return nil, err
	}
	return &spool{file: file, size: size}, nil
}

func decompress(body io.Reader, c compression) (io.ReadCloser, error) {
	buffered := bufio.NewReader(body)
	if c != plain {
		// An empty object is an empty file, whatever its name.
		if _, err := buffered.Peek(1); err == io.EOF {
			return io.NopCloser(buffered), nil
		}
	}
	switch c {
	case gzipped:
		return gzip.NewReader(buffered)
	case zstandard:
		decoder, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}

// bodyReader remembers how the body itself ended, because a decompressor
// reports a cut connection and a cut file alike.
type bodyReader struct {
	body    io.Reader
	stopped func() error // why to read no further, or nil
	n       int64
	err     error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if err := b.stopped(); err != nil {
		b.err = err
		return 0, err
	}
	n, err := b.body.Read(p)
	b.n += int64(n)
	b.err = err
	return n, err
}

// blame finds whose fault err is. Even without one, a body that is not as long
// as the object is a failed read.
func (b *bodyReader) blame(in File, err error) error {
	switch {
	case b.err != nil && b.err != io.EOF:
		return fmt.Errorf("read: %w", b.err)
	case b.err == io.EOF && in.Size > 0 && b.n != in.Size:
		return fmt.Errorf("read: got %d bytes of an object of %d: %w", b.n, in.Size, io.ErrUnexpectedEOF)
	case err == nil, errors.Is(err, ErrUnsupported), errors.Is(err, ErrMalformed):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: its compressed data is cut off: %w", ErrMalformed, err)
	}
	return fmt.Errorf("%w: its compressed data is damaged, or followed by something else: %w", ErrMalformed, err)
}

// diskWriter remembers a failed write, so that a full disk is not taken for a
// fault of the text that was being copied.
type diskWriter struct {
	file *os.File
	err  error
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	d.err = err
	return n, err
}
