package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// createJSON leaves a record that is written once: its key has the name of the
// call. A write whose reply was lost is found to be there, and is no error.
func (r *run) createJSON(ctx context.Context, key string, record any) error {
	encoded, err := encodeRecord(record)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		_, err = r.state.Put(ctx, key, bytes.NewReader(encoded), "application/json", bucket.Condition{IfNoneMatch: "*"})
		switch {
		case err == nil, errors.Is(err, bucket.ErrPrecondition): // nobody else has this name
			return nil
		case !bucket.Transient(err) || try == createTries:
			return fmt.Errorf("write run record: %w", err)
		}
		if err := sleep(ctx, createFirstPause<<try); err != nil {
			return err
		}
	}
}

const (
	createTries      = 4
	createFirstPause = 100 * time.Millisecond
)

// writeJSON leaves a record of the run. A repeated step writes it again.
func (r *run) writeJSON(ctx context.Context, key string, record any) error {
	encoded, err := encodeRecord(record)
	if err != nil {
		return err
	}
	if _, err := r.state.Put(ctx, key, bytes.NewReader(encoded), "application/json", bucket.Condition{}); err != nil {
		return fmt.Errorf("write run record: %w", err)
	}
	return nil
}

func encodeRecord(record any) ([]byte, error) {
	encoded, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode run record: %w", err)
	}
	return append(encoded, '\n'), nil
}

// readJSON reads a record that an earlier step of the same run wrote. One that
// cannot be read is trouble of the moment: it was written whole, so it was cut
// on its way here.
func (r *run) readJSON(ctx context.Context, key string, record any) error {
	object, err := r.state.Get(ctx, key, bucket.Condition{})
	if err != nil {
		return fmt.Errorf("read run record: %w", err)
	}
	defer object.Body.Close()
	text, err := io.ReadAll(object.Body)
	if err == nil {
		err = json.Unmarshal(text, record)
	}
	if err != nil {
		return &TransientError{fmt.Errorf("run record s3://%s/%s cannot be read: %w", r.state.Name(), key, err)}
	}
	return nil
}
