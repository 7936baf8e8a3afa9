package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// Runs of the real steps, each under the policies that its function would have:
// what a step needs and is not allowed fails here, and not on AWS.
func TestARunNeedsNoMoreThanItsFunctionsMayDo(t *testing.T) {
	w := newAccount(t, shipped(t))
	w.put("source", "incoming/a/good.csv", "a,b\n1,2\n")
	w.put("source", "incoming/a/bad.parquet.csv", "\x00\x01\x02")
	if got := w.run("first"); got.Done != 1 || got.Failed != 1 {
		t.Errorf("the first run: %+v", got)
	}
	if outputs := w.keys("destination"); !slices.Equal(outputs, []string{"parquet/a/good.csv.parquet"}) {
		t.Errorf("the outputs are %q", outputs)
	}
	// A changed file replaces its output, and one that is empty now empties it.
	for i, content := range []string{"a,b\n3,4\n5,6\n", ""} {
		w.now = w.now.Add(25 * time.Hour)
		w.put("source", "incoming/a/good.csv", content)
		if got := w.run(fmt.Sprintf("changed-%d", i)); got.Done != 1 || got.Rows != int64(2-2*i) {
			t.Errorf("after change %d: %+v", i, got)
		}
	}
	if outputs := w.keys("destination"); !slices.Equal(outputs, []string{"parquet/a/good.csv.parquet"}) {
		t.Errorf("the outputs are %q", outputs)
	}
	// Until segments were merged, and those that they came from deleted.
	for i := 0; w.deleted == 0; i++ {
		if i == 100 {
			t.Fatal("no segment was ever deleted")
		}
		w.now = w.now.Add(25 * time.Hour)
		w.put("source", fmt.Sprintf("incoming/b/%03d.csv", i), "a,b\n3,4\n")
		w.run(fmt.Sprintf("run-%03d", i))
	}
}

// The next run reads the manifest of the one that died, and makes its files due.
func TestARunAfterOneThatDiedNeedsNoMoreEither(t *testing.T) {
	w := newAccount(t, shipped(t))
	w.put("source", "incoming/a.csv", "a,b\n1,2\n")
	dead := w.execution("dead")
	acquired, discovered := w.discover(dead)
	w.process(dead, acquired.Token, discovered)
	event := fmt.Sprintf(`{"detail-type": "Step Functions Execution Status Change", "detail": {"executionArn": %q, "name": "dead", "status": "ABORTED", "input": %q}}`, dead.ID, w.config)
	var stopped step.ReleaseInput
	w.must("decode the event", json.Unmarshal([]byte(event), &stopped))
	released, err := w.steps("Release").Release(t.Context(), stopped)
	w.must("release", err)
	if released.Released {
		t.Error("the lock is free while calls of the run may be at work")
	}
	w.now = w.now.Add(time.Hour)
	if got := w.run("next"); got.Done != 1 {
		t.Errorf("the next run: %+v", got)
	}
}

func TestAProbeNeedsNoMoreThanAcquireMayDo(t *testing.T) {
	probe := func(text string) (s3lock.Report, error) {
		w := newAccount(t, text)
		w.clock = time.Now
		store := w.store("Acquire", "state-bucket").(s3lock.ProbeBucket)
		return s3lock.Probe(t.Context(), store, "weather/", s3lock.ProbeConfig{Rounds: 1, List: true})
	}
	report, err := probe(strings.Replace(shipped(t), `"stackName"`, `"functions": {"environment": {"LOCKSTEP_PROBE": "true"}}, "stackName"`, 1))
	if err != nil || len(report.Left) > 0 {
		t.Errorf("%v; left: %q", err, report.Left)
	}
	if _, err := probe(shipped(t)); err == nil {
		t.Error("acquire may probe without having to")
	}
}

// Without the right to list, S3 would say 403 of a lock that was never taken,
// of a ledger that never was, and of a file that vanished.
func TestWhatIsMissingIsSeenToBeMissing(t *testing.T) {
	w := newAccount(t, shipped(t))
	for function, key := range map[string]string{
		"Acquire": "weather/lock.json", "Release": "weather/lock.json", "Discover": "weather/ledger/source-bucket/head.json", "Commit": "weather/runs/x/0000000000000001/discovery-0123456789abcdef.json",
		"Process": "weather/runs/x/0000000000000001/results/closed.json",
	} {
		_, err := w.store(function, "state-bucket").Get(t.Context(), key, bucket.Condition{})
		if !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("%s, %s: %v", function, key, err)
		}
	}
	if _, err := w.store("Process", "source-bucket").Get(t.Context(), "incoming/gone.csv", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("a vanished file: %v", err)
	}
	if _, err := w.store("Process", "destination-bucket").Head(t.Context(), "parquet/new.csv.parquet"); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("an output that is not there: %v", err)
	}
	if _, err := w.store("Discover", "state-bucket").Head(t.Context(), "weather/runs/x/0000000000000001/summary.json"); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("the summary of a run that died: %v", err)
	}
	// And it is the right to list that does it: acquire has none for the source.
	if _, err := w.store("Acquire", "source-bucket").Get(t.Context(), "incoming/gone.csv", bucket.Condition{}); errors.Is(err, bucket.ErrNotFound) {
		t.Error("acquire may look into the source")
	}
}

// An account has the stack's buckets, in memory, and its policies.
type account struct {
	*testing.T
	tpl     template
	names   *strings.Replacer
	buckets map[string]*bucket.Memory
	config  json.RawMessage
	now     time.Time // of S3
	clock   func() time.Time
	deleted int // segments
}

func newAccount(t *testing.T, text string) *account {
	t.Helper()
	w := &account{
		T: t, tpl: synth(t, text), buckets: map[string]*bucket.Memory{}, now: time.Now(),
		names: strings.NewReplacer("${AWS::Partition}", "aws", "${SourceBucket}", "source-bucket", "${DestinationBucket}", "destination-bucket", "${StateBucket}", "state-bucket"),
	}
	w.clock = func() time.Time { return w.now }
	for _, role := range []string{"source", "destination", "state"} {
		w.buckets[role+"-bucket"] = bucket.NewMemory(role+"-bucket", func() time.Time { return w.clock() })
	}
	w.config = json.RawMessage(w.names.Replace(at(w.tpl.Resources["WeatherSchedule"].Properties, "Target", "Input").(string)))
	return w
}

func (w *account) put(role, key, content string) {
	w.Helper()
	if _, err := w.buckets[role+"-bucket"].Put(w.Context(), key, strings.NewReader(content), "", bucket.Condition{}); err != nil {
		w.Fatal(err)
	}
}

func (w *account) keys(role string) []string {
	w.Helper()
	var all []string
	for page, err := range w.buckets[role+"-bucket"].List(w.Context(), bucket.ListOptions{}) {
		w.must("list", err)
		for _, entry := range page.Entries {
			all = append(all, entry.Key)
		}
	}
	return all
}

// policies are what decides over a function's requests to a bucket: its role's,
// and the bucket's own.
func (w *account) policies(function, name string) []statement {
	w.Helper()
	all := w.tpl.grants(w.T, w.tpl.roleOf(w.T, function+"Function", "Role"))
	for _, policy := range w.tpl.ofType("AWS::S3::BucketPolicy") {
		if w.names.Replace(at(policy.Properties, "Bucket").(string)) == name {
			all = append(all, statementsOf(w.T, policy.Properties["PolicyDocument"])...)
		}
	}
	return w.named(all)
}

// named gives the resources of statements their deployed names.
func (w *account) named(all []statement) []statement {
	for i := range all {
		for k, resource := range all[i].resources {
			all[i].resources[k] = w.names.Replace(resource)
		}
	}
	return all
}

func (w *account) store(function, name string) step.Store {
	return &allowed{memory: w.buckets[name], account: w, policies: w.policies(function, name)}
}

func (w *account) execution(name string) step.Execution {
	return step.Execution{ID: "arn:aws:states:eu-central-1:123456789012:execution:lockstep-weather:" + name, Name: name, StartTime: time.Now(), Input: w.config}
}

// run goes through the states as the state machine does.
func (w *account) run(name string) step.CommitOutput {
	w.Helper()
	execution := w.execution(name)
	acquired, discovered := w.discover(execution)
	w.process(execution, acquired.Token, discovered)
	out, err := w.steps("Commit").Commit(w.Context(), step.CommitInput{Execution: execution, Token: acquired.Token, Discovered: discovered})
	w.must("commit", err)
	released, err := w.steps("Release").Release(w.Context(), step.ReleaseInput{
		Execution: execution, State: step.RunState{Acquired: &acquired, Discovered: &discovered, Committed: &out},
	})
	w.must("release", err)
	if !released.Released {
		w.Errorf("the lock was not held: %s", released.Reason)
	}
	return out
}

func (w *account) discover(execution step.Execution) (step.AcquireOutput, step.DiscoverOutput) {
	w.Helper()
	acquired, err := w.steps("Acquire").Acquire(w.Context(), step.AcquireInput{Execution: execution})
	w.must("acquire", err)
	discovered, err := w.steps("Discover").Discover(w.Context(), step.DiscoverInput{Execution: execution, Token: acquired.Token})
	w.must("discover", err)
	return acquired, discovered
}

func (w *account) process(execution step.Execution, token int64, discovered step.DiscoverOutput) {
	w.Helper()
	if key := "arn:aws:s3:::" + discovered.Manifest.Bucket + "/" + discovered.Manifest.Key; !permits(w.machinePolicies(), request{action: "s3:GetObject", resource: key}) {
		w.Errorf("the state machine may not read the manifest %s", key)
	}
	object, err := w.buckets[discovered.Manifest.Bucket].Get(w.Context(), discovered.Manifest.Key, bucket.Condition{})
	w.must("read the manifest", err)
	var batches []step.Batch
	w.must("decode the manifest", json.NewDecoder(object.Body).Decode(&batches))
	for _, batch := range batches {
		_, err := w.steps("Process").Process(w.Context(), step.ProcessInput{Execution: execution, Token: token, Batch: batch})
		w.must("process", err)
	}
}

func (w *account) machinePolicies() []statement {
	w.Helper()
	return w.named(w.tpl.grants(w.T, w.tpl.roleOf(w.T, "WeatherStateMachine", "RoleArn")))
}

func (w *account) must(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

func (w *account) steps(function string) *step.Steps {
	w.Helper()
	processor, err := process.NewParquet(process.Config{ScratchDir: w.TempDir()})
	w.must("processor", err)
	steps, err := step.New(step.Config{
		Open:      func(name string) (step.Store, error) { return w.store(function, name), nil },
		Processor: processor,
	})
	w.must("steps", err)
	return steps
}

// allowed is a bucket behind policies. It embeds nothing: what is not written
// here cannot be called.
type allowed struct {
	memory   *bucket.Memory
	account  *account
	policies []statement
}

func (a *allowed) Name() string { return a.memory.Name() }

func (a *allowed) may(action, key string, keys map[string]string) bool {
	resource := "arn:aws:s3:::" + a.Name()
	if key != "" {
		resource += "/" + key
	}
	return permits(a.policies, request{action: action, resource: resource, keys: keys})
}

func (a *allowed) denied(op, action, key string) error {
	return fmt.Errorf("%s: %w", action, &bucket.CallError{Op: op, Bucket: a.Name(), Key: key, Status: http.StatusForbidden, Code: "AccessDenied", ServerTime: a.account.clock()})
}

func (a *allowed) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	return a.read("get", key, func() (*bucket.Object, error) { return a.memory.Get(ctx, key, c) })
}

func (a *allowed) GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error) {
	return a.read("get", key, func() (*bucket.Object, error) { return a.memory.GetRange(ctx, key, c, offset, length) })
}

func (a *allowed) Head(ctx context.Context, key string) (*bucket.Object, error) {
	return a.read("head", key, func() (*bucket.Object, error) { return a.memory.Head(ctx, key) })
}

// read is for GET and HEAD, which S3 allows alike.
func (a *allowed) read(op, key string, read func() (*bucket.Object, error)) (*bucket.Object, error) {
	if !a.may("s3:GetObject", key, nil) {
		return nil, a.denied(op, "s3:GetObject", key)
	}
	object, err := read()
	if errors.Is(err, bucket.ErrNotFound) && !a.may("s3:ListBucket", "", nil) {
		return nil, a.denied(op, "s3:ListBucket, to be told that it is missing", key)
	}
	return object, err
}

func (a *allowed) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error) {
	return a.PutWith(ctx, key, body, bucket.PutOptions{ContentType: contentType, Condition: c})
}

func (a *allowed) PutWith(ctx context.Context, key string, body io.ReadSeeker, o bucket.PutOptions) (bucket.Written, error) {
	keys := map[string]string{}
	if match := o.Condition.IfMatch; match != "" {
		keys["s3:if-match"] = match
	}
	if match := o.Condition.IfNoneMatch; match != "" {
		keys["s3:if-none-match"] = match
	}
	if !a.may("s3:PutObject", key, keys) {
		return bucket.Written{}, a.denied("put", "s3:PutObject", key)
	}
	return a.memory.PutWith(ctx, key, body, o)
}

func (a *allowed) Upload(ctx context.Context, key string, body io.Reader, contentType string) (bucket.Written, error) {
	for _, action := range []string{"s3:PutObject", "s3:AbortMultipartUpload"} {
		if !a.may(action, key, nil) {
			return bucket.Written{}, a.denied("upload", action, key)
		}
	}
	return a.memory.Upload(ctx, key, body, contentType)
}

func (a *allowed) Delete(ctx context.Context, key string) error {
	if !a.may("s3:DeleteObject", key, nil) {
		return a.denied("delete", "s3:DeleteObject", key)
	}
	if strings.Contains(key, "/segments/") {
		a.account.deleted++
	}
	return a.memory.Delete(ctx, key)
}

func (a *allowed) List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	keys := map[string]string{}
	if o.Prefix != "" {
		keys["s3:prefix"] = o.Prefix
	}
	if !a.may("s3:ListBucket", "", keys) {
		return func(yield func(bucket.Page, error) bool) {
			yield(bucket.Page{}, a.denied("list", "s3:ListBucket", o.Prefix))
		}
	}
	return a.memory.List(ctx, o)
}
