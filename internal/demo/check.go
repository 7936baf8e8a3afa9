package demo

import (
	"errors"
	"fmt"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// check holds the report against the promise: one run at a time, every file
// done exactly once, the late ones by the second run, and nothing left for the
// third. A file that failed may be tried again.
func (r *Report) check(config step.RunConfig, first, late []string) error {
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, run := range r.Runs {
		if run.Status != "SUCCEEDED" {
			complain("%s ended %s; its history says why", run.Name, run.Status)
		}
	}
	for i, h := range r.Holders {
		if i > 0 && h.From.Before(r.Holders[i-1].Until) {
			complain("tokens %d and %d held the lock at the same time", r.Holders[i-1].Token, h.Token)
		}
	}
	expected := map[string]string{} // key to the run that must do it
	expect(expected, config, first, "P1")
	expect(expected, config, late, "P2")
	done := map[string]bool{}
	tried := map[string]bool{}
	for _, f := range r.Files {
		switch {
		case done[f.Key]:
			complain("%s was done, and then processed again by %s", f.Key, f.Run)
		case !tried[f.Key] && expected[f.Key] != f.Run:
			complain("%s was processed by %s, not by %s", f.Key, f.Run, expected[f.Key])
		}
		tried[f.Key] = true
		done[f.Key] = f.Outcome == step.OutcomeDone
	}
	for key, run := range expected {
		if !tried[key] {
			complain("%s was not processed, although %s should have found it", key, run)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the story did not come out as it should: %w", errors.Join(wrong...))
	}
	return nil
}

// expect notes the files that the selection includes.
func expect(expected map[string]string, config step.RunConfig, paths []string, run string) {
	for _, path := range paths {
		for _, pattern := range config.Selection.Include {
			if doublestar.MatchUnvalidated(pattern, path) {
				expected[config.Source.Prefix+path] = run
			}
		}
		for _, pattern := range config.Selection.Exclude {
			if doublestar.MatchUnvalidated(pattern, path) {
				delete(expected, config.Source.Prefix+path)
			}
		}
	}
}
