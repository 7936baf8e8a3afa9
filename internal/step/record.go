package step

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
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
