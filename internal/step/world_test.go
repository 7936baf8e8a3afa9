package step

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// world is one pipeline on buckets in memory. Its time is the bubble's, which
// is the server's too.
type world struct {
	*testing.T
	source, lake, state *bucket.Memory

	settings  map[string]any // of the run configuration, by path
	processor *shouter
	mapRuns   *mapRunsStub
	steps     *Steps

	told     sync.Mutex
	measured []Measurement
}

func inWorld(t *testing.T, do func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			T:      t,
			source: bucket.NewMemory("source", nil), lake: bucket.NewMemory("lake", nil), state: bucket.NewMemory("state", nil),
			settings: map[string]any{"failure.maxFailedFraction": 1}, processor: &shouter{}, mapRuns: &mapRunsStub{},
		}
		w.open(w.source, w.lake, w.state)
		do(w)
	})
}

// open makes the steps work on these buckets, found by their names.
func (w *world) open(stores ...Store) {
	w.Helper()
	var err error
	w.steps, err = New(Config{
		Open: func(name string) (Store, error) {
			for _, s := range stores {
				if s.Name() == name {
					return s, nil
				}
			}
			return nil, fmt.Errorf("no bucket %s", name)
		},
		Processor: w.processor, MapRuns: w.mapRuns,
		Measure: func(m Measurement) {
			w.told.Lock()
			defer w.told.Unlock()
			w.measured = append(w.measured, m)
		},
	})
	w.ok(err)
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) set(path string, value any) { w.settings[path] = value }

// config is the run configuration as a schedule would give it.
func (w *world) config() json.RawMessage {
	w.Helper()
	tree := map[string]any{
		"pipeline": "test", "trigger": "test",
		"source":      map[string]any{"bucket": "source", "prefix": "in/"},
		"destination": map[string]any{"bucket": "lake", "prefix": "out/"},
		"state":       map[string]any{"bucket": "state", "prefix": "lockstep/"},
		"failure":     map[string]any{"backoffSeconds": 0},
	}
	for path, value := range w.settings {
		section, name, _ := strings.Cut(path, ".")
		if tree[section] == nil {
			tree[section] = map[string]any{}
		}
		tree[section].(map[string]any)[name] = value
	}
	raw, err := json.Marshal(tree)
	w.ok(err)
	return raw
}

func (w *world) parsed() RunConfig {
	w.Helper()
	c, err := ParseConfig(w.config())
	w.ok(err)
	return c
}

func execution(run string) Execution {
	return Execution{
		ID: "arn:aws:states:eu-central-1:123456789012:execution:test:" + run, Name: run,
		StartTime: time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC),
	}
}

func (w *world) upload(key, content string) {
	w.Helper()
	_, err := w.source.Put(w.Context(), key, strings.NewReader(content), "", bucket.Condition{})
	w.ok(err)
}

func (w *world) ask(run string) AcquireOutput {
	w.Helper()
	out, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: execution(run), Config: w.config()})
	w.ok(err)
	return out
}

// begin has the run take its lock and returns the token.
func (w *world) begin(run string) int64 {
	w.Helper()
	out := w.ask(run)
	if out.Decision != DecisionHeld {
		w.Fatalf("%s does not get the lock: %+v", run, out)
	}
	return out.Token
}

func (w *world) discover(run string, token int64) DiscoverOutput {
	w.Helper()
	out, err := w.tryDiscover(run, token)
	w.ok(err)
	return out
}

func (w *world) tryDiscover(run string, token int64) (DiscoverOutput, error) {
	return w.steps.Discover(w.Context(), DiscoverInput{Execution: execution(run), Config: w.config(), Token: token})
}

// batches reads the manifest as a Map does.
func (w *world) batches(d DiscoverOutput) []Batch {
	w.Helper()
	var batches []Batch
	w.ok(json.Unmarshal(w.read(w.state, d.Manifest.Key), &batches))
	return batches
}

func (w *world) process(run string, token int64, batch Batch) (ProcessOutput, error) {
	return w.processIn(w.Context(), run, token, batch)
}

func (w *world) processIn(ctx context.Context, run string, token int64, batch Batch) (ProcessOutput, error) {
	return w.steps.Process(ctx, ProcessInput{Execution: execution(run), Config: w.config(), Token: token, Batch: batch})
}

// processAll plays the Map; a batch that fails is tolerated.
func (w *world) processAll(run string, token int64, d DiscoverOutput) {
	w.Helper()
	for _, batch := range w.batches(d) {
		if _, err := w.process(run, token, batch); err != nil {
			w.Logf("batch %d: %v", batch.Number, err)
		}
	}
}

func (w *world) tryCommit(run string, token int64, d DiscoverOutput) (CommitOutput, error) {
	return w.steps.Commit(w.Context(), CommitInput{Execution: execution(run), Config: w.config(), Token: token, Discovered: d})
}

func (w *world) commit(run string, token int64, d DiscoverOutput) CommitOutput {
	w.Helper()
	out, err := w.tryCommit(run, token, d)
	w.ok(err)
	return out
}

func (w *world) release(run string, token int64) ReleaseOutput {
	w.Helper()
	out, err := w.steps.Release(w.Context(), ReleaseInput{Execution: execution(run), Config: w.config(), Token: token})
	w.ok(err)
	return out
}

// run plays a whole run, and returns what Commit said.
func (w *world) run(name string) (CommitOutput, error) {
	w.Helper()
	token := w.begin(name)
	defer w.release(name, token)
	d := w.discover(name, token)
	if d.Batches == 0 {
		return CommitOutput{}, nil
	}
	w.processAll(name, token, d)
	return w.tryCommit(name, token, d)
}

func (w *world) read(b *bucket.Memory, key string) []byte {
	w.Helper()
	object, err := b.Get(context.Background(), key, bucket.Condition{})
	w.ok(err)
	content, err := io.ReadAll(object.Body)
	w.ok(err)
	return content
}

// keys lists what a bucket has.
func (w *world) keys(b *bucket.Memory, prefix string) []string {
	w.Helper()
	var keys []string
	for page, err := range b.List(context.Background(), bucket.ListOptions{Prefix: prefix}) {
		w.ok(err)
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// result reads what Process left for a batch.
func (w *world) result(run string, token int64, batch int) BatchResult {
	w.Helper()
	var r BatchResult
	w.ok(json.Unmarshal(w.read(w.state, keysOf(w.parsed(), run, token).result(batch)), &r))
	return r
}

// outcomes is a result as "key outcome" lines.
func outcomes(r BatchResult) []string {
	var lines []string
	for _, f := range r.Files {
		lines = append(lines, f.Key+" "+f.Outcome)
	}
	return lines
}

// rows is what the ledger knows, by key.
func (w *world) rows() map[string]ledger.Row {
	w.Helper()
	books, err := ledger.Open(w.state, LedgerPrefix(w.parsed()))
	w.ok(err)
	rows := map[string]ledger.Row{}
	for row, err := range books.Rows(w.Context()) {
		w.ok(err)
		rows[row.Key] = row
	}
	return rows
}

// wantOutputs compares the outputs in the lake with the sources they should
// be of, given as key and content.
func (w *world) wantOutputs(want map[string]string) {
	w.Helper()
	outputs := map[string]string{}
	for key, content := range want {
		file := ledger.File{Key: key, ETag: w.etag(content)}
		output, err := outputKey(w.parsed(), file, process.OutputName)
		w.ok(err)
		outputs[output] = strings.ToUpper(content)
	}
	got := w.keys(w.lake, "")
	if !slices.Equal(got, slices.Sorted(maps.Keys(outputs))) {
		w.Fatalf("the lake has %q, want %q", got, slices.Sorted(maps.Keys(outputs)))
	}
	for key, content := range outputs {
		if got := string(w.read(w.lake, key)); got != content {
			w.Errorf("%s is %q, want %q", key, got, content)
		}
	}
}

func (w *world) etag(content string) string {
	w.Helper()
	scratch := bucket.NewMemory("scratch", nil)
	written, err := scratch.Put(w.Context(), "x", strings.NewReader(content), "", bucket.Condition{})
	w.ok(err)
	return written.ETag
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func equalLists(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// shouter is a processor: its output is the file in capitals, a row a line.
// Content that says "poison" is malformed.
type shouter struct {
	// before, where set, is called with each file ahead of its processing.
	before func(ctx context.Context, in process.File) error
}

func (s *shouter) Process(ctx context.Context, in process.File, out process.Publisher) (process.Outcome, error) {
	if s.before != nil {
		if err := s.before(ctx, in); err != nil {
			return process.Outcome{}, err
		}
	}
	content, err := io.ReadAll(in.Body)
	if err != nil {
		return process.Outcome{}, fmt.Errorf("%w: %v", process.ErrMalformed, err) // blames the file, as careless code does
	}
	if bytes.Contains(content, []byte("poison")) {
		return process.Outcome{}, fmt.Errorf("%w: it is poison", process.ErrMalformed)
	}
	if err := out.Publish(ctx, process.OutputName, "application/octet-stream", bytes.NewReader(bytes.ToUpper(content))); err != nil {
		return process.Outcome{}, err
	}
	return process.Outcome{Rows: int64(bytes.Count(content, []byte("\n")) + 1)}, nil
}

// mapRunsStub says of every execution whether a Map Run is still running.
type mapRunsStub struct {
	running bool
	err     error
	asked   []string
}

func (m *mapRunsStub) AnyRunning(_ context.Context, executionARN string) (bool, error) {
	m.asked = append(m.asked, executionARN)
	return m.running, m.err
}
