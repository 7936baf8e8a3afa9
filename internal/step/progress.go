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

// Progress is how far a run is. Discover writes it, processing calls bring it
// up to date now and then, and Commit ends it; what became of the files is in
// the results and in the summary.
type Progress struct {
	Run     string `json:"run"`
	Token   int64  `json:"token"`
	Stage   Stage  `json:"stage"`
	Files   int64  `json:"files"` // to be processed
	Bytes   int64  `json:"bytes"` // of those
	Batches int    `json:"batches"`
	// BatchesDone have a result, whatever became of their files.
	BatchesDone int       `json:"batchesDone"`
	Started     time.Time `json:"started"` // of the processing; server time
	Updated     time.Time `json:"updated"` // server time
}

// Stage is the part of the journey that a Progress tells of.
type Stage string

// The stages of a run that found something to do.
const (
	StageProcessing Stage = "processing"
	StageCommitted  Stage = "committed"
)

// progressEvery is how old a progress object gets before a call that is done
// with its batch brings it up to date: hundreds of calls ask for one request
// each, and one of them counts.
const progressEvery = 15 * time.Second

// reportProgress counts the results, if nobody did lately or the stage is a new
// one. It is for people to look at, so that trouble with it is a matter for the
// log.
func (r *run) reportProgress(ctx context.Context, token int64, stage Stage) {
	if err := r.updateProgress(ctx, keysOf(r.config, r.execution.Name, token), stage); err != nil && ctx.Err() == nil {
		r.log.Warn("progress not reported", "token", token, "error", err)
	}
}

func (r *run) updateProgress(ctx context.Context, keys runKeys, stage Stage) error {
	object, err := r.state.Get(ctx, keys.progress(), bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) { // of a run that was discovered by an older program
		return nil
	}
	if err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	defer object.Body.Close()
	var p Progress
	text, err := io.ReadAll(object.Body)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	if p.Stage == StageCommitted || p.Stage == stage && object.ServerTime.Sub(p.Updated) < progressEvery {
		return nil
	}
	p.Stage, p.BatchesDone, p.Updated = stage, 0, object.ServerTime
	last := -1
	for name, err := range r.attemptNames(ctx, keys, keys.results()) {
		if err != nil {
			return fmt.Errorf("count results: %w", err)
		}
		if !name.begun && name.batch != last {
			p.BatchesDone, last = p.BatchesDone+1, name.batch
		}
	}
	encoded, err := encodeRecord(p)
	if err != nil {
		return err
	}
	// Somebody else's count is as good as this one.
	_, err = r.state.Put(ctx, keys.progress(), bytes.NewReader(encoded), "application/json", bucket.Condition{IfMatch: object.ETag})
	if errors.Is(err, bucket.ErrPrecondition) || errors.Is(err, bucket.ErrConflict) {
		return nil
	}
	return err
}
