package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// payloadLimit is what Step Functions takes as input or output of a state.
const payloadLimit = 256 << 10

// TestManyNewFilesInOneRun plays one run of the state machine in which every
// file is new: a tenth of the scale. The functions are the real ones, in
// processes of their own; only the content of the files is not processed.
func TestManyNewFilesInOneRun(t *testing.T) {
	b := &table{T: t}
	defer b.print()
	source := newFiles(max(*scale/10, 1000))
	p := newPipeline(t, source, startServers(t))
	start := time.Now()
	execution, err := p.stack.StartExecution("many", p.input)
	if err != nil {
		t.Fatal(err)
	}
	<-execution.Ended()
	took := time.Since(start)
	peaks := p.peaks()
	d := execution.Describe()
	if d.Status != asl.StatusSucceeded {
		t.Fatalf("the run ended %s: %s %s", d.Status, text(d.Error), text(d.Cause))
	}
	out := output(t, execution)
	n := int64(source.count)
	if out.Discovered.Files != n || out.Committed.Done != n || out.Committed.Failed != 0 || out.Discovered.Left != 0 {
		t.Fatalf("discovered %+v, committed %+v", out.Discovered, out.Committed)
	}
	b.note("new files in one run", "%s", count(n))
	p.checkLedger(t)
	p.checkManifest(t, b, out.Discovered)
	times := durations(execution.History())
	for _, state := range []string{"DiscoverFiles", "ProcessFiles", "CommitLedger"} {
		b.note(state, "%.1f s", times[state].Seconds())
	}
	b.note("the whole run", "%.1f s", took.Seconds())
	for _, name := range []string{"discover", "commit"} {
		b.limit(peaks[name] < maxPeak, "peak memory of the function "+name, "256 MiB", "%s", megabytes(peaks[name]))
	}
}

// pipeline is the local AWS with a source that is made up.
type pipeline struct {
	source files
	stack  *local.Stack
	state  *bucket.Bucket
	config step.RunConfig
	input  []byte
}

func newPipeline(t *testing.T, source files, servers string) *pipeline {
	t.Helper()
	p := &pipeline{source: source, input: fmt.Appendf(nil, `{
		"pipeline": "scale", "trigger": "test",
		"source": {"bucket": %q, "prefix": %q},
		"destination": {"bucket": "lake", "prefix": "parquet/"},
		"state": {"bucket": %q, "prefix": "scale/"},
		"selection": {"include": ["**/*.csv.gz"], "exclude": ["**/_*"]},
		"batch": {"maxFiles": 500, "maxBytes": %d, "maxConcurrency": 4},
		"failure": {"maxFailedFraction": 0}
	}`, source.bucketOf(1000, 0, 0), sourcePrefix, stateBucket, int64(1)<<40)}
	var err error
	if p.config, err = step.ParseConfig(p.input); err != nil {
		t.Fatal(err)
	}
	front := newFront(t, servers)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	setup := local.Config{
		Definition:    lockstep.Definition,
		Substitutions: step.Substitutions(p.config),
		Logger:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Stderr:        io.Discard, // a line for each file
	}
	for _, name := range functions.Names {
		setup.Functions = append(setup.Functions, local.Function{
			Name: name, Argv: []string{self}, Timeout: 15 * time.Minute, Concurrency: 4,
			Env: []string{functionVariable + "=" + name, "AWS_ENDPOINT_URL_S3=" + front.url()},
		})
	}
	if p.stack, err = local.Start(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	front.state.Store(must(url.Parse(p.stack.Endpoint())))
	t.Cleanup(func() {
		if err := p.stack.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{stateBucket, "lake"} {
		if err := p.stack.CreateBucket(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if p.state, err = bucket.New(p.stack.S3(), stateBucket, bucket.Options{}); err != nil {
		t.Fatal(err)
	}
	return p
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// front is the S3 of the functions: the source is made up by the servers, all
// else is in the local AWS.
type front struct {
	server *httptest.Server
	state  atomic.Pointer[url.URL]
}

func newFront(t *testing.T, servers string) *front {
	f := &front{}
	source := must(url.Parse(servers))
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			to := f.state.Load()
			if isFiles(r.In.URL.Path) {
				to = source
			}
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, ""
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	f.server = httptest.NewServer(proxy)
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		transport.CloseIdleConnections()
	})
	return f
}

func (f *front) url() string { return f.server.URL }

// peaks are the most that a process of each function ever had resident.
func (p *pipeline) peaks() map[string]int64 {
	peaks := map[string]int64{}
	for _, process := range p.stack.Processes() {
		if peak, err := peakMemoryOf(process.PID); err == nil {
			peaks[process.Function] = max(peaks[process.Function], peak)
		}
	}
	return peaks
}

// checkLedger looks for every file in the ledger, and for nothing else.
func (p *pipeline) checkLedger(t *testing.T) {
	t.Helper()
	books, err := ledger.Open(p.state, step.LedgerPrefix(p.config))
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for row, err := range books.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Key != p.source.key(i) || row.ETag != tagOf(i) || row.Outcome != ledger.Done {
			t.Fatalf("row %d of the ledger is %+v, want file %s done", i, row, p.source.key(i))
		}
		i++
	}
	if i != p.source.count {
		t.Fatalf("the ledger has %d rows of %d files", i, p.source.count)
	}
}

// checkManifest holds the batches to what a child of the Map may be given.
func (p *pipeline) checkManifest(t *testing.T, b *table, found step.DiscoverOutput) {
	t.Helper()
	object, err := p.state.Get(t.Context(), found.Manifest.Key, bucket.Condition{IfMatch: found.Manifest.ETag})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	var batches []json.RawMessage
	if err := json.NewDecoder(object.Body).Decode(&batches); err != nil {
		t.Fatal(err)
	}
	if len(batches) != found.Batches {
		t.Fatalf("the manifest has %d batches, want %d", len(batches), found.Batches)
	}
	largest := slices.MaxFunc(batches, func(a, b json.RawMessage) int { return len(a) - len(b) })
	input, err := json.Marshal(map[string]any{
		"execution": step.Execution{ID: "arn:aws:states:eu-central-1:123456789012:execution:lockstep:00000000-0000-0000-0000-000000000000", Name: "00000000-0000-0000-0000-000000000000", StartTime: time.Now()},
		"config":    json.RawMessage(p.input),
		"token":     int64(1) << 40,
		"batch":     largest,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.note("manifest", "%s, %s batches", megabytes(object.Size), count(int64(found.Batches)))
	b.hold(len(input) < payloadLimit, "the largest input of a child, with the configuration", "256 KiB", "%.1f KiB", float64(len(input))/1024)
}

// outputs is what the states left in the run's data.
type outputs struct {
	Discovered step.DiscoverOutput
	Committed  step.CommitOutput
}

func output(t *testing.T, e *asl.Execution) (out outputs) {
	t.Helper()
	for _, event := range slices.Backward(e.History()) {
		if exited, ok := event.Details.(asl.StateExitedDetails); ok {
			if err := json.Unmarshal([]byte(exited.Output), &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	return out
}

// durations are how long the states took.
func durations(history []asl.Event) map[string]time.Duration {
	entered, took := map[string]time.Time{}, map[string]time.Duration{}
	for _, event := range history {
		switch event.Details.(type) {
		case asl.StateEnteredDetails:
			entered[event.State()] = event.Timestamp
		case asl.StateExitedDetails:
			took[event.State()] += event.Timestamp.Sub(entered[event.State()])
		}
	}
	return took
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return fmt.Sprint(*s)
}
