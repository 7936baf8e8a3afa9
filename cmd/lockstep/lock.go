package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// lockCommands are the verbs for people who look after locks.
type lockCommands struct {
	Status lockStatus `cmd:"" help:"Who has a lock, since when and until when, and who waits."`
	Events lockEvents `cmd:"" help:"What happened to a lock lately."`
	Break  lockBreak  `cmd:"" help:"Take a lock from a holder that is dead, or repair one that cannot be read."`
	List   lockList   `cmd:"" help:"All locks below a prefix."`
}

// openLock returns the lock at url for looking at; it does not dial.
func (f s3Flags) openLock(ctx context.Context, url objectURL) (*lease.Lock, error) {
	store, err := f.open(ctx, url.Bucket)
	if err != nil {
		return nil, err
	}
	register, err := s3lock.New(store, url.Key)
	if err != nil {
		return nil, err
	}
	return lease.New(register, lease.Config{})
}

// lockState is one word for what a lock is.
type lockState string

const (
	stateFree    lockState = "free"    // nobody has it, or the holder's time is over
	stateHeld    lockState = "held"    // at least one holder is alive
	stateAbsent  lockState = "absent"  // there is no such object: free, and never held
	stateCorrupt lockState = "corrupt" // the document cannot be read and counts as held
	stateDeleted lockState = "deleted" // the object was deleted, and a delete marker is in its place
	stateNewer   lockState = "newer"   // a newer lockstep wrote it; it counts as held
)

func stateOf(s lease.Status) lockState {
	switch {
	case s.Newer > 0:
		return stateNewer
	case s.Deleted:
		return stateDeleted
	case s.Corrupt != "":
		return stateCorrupt
	case !s.Exists:
		return stateAbsent
	}
	for _, h := range s.Holders {
		if !h.Expired {
			return stateHeld
		}
	}
	return stateFree
}

// lockReport is what "lock status -o json" prints.
type lockReport struct {
	Lock  string    `json:"lock"`
	State lockState `json:"state"`
	lease.Status
}

// lockStatus is "lockstep lock status".
type lockStatus struct {
	Output    string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	lockFlags `embed:""`
}

// Help is the rest of "lockstep lock status --help".
func (lockStatus) Help() string {
	return `Reads the lock and changes nothing. All times are those of S3's clock, in UTC.

-o json prints {"lock", "state", "exists", "corrupt", "limit", "lastToken", "holders": [{"owner", "token", "acquired",
"renewed", "expires", "expired"}], "waiters": [{"owner", "priority", "arrived", "seen", "silent"}], "events": [{"at",
"kind", "owner", "token", "by", "reason", "write"}], "ended", "hold", "deleted", "newer", "version", "now"}. state is
free, held, absent (no such object), corrupt ("corrupt" says why), deleted (a delete marker is in the way) or newer (its
format is that of a newer lockstep). "ended" are the owners that get the lock no more, "hold" is why nobody gets it. "expires" is when others may take over, unless the holder renews before. Waiters come in
the order in which they will be served, events oldest first.

Exit codes: 0 the lock could be read, whoever has it; 64 the command line or the AWS settings were refused; 65 its
document cannot be read; 69 S3 refused, or could not be reached.`
}

// Run implements the command.
func (c lockStatus) Run(ctx context.Context, to *console) error {
	lock, err := c.openLock(ctx, to.Err)
	if err != nil {
		return err
	}
	status, err := lock.Inspect(ctx)
	if err != nil {
		return failed(to.Err, err)
	}
	report := lockReport{Lock: c.URL.String(), State: stateOf(status), Status: status}
	if c.Output == "json" {
		err = writeJSON(to.Out, report)
	} else {
		err = writeStatus(to.Out, c.URL, report)
	}
	if err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	switch report.State {
	case stateCorrupt, stateNewer:
		return exitCode(exitCorrupt)
	}
	return nil
}

// eventsReport is what "lock events -o json" prints.
type eventsReport struct {
	Lock   string        `json:"lock"`
	Events []lease.Event `json:"events"`
}

// lockEvents is "lockstep lock events".
type lockEvents struct {
	Output    string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	lockFlags `embed:""`
}

// Help is the rest of "lockstep lock events --help".
func (lockEvents) Help() string {
	return `The lock remembers its last 32 events: granted, released, expired, broken, repaired. They are shown oldest first, with
the times of S3's clock. -o json prints {"lock", "events"}, the events as in lock status.

Exit codes: 0 the lock could be read; 64 the command line or the AWS settings were refused; 65 its document cannot be
read; 69 S3 refused, or could not be reached.`
}

// Run implements the command.
func (c lockEvents) Run(ctx context.Context, to *console) error {
	lock, err := c.openLock(ctx, to.Err)
	if err != nil {
		return err
	}
	status, err := lock.Inspect(ctx)
	switch {
	case err != nil:
		return failed(to.Err, err)
	case status.Corrupt != "":
		return failed(to.Err, &lease.CorruptError{Version: status.Version, Problem: status.Corrupt})
	case c.Output == "json":
		err = writeJSON(to.Out, eventsReport{c.URL.String(), status.Events})
	default:
		err = writeEvents(to.Out, c.URL, status)
	}
	if err != nil {
		return fmt.Errorf("print the events: %w", err)
	}
	return nil
}

// breakReport is what "lock break -o json" prints.
type breakReport struct {
	Lock  string      `json:"lock"`
	Event lease.Event `json:"event"`
}

// lockBreak is "lockstep lock break".
type lockBreak struct {
	Holder    string `placeholder:"OWNER" help:"The holder to take the lock from, as lock status names it."`
	Token     int64  `placeholder:"N" help:"Its fencing token; one of --holder and --token is enough, both must match if given."`
	By        string `placeholder:"WHO" help:"Who breaks the lock; default user@host."`
	Reason    string `required:"" placeholder:"WHY" help:"Why, for those who wonder later."`
	Recreate  bool   `help:"The lock's object was deleted: write a new one, with tokens above all that were ever granted."`
	Output    string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	lockFlags `embed:""`
}

// Help is the rest of "lockstep lock break --help".
func (lockBreak) Help() string {
	return `Make sure first that the holder is dead: one that is alive learns of the break within a third of its TTL, and until then
two work under the lock. Who broke it, when and why stays in the lock's events.

A document that cannot be read is replaced by a free lock whose tokens are above all that were ever granted; no holder
has to be named then. -o json prints {"lock", "event"}, the event as in lock status.

Exit codes: 0 it is done; 1 nobody holds the lock under this name and token; 64 the command line or the AWS settings
were refused; 69 S3 refused, or could not be reached.`
}

// Run implements the command.
func (c lockBreak) Run(ctx context.Context, to *console) error {
	if strings.TrimSpace(c.Reason) == "" {
		return refuse(to.Err, errors.New("--reason: it says nothing"))
	}
	lock, err := c.openLock(ctx, to.Err)
	if err != nil {
		return err
	}
	if c.By == "" {
		c.By = whoami()
	}
	status, err := lock.Inspect(ctx)
	if err != nil {
		return failed(to.Err, err)
	}
	if code := c.mistaken(to, stateOf(status), status); code != nil {
		return code
	}
	err = lock.Break(ctx, lease.BreakRequest{Holder: c.Holder, Token: c.Token, By: c.By, Reason: c.Reason})
	if err != nil {
		return failed(to.Err, err)
	}
	if status, err = lock.Inspect(ctx); err != nil {
		return failed(to.Err, fmt.Errorf("it is done, but: %w", err))
	}
	report := breakReport{Lock: c.URL.String(), Event: lastBreak(status.Events)}
	if c.Output == "json" {
		return writeJSON(to.Out, report)
	}
	return writeBroken(to.Out, report)
}

// mistaken refuses a break that would not do what its author has in mind.
func (c lockBreak) mistaken(to *console, state lockState, status lease.Status) error {
	named := c.Holder != "" || c.Token != 0
	switch {
	case state == stateAbsent && !c.Recreate:
		fmt.Fprintf(to.Err, "lockstep: there is no lock at %s; see lockstep lock list, or give --recreate if somebody deleted it\n", c.URL)
		return exitCode(exitNotHeld)
	case state == stateAbsent && named:
		return refuse(to.Err, errors.New("--recreate is for a lock that was deleted, and has no holder to name"))
	case state != stateAbsent && c.Recreate:
		return refuse(to.Err, fmt.Errorf("%s exists: there is nothing to recreate", c.URL))
	case state == stateCorrupt || state == stateAbsent || named:
		return nil
	case len(status.Holders) == 0:
		fmt.Fprintf(to.Err, "lockstep: nobody holds %s\n", c.URL)
		return exitCode(exitNotHeld)
	}
	fmt.Fprintf(to.Err, "lockstep: name the holder or its token\n")
	writeHolders(to.Err, status.Holders, status.Now)
	return exitCode(exitUsage)
}

// lastBreak is the latest event of its kind.
func lastBreak(events []lease.Event) lease.Event {
	for i := len(events) - 1; i >= 0; i-- {
		if e := events[i]; e.Kind == lease.Broken || e.Kind == lease.Repaired {
			return e
		}
	}
	return lease.Event{}
}

// whoami is the user and host, for the record.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return name + "@" + host
}
