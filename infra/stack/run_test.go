package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// A run of the real steps, each under the policies that its function would
// have: what a step needs and is not allowed fails here, and not on AWS.
func TestARunNeedsNoMoreThanItsFunctionsMayDo(t *testing.T) {
	for _, atomicity := range []string{"file", "run"} {
		t.Run(atomicity, func(t *testing.T) {
			w := newAccount(t, strings.Replace(shipped(t), `"atomicity": "file"`, `"atomicity": "`+atomicity+`"`, 1))
			w.put("source", "incoming/a/good.csv", "a,b\n1,2\n")
			w.put("source", "incoming/a/bad.parquet.csv", "\x00\x01\x02")

			if got := w.run("first"); atomicity == "file" && (got.Done != 1 || got.Failed != 1) {
				t.Errorf("the first run: %+v", got)
			}
			if outputs := len(w.keys("destination")); (outputs > 0) != (atomicity == "file") {
				t.Errorf("%d outputs are left", outputs)
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
		})
	}
}

// Without the right to list, S3 would say 403 of a lock that was never taken,
// of a ledger that never was, and of a file that vanished.
func TestWhatIsMissingIsSeenToBeMissing(t *testing.T) {
	w := newAccount(t, shipped(t))
	for function, key := range map[string]string{
		"Acquire": "weather/lock.json", "Release": "weather/lock.json", "Discover": "weather/ledger/source-bucket/head.json", "Commit": "weather/runs/x/000000000001/results/00000000.json",
	} {
		_, err := w.store(function, "state-bucket").Get(t.Context(), key, bucket.Condition{})
		if !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("%s, %s: %v", function, key, err)
		}
	}
	if _, err := w.store("Process", "source-bucket").Get(t.Context(), "incoming/gone.csv", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("a vanished file: %v", err)
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
	deleted int       // segments
}

func newAccount(t *testing.T, text string) *account {
	t.Helper()
	w := &account{
		T: t, tpl: synth(t, text), buckets: map[string]*bucket.Memory{}, now: time.Now(),
		names: strings.NewReplacer("${AWS::Partition}", "aws", "${SourceBucket}", "source-bucket", "${DestinationBucket}", "destination-bucket", "${StateBucket}", "state-bucket"),
	}
	for _, role := range []string{"source", "destination", "state"} {
		w.buckets[role+"-bucket"] = bucket.NewMemory(role+"-bucket", func() time.Time { return w.now })
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
	for i := range all {
		for k, resource := range all[i].resources {
			all[i].resources[k] = w.names.Replace(resource)
		}
	}
	return all
}

func (w *account) store(function, name string) step.Store {
	return &allowed{Memory: w.buckets[name], account: w, policies: w.policies(function, name)}
}

// run goes through the states as the state machine does.
func (w *account) run(name string) step.CommitOutput {
	w.Helper()
	execution := step.Execution{ID: "arn:aws:states:eu-central-1:123456789012:execution:lockstep-weather:" + name, Name: name, StartTime: time.Now()}
	ctx := w.Context()
	acquired, err := w.steps("Acquire").Acquire(ctx, step.AcquireInput{Execution: execution, Config: w.config})
	w.must("acquire", err)
	discovered, err := w.steps("Discover").Discover(ctx, step.DiscoverInput{Execution: execution, Config: w.config, Token: acquired.Token})
	w.must("discover", err)
	object, err := w.buckets[discovered.Manifest.Bucket].Get(ctx, discovered.Manifest.Key, bucket.Condition{})
	w.must("read the manifest", err)
	var batches []step.Batch
	w.must("decode the manifest", json.NewDecoder(object.Body).Decode(&batches))
	for _, batch := range batches {
		_, err := w.steps("Process").Process(ctx, step.ProcessInput{Execution: execution, Config: w.config, Token: acquired.Token, Batch: batch})
		w.must("process", err)
	}
	out, err := w.steps("Commit").Commit(ctx, step.CommitInput{Execution: execution, Config: w.config, Token: acquired.Token, Discovered: discovered})
	if tooMany := (*step.TooManyFilesFailedError)(nil); !errors.As(err, &tooMany) {
		w.must("commit", err)
	}
	released, err := w.steps("Release").Release(ctx, step.ReleaseInput{Execution: execution, Config: w.config, Token: acquired.Token})
	w.must("release", err)
	if !released.Released {
		w.Errorf("the lock was not held: %s", released.Reason)
	}
	return out
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

// allowed is a bucket behind policies.
type allowed struct {
	*bucket.Memory
	account  *account
	policies []statement
}

func (a *allowed) may(action, key string, keys map[string]string) bool {
	resource := "arn:aws:s3:::" + a.Name()
	if key != "" {
		resource += "/" + key
	}
	return permits(a.policies, request{action: action, resource: resource, keys: keys})
}

func (a *allowed) denied(op, action, key string) error {
	return fmt.Errorf("%s: %w", action, &bucket.CallError{Op: op, Bucket: a.Name(), Key: key, Status: http.StatusForbidden, Code: "AccessDenied", ServerTime: a.Now()})
}

func (a *allowed) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	return a.read(key, func() (*bucket.Object, error) { return a.Memory.Get(ctx, key, c) })
}

func (a *allowed) GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error) {
	return a.read(key, func() (*bucket.Object, error) { return a.Memory.GetRange(ctx, key, c, offset, length) })
}

func (a *allowed) read(key string, get func() (*bucket.Object, error)) (*bucket.Object, error) {
	if !a.may("s3:GetObject", key, nil) {
		return nil, a.denied("get", "s3:GetObject", key)
	}
	object, err := get()
	if errors.Is(err, bucket.ErrNotFound) && !a.may("s3:ListBucket", "", nil) {
		return nil, a.denied("get", "s3:ListBucket, to be told that it is missing", key)
	}
	return object, err
}

func (a *allowed) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error) {
	keys := map[string]string{}
	if c.IfMatch != "" {
		keys["s3:if-match"] = c.IfMatch
	}
	if c.IfNoneMatch != "" {
		keys["s3:if-none-match"] = c.IfNoneMatch
	}
	if !a.may("s3:PutObject", key, keys) {
		return bucket.Written{}, a.denied("put", "s3:PutObject", key)
	}
	return a.Memory.Put(ctx, key, body, contentType, c)
}

func (a *allowed) Upload(ctx context.Context, key string, body io.Reader, contentType string) (bucket.Written, error) {
	for _, action := range []string{"s3:PutObject", "s3:AbortMultipartUpload"} {
		if !a.may(action, key, nil) {
			return bucket.Written{}, a.denied("upload", action, key)
		}
	}
	return a.Memory.Upload(ctx, key, body, contentType)
}

func (a *allowed) Delete(ctx context.Context, key string) error {
	if !a.may("s3:DeleteObject", key, nil) {
		return a.denied("delete", "s3:DeleteObject", key)
	}
	if strings.Contains(key, "/segments/") {
		a.account.deleted++
	}
	return a.Memory.Delete(ctx, key)
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
	return a.Memory.List(ctx, o)
}
