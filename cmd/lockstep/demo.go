package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/internal/demo"
	"github.com/lockstep-pipeline/lockstep/samples"
)

// demoCommand is "lockstep demo".
type demoCommand struct {
	Files  string `placeholder:"DIR" help:"Process the files below DIR instead of the built-in samples; a third of them arrives late."`
	Keep   string `placeholder:"DIR" help:"Leave outputs, ledger, run records and histories as plain files in DIR, which must be empty or new."`
	Logs   bool   `help:"Show the functions' logs on standard error."`
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Help is the rest of "lockstep demo --help".
func (demoCommand) Help() string {
	return `Starts a local S3, Lambda and Step Functions in this process, uploads real files, and plays three runs of the state
machine that is deployed: P1 works; P2 waits for its lock while more files arrive, takes over and does exactly those; P3
finds nothing new. No AWS account, no network, nothing left running.

Exit codes: 0 the story came out as promised, 1 it did not, or files failed, 2 the command line was refused, 130 interrupted.`
}

// Run implements the command.
func (d demoCommand) Run(ctx context.Context, to *console) error {
	files, err := d.files()
	if err != nil {
		return fmt.Errorf("--files: %w", err)
	}
	if d.Keep != "" {
		if err := demo.CheckEmpty(d.Keep); err != nil {
			return fmt.Errorf("--keep: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run the functions with it: %w", err)
	}
	config := demo.Config{
		Files:        files,
		FunctionArgv: []string{self, "function"},
		Progress:     func(line string) { fmt.Fprintln(to.Err, line) },
		FunctionLogs: io.Discard,
	}
	if d.Logs {
		config.FunctionLogs = to.Err
	}
	report, remains, err := demo.Tell(ctx, config)
	if ctx.Err() != nil {
		fmt.Fprintln(to.Err, "interrupted; everything that was started has been stopped")
		return exitCode(130)
	}
	if report != nil {
		if showErr := d.show(to.Out, report, remains); err == nil {
			err = showErr
		}
		if failed := report.Failed(); err == nil && len(failed) > 0 {
			err = fmt.Errorf("no run could do %d of the files, the first being %s: the report says why", len(failed), failed[0])
		}
	}
	return err
}

func (d demoCommand) files() (fs.FS, error) {
	if d.Files == "" {
		return samples.FS(), nil
	}
	info, err := os.Stat(d.Files)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder; name the folder that the files are in", d.Files)
	}
	return os.DirFS(d.Files), err
}

func (d demoCommand) show(out io.Writer, report *demo.Report, remains demo.Remains) error {
	if d.Keep != "" {
		if err := demo.Keep(d.Keep, report, remains); err != nil {
			return fmt.Errorf("--keep: %w", err)
		}
	}
	if d.Output == "json" {
		document, err := report.JSON()
		if err != nil {
			return err
		}
		_, err = out.Write(document)
		return err
	}
	if err := report.WriteText(out); err != nil || d.Keep == "" {
		return err
	}
	_, err := fmt.Fprintf(out, "Kept in %s: a folder for each bucket, the runs' histories, and report.json with all that was shown.\n", d.Keep)
	return err
}

// functionCommand serves one function of the pipeline to the Lambda runtime
// that the environment names; the local stack starts it.
type functionCommand struct {
	Name string `arg:"" help:"acquire, discover, process, commit or release."`
}

// Run implements the command; it does not return.
func (f functionCommand) Run() error {
	functions.Start(f.Name)
	return nil
}
