package functions

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
)

// stepFunctions serves the Map Runs of one execution, two a page. It is asked
// as the SDK asks: the operation in a header, JSON in the body.
type stepFunctions struct {
	*testing.T
	statuses []string // of the runs, by number
	denied   bool
	asked    []string // operations, in order
}

const thatExecution = "arn:aws:states:us-east-1:123456789012:execution:test:P1"

func (s *stepFunctions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.Error(err)
	}
	var in struct{ ExecutionArn, MapRunArn, NextToken string }
	if err := json.Unmarshal(body, &in); err != nil {
		s.Error(err)
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	s.asked = append(s.asked, operation)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch {
	case s.denied:
		w.WriteHeader(http.StatusBadRequest)
		s.answer(w, map[string]any{"__type": "AccessDeniedException", "message": "not you"})
	case operation == "ListMapRuns" && in.ExecutionArn == thatExecution:
		s.answer(w, s.page(in.NextToken))
	case operation == "DescribeMapRun":
		number := int(in.MapRunArn[len(in.MapRunArn)-1] - '0')
		s.answer(w, map[string]any{"mapRunArn": in.MapRunArn, "status": s.statuses[number]})
	default:
		s.Errorf("asked for %s of %s", operation, body)
	}
}

func (s *stepFunctions) page(token string) map[string]any {
	const size = 2
	first := len(token) // a token is as long as the number it stands for
	runs := []map[string]any{}
	for i := first; i < min(first+size, len(s.statuses)); i++ {
		runs = append(runs, map[string]any{"mapRunArn": "arn:aws:states:us-east-1:123456789012:mapRun:test/ProcessFiles:" + string(rune('0'+i))})
	}
	page := map[string]any{"mapRuns": runs}
	if first+size < len(s.statuses) {
		page["nextToken"] = strings.Repeat("x", first+size)
	}
	return page
}

func (s *stepFunctions) answer(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.Error(err)
	}
}

func TestAnyRunningMapRunIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []string
		running  bool
	}{
		"none":                          {nil, false},
		"one that runs":                 {[]string{"RUNNING"}, true},
		"one that ended":                {[]string{"SUCCEEDED"}, false},
		"one that was aborted":          {[]string{"ABORTED"}, false},
		"one that failed":               {[]string{"FAILED"}, false},
		"a second that runs":            {[]string{"FAILED", "RUNNING"}, true},
		"one that runs on a first page": {[]string{"RUNNING", "FAILED", "FAILED"}, true},
		"one that runs on a last page":  {[]string{"FAILED", "FAILED", "ABORTED", "FAILED", "RUNNING"}, true},
		"many that ended":               {[]string{"FAILED", "FAILED", "ABORTED", "SUCCEEDED", "FAILED"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			service := &stepFunctions{T: t, statuses: c.statuses}
			running, err := ask(t, service)
			if err != nil || running != c.running {
				t.Errorf("running: %t, %v; want %t", running, err, c.running)
			}
			if !slices.Contains(service.asked, "ListMapRuns") {
				t.Errorf("asked only for %v", service.asked)
			}
		})
	}
}

// What cannot be seen may be running.
func TestMapRunsThatCannotBeSeenAreAnError(t *testing.T) {
	if _, err := ask(t, &stepFunctions{T: t, denied: true}); err == nil {
		t.Error("no error")
	}
}

func ask(t *testing.T, service *stepFunctions) (bool, error) {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	client := sfn.New(sfn.Options{
		BaseEndpoint: aws.String(server.URL), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	return mapRuns{client}.AnyRunning(t.Context(), thatExecution)
}
