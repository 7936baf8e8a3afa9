package functions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// acquiring is an acquire function whose S3 ignores If-Match or not.
func acquiring(t *testing.T, ignored *bool) (server *s3test.Server, acquire func() (*step.AcquireOutput, error)) {
	t.Helper()
	event, err := os.ReadFile("../events/acquire.json")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Execution struct{ Input step.RunConfig }
	}
	if err := json.Unmarshal(event, &in); err != nil {
		t.Fatal(err)
	}
	server = s3test.New(t, bucket.NewMemory(in.Execution.Input.State.Bucket, nil))
	server.Fail(s3test.Fault{Op: "put", Times: s3test.Always, Do: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if *ignored {
			r.Header.Del("If-Match")
		}
		next.ServeHTTP(w, r)
	}})
	front := httptest.NewServer(server)
	t.Cleanup(front.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": front.URL, "AWS_REGION": "us-east-1", envPathStyle: "true",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	handler, err := newHandler(t.Context(), "acquire")
	if err != nil {
		t.Fatal(err)
	}
	call := handler.(func(context.Context, json.RawMessage) (*step.AcquireOutput, error))
	return server, func() (*step.AcquireOutput, error) { return call(t.Context(), event) }
}

func probes(s *s3test.Server) (n int) {
	for _, r := range s.Requests("put") {
		if strings.Contains(r.Key, "/.lockstep-probe-") {
			n++
		}
	}
	return n
}

func TestAcquireProbesOnceIfAsked(t *testing.T) {
	t.Setenv(envProbe, "true")
	good := false
	server, acquire := acquiring(t, &good)
	if out, err := acquire(); err != nil || out.Decision != step.DecisionHeld {
		t.Fatalf("%+v, %v", out, err)
	}
	first := probes(server)
	if first == 0 {
		t.Error("nothing was tried")
	}
	if _, err := acquire(); err != nil {
		t.Error(err)
	}
	if again := probes(server); again != first {
		t.Errorf("%d more writes of a probe", again-first)
	}
}

func TestAcquireDoesNotProbeUnasked(t *testing.T) {
	t.Setenv(envProbe, "")
	bad := true
	server, acquire := acquiring(t, &bad)
	if out, err := acquire(); err != nil || out.Decision != step.DecisionHeld {
		t.Errorf("%+v, %v", out, err)
	}
	if n := probes(server); n > 0 {
		t.Errorf("%d writes of a probe", n)
	}
}

// Case 5: refused before any lock is taken, and taken once it is repaired.
func TestAcquireRefusesAnEndpointThatIgnoresConditions(t *testing.T) {
	t.Setenv(envProbe, "true")
	bad := true
	server, acquire := acquiring(t, &bad)
	_, err := acquire()
	if _, outermost := err.(*step.EndpointRefusedError); !outermost { // which Lambda reports
		t.Fatalf("%T %v", err, err)
	}
	for _, r := range server.Requests("put") {
		if strings.HasSuffix(r.Key, "/lock.json") {
			t.Errorf("%s was written", r.Key)
		}
	}
	bad = false
	if out, err := acquire(); err != nil || out.Decision != step.DecisionHeld {
		t.Errorf("once repaired: %+v, %v", out, err)
	}
}

func TestAProbeIsNotReachedByABadConfiguration(t *testing.T) {
	t.Setenv(envProbe, "true")
	good := false
	server, _ := acquiring(t, &good)
	handler, err := newHandler(t.Context(), "acquire")
	if err != nil {
		t.Fatal(err)
	}
	_, err = handler.(func(context.Context, json.RawMessage) (*step.AcquireOutput, error))(t.Context(), json.RawMessage(`{"execution": {"Input": {}}}`))
	var invalid *step.InvalidConfigError
	if !errors.As(err, &invalid) || probes(server) > 0 {
		t.Errorf("%T %v", err, err)
	}
}

func TestTheSettingOfTheProbeIsTrueOrFalse(t *testing.T) {
	t.Setenv(envProbe, "perhaps")
	if _, err := newHandler(t.Context(), "acquire"); err == nil || !strings.Contains(err.Error(), envProbe) {
		t.Errorf("error %v", err)
	}
}
