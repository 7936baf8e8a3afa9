package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// follower tells of an execution while it runs.
type follower struct {
	// news returns the events behind the one with that id, in order.
	news func(ctx context.Context, after int64) ([]asl.Event, error)
	// progress is how far the run with that token is; nil if that is not known.
	progress func(ctx context.Context, token int64) (*step.Progress, error)
	out      *liveLines

	last    int64 // id of the last event that was told
	began   time.Time
	state   string // that was entered last
	waiting int    // turns at a lock that others have
	token   int64
	done    int       // batches, as it was told last
	asked   time.Time // when progress was asked for
	blind   bool      // it cannot be had
}

// How often the history is asked for: soon after something happened, and less
// and less often while nothing does.
const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 5 * time.Second
)

// Trouble that may pass by itself is borne for a while.
const (
	mostFailures  = 20
	pauseInNeed   = 15 * time.Second
	askTime       = 30 * time.Second
	progressPause = 5 * time.Second
)

// follow returns the last event of the execution, once it is there.
func (f *follower) follow(ctx context.Context) (asl.Event, error) {
	defer f.out.clear()
	failures, pause := 0, shortestPause
	for {
		news, err := f.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return asl.Event{}, ctx.Err()
		case err != nil && (failures == mostFailures || !mayPass(err)):
			return asl.Event{}, err
		case err != nil:
			if failures++; failures == 1 {
				f.out.line("cannot ask how it goes, trying again: %v", err)
			}
			pause = min(2*pause, pauseInNeed)
		case len(news) > 0:
			failures, pause = 0, shortestPause
		default:
			failures, pause = 0, min(pause*3/2, longestPause)
		}
		for _, event := range news {
			if event.ID != f.last+1 {
				break // one is missing, and will be there next time
			}
			f.last = event.ID
			f.tell(event)
			if endings[event.Type] != "" {
				return event, nil
			}
		}
		f.tellProgress(ctx)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return asl.Event{}, ctx.Err()
		}
	}
}

func (f *follower) ask(ctx context.Context) ([]asl.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return f.news(ctx, f.last)
}

// mayPass tells trouble of the moment from a refusal. An execution that was
// started a moment ago need not be known everywhere.
func mayPass(err error) bool {
	var unknown *types.ExecutionDoesNotExist
	return errors.As(err, &unknown) || errors.Is(err, context.DeadlineExceeded) || retry.NewStandard().IsErrorRetryable(err)
}

// runData is what the states of the pipeline have in their input.
type runData struct {
	Acquired   step.AcquireOutput  `json:"acquired"`
	Discovered step.DiscoverOutput `json:"discovered"`
	Failure    struct{ Error, Cause string }
}

// tell tells of a state that is entered. A run that waits for its lock goes
// round three states, again and again, of which the first turn is told.
func (f *follower) tell(event asl.Event) {
	if f.began.IsZero() {
		f.began = event.Timestamp
	}
	entered, is := event.Details.(asl.StateEnteredDetails)
	if !is {
		return
	}
	f.state = entered.Name
	var data runData
	_ = json.Unmarshal([]byte(entered.Input), &data) // of another machine: there is nothing to tell beside the name
	if data.Acquired.Decision == step.DecisionHeld {
		f.token = data.Acquired.Token
	}
	about := ""
	switch entered.Name {
	case "WaitForLock":
		if f.waiting++; f.waiting > 1 {
			f.out.show("%s  WaitForLock (%d turns)", f.at(event.Timestamp), f.waiting)
			return
		}
		about = data.Acquired.Reason
	case "AcquireLock", "LockDecision":
		if f.waiting > 0 {
			return
		}
	case "DiscoverFiles":
		about = fmt.Sprintf("with token %d", f.token)
	case "ProcessFiles":
		about = fmt.Sprintf("%s in %s", counted(data.Discovered.Files, "file", "files"), counted(int64(data.Discovered.Batches), "batch", "batches"))
	case "ReleaseAfterFailure":
		about = data.Failure.Error + ": " + plainCause(data.Failure.Cause)
	}
	f.out.line("%s", strings.TrimRight(fmt.Sprintf("%s  %-13s  %s", f.at(event.Timestamp), entered.Name, oneLine(about)), " "))
}

func (f *follower) at(t time.Time) string { return fmt.Sprintf("%7.1fs", t.Sub(f.began).Seconds()) }

// tellProgress tells how many batches are done, while they are processed.
func (f *follower) tellProgress(ctx context.Context) {
	if f.state != "ProcessFiles" || f.token == 0 || f.blind || time.Since(f.asked) < progressPause {
		return
	}
	f.asked = time.Now()
	p, err := f.progress(ctx, f.token)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.blind = true
		f.out.line("cannot see how far it is: %v", err)
	case p != nil && p.BatchesDone > f.done:
		f.done = p.BatchesDone
		tell := f.out.line
		if f.out.inPlace {
			tell = f.out.show
		}
		tell("%s  %d of %s done", f.at(p.Updated), p.BatchesDone, counted(int64(p.Batches), "batch", "batches"))
	}
}

// liveLines are lines, and below them what changes, in place, where somebody
// watches.
type liveLines struct {
	w       io.Writer
	inPlace bool
	shown   bool
}

func (l *liveLines) line(format string, args ...any) {
	l.clear()
	fmt.Fprintf(l.w, format+"\n", args...)
}

// show shows what the next show replaces. Where nobody watches it shows nothing.
func (l *liveLines) show(format string, args ...any) {
	if l.inPlace {
		l.clear()
		fmt.Fprintf(l.w, format, args...)
		l.shown = true
	}
}

// clear takes away what is shown in place.
func (l *liveLines) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}

// await follows the run to its end, and reads its summary.
func (c runCommand) await(ctx context.Context, to *console, x executions, operator *step.Operator, r *runReport) error {
	f := &follower{
		news: func(ctx context.Context, after int64) ([]asl.Event, error) {
			return x.since(ctx, r.ExecutionARN, after)
		},
		progress: func(ctx context.Context, token int64) (*step.Progress, error) {
			return operator.Progress(ctx, r.Name, token)
		},
		out: &liveLines{w: to.Err, inPlace: isTerminal(to.Err)},
	}
	last, err := f.follow(ctx)
	r.LastState, r.Token = f.state, f.token
	if err != nil {
		code := exitCode(exitInterrupted)
		if ctx.Err() == nil {
			code = exitUnavailable
			fmt.Fprintf(to.Err, "lockstep: follow %s: %v\n", r.Name, err)
		}
		c.writeGoesOn(to.Err, *r)
		return code
	}
	at := asl.Time(last.Timestamp)
	r.Status, r.StopDate = endings[last.Type], &at
	if name, cause := last.Failure(); name != "" || cause != "" {
		r.Error, r.Cause = &name, &cause
	}
	if r.Token > 0 {
		if r.Summary, err = operator.Summary(ctx, r.Name, r.Token); err != nil {
			fmt.Fprintf(to.Err, "lockstep: the run has ended, but its summary cannot be read: %v\n", err)
		}
		if r.Summary != nil || err != nil {
			r.SummaryURL = operator.SummaryURL(r.Name, r.Token)
		}
	}
	if r.Status != asl.StatusSucceeded {
		fmt.Fprintf(to.Err, "See what it did:\n  lockstep history %s %s\n", c.stackFlags.named(), shellWord(r.Name))
		return exitCode(1)
	}
	return nil
}
