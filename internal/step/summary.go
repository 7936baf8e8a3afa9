package step

import (
	"fmt"
	"maps"
	"slices"
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
	Manifest  ObjectRef `json:"manifest"` // that was processed
	Versions  Versions  `json:"versions"` // of the destination
	Settings  string    `json:"settings"` // fingerprint of the processing settings

	Listed  int64                   `json:"listed"`
	Skipped map[ledger.Reason]int64 `json:"skipped"` // listed files not taken, by reason
	Left    int64                   `json:"left"`    // for the next run, by selection.maxFiles or maxBytes

	Done        int64 `json:"done"`
	Failed      int64 `json:"failed"`
	Quarantined int64 `json:"quarantined"`
	Superseded  int64 `json:"superseded"`
	Archived    int64 `json:"archived"`
	Deferred    int64 `json:"deferred"`
	Rows        int64 `json:"rows"`
	Rejected    int64 `json:"rejected"`
	Bytes       int64 `json:"bytes"` // of the source files done

	// Causes counts the deferred files by what stood in their way.
	Causes map[Cause]int64 `json:"causes"`
	// Unanswered counts processing calls that began and left no result. They
	// crashed, or are still at work.
	Unanswered int64 `json:"unanswered"`

	MaxAttempts int           `json:"maxAttempts"`
	Failures    []FileFailure `json:"failures"` // the first hundred

	first map[Cause]string // the first error of each cause; "" is that of a failed file
}

// FileFailure is one file that failed in the run, or was deferred by trouble
// that was not its own.
type FileFailure struct {
	Key         string `json:"key"`
	Cause       Cause  `json:"cause,omitempty"` // "" for a file that failed by its own fault
	Attempts    int    `json:"attempts"`        // that count against the file, this one included
	Quarantined bool   `json:"quarantined"`
	Error       string `json:"error"`
}

func (r *run) newSummary(token int64, discovered DiscoverOutput, found ledger.Discovery) Summary {
	return Summary{
		Pipeline: r.config.Pipeline, Trigger: r.config.Trigger,
		Run: r.execution.Name, Execution: r.execution.ID, Token: token,
		Started: r.execution.StartTime, Cutoff: discovered.Cutoff,
		Source: r.config.Source, Manifest: discovered.Manifest, Versions: r.config.Destination.Versions, Settings: r.settings,
		Listed: found.Listed, Skipped: found.Skipped, Left: found.Left,
		Causes: map[Cause]int64{}, MaxAttempts: r.config.Failure.MaxAttempts, Failures: []FileFailure{},
		first: map[Cause]string{},
	}
}

// count adds one file's outcome, which is decided.
func (s *Summary) count(f FileResult) {
	switch f.Outcome {
	case OutcomeDone:
		s.Done++
		s.Rows += f.Rows
		s.Rejected += f.Rejected
		s.Bytes += f.Size
	case OutcomeFailed:
		s.Failed++
		last := f.Attempts+1 >= s.MaxAttempts
		if last {
			s.Quarantined++
		}
		s.list(FileFailure{Key: f.Key, Attempts: f.Attempts + 1, Quarantined: last, Error: f.Error})
	case OutcomeSuperseded:
		s.Superseded++
	case OutcomeArchived:
		s.Archived++
	default:
		s.Deferred++
		s.Causes[f.Cause]++
		if f.Cause != CauseTime || f.Error != "" {
			s.list(FileFailure{Key: f.Key, Cause: f.Cause, Attempts: f.Attempts, Error: f.Error})
		}
	}
}

func (s *Summary) list(f FileFailure) {
	if _, known := s.first[f.Cause]; !known {
		s.first[f.Cause] = fmt.Sprintf("%s: %s", f.Key, f.Error)
	}
	if len(s.Failures) < maxFailuresListed {
		s.Failures = append(s.Failures, f)
	}
}

// hindered counts the files that were deferred by trouble. Want of time is
// none: the next run goes on where this one ended.
func (s *Summary) hindered() (n int64) {
	for cause, files := range s.Causes {
		if cause != CauseTime {
			n += files
		}
	}
	return n
}

// mainCause is the trouble that deferred most files.
func (s *Summary) mainCause() (main Cause) {
	for _, cause := range slices.Sorted(maps.Keys(s.Causes)) {
		if cause != CauseTime && s.Causes[cause] > s.Causes[main] {
			main = cause
		}
	}
	return main
}

// verdict is the run's own error, if it did too little. A run that was hindered
// and did nothing fails however few its files are. Otherwise more than
// failure.maxFailedFraction must have failed or been hindered, and at least
// failure.minFailedFiles: one bad file wakes nobody at night.
func (s *Summary) verdict(limits FailureSettings, url string) error {
	hindered := s.hindered()
	bad := s.Failed + hindered
	if bad == 0 {
		return nil
	}
	nothingDone := hindered > 0 && s.Done == 0
	// A quotient, since it rounds to the same number as the setting was read as.
	tooMuch := bad >= int64(limits.MinFailedFiles) && float64(bad)/float64(s.Done+bad) > limits.MaxFailedFraction
	if !nothingDone && !tooMuch {
		return nil
	}
	total := s.Done + s.Failed + s.Superseded + s.Archived + s.Deferred
	if cause := s.mainCause(); cause != "" && s.Causes[cause] > s.Failed {
		return hinderedBy(cause, fmt.Errorf("%d of %d files were deferred, and none of them is blamed: %s; the next run takes them; all of them: %s",
			s.Causes[cause], total, s.first[cause], url))
	}
	return &TooManyFilesFailedError{
		Failed: bad, Total: total, MaxFraction: limits.MaxFailedFraction, First: s.first[""], Summary: url,
	}
}
