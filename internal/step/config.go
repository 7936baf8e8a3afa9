package step

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// RunConfig is the input of an execution: what a schedule, a backfill or a
// person asks one run to do. ParseConfig is the only way to make one.
type RunConfig struct {
	// Pipeline names the pipeline in logs and summaries.
	Pipeline string `json:"pipeline"`
	// Trigger says who started the run ("schedule", "backfill", a person); free text.
	Trigger string `json:"trigger"`

	Source      Location    `json:"source"`      // where new files arrive
	Destination Destination `json:"destination"` // where outputs go
	State       Location    `json:"state"`       // lock, ledger and run records

	Lock      LockSettings      `json:"lock"`
	Selection SelectionSettings `json:"selection"`
	Batch     BatchSettings     `json:"batch"`
	Failure   FailureSettings   `json:"failure"`
}

// Location is a folder in a bucket. A prefix is a path: "files" and "files/"
// are the same folder and never take "files2/…".
type Location struct {
	Bucket string `json:"bucket"`
	Prefix string `json:"prefix"`
}

// Destination is the folder of the outputs, and what it shows.
type Destination struct {
	Bucket   string   `json:"bucket"`
	Prefix   string   `json:"prefix"`
	Versions Versions `json:"versions"` // "latest" (default) or "all"
}

// Location is the folder alone.
func (d Destination) Location() Location { return Location{Bucket: d.Bucket, Prefix: d.Prefix} }

// Versions says which versions of a source file a destination shows.
type Versions string

// The two kinds.
const (
	// VersionsLatest: one visible output for each file, of the newest version that
	// was done. Readers of the folder count each file once.
	VersionsLatest Versions = "latest"
	// VersionsAll: an output for each version, with the version in its key. For
	// archives; readers choose among the versions.
	VersionsAll Versions = "all"
)

// LockSettings govern the lease on the pipeline.
type LockSettings struct {
	TTLSeconds     int `json:"ttlSeconds"`     // a lease not renewed for so long is over; 60 to 3,600, default 120
	GraceSeconds   int `json:"graceSeconds"`   // others take over so much later; 2 to 300, default 5
	PollSeconds    int `json:"pollSeconds"`    // pause between two turns of a waiting run; 1 to 300, default 15
	MaxWaitSeconds int `json:"maxWaitSeconds"` // a run that waited so long gives up; 0 to 43,200, default 3,600
	MaxWaiters     int `json:"maxWaiters"`     // with so many waiting, a newcomer is superseded; 0 = as many as a lock has room for, 1,000
	Priority       int `json:"priority"`       // higher goes first among waiters; -100 to 100, default 0
}

// SelectionSettings choose among the files below the source prefix.
type SelectionSettings struct {
	Include       []string  `json:"include"` // globs on the path below the source prefix; empty = all
	Exclude       []string  `json:"exclude"`
	MinAgeSeconds int       `json:"minAgeSeconds"` // younger files are left for the next run; default 0
	MinFileBytes  int64     `json:"minFileBytes"`
	MaxFileBytes  int64     `json:"maxFileBytes"` // 0 = no bound
	Since         time.Time `json:"since"`        // only files modified at or after; zero = no bound
	Until         time.Time `json:"until"`        // only files modified before; zero = no bound
	MaxFiles      int       `json:"maxFiles"`     // files a run takes at most, the rest is left for the next; 0 = no bound
	MaxBytes      int64     `json:"maxBytes"`     // likewise for their bytes; 0 = no bound
	First         First     `json:"first"`        // which files a bounded run takes: "key" (default) or "oldest"
	Reprocess     bool      `json:"reprocess"`    // take done and quarantined files again (a backfill)

	// Order "any" (default) lists everything in each run. "lexicographic" is for
	// keys that begin with a time: a key that appears sorts behind every key that
	// was there LookBackSeconds earlier. A run then lists only what is behind the
	// settled files, and everything once in ReconcileSeconds.
	Order            Order `json:"order"`
	LookBackSeconds  int   `json:"lookBackSeconds"`  // default 86,400 (a day); up to 30 days
	ReconcileSeconds int   `json:"reconcileSeconds"` // default 86,400; up to 90 days
}

// First says in which order a run takes files.
type First string

// The two orders. Files of one time are taken in the order of their keys.
const (
	FirstByKey  First = "key"
	FirstOldest First = "oldest"
)

// Order says what is known of the order in which keys appear.
type Order string

// The two kinds.
const (
	OrderAny           Order = "any"
	OrderLexicographic Order = "lexicographic"
)

// BatchSettings shape the fan-out.
type BatchSettings struct {
	MaxFiles       int   `json:"maxFiles"`       // files per processing call; 1 to 500, default 20
	MaxBytes       int64 `json:"maxBytes"`       // source bytes per call; default 256 MiB
	MaxConcurrency int   `json:"maxConcurrency"` // calls at once; 1 to 1,000, default 10
}

// FailureSettings say what failing files mean.
type FailureSettings struct {
	MaxAttempts       int       `json:"maxAttempts"`       // then a file is quarantined; 1 to 100, default 3
	BackoffSeconds    int       `json:"backoffSeconds"`    // pause after a failed attempt, doubled by each further one up to a day; 0 to 86,400, default 300
	MaxFailedFraction float64   `json:"maxFailedFraction"` // a run in which more failed is a failed run; 0 to 1, default 0.5
	MinFailedFiles    int       `json:"minFailedFiles"`    // fewer failed files do not fail a run in which others are done; 1 to 1,000,000, default 10
	Atomicity         Atomicity `json:"atomicity"`         // "file"
}

// Atomicity is what one failing file does to the others of its run.
type Atomicity string

// AtomicityFile commits each file that succeeded, whatever became of the others.
const AtomicityFile Atomicity = "file"

// atomicityRun, all or nothing, is refused: a folder shows an object as soon as
// it is written, so that a run could keep this promise only by deleting outputs,
// and one of those may be another run's by then.
const atomicityRun Atomicity = "run"

// maxConfigBytes bounds a configuration, since it travels with every batch
// inside Step Functions' 256 KiB payloads.
const maxConfigBytes = 32 << 10

// maxPrefixBytes leaves half of a key to what lies below a prefix.
const maxPrefixBytes = 512

// ParseConfig reads and validates a run configuration. Its only error is
// *InvalidConfigError, which names the field.
func ParseConfig(raw json.RawMessage) (RunConfig, error) {
	if len(raw) > maxConfigBytes {
		return RunConfig{}, invalid("config", "has %d bytes; at most %d fit beside a batch in one payload", len(raw), maxConfigBytes)
	}
	c := RunConfig{
		Lock:        LockSettings{TTLSeconds: 120, GraceSeconds: 5, PollSeconds: 15, MaxWaitSeconds: 3600},
		Selection:   SelectionSettings{First: FirstByKey, Order: OrderAny, LookBackSeconds: 86400, ReconcileSeconds: 86400},
		Destination: Destination{Versions: VersionsLatest},
		Batch:       BatchSettings{MaxFiles: 20, MaxBytes: 256 << 20, MaxConcurrency: 10},
		Failure:     FailureSettings{MaxAttempts: 3, BackoffSeconds: 300, MaxFailedFraction: 0.5, MinFailedFiles: 10, Atomicity: AtomicityFile},
	}
	if err := decodeStrict(raw, &c); err != nil {
		return RunConfig{}, err
	}
	c.Source.Prefix, c.Destination.Prefix, c.State.Prefix = folder(c.Source.Prefix), folder(c.Destination.Prefix), folder(c.State.Prefix)
	if err := c.validate(); err != nil {
		return RunConfig{}, err
	}
	return c, nil
}

// folder makes a prefix a path: empty, or ending in one slash.
func folder(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix
	}
	return prefix + "/"
}

func (c RunConfig) validate() error {
	if c.Pipeline == "" {
		return invalid("pipeline", "is missing; give the pipeline a name, it appears in every log line")
	}
	for _, l := range []struct {
		field string
		at    Location
	}{{"source", c.Source}, {"destination", c.Destination.Location()}, {"state", c.State}} {
		if l.at.Bucket == "" {
			return invalid(l.field+".bucket", "is missing; name the bucket")
		}
		if !isBucketName(l.at.Bucket) {
			return invalid(l.field+".bucket", "%q is not a bucket name; give the name alone, without s3:// or a path", l.at.Bucket)
		}
		if strings.HasSuffix(l.at.Bucket, "--x-s3") {
			return invalid(l.field+".bucket", "%q is a directory bucket (S3 Express One Zone): it lists keys in no order, and neither new files nor the ledger can be told from such a listing; use a general purpose bucket", l.at.Bucket)
		}
		if len(l.at.Prefix) > maxPrefixBytes {
			return invalid(l.field+".prefix", "has %d bytes; at most %d leave room for file names within S3's 1,024", len(l.at.Prefix), maxPrefixBytes)
		}
		if leadsBack(l.at.Prefix) {
			return invalid(l.field+".prefix", "%q has a segment \".\" or \"..\"; write the folder itself", l.at.Prefix)
		}
	}
	if err := c.validatePlaces(); err != nil {
		return err
	}
	if err := c.validateNumbers(); err != nil {
		return err
	}
	switch c.Failure.Atomicity {
	case AtomicityFile:
	case atomicityRun:
		return invalid("failure.atomicity", "is %q, which a folder cannot keep: each output is visible once it is written, and taking it back could delete another run's; use %q", atomicityRun, AtomicityFile)
	default:
		return invalid("failure.atomicity", "is %q; use %q (commit what succeeded)", c.Failure.Atomicity, AtomicityFile)
	}
	if v := c.Destination.Versions; v != VersionsLatest && v != VersionsAll {
		return invalid("destination.versions", "is %q; use %q (one visible output for each file) or %q (one for each version)", v, VersionsLatest, VersionsAll)
	}
	if c.Selection.First != FirstByKey && c.Selection.First != FirstOldest {
		return invalid("selection.first", "is %q; use %q (in the order of the keys) or %q (by the time of the last change)", c.Selection.First, FirstByKey, FirstOldest)
	}
	if c.Selection.Order != OrderAny && c.Selection.Order != OrderLexicographic {
		return invalid("selection.order", "is %q; use %q (everything is listed in each run) or %q (keys come in the order of their names)", c.Selection.Order, OrderAny, OrderLexicographic)
	}
	return c.validateSelection()
}

// validateSelection gives the ledger's words the paths of the configuration.
func (c RunConfig) validateSelection() error {
	if s := c.Selection; s.MaxFileBytes > 0 && s.MinFileBytes > s.MaxFileBytes {
		return invalid("selection.minFileBytes", "is %d, above selection.maxFileBytes, %d: nothing could be taken", s.MinFileBytes, s.MaxFileBytes)
	}
	err := c.selection().Validate()
	var wrong *ledger.SelectionError
	switch {
	case errors.As(err, &wrong):
		return invalid("selection."+strings.ToLower(wrong.Field[:1])+wrong.Field[1:], "%s", wrong.Problem)
	case err != nil:
		return invalid("selection", "cannot be used: %v", err)
	}
	return nil
}

// isBucketName allows what any S3-compatible store does; S3 itself is stricter.
func isBucketName(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(".-_", c))
	})
}

// leadsBack reports a segment that some clients resolve like a file system.
func leadsBack(prefix string) bool {
	segments := strings.Split(prefix, "/")
	return slices.Contains(segments, ".") || slices.Contains(segments, "..")
}

// notInDefinition are the characters that mean something in JSON or in a
// format string, both of which the state prefix is written into.
const notInDefinition = `"\'{}`

// validatePlaces keeps the three places apart: outputs or state among the
// sources would be taken as new files, unless they are excluded (selection
// does that for places inside the source prefix).
func (c RunConfig) validatePlaces() error {
	if c.State.Prefix == "" {
		return invalid("state.prefix", "is empty; give the pipeline's state a folder of its own, such as \"lockstep/%s/\"", c.Pipeline)
	}
	if i := strings.IndexAny(c.State.Prefix, notInDefinition); i >= 0 {
		return invalid("state.prefix", "%q has a %q, which cannot be part of the state machine's definition; choose another folder", c.State.Prefix, c.State.Prefix[i])
	}
	destination := c.Destination.Location()
	if c.State.within(destination) && destination.within(c.State) {
		return invalid("state.prefix", "is the destination prefix %q; outputs and state need folders of their own", c.Destination.Prefix)
	}
	if destination.within(c.State) {
		return invalid("destination.prefix", "%q lies inside the state prefix %q; move one of them", c.Destination.Prefix, c.State.Prefix)
	}
	if c.Source.within(c.State) {
		return invalid("source.prefix", "%q lies inside the state prefix %q; lock and ledger would be taken for new files", c.Source.Prefix, c.State.Prefix)
	}
	if c.Source.within(destination) {
		return invalid("source.prefix", "%q lies inside the destination prefix %q; outputs would be taken for new files", c.Source.Prefix, c.Destination.Prefix)
	}
	return nil
}

func (l Location) within(other Location) bool {
	return l.Bucket == other.Bucket && strings.HasPrefix(l.Prefix, other.Prefix)
}

func (c RunConfig) validateNumbers() error {
	for _, n := range []struct {
		field      string
		value      int64
		low, high  int64
		meaningful string
	}{
		{"lock.ttlSeconds", int64(c.Lock.TTLSeconds), 60, 3600, "seconds, not milliseconds"},
		{"lock.graceSeconds", int64(c.Lock.GraceSeconds), 2, 300, "seconds"},
		{"lock.pollSeconds", int64(c.Lock.PollSeconds), 1, 300, "seconds"},
		{"lock.maxWaitSeconds", int64(c.Lock.MaxWaitSeconds), 0, 43200, "seconds; an execution lives 24 hours at most"},
		{"lock.maxWaiters", int64(c.Lock.MaxWaiters), 0, 1000, "waiting runs; 0 means as many as there is room for"},
		{"lock.priority", int64(c.Lock.Priority), -100, 100, "higher goes first"},
		{"selection.minAgeSeconds", int64(c.Selection.MinAgeSeconds), 0, 30 * 86400, "seconds"},
		{"selection.maxFiles", int64(c.Selection.MaxFiles), 0, 1 << 40, "files; 0 means no bound"},
		{"selection.maxBytes", c.Selection.MaxBytes, 0, 1 << 60, "bytes; 0 means no bound"},
		{"selection.minFileBytes", c.Selection.MinFileBytes, 0, 1 << 60, "bytes"},
		{"selection.maxFileBytes", c.Selection.MaxFileBytes, 0, 1 << 60, "bytes; 0 means no bound"},
		{"selection.lookBackSeconds", int64(c.Selection.LookBackSeconds), 0, 30 * 86400, "seconds"},
		{"selection.reconcileSeconds", int64(c.Selection.ReconcileSeconds), 0, 90 * 86400, "seconds; 0 lists everything in each run"},
		{"failure.backoffSeconds", int64(c.Failure.BackoffSeconds), 0, 86400, "seconds; 0 leaves a failed file to the next run"},
		{"batch.maxFiles", int64(c.Batch.MaxFiles), 1, 500, "files"},
		{"batch.maxBytes", c.Batch.MaxBytes, 1, 1 << 50, "bytes"},
		{"batch.maxConcurrency", int64(c.Batch.MaxConcurrency), 1, 1000, "processing calls at once"},
		{"failure.maxAttempts", int64(c.Failure.MaxAttempts), 1, 100, "attempts"},
		{"failure.minFailedFiles", int64(c.Failure.MinFailedFiles), 1, 1_000_000, "files; 1 lets a single file fail a run"},
	} {
		if n.value < n.low || n.value > n.high {
			return invalid(n.field, "is %d; it must be from %d to %d (%s)", n.value, n.low, n.high, n.meaningful)
		}
	}
	if f := c.Failure.MaxFailedFraction; !(f >= 0 && f <= 1) {
		return invalid("failure.maxFailedFraction", "is %v; it must be from 0 (any failure fails the run) to 1 (none does)", f)
	}
	return nil
}

// selection is the ledger's view of the settings: the pipeline's own state and
// outputs are never taken as input.
func (c RunConfig) selection() ledger.Selection {
	s := ledger.Selection{
		Prefix:    c.Source.Prefix,
		Include:   c.Selection.Include,
		Exclude:   c.Selection.Exclude,
		MinAge:    seconds(c.Selection.MinAgeSeconds),
		MinSize:   c.Selection.MinFileBytes,
		MaxSize:   c.Selection.MaxFileBytes,
		Since:     c.Selection.Since,
		Until:     c.Selection.Until,
		MaxFiles:  c.Selection.MaxFiles,
		MaxBytes:  c.Selection.MaxBytes,
		Reprocess: c.Selection.Reprocess,

		OldestFirst:   c.Selection.First == FirstOldest,
		Backoff:       seconds(c.Failure.BackoffSeconds),
		Lexicographic: c.Selection.Order == OrderLexicographic,
		LookBack:      seconds(c.Selection.LookBackSeconds),
		Reconcile:     seconds(c.Selection.ReconcileSeconds),
	}
	for _, own := range []Location{c.State, c.Destination.Location()} {
		if own.within(c.Source) {
			s.ExcludePrefixes = append(s.ExcludePrefixes, own.Prefix)
		}
	}
	return s
}

// maxTurns bounds how often a waiting run may ask: 25,000 history events at 9
// a turn allow about 2,700.
// Source: Step Functions quotas; one turn is a Task (5 events), a Choice (2)
// and a Wait (2).
const maxTurns = 2000

// shortestPause keeps the longest allowed wait within the history, however
// soon the lock would like to be asked again.
func (c RunConfig) shortestPause() time.Duration {
	return seconds(max(1, (c.Lock.MaxWaitSeconds+maxTurns-1)/maxTurns))
}

// pollEvery is the pause between two turns.
func (c RunConfig) pollEvery() time.Duration {
	return max(seconds(c.Lock.PollSeconds), c.shortestPause())
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func invalid(field, format string, args ...any) *InvalidConfigError {
	return &InvalidConfigError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
