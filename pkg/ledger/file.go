package ledger

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// File is a source object at one version. Key, ETag and Size identify the
// version; LastModified comes from the listing and identifies nothing: an
// upload in parts carries the time it began, and many files share a second.
type File struct {
	Key          string    `json:"key"`
	ETag         string    `json:"etag"` // opaque, as the listing gave it
	Size         int64     `json:"size"` // bytes
	LastModified time.Time `json:"lastModified"`
}

// Candidate is a file that a run should process.
type Candidate struct {
	File
	// Attempts counts the failed attempts at this version so far.
	Attempts int `json:"attempts"`
	// Suspect: a call that had this file among others crashed. It is processed in a
	// call of its own, so that it takes no other file with it.
	Suspect bool `json:"suspect,omitempty"`
}

// Row is the candidate with its outcome, as a Commit wants it.
func (c Candidate) Row(outcome Outcome) Row {
	return Row{Key: c.Key, ETag: c.ETag, Size: c.Size, Outcome: outcome, Attempts: c.Attempts, Suspect: c.Suspect && outcome != Done}
}

// Outcome says where a version stands.
type Outcome string

const (
	// Done: processed; not handed out again.
	Done Outcome = "done"
	// Failed: handed out again by the next run.
	Failed Outcome = "failed"
	// Quarantined: failed too often; reported, and handed out only on demand.
	Quarantined Outcome = "quarantined"

	// Due: handed out by the next run, at whatever version it is then. A run had
	// the file in hand and has no outcome of it; what it published is not known.
	Due Outcome = "due"

	// gone marks a key that a complete listing no longer had. It hides older
	// rows until a merge drops both, and is never shown.
	gone Outcome = "gone"
)

// Row is what the ledger knows of one key: the version last processed, and how
// that went.
type Row struct {
	Key     string  `json:"key"`
	ETag    string  `json:"etag"`
	Size    int64   `json:"size"` // bytes
	Outcome Outcome `json:"outcome"`
	// Attempts counts failed attempts at this version. In a Commit it is the
	// count before this run (Candidate.Attempts); the commit adds its own.
	Attempts int `json:"attempts"`
	// Run and At tell which run committed the row, and that run's cutoff.
	// A Commit sets them.
	Run string    `json:"run"`
	At  time.Time `json:"at,omitzero"` // whole seconds
	// Suspect is as in a Candidate.
	Suspect bool `json:"suspect,omitempty"`
	// Settings stand for the processing settings of that run: what failed under
	// others is due with all its attempts. A Commit sets them.
	Settings string `json:"settings,omitempty"`
	// Published is the visible output of the file, whatever became of later
	// versions. In a Commit, zero means that this run published none; the row then
	// has what earlier runs published.
	Published Published `json:"published,omitzero"`
}

// Published is what a run made visible of a file.
type Published struct {
	ETag  string `json:"etag"`  // of the source version
	Token int64  `json:"token"` // fencing token of the run
	Name  string `json:"name"`  // of the output
}

// The longest values a row may hold. S3 ends keys at 1,024 bytes; some stores
// go further.
const (
	maxKeyBytes = 4096
	maxTagBytes = 4096
	maxRunBytes = 1024
	// maxNameBytes is for names of outputs and fingerprints of settings.
	maxNameBytes = 1024
)

// check refuses what a segment cannot carry exactly.
func (r Row) check() error {
	switch {
	case r.Key == "":
		return fmt.Errorf("row without a key")
	case len(r.Key) > maxKeyBytes:
		return fmt.Errorf("key %.60q…: longer than %d bytes", r.Key, maxKeyBytes)
	case !utf8.ValidString(r.Key):
		return fmt.Errorf("key %q: not UTF-8, which S3 requires", r.Key)
	case len(r.ETag) > maxTagBytes:
		return fmt.Errorf("key %q: ETag longer than %d bytes", r.Key, maxTagBytes)
	case r.Size < 0:
		return fmt.Errorf("key %q: size %d is negative", r.Key, r.Size)
	case len(r.Settings) > maxNameBytes:
		return fmt.Errorf("key %q: settings longer than %d bytes", r.Key, maxNameBytes)
	case len(r.Published.Name) > maxNameBytes || len(r.Published.ETag) > maxTagBytes || r.Published.Token < 0:
		return fmt.Errorf("key %q: published %+v is out of range", r.Key, r.Published)
	case r.Attempts < 0 || r.Attempts >= math.MaxInt32:
		return fmt.Errorf("key %q: attempts %d is out of range", r.Key, r.Attempts)
	}
	return nil
}
