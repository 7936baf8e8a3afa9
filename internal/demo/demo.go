// Package demo tells the story that Lockstep exists for, on a laptop and with
// real files: a run works, a second one waits for its lock, more files arrive
// meanwhile, the second takes over and does exactly those, and a third finds
// nothing new.
//
// It promises that what it shows happened: the state machine, the functions
// and the bucket calls are those that are deployed, and the report is checked
// before it is returned. Two things are arranged, so that the story comes out
// the same on any machine: the first run is held at the door of ProcessFiles
// until the second is waiting and the late files have arrived, and the waits
// between two turns at the lock are a second.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// Config describes one telling.
type Config struct {
	// Files are the source files; every regular file is uploaded.
	Files fs.FS
	// FunctionArgv is the command that serves a function; the function's name
	// is appended.
	FunctionArgv []string
	// Progress is told each step of the story as it happens; nil is silent.
	Progress func(line string)
	// FunctionLogs receives what the functions log; nil discards it.
	FunctionLogs io.Writer
}

// stage is one telling under way.
type stage struct {
	stack  *local.Stack
	config step.RunConfig
	input  []byte // of every execution
	say    func(format string, args ...any)
	began  time.Time
	door   *door
}

// Tell plays the story and returns the report and the objects it left behind,
// by bucket and key. An error says what did not come out as it should.
func Tell(ctx context.Context, c Config) (*Report, Remains, error) {
	input, err := runInput()
	if err != nil {
		return nil, nil, err
	}
	config, err := step.ParseConfig(input)
	if err != nil {
		return nil, nil, err
	}
	files, err := newCast(c.Files, config.Selection)
	if err != nil {
		return nil, nil, err
	}
	s, err := newStage(ctx, c, config, input)
	if err != nil {
		return nil, nil, err
	}
	report, remains, err := s.play(ctx, c.Files, files)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if closeErr := s.stack.Close(closing); err == nil {
		err = closeErr
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return report, remains, err
}

func newStage(ctx context.Context, c Config, config step.RunConfig, input []byte) (_ *stage, err error) {
	s := &stage{config: config, input: input, began: time.Now(), door: newDoor("P1", "ProcessFiles")}
	s.say = func(format string, args ...any) {
		if c.Progress != nil {
			c.Progress(fmt.Sprintf("%5.1fs  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...)))
		}
	}
	setup := local.Config{
		Definition:     lockstep.Definition,
		MachineName:    "lockstep-" + config.Pipeline,
		OnStatusChange: "release",
		Substitutions:  step.Substitutions(config),
		Observer:       s.door,
		Logger:         slog.New(slog.DiscardHandler),
		Stderr:         c.FunctionLogs,
	}
	for _, name := range functions.Names {
		f := local.Function{Name: name, Argv: append(append([]string{}, c.FunctionArgv...), name), Timeout: time.Minute, Concurrency: 2}
		if name == "process" {
			f.Concurrency = config.Batch.MaxConcurrency
		}
		setup.Functions = append(setup.Functions, f)
	}
	if s.stack, err = local.Start(ctx, setup); err != nil {
		return nil, fmt.Errorf("start the local stack: %w", err)
	}
	for _, bucket := range []string{config.Source.Bucket, config.Destination.Bucket, config.State.Bucket} {
		if err := s.stack.CreateBucket(ctx, bucket); err != nil {
			return nil, errors.Join(err, s.stack.Close(ctx))
		}
	}
	return s, nil
}

// runInput is the scheduled run's configuration with a quicker turn at the
// lock. However many files fail, the runs themselves succeed: what the third
// finds is nothing but files that failed before.
func runInput() ([]byte, error) {
	var event map[string]any
	if err := json.Unmarshal(lockstep.ScheduleEvent, &event); err != nil {
		return nil, fmt.Errorf("events/schedule.json: %w", err)
	}
	lock := event["lock"].(map[string]any)
	lock["pollSeconds"], lock["maxWaitSeconds"] = 1, 600
	event["failure"].(map[string]any)["maxFailedFraction"] = 1
	event["failure"].(map[string]any)["backoffSeconds"] = 0 // its runs follow each other
	return json.Marshal(event)
}

func (s *stage) play(ctx context.Context, files fs.FS, c cast) (*Report, Remains, error) {
	defer s.door.open()
	if err := s.upload(ctx, files, slices.Concat(c.first, c.others)); err != nil {
		return nil, nil, err
	}
	s.say("%s in s3://%s/%s", count(len(c.first), "file"), s.config.Source.Bucket, s.config.Source.Prefix)
	if len(c.others) > 0 {
		s.say("%s beside them that the selection leaves out", count(len(c.others), "file"))
	}

	p1, err := s.start("P1")
	if err != nil {
		return nil, nil, err
	}
	if err := wait(ctx, s.door.reached, p1); err != nil {
		return nil, nil, fmt.Errorf("P1 did not come to ProcessFiles: %w", err)
	}
	s.say("P1 has the lock and its manifest")

	p2, err := s.start("P2")
	if err != nil {
		return nil, nil, err
	}
	if err := wait(ctx, s.door.waiting, p2); err != nil {
		return nil, nil, fmt.Errorf("P2 did not come to wait: %w", err)
	}
	s.say("P2 waits for the lock that P1 holds")
	if err := s.upload(ctx, files, c.late); err != nil {
		return nil, nil, err
	}
	s.say("%s more, while P1 works", count(len(c.late), "file"))
	s.door.open()

	if err := s.finish(ctx, p1); err != nil {
		return nil, nil, err
	}
	if err := s.finish(ctx, p2); err != nil {
		return nil, nil, err
	}
	p3, err := s.start("P3")
	if err != nil {
		return nil, nil, err
	}
	if err := s.finish(ctx, p3); err != nil {
		return nil, nil, err
	}
	remains, err := s.collect(ctx)
	if err != nil {
		return nil, nil, err
	}
	report, err := s.report(ctx, remains, p1, p2, p3)
	if err != nil {
		return nil, nil, err
	}
	return report, remains, report.check(s.config.Source.Prefix, c)
}

func (s *stage) start(name string) (*asl.Execution, error) {
	execution, err := s.stack.StartExecution(name, s.input)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return execution, nil
}

// finish waits for an execution's end.
func (s *stage) finish(ctx context.Context, e *asl.Execution) error {
	if err := wait(ctx, e.Ended(), nil); err != nil {
		return err
	}
	run, err := runOf(e)
	if err != nil {
		return err
	}
	said := fmt.Sprintf("%s %s: %s, %s", run.Name, run.Status, count(run.Files, "file"), count(run.Rows, "row"))
	if run.Failed > 0 {
		said += fmt.Sprintf("; %s failed", count(run.Failed, "file"))
	}
	s.say("%s", said)
	return nil
}

// wait returns when reached is closed, or with an error when ctx or the
// execution ends before.
func wait(ctx context.Context, reached <-chan struct{}, e *asl.Execution) error {
	var ended <-chan struct{}
	if e != nil {
		ended = e.Ended()
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ended:
		end := e.Describe()
		return fmt.Errorf("%s ended %s: %s %s", e.Name(), end.Status, text(end.Error), text(end.Cause))
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// door holds one execution at a state until it is opened, and notices when
// another one begins to wait for the lock.
type door struct {
	execution, state string
	reached          chan struct{} // the execution stands at the state
	waiting          chan struct{} // another execution waits for the lock
	opened           chan struct{}
	onceReached      sync.Once
	onceWaiting      sync.Once
	onceOpened       sync.Once
}

func newDoor(execution, state string) *door {
	return &door{
		execution: execution, state: state,
		reached: make(chan struct{}), waiting: make(chan struct{}), opened: make(chan struct{}),
	}
}

func (d *door) open() { d.onceOpened.Do(func() { close(d.opened) }) }

// Event is asl.Observer: it returns when the execution may go on.
func (d *door) Event(e *asl.Execution, event asl.Event) {
	switch {
	case e.Name() == d.execution && event.Type == "MapStateEntered" && event.State() == d.state:
		d.onceReached.Do(func() { close(d.reached) })
		select {
		case <-d.opened:
		case <-e.Ended():
		}
	case e.Name() != d.execution && event.Type == "WaitStateEntered":
		d.onceWaiting.Do(func() { close(d.waiting) })
	}
}

// Status is asl.Observer.
func (d *door) Status(*asl.Execution, asl.Status) {}
