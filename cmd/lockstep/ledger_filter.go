package main

import (
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// nameFlags choose files by their keys.
type nameFlags struct {
	Key  []string `sep:"none" placeholder:"KEY" help:"The file with this key, as it is in the source bucket; s3://bucket/key is taken, too. May be given several times."`
	Glob []string `sep:"none" placeholder:"GLOB" help:"Files whose key below the source prefix matches, as in selection.include: ** crosses folders. May be given several times."`
}

func (f nameFlags) filter(o *step.Operator) step.Filter {
	filter := step.Filter{Globs: f.Glob}
	for _, key := range f.Key {
		filter.Keys = append(filter.Keys, s3Key(o, key))
	}
	return filter
}

// Validate is called by the parser of the command line.
func (f nameFlags) Validate() error {
	if err := (step.Filter{Globs: f.Glob}).Validate(); err != nil {
		return fmt.Errorf("--glob: %w", err)
	}
	return nil
}

// rowFlags choose rows of the ledger.
type rowFlags struct {
	nameFlags `embed:""`
	Outcome   []string `enum:"done,failed,quarantined" placeholder:"OUTCOME" help:"Files that are done, failed or quarantined. May be given several times."`
	Run       []string `sep:"none" placeholder:"RUN" help:"Files whose outcome is of this run, or of this edit (\"retry by ada@host\"). May be given several times."`
}

func (f rowFlags) filter(o *step.Operator) step.Filter {
	filter := f.nameFlags.filter(o)
	filter.Runs = f.Run
	for _, outcome := range f.Outcome {
		filter.Outcomes = append(filter.Outcomes, ledger.Outcome(outcome))
	}
	return filter
}

var errNoFilter = errors.New("say which files: --key, --glob, --outcome or --run")

// given tells whether anything was chosen.
func (f rowFlags) given() bool { return len(f.Key)+len(f.Glob)+len(f.Outcome)+len(f.Run) > 0 }
