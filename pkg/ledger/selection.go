package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Selection says which of the listed files a run is about. The zero value
// takes every file of the bucket.
type Selection struct {
	// Prefix is a path prefix: "files" and "files/" both take what lies below
	// files/, and never files2/. There is no raw prefix: to take files, files2
	// and so on, select the folder above them and Include "files*/**".
	Prefix string
	// Include and Exclude are globs on the key below Prefix, in the syntax of
	// github.com/bmatcuk/doublestar: "*" stays within a folder, "**" does not.
	// No Include takes everything; Exclude wins.
	Include, Exclude []string
	// ExcludePrefixes are path prefixes from the top of the bucket whose files
	// are not input, such as the state and the destination of the pipeline.
	ExcludePrefixes []string
	// MinSize and MaxSize bound the size in bytes, inclusively; 0 is no bound.
	MinSize, MaxSize int64
	// Since and Until bound LastModified: from Since to before Until. The zero
	// time is no bound.
	Since, Until time.Time
	// MinAge leaves a file to a later run while it is younger than this at the
	// cutoff. With 0, LastModified and cutoff are not looked at.
	MinAge time.Duration
	// MaxFiles and MaxBytes end the taking: after the first file that does not
	// fit, all are left for later runs. 0 is no limit. A first file is taken even
	// if it is larger than MaxBytes, or it would never be.
	MaxFiles int
	MaxBytes int64
	// OldestFirst takes files in the order of LastModified, those of one time in
	// key order; otherwise all are taken in key order.
	OldestFirst bool
	// Backoff keeps a version that failed from the runs whose cutoff is less than
	// this after that of the run that failed it: twice as long after its second
	// failure, and so on, up to a day. With 0 the next run takes it.
	Backoff time.Duration
	// Reprocess takes files again whatever the ledger says, done or
	// quarantined, with their attempts counted from zero.
	Reprocess bool
	// Lexicographic says that keys are written in the order of their names, more
	// or less: a key that appears at some time sorts behind every key that was
	// there LookBack earlier. Discovery then lists only what is behind the files
	// that are settled, at a cost of what is new. What breaks the promise (a late
	// key, an old one overwritten or deleted) is found by a listing of everything,
	// which the first run makes whose cutoff is Reconcile after that of the last.
	Lexicographic       bool
	LookBack, Reconcile time.Duration
	// Settings stand for the processing settings of the run. What failed or was
	// quarantined under others is taken, with its attempts counted from zero. Empty
	// is all settings.
	Settings string
}

// Validate returns a *SelectionError for a selection that is malformed or can
// take nothing.
func (s Selection) Validate() error {
	wrong := func(field, format string, args ...any) error {
		return &SelectionError{Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if !utf8.ValidString(s.Prefix) {
		return wrong("Prefix", "%q is not UTF-8", s.Prefix)
	}
	for _, globs := range []struct {
		field    string
		patterns []string
	}{{"Include", s.Include}, {"Exclude", s.Exclude}} {
		for i, p := range globs.patterns {
			if p == "" || !doublestar.ValidatePattern(p) {
				return wrong(fmt.Sprintf("%s[%d]", globs.field, i), "%q is not a glob; see github.com/bmatcuk/doublestar for the syntax", p)
			}
		}
	}
	for i, p := range s.ExcludePrefixes {
		field := fmt.Sprintf("ExcludePrefixes[%d]", i)
		if p == "" {
			return wrong(field, "it is empty, and would exclude everything")
		}
		if strings.HasPrefix(folder(s.Prefix), folder(p)) {
			return wrong(field, "%q contains the prefix %q, so nothing could be taken", p, s.Prefix)
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"MinSize", s.MinSize}, {"MaxSize", s.MaxSize}, {"MaxFiles", int64(s.MaxFiles)},
		{"MaxBytes", s.MaxBytes}, {"MinAge", int64(s.MinAge)}, {"Backoff", int64(s.Backoff)},
		{"LookBack", int64(s.LookBack)}, {"Reconcile", int64(s.Reconcile)},
	} {
		if n.value < 0 {
			return wrong(n.field, "it is negative")
		}
	}
	if s.MaxSize > 0 && s.MinSize > s.MaxSize {
		return wrong("MinSize", "%d is above MaxSize, %d, so nothing could be taken", s.MinSize, s.MaxSize)
	}
	if !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until) {
		return wrong("Since", "%s is not before Until, %s, so nothing could be taken", s.Since.Format(time.RFC3339), s.Until.Format(time.RFC3339))
	}
	if s.Lexicographic && s.Reprocess {
		return wrong("Reprocess", "it cannot go with Lexicographic, which does not list what is done")
	}
	return nil
}

func (s Selection) needsCutoff() bool { return s.MinAge > 0 || s.Backoff > 0 || s.Lexicographic }

// Reason is why a listed file was not taken.
type Reason string

const (
	SkipFolderMarker   Reason = "folderMarker"   // size 0 and a key that ends in "/"
	SkipKey            Reason = "keyNotUTF8"     // no manifest could carry its key
	SkipExcludedPrefix Reason = "excludedPrefix" // below one of ExcludePrefixes
	SkipNotIncluded    Reason = "notIncluded"    // no Include matches
	SkipExcluded       Reason = "excluded"       // an Exclude matches
	SkipTooSmall       Reason = "tooSmall"
	SkipTooLarge       Reason = "tooLarge"
	SkipBeforeSince    Reason = "beforeSince"
	SkipNotBeforeUntil Reason = "notBeforeUntil"
	SkipDone           Reason = "done"        // this version was processed
	SkipQuarantined    Reason = "quarantined" // this version failed too often
	DeferArchived      Reason = "archived"    // in GLACIER or DEEP_ARCHIVE; taken once a copy is restored
	DeferTooYoung      Reason = "tooYoung"    // younger than MinAge; taken once it is not
	DeferBackoff       Reason = "backoff"     // failed lately; taken once its Backoff is over

	// LeftForLater is a Verdict on a file that is due and beyond MaxFiles or
	// MaxBytes. A Discovery counts these as Left.
	LeftForLater Reason = "left"
)

// selector is a selection made ready for many files.
type selector struct {
	Selection
	prefix   string
	excluded []string
}

func newSelector(s Selection) selector {
	c := selector{Selection: s, prefix: folder(s.Prefix)}
	for _, p := range s.ExcludePrefixes {
		c.excluded = append(c.excluded, folder(p))
	}
	return c
}

// outside returns why a file is none of the selection's, whatever the ledger
// knows of it, or "".
func (s *selector) outside(e *bucket.Entry) Reason {
	rest := e.Key[len(s.prefix):]
	below := func(prefix string) bool { return strings.HasPrefix(e.Key, prefix) }
	matches := func(glob string) bool { return doublestar.MatchUnvalidated(glob, rest) }
	switch {
	case e.Size == 0 && strings.HasSuffix(e.Key, "/"):
		return SkipFolderMarker
	case !utf8.ValidString(e.Key):
		return SkipKey
	case slices.ContainsFunc(s.excluded, below):
		return SkipExcludedPrefix
	case len(s.Include) > 0 && !slices.ContainsFunc(s.Include, matches):
		return SkipNotIncluded
	case slices.ContainsFunc(s.Exclude, matches):
		return SkipExcluded
	case e.Size < s.MinSize:
		return SkipTooSmall
	case s.MaxSize > 0 && e.Size > s.MaxSize:
		return SkipTooLarge
	case !s.Since.IsZero() && e.LastModified.Before(s.Since):
		return SkipBeforeSince
	case !s.Until.IsZero() && !e.LastModified.Before(s.Until):
		return SkipNotBeforeUntil
	}
	return ""
}

// deferred returns why a file that should be processed cannot be yet, or "".
func (s *selector) deferred(e *bucket.Entry, row *record, kind Kind, cutoff time.Time) Reason {
	switch {
	case !e.Restored && (e.StorageClass == "GLACIER" || e.StorageClass == "DEEP_ARCHIVE"):
		return DeferArchived
	case s.MinAge > 0 && e.LastModified.After(cutoff.Add(-s.MinAge)):
		return DeferTooYoung
	case kind == Retried && row.outcome == Failed && !s.isOutdated(row) && s.Backoff > 0 && cutoff.Unix() < row.commit.at+int64(s.backoff(row.attempts)/time.Second):
		return DeferBackoff
	}
	return ""
}

const maxBackoff = 24 * time.Hour

// backoff is the pause after so many failed attempts.
func (s *selector) backoff(attempts int) time.Duration {
	pause := s.Backoff
	for range attempts - 1 {
		if pause >= maxBackoff {
			break
		}
		pause *= 2
	}
	return min(pause, max(maxBackoff, s.Backoff))
}
