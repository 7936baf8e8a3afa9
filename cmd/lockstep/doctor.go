package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// doctorCommand is "lockstep doctor".
type doctorCommand struct {
	Output  string        `short:"o" enum:"text,json" default:"text" help:"text or json."`
	Timeout time.Duration `default:"30s" help:"For everything, cleaning up included (default 30s)."`
	Rounds  int           `default:"5" placeholder:"N" help:"Races of each kind, of 32 rivals each (default 5). More find a store that is wrong more rarely."`
	List    bool          `help:"Try the right to list, too, and compare the ETags of a listing with those of reads: finding new files needs it, a lock does not."`
	s3Flags `embed:""`

	URL prefixURL `arg:"" name:"url" help:"s3://bucket/prefix: the folder to try in, one that holds locks or will."`
}

// Help is the rest of "lockstep doctor --help".
func (doctorCommand) Help() string {
	return `Finds out whether an S3 endpoint really enforces the conditions that a lock lives by, also when 32 clients write at once,
whether it tells a usable time, and whether the caller has the permissions, which it names one by one. It writes small
objects below prefix/.lockstep-probe-<random>/ and removes them; some 400 requests with the defaults.

A doctor can find that a store is wrong. A store that is wrong once in a thousand races may pass: raise --rounds.

-o json prints {"url", "verdict", "findings": [{"check", "verdict", "detail", "advice", "permission"}], "left", "requests",
"seconds"}. A verdict is ok, note (good enough), unknown (could not be tried), missingPermission or refused; that of the
whole is the worst. Keys without a value are absent; "left" are objects that could not be removed.

Exit codes: 0 locks can be kept here; 1 refused: two clients could hold one lock, or a lock be stuck for ever; 2 the command
line or the AWS settings were refused; 3 cannot tell: no permission, no answer, or no time.`
}

// Exit codes of "lockstep doctor".
const (
	doctorRefused    = 1
	doctorUsage      = 2
	doctorCannotTell = 3
)

// Validate is called by the parser of the command line.
func (c doctorCommand) Validate() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds %d: at least one is needed", c.Rounds)
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout %v: it takes some time", c.Timeout)
	}
	return nil
}

// Run implements the command.
func (c doctorCommand) Run(ctx context.Context, to *console) error {
	store, err := c.open(ctx, c.URL.Bucket)
	if err != nil {
		fmt.Fprintln(to.Err, "lockstep:", err)
		return exitCode(doctorUsage)
	}
	config := s3lock.ProbeConfig{Timeout: c.Timeout, Rounds: c.Rounds, List: c.List}
	if c.Output == "text" {
		config.Each = func(f s3lock.Finding) { writeFinding(to.Out, f) }
	}
	report, err := s3lock.Probe(ctx, store, c.URL.Prefix, config)
	status := exitCode(0)
	switch {
	case errors.Is(err, s3lock.ErrEndpointRefused):
		status = doctorRefused
	case errors.Is(err, s3lock.ErrInconclusive):
		status = doctorCannotTell
	case err != nil:
		fmt.Fprintln(to.Err, "lockstep:", err)
		return exitCode(doctorUsage)
	}
	if c.Output == "json" {
		if err := writeJSON(to.Out, report); err != nil {
			return fmt.Errorf("print the findings: %w", err)
		}
	} else {
		writeVerdict(to.Out, report, status)
	}
	if status != 0 {
		return status
	}
	return nil
}

// writeFinding prints a finding as soon as it is made.
func writeFinding(w io.Writer, f s3lock.Finding) {
	verdict := string(f.Verdict)
	if f.Verdict == s3lock.Denied {
		verdict = "denied"
	}
	fmt.Fprintf(w, "%-8s %s: %s\n", verdict, f.Check, f.Detail)
	if f.Advice != "" {
		fmt.Fprintf(w, "%-8s %s\n", "", f.Advice)
	}
}

func writeVerdict(w io.Writer, r s3lock.Report, status exitCode) {
	said := "can keep locks"
	switch status {
	case doctorRefused:
		said = "cannot keep locks: take none there"
	case doctorCannotTell:
		said = "could not be tried: nothing is known against it"
	}
	fmt.Fprintf(w, "\n%s %s (%d requests in %.1f s)\n", r.URL, said, r.Requests, r.Seconds)
	for _, key := range r.Left {
		fmt.Fprintf(w, "left behind: %q\n", key)
	}
}
