package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// Report is the story as data. It is what `lockstep demo -o json` prints.
type Report struct {
	Runs    []Run                  `json:"runs"`
	Holders []Holding              `json:"holders"`
	Files   []File                 `json:"files"`
	History map[string][]asl.Event `json:"history"` // by run, as GetExecutionHistory returns it

	sound bool // it was checked, and came out as it should
}

// Run is one execution of the state machine.
type Run struct {
	Name     string    `json:"name"`
	Status   string    `json:"status"` // as DescribeExecution has it
	Token    int64     `json:"token"`  // fencing token
	Queued   time.Time `json:"queued"`
	Started  time.Time `json:"started"` // when it had the lock
	Ended    time.Time `json:"ended"`
	Waited   float64   `json:"waitedSeconds"`
	Files    int64     `json:"files"` // done
	Failed   int64     `json:"failed"`
	Rows     int64     `json:"rows"`
	Rejected int64     `json:"rejected"`
}

// Holding is one time that somebody held the lock, by the server's clock: from
// the first second to before the last. It is read from the lock's own events.
type Holding struct {
	Token int64     `json:"token"`
	Owner string    `json:"owner"` // execution ARN
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// File is one source file at one version, and what became of it.
type File struct {
	Key      string       `json:"key"`
	Version  string       `json:"version"` // ETag
	Run      string       `json:"run"`
	Outcome  step.Outcome `json:"outcome"`
	Output   string       `json:"outputKey"` // of the Parquet file; "" if there is none
	Rows     int64        `json:"rows"`
	Rejected int64        `json:"rejected"`
	Error    string       `json:"error,omitempty"`
}

func (s *stage) report(ctx context.Context, remains Remains, executions ...*asl.Execution) (*Report, error) {
	report := &Report{Files: []File{}, History: map[string][]asl.Event{}}
	for _, e := range executions {
		run, err := runOf(e)
		if err != nil {
			return nil, err
		}
		report.Runs = append(report.Runs, run)
		report.History[e.Name()] = e.History()
	}
	var err error
	if report.Holders, err = s.holders(ctx); err != nil {
		return nil, err
	}
	report.Files, err = filesOf(remains[s.config.State.Bucket])
	return report, err
}

// runOf reads a run's figures from its history: the output that each state
// left in the execution's data.
func runOf(e *asl.Execution) (Run, error) {
	end := e.Describe()
	run := Run{Name: e.Name(), Status: string(end.Status), Queued: time.Time(end.StartDate), Started: time.Time(end.StartDate)}
	if end.StopDate != nil {
		run.Ended = time.Time(*end.StopDate)
	}
	for _, event := range e.History() {
		exited, isExit := event.Details.(asl.StateExitedDetails)
		if !isExit {
			continue
		}
		var data struct {
			Acquired  step.AcquireOutput `json:"acquired"`
			Committed step.CommitOutput  `json:"committed"`
		}
		if err := json.Unmarshal([]byte(exited.Output), &data); err != nil {
			return Run{}, fmt.Errorf("output of %s in %s: %w", exited.Name, e.Name(), err)
		}
		if run.Token == 0 && data.Acquired.Decision == step.DecisionHeld {
			run.Token, run.Started = data.Acquired.Token, event.Timestamp
		}
		run.Files, run.Failed = data.Committed.Done, data.Committed.Failed
		run.Rows, run.Rejected = data.Committed.Rows, data.Committed.Rejected
	}
	run.Waited = run.Started.Sub(run.Queued).Seconds()
	return run, nil
}

// holders reads the lock's events.
func (s *stage) holders(ctx context.Context) ([]Holding, error) {
	state, err := bucket.New(s.stack.S3(), s.config.State.Bucket, bucket.Options{})
	if err != nil {
		return nil, err
	}
	register, err := s3lock.New(state, step.LockKey(s.config))
	if err != nil {
		return nil, err
	}
	lock, err := lease.New(register, lease.Config{})
	if err != nil {
		return nil, err
	}
	status, err := lock.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	var holders []Holding
	for _, event := range status.Events {
		switch event.Kind {
		case lease.Granted:
			holders = append(holders, Holding{Token: event.Token, Owner: event.Owner, From: event.At, Until: status.Now})
		case lease.Freed, lease.Expired, lease.Broken:
			for i := range holders {
				if holders[i].Token == event.Token {
					holders[i].Until = event.At
				}
			}
		}
	}
	return holders, nil
}

// filesOf reads the results that the runs left for their commits. A story has
// one processing call for each batch.
func filesOf(state map[string][]byte) ([]File, error) {
	files := []File{}
	for key, content := range state {
		run, isResult := runOfResult(key)
		if !isResult {
			continue
		}
		var result step.BatchResult
		if err := json.Unmarshal(content, &result); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for _, f := range result.Files {
			file := File{Key: f.Key, Version: f.ETag, Run: run, Outcome: f.Outcome, Rows: f.Rows, Rejected: f.Rejected, Error: f.Error}
			for _, output := range f.Outputs {
				if strings.HasSuffix(output, ".parquet") {
					file.Output = output
				}
			}
			files = append(files, file)
		}
	}
	slices.SortFunc(files, func(a, b File) int {
		if byRun := strings.Compare(a.Run, b.Run); byRun != 0 {
			return byRun
		}
		return strings.Compare(a.Key, b.Key)
	})
	return files, nil
}

// runOfResult is the name of the run whose result the key holds:
// …/runs/<run>/<token>/results/<batch>/<call>.json.
func runOfResult(key string) (run string, isResult bool) {
	parts := strings.Split(key, "/")
	n := len(parts)
	if n < 6 || parts[n-3] != "results" || !strings.HasSuffix(key, ".json") || strings.HasSuffix(key, ".begun.json") {
		return "", false
	}
	return parts[n-5], true
}

// JSON is the report as one indented document.
func (r *Report) JSON() ([]byte, error) { return encode(r) }

func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(document)
	return out.Bytes(), err
}
