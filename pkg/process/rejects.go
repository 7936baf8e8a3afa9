package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"unicode/utf8"
)

// rejects keeps rejected records in a temporary file, made with the first one.
type rejects struct {
	temp        *scratch
	file        *os.File
	w           *bufio.Writer
	encoder     *json.Encoder
	count       int64
	firstLine   int64
	firstReason string
}

// rejectedRecord is one line of [RejectedName].
type rejectedRecord struct {
	Record    int64   `json:"record"`
	Line      int64   `json:"line"`
	Reason    string  `json:"reason"`
	Raw       *string `json:"raw,omitempty"`
	RawBase64 []byte  `json:"rawBase64,omitempty"`
}

func (r *rejects) keep(rec *record) error {
	if r.file == nil {
		file, err := r.temp.create()
		if err != nil {
			return err
		}
		r.file, r.w = file, bufio.NewWriter(file)
		r.encoder = json.NewEncoder(r.w)
		r.encoder.SetEscapeHTML(false)
		r.firstLine, r.firstReason = rec.line, rec.reason
	}
	r.count++
	line := rejectedRecord{Record: rec.number, Line: rec.line, Reason: rec.reason}
	if utf8.Valid(rec.raw) {
		raw := string(rec.raw)
		line.Raw = &raw
	} else {
		line.RawBase64 = rec.raw
	}
	if err := r.encoder.Encode(line); err != nil {
		return fmt.Errorf("write rejected records: %w", err)
	}
	return nil
}

func (r *rejects) flush() error {
	if err := r.w.Flush(); err != nil {
		return fmt.Errorf("write rejected records: %w", err)
	}
	return nil
}
