package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Outcomes of a file in one run.
const (
	OutcomeDone       = "done"
	OutcomeFailed     = "failed"     // its own fault; counts as an attempt
	OutcomeSuperseded = "superseded" // changed or deleted since it was listed
	OutcomeDeferred   = "deferred"   // not begun for want of time
)

// FileResult is what became of one file.
type FileResult struct {
	ledger.Candidate
	Outcome  string   `json:"outcome"`
	Rows     int64    `json:"rows"`
	Rejected int64    `json:"rejected"`
	Outputs  []string `json:"outputs"` // keys in the destination bucket
	Error    string   `json:"error"`   // why it failed; "" otherwise
}

// BatchResult is the object that Process leaves for Commit.
type BatchResult struct {
	Batch int          `json:"batch"`
	Files []FileResult `json:"files"`
}

func (r *run) writeResult(ctx context.Context, keys runKeys, result BatchResult) error {
	return r.writeJSON(ctx, keys.result(result.Batch), result)
}

// readResult returns the outcomes of a batch, one for each of its files and in
// their order. A batch without a result (its call crashed or was never run)
// is a failed attempt of every file in it.
func (r *run) readResult(ctx context.Context, keys runKeys, batch Batch) ([]FileResult, error) {
	object, err := r.state.Get(ctx, keys.result(batch.Number), bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) {
		return crashed(batch, "its batch left no result: the processing call crashed, timed out or ran out of memory; see the Map Run of this execution"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read result of batch %d: %w", batch.Number, err)
	}
	defer object.Body.Close()
	var result BatchResult
	if err := json.NewDecoder(object.Body).Decode(&result); err != nil {
		return crashed(batch, fmt.Sprintf("the result of its batch cannot be read: %v", err)), nil
	}
	if !sameFiles(batch, result) {
		return crashed(batch, "the result of its batch is about other files"), nil
	}
	return result.Files, nil
}

func crashed(batch Batch, why string) []FileResult {
	results := make([]FileResult, len(batch.Files))
	for i, f := range batch.Files {
		results[i] = FileResult{Candidate: f, Outcome: OutcomeFailed, Error: why}
	}
	return results
}

func sameFiles(batch Batch, result BatchResult) bool {
	if len(batch.Files) != len(result.Files) {
		return false
	}
	for i, f := range batch.Files {
		if got := result.Files[i]; got.Key != f.Key || got.ETag != f.ETag {
			return false
		}
	}
	return true
}
