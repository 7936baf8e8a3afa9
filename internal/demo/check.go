package demo

import (
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// check holds the report against the promise: one run at a time under growing
// tokens, every file done exactly once, the late ones by the second run, and
// nothing left for the third. A file that failed may be tried again.
func (r *Report) check(prefix string, c cast) error {
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, run := range r.Runs {
		if run.Status != "SUCCEEDED" {
			complain("%s ended %s; its history says why", run.Name, run.Status)
		}
	}
	for i, h := range r.Holders {
		if i == 0 {
			continue
		}
		before := r.Holders[i-1]
		if h.From.Before(before.Until) {
			complain("tokens %d and %d held the lock at the same time", before.Token, h.Token)
		}
		if h.Token <= before.Token {
			complain("token %d came after token %d", h.Token, before.Token)
		}
	}
	due := map[string]string{} // key to the run that must be the first to take it
	for _, path := range c.first {
		due[prefix+path] = "P1"
	}
	for _, path := range c.late {
		due[prefix+path] = "P2"
	}
	done, tried := map[string]bool{}, map[string]bool{}
	for _, f := range r.Files {
		switch {
		case done[f.Key]:
			complain("%s was done, and then processed again by %s", f.Key, f.Run)
		case !tried[f.Key] && due[f.Key] == "":
			complain("%s was processed by %s, although the selection leaves it out", f.Key, f.Run)
		case !tried[f.Key] && due[f.Key] != f.Run:
			complain("%s was processed by %s, not by %s", f.Key, f.Run, due[f.Key])
		}
		tried[f.Key] = true
		done[f.Key] = f.Outcome == step.OutcomeDone
	}
	for key, run := range due {
		if !tried[key] {
			complain("%s was not processed, although %s should have found it", key, run)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the story did not come out as it should: %w", errors.Join(wrong...))
	}
	r.sound = true
	return nil
}
