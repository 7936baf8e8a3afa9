// Command lockstep processes new files in S3 one run at a time; see the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// commands is the command line: one struct per verb.
type commands struct {
	Demo demoCommand `cmd:"" help:"Watch two runs take turns over real files, on this machine."`
	ASL  aslCommands `cmd:"" name:"asl" help:"Run and check state machines written in the Amazon States Language."`

	Run     runCommand     `cmd:"" help:"Start a run of a deployed stack now, and follow it."`
	History historyCommand `cmd:"" help:"What executions of a deployed stack did, event by event, or a list of them."`

	Plan   planCommand    `cmd:"" help:"What the next run would take, and why it would leave the rest."`
	Ledger ledgerCommands `cmd:"" help:"Look after a pipeline's ledger: list, explain, retry, forget, verify, restore, rebuild."`

	Outputs outputsCommands `cmd:"" help:"Look after a pipeline's outputs: hold them against the ledger, remove strays."`

	Exec execCommand  `cmd:"" help:"Run a command under a lock, as flock(1) does on one machine."`
	Lock lockCommands `cmd:"" help:"Look after locks: who has them, what happened, break, list."`

	Doctor doctorCommand `cmd:"" help:"Find out whether an S3 endpoint can keep locks."`

	Version kong.VersionFlag `help:"Print the version, and the formats that this program writes."`

	Function functionCommand `cmd:"" hidden:"" help:"Serve one function of the pipeline to a Lambda runtime."`
}

// A console is where a command reads and writes: results on Out, everything else on Err.
type console struct {
	In       io.Reader
	Out, Err io.Writer
}

// An exitCode is an error that has been explained already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an end, the second one ends: closing takes a while.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], &console{os.Stdin, os.Stdout, os.Stderr}))
}

// run executes one command line and returns the exit code of the process.
func run(ctx context.Context, args []string, to *console) (code int) {
	var c commands
	ended := errors.New("parsing ended the process") // after --help
	defer func() {
		if r := recover(); r != nil && r != ended {
			panic(r)
		}
	}()
	parser, err := kong.New(&c, kong.Name("lockstep"), kong.UsageOnError(), kong.Writers(to.Out, to.Err),
		kong.Exit(func(status int) { code = status; panic(ended) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(to), kong.Vars{"version": version()})
	if err != nil {
		fmt.Fprintln(to.Err, "lockstep:", err)
		return 2
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(to.Err, "lockstep:", err)
		return usageCode(err)
	}
	err = command.Run()
	var status exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintln(to.Err, "lockstep:", err)
	return 1
}

// version is what --version prints. A program that says "update lockstep" met a
// format with a higher number.
func version() string {
	name := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		name = info.Main.Version
	}
	return fmt.Sprintf("lockstep %s: lock format %d, ledger format %d, %s", name, lease.Format, ledger.Format, runtime.Version())
}
