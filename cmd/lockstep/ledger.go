package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// ledgerCommands are the verbs for people who look after a ledger.
type ledgerCommands struct {
	Ls      ledgerLs      `cmd:"" help:"The files that the ledger knows, and where each stands."`
	Show    ledgerShow    `cmd:"" help:"All that is known of one file: why it failed, what the next run does with it, its outputs."`
	Retry   ledgerRetry   `cmd:"" help:"Have the next run take again what failed or is in quarantine."`
	Forget  ledgerForget  `cmd:"" help:"Have the next run take files again, as if they were new."`
	Reset   ledgerReset   `cmd:"" help:"Have the next runs take every file again; convert the ledger of an older lockstep."`
	Adopt   ledgerAdopt   `cmd:"" help:"Give the ledger the places of the configuration, after these were changed on purpose."`
	Restore ledgerRestore `cmd:"" help:"Bring back the newest version of the ledger's head that can be used."`
	Verify  ledgerVerify  `cmd:"" help:"Read every byte of the ledger, and say what is damaged."`
	Rebuild ledgerRebuild `cmd:"" help:"Write a damaged ledger anew, from what is left of it and the records of the runs."`
}

// Exit codes of "lockstep ledger" and "lockstep plan", beside those of lock.
const (
	exitNothing     = 1   // there is nothing that the command could be about
	exitInterrupted = 130 // as after SIGINT
)

// pipelineFlags name a pipeline, and how to talk to S3.
type pipelineFlags struct {
	Output     string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	stackFlags `embed:""`
	s3Flags    `embed:""`

	Config string `arg:"" optional:"" name:"config" help:"File with the run configuration, as a schedule passes it; - is standard input. Or give --stack."`
}

const pipelineExitCodes = `64 the command line, the
run configuration or the AWS settings were refused; 65 the ledger is damaged; 69 S3 refused, or could not be reached; 130
interrupted.`

const changingExitCodes = `64 the command line, the
run configuration or the AWS settings were refused; 65 the ledger is damaged; 69 S3 refused, or could not be reached; 75
somebody else has the pipeline's lock, and nothing was changed; 76 the lock was lost meanwhile: see what came of it; 130
interrupted.`

// operator opens the pipeline. Its error was explained already.
func (f *pipelineFlags) operator(ctx context.Context, to *console) (*step.Operator, error) {
	config, err := f.configuration(ctx, to)
	if err != nil {
		return nil, err
	}
	operator, err := f.operate(ctx, to.Err, config)
	if err != nil {
		return nil, refuse(to.Err, fmt.Errorf("%s: %w", f.named(), err))
	}
	return operator, nil
}

// operate opens the pipeline that a run configuration is about, for the person
// at the command line. It does not dial.
func (f s3Flags) operate(ctx context.Context, logs io.Writer, config []byte) (*step.Operator, error) {
	steps, err := step.New(step.Config{
		Open: func(name string) (step.Store, error) { return f.open(ctx, name) },
		Log:  slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, err
	}
	who := whoami()
	return steps.Operate(config, who, "operator:"+who+":"+distinct())
}

// changeFlags are those of verbs that change the ledger.
type changeFlags struct {
	Yes  bool          `help:"Do it. Without, it is only shown what would be done."`
	Wait time.Duration `placeholder:"10m" help:"How long to wait for the pipeline's lock; default: not at all."`
}

// Validate is called by the parser of the command line.
func (f changeFlags) Validate() error {
	if f.Wait < 0 {
		return fmt.Errorf("--wait: %v is less than nothing", f.Wait)
	}
	return nil
}

// ledgerFailed explains why something could not be done with the ledger.
func (f pipelineFlags) ledgerFailed(ctx context.Context, w io.Writer, o *step.Operator, err error) error {
	var held *lease.HeldError
	var late *lease.TimeoutError
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(w, "lockstep: interrupted")
		return exitCode(exitInterrupted)
	case errors.As(err, &held):
		fmt.Fprintf(w, "lockstep: somebody else has %s; nothing was changed\n", lockOf(o))
		writeHolders(w, held.Holders, held.Now)
		fmt.Fprintf(w, "Wait for it with --wait 10m.\n")
		return exitCode(exitBusy)
	case errors.As(err, &late):
		fmt.Fprintf(w, "lockstep: gave up after waiting %v for %s; nothing was changed\n", late.Waited.Round(time.Millisecond), lockOf(o))
		writeHolders(w, late.Holders, time.Time{})
		return exitCode(exitBusy)
	case errors.Is(err, lease.ErrLost), errors.Is(err, ledger.ErrFenced):
		fmt.Fprintln(w, "lockstep:", err)
		return exitCode(exitLost)
	case errors.Is(err, ledger.ErrDamaged):
		fmt.Fprintf(w, "lockstep: %v\nTo see all of the damage:\n  lockstep ledger verify %s\n", err, f.named())
		return exitCode(exitCorrupt)
	}
	return failed(w, err)
}

// lockOf is the pipeline's lock.
func lockOf(o *step.Operator) objectURL {
	return objectURL{o.Config().State.Bucket, step.LockKey(o.Config())}
}

// s3Key is a key as it is, or as an S3 URL in the source bucket.
func s3Key(o *step.Operator, key string) string {
	return strings.TrimPrefix(key, "s3://"+o.Config().Source.Bucket+"/")
}
