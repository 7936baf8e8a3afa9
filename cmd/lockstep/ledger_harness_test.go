package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	processing "github.com/lockstep-pipeline/lockstep/pkg/process"
)

// pipeline is a pipeline whose runs the test plays, and people look after with
// commands over HTTP. Source, destination and state are folders of one bucket.
type pipeline struct {
	*world
	t      *testing.T
	steps  *step.Steps
	config string // file
	raw    json.RawMessage
}

const testConfig = `{
  "pipeline": "test",
  "source": {"bucket": "locks", "prefix": "in"},
  "destination": {"bucket": "locks", "prefix": "out"},
  "state": {"bucket": "locks", "prefix": "state"},
  "selection": {"exclude": ["**/*.tmp"]},
  "batch": {"maxFiles": 2},
  "failure": {"maxAttempts": 2, "maxFailedFraction": 1, "backoffSeconds": 0}
}`

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	p := &pipeline{world: newWorldOf(t, standing), t: t}
	steps, err := step.New(step.Config{
		Open:      func(string) (step.Store, error) { return p.memory, nil },
		Processor: shouting{},
	})
	p.ok(err)
	p.steps = steps
	p.configure(testConfig)
	return p
}

// configure is what runs and commands get from now on.
func (p *pipeline) configure(config string) {
	p.t.Helper()
	p.raw = json.RawMessage(config)
	p.config = filepath.Join(p.t.TempDir(), "weather.json")
	p.ok(os.WriteFile(p.config, p.raw, 0o600))
}

func (p *pipeline) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// shouting is a processor: the output is the file in capitals. A file that says
// poison is malformed.
type shouting struct{}

func (shouting) Process(ctx context.Context, in processing.File, out processing.Publisher) (processing.Outcome, error) {
	content, err := io.ReadAll(in.Body)
	if err != nil {
		return processing.Outcome{}, err
	}
	if bytes.Contains(content, []byte("poison")) {
		return processing.Outcome{}, fmt.Errorf("%w: it is poison", processing.ErrMalformed)
	}
	err = out.Publish(ctx, processing.Output{Name: processing.OutputName, ContentType: "application/octet-stream", Body: bytes.NewReader(bytes.ToUpper(content))})
	return processing.Outcome{Rows: 1}, err
}

// upload puts a file below in/.
func (p *pipeline) upload(name, content string) { p.put(p.t, "in/"+name, content) }

// begin has a run take the lock.
func (p *pipeline) begin(run string) (step.Execution, int64) {
	p.t.Helper()
	execution := step.Execution{ID: "arn:aws:states:eu-central-1:123456789012:execution:test:" + run, Name: run, Input: p.raw}
	acquired, err := p.steps.Acquire(p.t.Context(), step.AcquireInput{Execution: execution})
	p.ok(err)
	if acquired.Decision != step.DecisionHeld {
		p.t.Fatalf("%s does not get the lock: %+v", run, acquired)
	}
	return execution, acquired.Token
}

func (p *pipeline) release(execution step.Execution) {
	p.t.Helper()
	_, err := p.steps.Release(p.t.Context(), step.ReleaseInput{Execution: execution})
	p.ok(err)
}

// run plays a whole run, and returns the names of the files it took.
func (p *pipeline) run(run string) string {
	p.t.Helper()
	ctx := p.t.Context()
	execution, token := p.begin(run)
	defer p.release(execution)
	d, err := p.steps.Discover(ctx, step.DiscoverInput{Execution: execution, Token: token})
	p.ok(err)
	var batches []step.Batch
	p.ok(json.Unmarshal([]byte(p.object(d.Manifest.Key)), &batches))
	var names []string
	for _, batch := range batches {
		for _, f := range batch.Files {
			names = append(names, strings.TrimPrefix(f.Key, "in/"))
		}
		_, err := p.steps.Process(ctx, step.ProcessInput{Execution: execution, Token: token, Batch: batch})
		p.ok(err)
	}
	if d.Batches > 0 {
		_, err = p.steps.Commit(ctx, step.CommitInput{Execution: execution, Token: token, Discovered: d})
		p.ok(err)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (p *pipeline) object(key string) string {
	p.t.Helper()
	object, err := p.memory.Get(p.t.Context(), key, bucket.Condition{})
	p.ok(err)
	content, err := io.ReadAll(object.Body)
	p.ok(err)
	return string(content)
}

// keys lists the bucket.
func (p *pipeline) keys(prefix string) []string {
	p.t.Helper()
	var keys []string
	for page, err := range p.memory.List(p.t.Context(), bucket.ListOptions{Prefix: prefix}) {
		p.ok(err)
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// segment is the key of the newest segment of the ledger.
func (p *pipeline) segment() string {
	p.t.Helper()
	keys := p.keys("state/ledger/locks/segments/")
	if len(keys) == 0 {
		p.t.Fatal("the ledger has no segment")
	}
	return keys[len(keys)-1]
}

// says runs a command line about the pipeline, CONFIG standing for its
// configuration, and compares code and standard output.
func (p *pipeline) says(code int, want string, line string) (stderr string) {
	p.t.Helper()
	out, stderr, got := p.do(line)
	if got != code || out != want {
		p.t.Errorf("%s: code %d, want %d; %s\n%s\nwant\n%s", line, got, code, stderr, out, want)
	}
	return stderr
}

func (p *pipeline) do(line string) (out, stderr string, code int) {
	p.t.Helper()
	args := strings.Fields(line)
	for i, arg := range args {
		if arg == "CONFIG" {
			args[i] = p.config
		}
	}
	out, stderr, code = p.main.run(p.t, args...)
	return strings.ReplaceAll(out, p.config, "CONFIG"), strings.ReplaceAll(stderr, p.config, "CONFIG"), code
}

// changes tells whether do wrote or deleted anything.
func (p *pipeline) changes(do func()) bool {
	before := p.versions()
	do()
	return !slices.Equal(before, p.versions())
}

func (p *pipeline) versions() []string {
	p.t.Helper()
	var all []string
	for page, err := range p.memory.List(p.t.Context(), bucket.ListOptions{}) {
		p.ok(err)
		for _, e := range page.Entries {
			all = append(all, e.Key+e.ETag)
		}
	}
	return all
}
