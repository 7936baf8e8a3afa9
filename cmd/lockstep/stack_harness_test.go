package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	lockstepfiles "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// theMachine is the state machine that deployments say they have.
const theMachine = "arn:aws:states:" + local.Region + ":" + local.Account + ":stateMachine:lockstep-weather"

// scheduled is the run configuration of deployments.
var scheduled = strings.NewReplacer(`"pollSeconds": 15`, `"pollSeconds": 1`, `"maxWaitSeconds": 3600`, `"maxWaitSeconds": 600`).
	Replace(string(lockstepfiles.ScheduleEvent))

// waiting is a state machine that waits until it is aborted.
const waiting = `{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 86400, "End": true}}}`

// matches compares a text line by line with patterns.
func matches(t *testing.T, what, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(`^` + pattern + `$`).MatchString(got) {
		t.Errorf("%s is\n%s\nwhich is not\n%s", what, got, pattern)
	}
}

// deployment is a deployed stack: CloudFormation in front of a local AWS.
type deployment struct {
	*endpoint
	stack *local.Stack
	seen  *watcher

	mu      sync.Mutex // a server reads the outputs
	outputs map[string]string
}

// output changes an output; an empty value takes it away.
func (d *deployment) output(name, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outputs[name] = value
	if value == "" {
		delete(d.outputs, name)
	}
}

// watcher waits for events of executions.
type watcher struct {
	mu      sync.Mutex
	events  map[string]bool // execution's name and event's type
	changed chan struct{}   // closed at the next event
}

// Event is asl.Observer.
func (w *watcher) Event(e *asl.Execution, event asl.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[e.Name()+" "+string(event.Type)] = true
	close(w.changed)
	w.changed = make(chan struct{})
}

// Status is asl.Observer.
func (w *watcher) Status(*asl.Execution, asl.Status) {}

// until waits for an event of the execution of that name.
func (w *watcher) until(t *testing.T, name string, event asl.EventType) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		w.mu.Lock()
		seen, changed := w.events[name+" "+string(event)], w.changed
		w.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-changed:
		case <-patience:
			t.Fatalf("%s never had %s", name, event)
		}
	}
}

// deploy starts a state machine that calls no function.
func deploy(t *testing.T, definition string) *deployment {
	t.Helper()
	return deployConfig(t, local.Config{Definition: []byte(definition)})
}

// deployPipeline starts the whole pipeline, with its functions and buckets.
func deployPipeline(t *testing.T) *deployment {
	t.Helper()
	config, err := step.ParseConfig([]byte(scheduled))
	if err != nil {
		t.Fatal(err)
	}
	cfg := local.Config{
		Definition: lockstepfiles.Definition, OnStatusChange: "release",
		Substitutions: step.Substitutions(config),
	}
	for _, name := range functions.Names {
		cfg.Functions = append(cfg.Functions, local.Function{Name: name, Argv: []string{os.Args[0], "function", name}, Timeout: time.Minute, Concurrency: 2})
	}
	d := deployConfig(t, cfg)
	for _, bucket := range []string{"lockstep-source", "lockstep-lake", "lockstep-state"} {
		if err := d.stack.CreateBucket(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func deployConfig(t *testing.T, cfg local.Config) *deployment {
	t.Helper()
	seen := &watcher{events: map[string]bool{}, changed: make(chan struct{})}
	cfg.MachineName, cfg.Observer, cfg.Logger, cfg.Stderr = "lockstep-weather", seen, slog.New(slog.DiscardHandler), t.Output()
	stack, err := local.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d := &deployment{stack: stack, seen: seen, outputs: map[string]string{
		"DashboardURL": "https://example.com/dashboard", "WeatherStateMachineArn": theMachine, "WeatherRun": scheduled,
		"WeatherStateMachineURL": "https://example.com/machine",
	}}
	target, err := url.Parse(stack.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	services := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // commands are interrupted
	}
	d.endpoint = &endpoint{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
			d.cloudFormation(w, r)
			return
		}
		services.ServeHTTP(w, r)
	}))}
	t.Cleanup(d.Close)
	return d
}

// cloudFormation answers DescribeStacks as it was recorded.
func (d *deployment) cloudFormation(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/xml")
	stack := r.FormValue("StackName")
	if r.FormValue("Action") != "DescribeStacks" || stack != "lockstep" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<ErrorResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><Error><Type>Sender</Type><Code>ValidationError</Code>`+
			`<Message>Stack with id %s does not exist</Message></Error><RequestId>1a2b</RequestId></ErrorResponse>`, stack)
		return
	}
	var members bytes.Buffer
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(d.outputs)) {
		fmt.Fprintf(&members, "<member><OutputKey>%s</OutputKey><OutputValue>", key)
		_ = xml.EscapeText(&members, []byte(d.outputs[key]))
		members.WriteString("</OutputValue><Description>what it is</Description></member>")
	}
	fmt.Fprintf(w, `<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks><member>`+
		`<StackId>arn:aws:cloudformation:us-east-1:123456789012:stack/lockstep/4f54d363-7a30-4186-9fc9-e5f74911f4a7</StackId><StackName>lockstep</StackName>`+
		`<Parameters/><CreationTime>2026-03-01T12:00:00.123Z</CreationTime><StackStatus>CREATE_COMPLETE</StackStatus><DisableRollback>false</DisableRollback>`+
		`<NotificationARNs/><Outputs>%s</Outputs><Tags/><EnableTerminationProtection>false</EnableTerminationProtection></member></Stacks></DescribeStacksResult>`+
		`<ResponseMetadata><RequestId>1a2b</RequestId></ResponseMetadata></DescribeStacksResponse>`, &members)
}

// begin starts a command that uses the deployment.
func (d *deployment) begin(t *testing.T, args ...string) *process {
	t.Helper()
	return d.start(t, append(args, "--endpoint-url", d.URL)...)
}

// run runs a command that uses the deployment.
func (d *deployment) run(t *testing.T, args ...string) (out, stderr string, code int) {
	t.Helper()
	return d.begin(t, args...).end(t)
}

// upload puts a source file.
func (d *deployment) upload(t *testing.T, key, content string) {
	t.Helper()
	_, err := d.stack.S3().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("lockstep-source"), Key: &key, Body: strings.NewReader(content)})
	if err != nil {
		t.Fatal(err)
	}
}

// object reads an object of the state bucket.
func (d *deployment) object(t *testing.T, key string) string {
	t.Helper()
	object, err := d.stack.S3().GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("lockstep-state"), Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	content, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// states is a client of the deployment's Step Functions.
func (d *deployment) states() *sfn.Client {
	return sfn.New(sfn.Options{
		BaseEndpoint: aws.String(d.stack.Endpoint()), Region: local.Region, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
}

// described is an execution of the deployment.
func (d *deployment) described(t *testing.T, name string) *sfn.DescribeExecutionOutput {
	t.Helper()
	described, err := d.states().DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: aws.String(executionARN(theMachine, name))})
	if err != nil {
		t.Fatal(err)
	}
	return described
}

// lock is the pipeline's, for somebody within the test.
// token is the token that the lock was granted with last.
func (d *deployment) token(t *testing.T) int64 {
	t.Helper()
	status, err := d.lock(t).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status.LastToken
}

func (d *deployment) lock(t *testing.T) *lease.Lock {
	t.Helper()
	state, err := bucket.New(d.stack.S3(), "lockstep-state", bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	register, err := s3lock.New(state, "weather/lock.json")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lease.New(register, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}
