package step

import (
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// maxFailuresListed bounds the summary; the results beside it have all.
const maxFailuresListed = 100

// Summary is the audit record of a run: what it found, what it did with it,
// and what it left. It is written before the ledger is told.
type Summary struct {
	Pipeline  string    `json:"pipeline"`
	Trigger   string    `json:"trigger"`
	Run       string    `json:"run"`
	Execution string    `json:"execution"` // ARN
	Token     int64     `json:"token"`
	Started   time.Time `json:"started"` // of the execution, waiting included
	Cutoff    time.Time `json:"cutoff"`  // server time of the listing

	Listed  int64                   `json:"listed"`
	Skipped map[ledger.Reason]int64 `json:"skipped"` // listed files not taken, by reason
	Left    int64                   `json:"left"`    // for the next run, by selection.maxFiles or maxBytes

	Done        int64 `json:"done"`
	Failed      int64 `json:"failed"`
	Quarantined int64 `json:"quarantined"`
	Superseded  int64 `json:"superseded"`
	Deferred    int64 `json:"deferred"`
	Rows        int64 `json:"rows"`
	Rejected    int64 `json:"rejected"`
	Bytes       int64 `json:"bytes"` // of the source files done

	Atomicity Atomicity     `json:"atomicity"`
	Failures  []FileFailure `json:"failures"` // the first hundred
}

// FileFailure is one file that failed in the run.
type FileFailure struct {
	Key         string `json:"key"`
	Attempts    int    `json:"attempts"` // this one included
	Quarantined bool   `json:"quarantined"`
	Error       string `json:"error"`
}

func (r *run) newSummary(token int64, cutoff time.Time, found ledger.Discovery) Summary {
	return Summary{
		Pipeline: r.config.Pipeline, Trigger: r.config.Trigger,
		Run: r.execution.Name, Execution: r.execution.ID, Token: token,
		Started: r.execution.StartTime, Cutoff: cutoff,
		Listed: found.Listed, Skipped: found.Skipped, Left: found.Left,
		Atomicity: r.config.Failure.Atomicity, Failures: []FileFailure{},
	}
}

// count adds one file's outcome.
func (s *Summary) count(f FileResult, maxAttempts int) {
	switch f.Outcome {
	case OutcomeDone:
		s.Done++
		s.Rows += f.Rows
		s.Rejected += f.Rejected
		s.Bytes += f.Size
	case OutcomeFailed:
		s.Failed++
		failure := FileFailure{Key: f.Key, Attempts: f.Attempts + 1, Quarantined: f.Attempts+1 >= maxAttempts, Error: f.Error}
		if failure.Quarantined {
			s.Quarantined++
		}
		if len(s.Failures) < maxFailuresListed {
			s.Failures = append(s.Failures, failure)
		}
	case OutcomeSuperseded:
		s.Superseded++
	default:
		s.Deferred++
	}
}

// undo turns the counts into those of a run that committed nothing: under
// atomicity "run" the files that would have been done are work for the next.
func (s *Summary) undo() {
	s.Deferred += s.Done
	s.Done, s.Rows, s.Rejected, s.Bytes = 0, 0, 0, 0
}

// verdict is the run's own error, if too much of it failed.
func (s *Summary) verdict(config RunConfig, url string) error {
	total := s.Done + s.Failed
	allOrNothing := config.Failure.Atomicity == AtomicityRun
	tooMany := float64(s.Failed) > config.Failure.MaxFailedFraction*float64(total)
	if s.Failed == 0 || !(allOrNothing || tooMany) {
		return nil
	}
	first := s.Failures[0]
	return &TooManyFilesFailedError{
		Failed: s.Failed, Total: total + s.Superseded + s.Deferred, MaxFraction: config.Failure.MaxFailedFraction, AllOrNothing: allOrNothing,
		First: fmt.Sprintf("%s: %s", first.Key, first.Error), Summary: url,
	}
}
