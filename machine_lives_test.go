package lockstep_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// A pipeline is the state machine over the functions as they are, on buckets in
// memory and in the bubble's time. As on Lambda, a call goes on when its
// execution has ended.
type pipeline struct {
	*testing.T
	machine             *asl.Machine
	steps               *step.Steps
	source, lake, state *bucket.Memory

	// before, where set, is called ahead of each call of a function.
	before func(function string, execution step.Execution)
}

func inPipeline(t *testing.T, do func(p *pipeline)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{
			T: t, before: func(string, step.Execution) {},
			source: bucket.NewMemory("lockstep-source", nil), lake: bucket.NewMemory("lockstep-lake", nil), state: bucket.NewMemory("lockstep-state", nil),
		}
		var err error
		p.steps, err = step.New(step.Config{Open: p.open, Processor: copier{}})
		p.ok(err)
		definition, err := asl.Load(lockstep.Definition, asl.Derive(func(name string) string {
			return cmp.Or(map[string]string{"StateBucket": "lockstep-state", "RunsPrefix": "weather/runs/"}[name], standIn(name))
		}))
		p.ok(err)
		p.machine, err = asl.NewMachine(definition, asl.Config{Lambda: p, Objects: p})
		p.ok(err)
		do(p)
	})
}

func (p *pipeline) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *pipeline) open(name string) (step.Store, error) {
	for _, b := range []*bucket.Memory{p.source, p.lake, p.state} {
		if b.Name() == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("no bucket %s", name)
}

// Invoke is asl.Lambda.
func (p *pipeline) Invoke(ctx context.Context, call asl.Call) (asl.Invocation, error) {
	answer := make(chan func() (asl.Invocation, error), 1)
	go func() {
		var in struct{ Execution step.Execution }
		if err := json.Unmarshal(call.Payload, &in); err != nil {
			p.Error(err)
		}
		p.before(call.Function(), in.Execution)
		out, err := p.call(context.WithoutCancel(ctx), call.Function(), call.Payload)
		answer <- func() (asl.Invocation, error) {
			if err != nil {
				name := reflect.TypeOf(err).Elem().Name()
				body, _ := json.Marshal(map[string]string{"errorType": name, "errorMessage": err.Error()})
				return asl.Invocation{}, &asl.FunctionError{Type: name, Body: string(body)}
			}
			payload, err := json.Marshal(out)
			return asl.Invocation{Payload: payload}, err
		}
	}()
	select {
	case give := <-answer:
		return give()
	case <-ctx.Done():
		return asl.Invocation{}, ctx.Err()
	}
}

func (p *pipeline) call(ctx context.Context, function string, payload []byte) (any, error) {
	switch function {
	case "acquire":
		return called(ctx, payload, p.steps.Acquire)
	case "discover":
		return called(ctx, payload, p.steps.Discover)
	case "process":
		return called(ctx, payload, p.steps.Process)
	case "commit":
		return called(ctx, payload, p.steps.Commit)
	}
	return called(ctx, payload, p.steps.Release)
}

func called[In, Out any](ctx context.Context, payload []byte, do func(context.Context, In) (Out, error)) (any, error) {
	var in In
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, &step.InvalidInputError{Problem: err.Error()}
	}
	out, err := do(ctx, in)
	if err != nil {
		return nil, step.Translate(err)
	}
	return out, nil
}

// Get and Put are asl.Objects.
func (p *pipeline) Get(ctx context.Context, bucketName, key string) ([]byte, error) {
	store, err := p.open(bucketName)
	if err != nil {
		return nil, err
	}
	object, err := store.Get(ctx, key, bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, asl.ErrNoObject
	}
	if err != nil {
		return nil, err
	}
	defer object.Body.Close()
	return io.ReadAll(object.Body)
}

func (p *pipeline) Put(ctx context.Context, bucketName, key string, body []byte) error {
	store, err := p.open(bucketName)
	if err == nil {
		_, err = store.Put(ctx, key, bytes.NewReader(body), "", bucket.Condition{})
	}
	return err
}

// copier is a processor: its output is the file.
type copier struct{}

func (copier) Process(ctx context.Context, in process.File, out process.Publisher) (process.Outcome, error) {
	content, err := io.ReadAll(in.Body)
	if err != nil {
		return process.Outcome{}, err
	}
	return process.Outcome{Rows: 1}, out.Publish(ctx, process.Output{Name: process.OutputName, Body: bytes.NewReader(content)})
}

func (p *pipeline) upload(name string) {
	p.Helper()
	_, err := p.source.Put(p.Context(), "incoming/"+name, strings.NewReader(name), "", bucket.Condition{})
	p.ok(err)
}

func (p *pipeline) start(name string) *asl.Execution {
	p.Helper()
	execution, err := p.machine.Start(context.WithoutCancel(p.Context()), asl.Input{Name: name, JSON: string(lockstep.ScheduleEvent)})
	p.ok(err)
	return execution
}

// tell delivers the status-change event of an execution that ended.
func (p *pipeline) tell(e *asl.Execution) {
	p.Helper()
	d := e.Describe()
	event, err := json.Marshal(map[string]any{
		"detail-type": "Step Functions Execution Status Change",
		"detail": map[string]any{
			"executionArn": d.ExecutionARN, "name": d.Name, "status": d.Status, "input": d.Input, "redriveCount": d.RedriveCount,
		},
	})
	p.ok(err)
	_, err = p.call(p.Context(), "release", event)
	p.ok(err)
}

func (p *pipeline) outputs() (n int) {
	for page, err := range p.lake.List(p.Context(), bucket.ListOptions{}) {
		p.ok(err)
		n += len(page.Entries)
	}
	return n
}

func visited(e *asl.Execution) (states []string) {
	for _, event := range e.History() {
		if strings.HasSuffix(string(event.Type), "StateEntered") {
			states = append(states, event.State())
		}
	}
	return states
}

func TestAnOvertakenRunQueuesAgainAndSucceeds(t *testing.T) {
	inPipeline(t, func(p *pipeline) {
		p.upload("a.csv")
		slow := true
		p.before = func(function string, e step.Execution) {
			if function == "discover" && e.Name == "P1" && slow {
				slow = false
				time.Sleep(5 * time.Minute) // and its lease ends meanwhile
			}
		}
		first := p.start("P1")
		time.Sleep(time.Minute)
		second := p.start("P2")
		for _, e := range []*asl.Execution{first, second} {
			if e.Wait(); ending(e) != "SUCCEEDED" {
				t.Errorf("%s ended %s", e.Name(), ending(e))
			}
		}
		if got := strings.Join(visited(first), " "); !strings.HasPrefix(got, "AcquireLock LockDecision DiscoverFiles AcquireLock LockDecision DiscoverFiles ") {
			t.Errorf("P1 went %s", got)
		}
		if n := p.outputs(); n != 1 {
			t.Errorf("%d outputs", n)
		}
	})
}

// Stopping an execution stops no function. The lease ends by itself, and the
// successor does the work not long after.
func TestAfterAnAbortInTheMapTheSuccessorDoesTheWork(t *testing.T) {
	inPipeline(t, func(p *pipeline) {
		p.upload("a.csv")
		processing := make(chan struct{})
		p.before = func(function string, e step.Execution) {
			if function == "process" && e.Name == "P1" {
				close(processing)
				time.Sleep(10 * time.Minute)
			}
		}
		first := p.start("P1")
		<-processing
		first.Abort("", "")
		stopped := time.Now()
		p.tell(first)
		second := p.start("P2")
		second.Wait()
		if ending(second) != "SUCCEEDED" || p.outputs() != 1 {
			t.Errorf("P2 ended %s with %d outputs", ending(second), p.outputs())
		}
		if waited := time.Since(stopped); waited < 2*time.Minute || waited > 2*time.Minute+30*time.Second {
			t.Errorf("P2 was done after %v; the lease lasts 120 s, its grace 5 s, and a turn 15 s", waited)
		}
		time.Sleep(10 * time.Minute) // and P1's call comes to its end
		first.Wait()
		if p.outputs() != 1 {
			t.Errorf("%d outputs", p.outputs())
		}
	})
}

// A call that was slow to begin takes no lock for an execution that is no more.
func TestASlowFirstTurnOfAnAbortedRunHoldsNothing(t *testing.T) {
	inPipeline(t, func(p *pipeline) {
		calling := make(chan struct{})
		p.before = func(function string, e step.Execution) {
			if function == "acquire" && e.Name == "P1" {
				close(calling)
				time.Sleep(time.Minute)
			}
		}
		first := p.start("P1")
		<-calling
		first.Abort("", "")
		p.tell(first)
		time.Sleep(2 * time.Minute) // its call has come and gone
		began := time.Now()
		second := p.start("P2")
		second.Wait()
		if ending(second) != "SUCCEEDED" || time.Since(began) > time.Minute || slices.Contains(visited(second), "WaitForLock") {
			t.Errorf("P2 ended %s after %v: %v", ending(second), time.Since(began), visited(second))
		}
	})
}
