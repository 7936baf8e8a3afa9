package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockstep-pipeline/lockstep/internal/child"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// execCommand is "lockstep exec".
type execCommand struct {
	Wait       *time.Duration `xor:"wait" placeholder:"10m" help:"Give up after this long; default: wait until the lock is had. 0 is --no-wait."`
	NoWait     bool           `xor:"wait" help:"Give up at once when somebody has the lock."`
	TTL        time.Duration  `name:"ttl" default:"1m" placeholder:"1m" help:"How long the lock outlives a dead holder, 2s to 1h (default 1m); it is renewed every third of it."`
	Grace      time.Duration  `placeholder:"10s" help:"How much longer others wait, for the command to be stopped, 2s to 1h; default a sixth of the TTL, but 2s to 30s."`
	Limit      int            `default:"1" placeholder:"N" help:"How many may hold the lock at a time (default 1)."`
	Priority   int            `placeholder:"N" help:"Place in the queue: higher goes first (default 0)."`
	MaxWaiters int            `default:"1000" placeholder:"N" help:"Give up at once when so many wait already (default 1000)."`
	Name       string         `placeholder:"WHO" help:"Who this is, for people; host, process id and a random part are added."`
	Verbose    bool           `short:"v" help:"Log each decision about the lock on standard error."`
	s3Flags    `embed:""`

	URL     objectURL `arg:"" name:"url" help:"The lock: s3://bucket/key."`
	Command []string  `arg:"" passthrough:"partial" help:"The command and its arguments, after --."`
}

// Help is the rest of "lockstep exec --help".
func (execCommand) Help() string {
	return `Runs a command under a lock, like flock(1), but for all machines that reach the bucket:

  lockstep exec --wait 10m --name nightly s3://bucket/locks/nightly -- backup --all

It waits for the lock, renews it while the command runs, and gives it back when the command ends. Nothing is printed
unless something goes wrong, --verbose is given, or standard error is a terminal.

The command gets standard input, output and error as they are, and in its environment LOCKSTEP_LOCK (the URL),
LOCKSTEP_OWNER and LOCKSTEP_TOKEN, the fencing token: a number that grows with each grant of the lock. Store it with
what the command writes and refuse what comes with a lower one; nothing else is safe from a machine that froze.

INT, TERM, HUP and QUIT go to the command's process group, USR1, USR2 and WINCH to the command itself; while waiting for
the lock the first four give up. What the command leaves behind in its process group is killed before the lock is given
back. On Linux the command also dies with lockstep, should that be killed; what it started lives on, and so does a
command that changes its user, such as sudo. The lock is then free after the TTL and the grace.

When the lock is lost (broken by an operator, or not renewed in time because S3 cannot be reached), the process group
gets TERM, and KILL after half of what the grace leaves beyond one second:

  last renewal         TTL over: TERM      KILL                 others may take over
       |--------- TTL ---------|-- (grace-1s)/2 --|-- (grace-1s)/2 --|-- 1s --|

The last second is the resolution of S3's clock, the other half of the rest is for steps of that clock and a slow KILL.
A lock that an operator breaks can be taken over at once; TERM then comes within a third of the TTL.

The first contact has to succeed; later, S3 may be away for as long as the wait, or the lease, lasts.

Exit codes: that of the command, 128+n when signal n ended it or the wait;
  64 the command line or the AWS settings were refused
  65 the lock's document cannot be read: see lockstep lock status
  69 S3 refused, or could not be reached; the command was not started
  75 somebody else has the lock, also after the wait; the command was not started
  76 the lock was lost while the command ran, even if the command succeeded
  126 the command cannot be run, 127 it was not found`
}

// Validate refuses what the lock itself would accept.
func (e execCommand) Validate() error {
	switch {
	case e.Wait != nil && *e.Wait < 0:
		return fmt.Errorf("--wait: %v is less than nothing", *e.Wait)
	case e.TTL < 2*time.Second:
		return fmt.Errorf("--ttl: %v is less than 2s", e.TTL)
	case e.Limit < 1:
		return fmt.Errorf("--limit: %d is less than 1", e.Limit)
	case e.MaxWaiters < 1:
		return fmt.Errorf("--max-waiters: %d is less than 1; nobody waits with --no-wait", e.MaxWaiters)
	case e.Grace != 0 && e.Grace < 2*time.Second:
		return fmt.Errorf("--grace: %v leaves no time to stop the command: give at least 2s", e.Grace)
	case len(e.Name) > 200 || !utf8.ValidString(e.Name) || strings.ContainsFunc(e.Name, unicode.IsControl):
		return fmt.Errorf("--name: %q is not printable text of at most 200 bytes", e.Name)
	}
	return nil
}

// Run implements the command. Signals are its own business: ctx, which ends
// with the first of them, is not used to stop anything.
func (e execCommand) Run(ctx context.Context, to *console) error {
	ctx = context.WithoutCancel(ctx)
	if len(e.argv()) == 0 {
		return refuse(to.Err, errors.New("no command given after --"))
	}
	command, err := e.command(to)
	if err != nil {
		fmt.Fprintln(to.Err, "lockstep:", err)
		return exitCode(child.NotStarted(err))
	}
	lock, err := e.lock(ctx, to)
	if err != nil {
		return refuse(to.Err, err)
	}
	signals := catchSignals()
	defer signals.stop()
	grant, err := e.obtain(ctx, lock, signals, to.Err)
	if err != nil {
		return e.notHad(to.Err, err)
	}
	command.Env = append(os.Environ(),
		"LOCKSTEP_LOCK="+e.URL.String(),
		"LOCKSTEP_OWNER="+grant.Owner,
		fmt.Sprintf("LOCKSTEP_TOKEN=%d", grant.Token))
	s := shift{lock: lock, grant: grant, url: e.URL, patience: patience(grant, e.TTL), signals: signals, err: to.Err}
	return s.work(ctx, command)
}

// argv is the command without the dashes before it.
func (e execCommand) argv() []string {
	if e.Command[0] == "--" {
		return e.Command[1:]
	}
	return e.Command
}

// command is what to run. That it can be found is seen before the lock is taken.
func (e execCommand) command(to *console) (*exec.Cmd, error) {
	argv := e.argv()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: argv, Stdin: to.In, Stdout: to.Out, Stderr: to.Err}, nil
}

func (e execCommand) lock(ctx context.Context, to *console) (*lease.Lock, error) {
	store, err := e.open(ctx, e.URL.Bucket)
	if err != nil {
		return nil, err
	}
	register, err := s3lock.New(store, e.URL.Key)
	if err != nil {
		return nil, err
	}
	level := slog.LevelWarn
	if e.Verbose {
		level = slog.LevelInfo
	}
	return lease.New(register, lease.Config{
		TTL: e.TTL, Grace: e.Grace, Limit: e.Limit, Priority: e.Priority, MaxWaiters: e.MaxWaiters,
		Logger: slog.New(slog.NewTextHandler(to.Err, &slog.HandlerOptions{Level: level})),
	})
}

// owner is unique to this process, and tells people where to find it.
func (e execCommand) owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	owner := fmt.Sprintf("%s:%d:%s", host, os.Getpid(), distinct())
	if e.Name != "" {
		owner = e.Name + "@" + owner
	}
	return owner
}
