package step

import (
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// maxFailuresListed bounds the summary; the results beside it have all.
const maxFailuresListed = 100

// Summary is the audit record of a run: what it found, what it did with it,
// and what it left. It is written once the ledger has the same, so that it
// never claims what was refused.
type Summary struct {
	Pipeline  string    `json:"pipeline"`
	Trigger   string    `json:"trigger"`
	Run       string    `json:"run"`
	Execution string    `json:"execution"` // ARN
	Token     int64     `json:"token"`
	Started   time.Time `json:"started"` // of the execution, waiting included
	Cutoff    time.Time `json:"cutoff"`  // server time of the listing
	Source    Location  `json:"source"`
	Manifest  string    `json:"manifest"` // ETag of the manifest that was processed

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

	Atomicity   Atomicity     `json:"atomicity"`
	MaxAttempts int           `json:"maxAttempts"`
	Failures    []FileFailure `json:"failures"` // the first hundred

	hindered int64 // of the deferred, those put off by trouble
}

// FileFailure is one file that failed in the run, or was put off by trouble
// that was not its own.
type FileFailure struct {
	Key         string `json:"key"`
	Attempts    int    `json:"attempts"` // that count against the file, this one included
	Quarantined bool   `json:"quarantined"`
	Error       string `json:"error"`
}

func (r *run) newSummary(token int64, discovered DiscoverOutput, found ledger.Discovery) Summary {
	return Summary{
		Pipeline: r.config.Pipeline, Trigger: r.config.Trigger,
		Run: r.execution.Name, Execution: r.execution.ID, Token: token,
		Started: r.execution.StartTime, Cutoff: discovered.Cutoff,
		Source: r.config.Source, Manifest: discovered.Manifest.ETag,
		Listed: found.Listed, Skipped: found.Skipped, Left: found.Left,
		Atomicity: r.config.Failure.Atomicity, MaxAttempts: r.config.Failure.MaxAttempts, Failures: []FileFailure{},
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
		last := f.Attempts+1 >= maxAttempts
		if last {
			s.Quarantined++
		}
		s.list(FileFailure{Key: f.Key, Attempts: f.Attempts + 1, Quarantined: last, Error: f.Error})
	case OutcomeSuperseded:
		s.Superseded++
	default:
		s.Deferred++
		if f.Error != "" {
			s.hindered++
			s.list(FileFailure{Key: f.Key, Attempts: f.Attempts, Error: f.Error})
		}
	}
}

func (s *Summary) list(f FileFailure) {
	if len(s.Failures) < maxFailuresListed {
		s.Failures = append(s.Failures, f)
	}
}

// notDone counts the files that could not be processed, by whose fault ever.
func (s *Summary) notDone() int64 { return s.Failed + s.hindered }

// undo turns the counts into those of a run that committed nothing: under
// atomicity "run" the files that would have been done are work for the next.
func (s *Summary) undo() {
	s.Deferred += s.Done
	s.Done, s.Rows, s.Rejected, s.Bytes = 0, 0, 0, 0
}

// verdict is the run's own error, if too much of it failed. Files put off by
// trouble count too: a run that gets nothing done must not pass for a success.
func (s *Summary) verdict(config RunConfig, url string) error {
	bad := s.notDone()
	allOrNothing := config.Failure.Atomicity == AtomicityRun
	// A quotient, since it rounds to the same number as the setting was read as.
	if bad == 0 || !allOrNothing && float64(bad)/float64(s.Done+bad) <= config.Failure.MaxFailedFraction {
		return nil
	}
	first := s.Failures[0]
	return &TooManyFilesFailedError{
		Failed: bad, Total: s.Done + s.Failed + s.Superseded + s.Deferred,
		MaxFraction: config.Failure.MaxFailedFraction, AllOrNothing: allOrNothing,
		First: fmt.Sprintf("%s: %s", first.Key, first.Error), Summary: url,
	}
}
