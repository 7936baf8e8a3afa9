package step

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
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
			settings: map[string]any{"failure.maxFailedFraction": 1}, processor: &shouter{},
		}
		_, err := w.state.Put(t.Context(), "lockstep/lock.json", strings.NewReader(oldLock), "", bucket.Condition{})
		w.ok(err)
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
		Processor: w.processor,
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

// execution is what the context object says of a run; "P1#2" is its second redrive.
func (w *world) execution(run string) Execution {
	w.Helper()
	name, redrives, _ := strings.Cut(run, "#")
	count, _ := strconv.Atoi(redrives)
	return Execution{
		ID: "arn:aws:states:eu-central-1:123456789012:execution:test:" + name, Name: name, RedriveCount: count,
		StartTime: time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC), Input: w.config(),
	}
}

// oldLock is a free lock, so that a test's tokens begin at 1: those of a new lock
// begin at the server's clock.
const oldLock = `{"schema":2,"limit":1,"lastToken":0,"holders":[],"waiters":[],"events":[],"ended":[],"nonce":"first"}`

func (w *world) upload(key, content string) {
	w.Helper()
	_, err := w.source.Put(w.Context(), key, strings.NewReader(content), "", bucket.Condition{})
	w.ok(err)
}

func (w *world) ask(run string) AcquireOutput {
	w.Helper()
	out, err := w.steps.Acquire(w.Context(), AcquireInput{Execution: w.execution(run)})
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

// found is what the discovery that wrote a manifest came to.
func (w *world) found(run string, token int64, d DiscoverOutput) (found ledger.Discovery) {
	w.Helper()
	call, _ := callOf(d.Manifest.Key)
	w.ok(json.Unmarshal(w.read(w.state, keysOf(w.parsed(), run, token).discovery(call)), &found))
	return found
}

func (w *world) tryDiscover(run string, token int64) (DiscoverOutput, error) {
	return w.steps.Discover(w.Context(), DiscoverInput{Execution: w.execution(run), Token: token})
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
	return w.steps.Process(ctx, ProcessInput{Execution: w.execution(run), Token: token, Batch: batch})
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
	return w.steps.Commit(w.Context(), CommitInput{Execution: w.execution(run), Token: token, Discovered: d})
}

func (w *world) commit(run string, token int64, d DiscoverOutput) CommitOutput {
	w.Helper()
	out, err := w.tryCommit(run, token, d)
	w.ok(err)
	return out
}

func (w *world) release(run string, token int64) ReleaseOutput {
	w.Helper()
	return w.releaseAfter(run, RunState{Acquired: &AcquireOutput{Decision: DecisionHeld, Token: token}})
}

// releaseAfter ends a run's life in the state that the machine kept of it.
func (w *world) releaseAfter(run string, state RunState) ReleaseOutput {
	w.Helper()
	out, err := w.steps.Release(w.Context(), ReleaseInput{Execution: w.execution(run), State: state})
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

// result reads what the calls for a batch left, which is one result.
func (w *world) result(run string, token int64, batch int) BatchResult {
	w.Helper()
	results := w.results(run, token, batch)
	if len(results) != 1 {
		w.Fatalf("%d results of batch %d, want one", len(results), batch)
	}
	return results[0]
}

// results reads what each call for a batch left.
func (w *world) results(run string, token int64, batch int) (all []BatchResult) {
	w.Helper()
	for _, key := range w.keys(w.state, keysOf(w.parsed(), run, token).batch(batch)) {
		if strings.HasSuffix(key, begunSuffix) {
			continue
		}
		var r BatchResult
		w.ok(json.Unmarshal(w.read(w.state, key), &r))
		all = append(all, r)
	}
	return all
}

// outcomes is a result as "key outcome" lines.
func outcomes(r BatchResult) []string {
	var lines []string
	for _, f := range r.Files {
		lines = append(lines, f.Key+" "+string(f.Outcome))
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
		got, _, _ := strings.Cut(string(w.read(w.lake, key)), "\n#")
		if got != content {
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
	rows := int64(bytes.Count(content, []byte("\n")) + 1)
	err = out.Publish(ctx, process.Output{
		Name: process.OutputName, ContentType: "application/octet-stream", Rows: rows, Body: strings.NewReader(shouted(string(content), in.Token)),
	})
	return process.Outcome{Rows: rows}, err
}

// shouted is what a shouter makes of a content in a run with that token.
func shouted(content string, token int64) string {
	return strings.ToUpper(content) + fmt.Sprintf("\n#%d", token)
}
