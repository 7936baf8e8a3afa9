package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// waitScale is the share of their length that waits and retry delays last.
const waitScale = 0.02

// world is one pipeline on one local AWS.
type world struct {
	t      *testing.T
	stack  *local.Stack
	config step.RunConfig // of the runs that start
	wire   *wire          // between the functions and S3
	watch  *watch         // on all executions
	source *bucket.Bucket
	lake   *bucket.Bucket
	state  *bucket.Bucket
	ids    int64 // rows written so far, so that no two files are alike
}

// newWorld starts a pipeline. change may adapt its configuration.
func newWorld(t *testing.T, change func(*step.RunConfig)) *world {
	t.Helper()
	return newWorldOf(t, lockstep.Definition, change)
}

// newWorldOf starts a pipeline of another definition.
func newWorldOf(t *testing.T, definition []byte, change func(*step.RunConfig)) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, wire: newWire(t), watch: &watch{}, config: step.RunConfig{
		Pipeline: "e2e", Trigger: "test",
		Source:      step.Location{Bucket: "source", Prefix: "incoming/"},
		Destination: step.Destination{Bucket: "lake", Prefix: "parquet/", Versions: step.VersionsLatest},
		State:       step.Location{Bucket: "state", Prefix: "e2e/"},
		Lock:        step.LockSettings{TTLSeconds: 120, GraceSeconds: 5, PollSeconds: 1, MaxWaitSeconds: 600},
		Selection:   step.SelectionSettings{Include: []string{}, Exclude: []string{}, First: step.FirstByKey, Order: step.OrderAny},
		Batch:       step.BatchSettings{MaxFiles: 10, MaxBytes: 1 << 20, MaxConcurrency: 1},
		Failure:     step.FailureSettings{MaxAttempts: 3, MaxFailedFraction: 1, MinFailedFiles: 1, Atomicity: step.AtomicityFile},
	}}
	if change != nil {
		change(&w.config)
	}
	w.start(definition)
	return w
}

func (w *world) start(definition []byte) {
	t := w.t
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	setup := local.Config{
		Definition:     definition,
		OnStatusChange: "release",
		Substitutions:  step.Substitutions(w.config),
		WaitScale:      waitScale,
		Observer:       w.watch,
		Logger:         slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Stderr:         t.Output(),
	}
	for _, name := range functions.Names {
		setup.Functions = append(setup.Functions, local.Function{
			Name: name, Argv: []string{self}, Timeout: time.Minute,
			Concurrency: 4, // more than a run needs: a zombie keeps its process
			Env: []string{
				functionVariable + "=" + name,
				"AWS_ENDPOINT_URL_S3=" + w.wire.url(),
				"AWS_SDK_UA_APP_ID=" + name, // by which the wire knows who calls
				"AWS_MAX_ATTEMPTS=2",
			},
		})
	}
	if w.stack, err = local.Start(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	w.wire.connect(w.stack.Endpoint())
	t.Cleanup(w.close)
	buckets := map[string]*bucket.Bucket{}
	for _, name := range []string{w.config.Source.Bucket, w.config.Destination.Bucket, w.config.State.Bucket} {
		if buckets[name] != nil {
			continue
		}
		if err := w.stack.CreateBucket(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if buckets[name], err = bucket.New(w.stack.S3(), name, bucket.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	w.source, w.lake, w.state = buckets[w.config.Source.Bucket], buckets[w.config.Destination.Bucket], buckets[w.config.State.Bucket]
}

// close ends the world and looks for what outlived it.
func (w *world) close() {
	processes := w.stack.Processes()
	w.watch.openAll()
	w.wire.dropAll()
	if err := w.stack.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
	for _, p := range processes {
		if !errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
			w.t.Errorf("process %d of %s outlived its stack", p.PID, p.Function)
		}
	}
}

// run starts an execution with the world's configuration.
func (w *world) run(name string) *asl.Execution {
	w.t.Helper()
	input, err := json.Marshal(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.runInput(name, input)
}

func (w *world) runInput(name string, input []byte) *asl.Execution {
	w.t.Helper()
	execution, err := w.stack.StartExecution(name, input)
	if err != nil {
		w.t.Fatal(err)
	}
	return execution
}

// ended waits for an execution's end, and for the status it must have.
func (w *world) ended(e *asl.Execution, want asl.Status) asl.Description {
	w.t.Helper()
	w.await(e.Ended(), "the end of "+e.Name())
	d := e.Describe()
	if d.Status != want {
		w.t.Fatalf("%s ended %s: %s %s; want %s\n%s", e.Name(), d.Status, text(d.Error), text(d.Cause), want, journey(e))
	}
	return d
}

// succeed plays a whole run.
func (w *world) succeed(name string) *asl.Execution {
	w.t.Helper()
	e := w.run(name)
	w.ended(e, asl.StatusSucceeded)
	return e
}

// failed waits for an execution's end in a certain error.
func (w *world) failed(e *asl.Execution, wantError string, says ...string) {
	w.t.Helper()
	d := w.ended(e, asl.StatusFailed)
	if text(d.Error) != wantError {
		w.t.Fatalf("%s failed with %s (%s), want %s", e.Name(), text(d.Error), text(d.Cause), wantError)
	}
	for _, s := range says {
		if !strings.Contains(text(d.Cause), s) {
			w.t.Errorf("the cause of %s is %q; it should say %q", e.Name(), text(d.Cause), s)
		}
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// await waits for a channel to be closed.
func (w *world) await(reached <-chan struct{}, what string) {
	w.t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	select {
	case <-reached:
	case <-patience.C:
		w.t.Fatalf("waited a minute for %s", what)
	}
}

// kill sends SIGKILL to the one process of a function that is at work.
func (w *world) kill(function string) {
	w.t.Helper()
	busy := slices.DeleteFunc(w.stack.Processes(), func(p local.Process) bool {
		return p.Function != function || p.RequestID == ""
	})
	if len(busy) != 1 {
		w.t.Fatalf("%d processes of %s are at work, want one to kill", len(busy), function)
	}
	if err := w.stack.Kill(busy[0].PID); err != nil {
		w.t.Fatal(err)
	}
}

// leaseRunsOut lets the time pass, by S3's clock, after which others take over
// from a holder that does not renew.
func (w *world) leaseRunsOut() {
	w.wire.ahead.Add(int64(w.config.Lock.TTLSeconds + w.config.Lock.GraceSeconds + 1))
}

// quiet waits until no call of the function is at work.
func (w *world) quiet(function string) {
	w.t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for {
		if !slices.ContainsFunc(w.stack.Processes(), func(p local.Process) bool { return p.Function == function && p.RequestID != "" }) {
			return
		}
		select {
		case <-patience.C:
			w.t.Fatalf("waited a minute for the calls of %s to end", function)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// file is a source object at one version, and the rows that its output must have.
type file struct {
	key, etag string
	rows      []row
	bare      bool // it has no columns either, and so no output
	gone      bool // it was deleted since, and a complete listing has shown it
}

type row struct {
	ID   int64  `parquet:"id,optional"`
	Name string `parquet:"name,optional"`
}

// csv uploads a new version of a file with n rows. path is relative to the
// source prefix.
func (w *world) csv(path string, n int) file {
	w.t.Helper()
	content := bytes.NewBufferString("id,name\n")
	var rows []row
	for range n {
		w.ids++
		r := row{w.ids, fmt.Sprint("row ", w.ids)}
		rows = append(rows, r)
		fmt.Fprintf(content, "%d,%s\n", r.ID, r.Name)
	}
	f := w.upload(path, content.String())
	f.rows = rows
	return f
}

// csvs uploads files of three rows each.
func (w *world) csvs(paths ...string) []file {
	w.t.Helper()
	var files []file
	for _, path := range paths {
		files = append(files, w.csv(path, 3))
	}
	return files
}

// bare uploads a file of nothing.
func (w *world) bare(path, content string) file {
	w.t.Helper()
	f := w.upload(path, content)
	f.bare = true
	return f
}

func (w *world) upload(path, content string) file {
	w.t.Helper()
	key := w.config.Source.Prefix + path
	written, err := w.source.Put(w.t.Context(), key, strings.NewReader(content), "", bucket.Condition{})
	if err != nil {
		w.t.Fatal(err)
	}
	return file{key: key, etag: strings.Trim(written.ETag, `"`)}
}

// delete takes a file away.
func (w *world) delete(f *file) {
	w.t.Helper()
	if err := w.source.Delete(w.t.Context(), f.key); err != nil {
		w.t.Fatal(err)
	}
	f.gone = true
}

// journey is the states that an execution has entered.
func journey(e *asl.Execution) string {
	var states []string
	for _, event := range e.History() {
		if strings.HasSuffix(string(event.Type), "StateEntered") {
			states = append(states, event.State())
		}
	}
	return strings.Join(states, " ")
}

// output is what an execution's states left in its data.
type output struct {
	Acquired   step.AcquireOutput
	Discovered step.DiscoverOutput
	Committed  step.CommitOutput
	Released   step.ReleaseOutput
}

func (w *world) output(e *asl.Execution) output {
	w.t.Helper()
	var out output
	for _, event := range slices.Backward(e.History()) {
		if exited, ok := event.Details.(asl.StateExitedDetails); ok {
			if err := json.Unmarshal([]byte(exited.Output), &out); err != nil {
				w.t.Fatal(err)
			}
			return out
		}
	}
	return out
}

// objects reads all of a bucket.
func (w *world) objects(from *bucket.Bucket) map[string][]byte {
	w.t.Helper()
	objects := map[string][]byte{}
	for page, err := range from.List(w.t.Context(), bucket.ListOptions{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, entry := range page.Entries {
			objects[entry.Key] = w.read(from, entry.Key)
		}
	}
	return objects
}

func (w *world) keys(from *bucket.Bucket) []string {
	return slices.Sorted(maps.Keys(w.objects(from)))
}

func (w *world) read(from *bucket.Bucket, key string) []byte {
	w.t.Helper()
	object, err := from.Get(w.t.Context(), key, bucket.Condition{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer object.Body.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(object.Body); err != nil {
		w.t.Fatal(err)
	}
	return content.Bytes()
}

func (w *world) decode(document string, into any) {
	w.t.Helper()
	if err := json.Unmarshal([]byte(document), into); err != nil {
		w.t.Fatal(err)
	}
}
