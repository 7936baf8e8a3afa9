package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// inputFlags say what a run is to do.
type inputFlags struct {
	Input   string   `placeholder:"FILE" help:"A run configuration instead of the pipeline's, such as events/backfill.json; - is standard input."`
	Set     []string `sep:"none" placeholder:"PATH=VALUE" help:"Change one setting of the run configuration, such as selection.reprocess=true. May be given several times."`
	Trigger string   `placeholder:"TEXT" help:"Why the run was started, for its summary; default: person: user@host."`
	Force   bool     `help:"Take a configuration that is about another pipeline, source, destination or state than the stack's."`
}

// input is the run configuration that the execution gets. Its errors are about
// the command line.
func (f inputFlags) input(p pipelineOutputs, standard io.Reader) (json.RawMessage, error) {
	deployed, err := p.config()
	if err != nil {
		return nil, err
	}
	config, err := f.chosen(p.Run, standard)
	if err != nil {
		return nil, err
	}
	for _, assignment := range f.Set {
		if config, err = config.assign(assignment); err != nil {
			return nil, fmt.Errorf("--set: %w", err)
		}
	}
	switch {
	case f.Trigger != "":
		config, err = config.with([]string{"trigger"}, quoted(f.Trigger))
	case config.get("trigger") == nil:
		config, err = config.with([]string{"trigger"}, quoted("person: "+whoami()))
	}
	if err != nil {
		return nil, err
	}
	parsed, err := step.ParseConfig(config.text())
	if err == nil && !f.Force {
		err = sameWork(parsed, deployed)
	}
	return config.text(), err
}

// chosen is the pipeline's configuration without its trigger, or that of the
// file. What the file leaves out of the places is the pipeline's, so that a
// backfill need not know the names of generated buckets.
func (f inputFlags) chosen(deployed json.RawMessage, standard io.Reader) (document, error) {
	own, err := parseDocument(deployed)
	if err != nil {
		return nil, err // it was parsed before
	}
	if f.Input == "" {
		if i := own.index("trigger"); i >= 0 {
			own = append(own[:i:i], own[i+1:]...)
		}
		return own, nil
	}
	text, err := readGiven(f.Input, standard)
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	given, err := parseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("--input %s: %w", f.Input, err)
	}
	for _, place := range []string{"pipeline", "source", "destination", "state"} {
		if given.get(place) == nil {
			given = append(given, member{place, own.get(place)})
		}
	}
	return given, nil
}

// sameWork refuses a run that would not take turns with the pipeline's others,
// or would mix up its outputs and its ledger.
func sameWork(given, deployed step.RunConfig) error {
	place := func(l step.Location) string { return "s3://" + l.Bucket + "/" + l.Prefix }
	var errs []error
	for _, same := range []struct{ setting, given, deployed string }{
		{"pipeline", given.Pipeline, deployed.Pipeline},
		{"source", place(given.Source), place(deployed.Source)},
		{"destination", place(given.Destination.Location()), place(deployed.Destination.Location())},
		{"destination.versions", string(given.Destination.Versions), string(deployed.Destination.Versions)},
		{"state", place(given.State), place(deployed.State)},
	} {
		if same.given != same.deployed {
			errs = append(errs, fmt.Errorf("%s is %s, that of the deployed pipeline is %s; leave it out, or give --force", same.setting, same.given, same.deployed))
		}
	}
	return errors.Join(errs...)
}
