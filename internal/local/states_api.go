package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// statesTarget begins the X-Amz-Target of every Step Functions operation.
const statesTarget = "AWSStepFunctions."

// statesAPI answers operations of Step Functions, in AWS JSON 1.0,
// https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
type statesAPI struct {
	executions *executions
}

// statesError is an exception of the service.
type statesError struct{ kind, message string }

func (e *statesError) Error() string { return e.kind + ": " + e.message }

// statesRequest holds the members of all requests that are answered here.
type statesRequest struct {
	StateMachineARN      string     `json:"stateMachineArn"`
	ExecutionARN         string     `json:"executionArn"`
	MapRunARN            string     `json:"mapRunArn"`
	Name                 string     `json:"name"`
	Input                string     `json:"input"`
	Error                string     `json:"error"`
	Cause                string     `json:"cause"`
	StatusFilter         asl.Status `json:"statusFilter"`
	RedriveFilter        string     `json:"redriveFilter"`
	MaxResults           int        `json:"maxResults"`
	NextToken            string     `json:"nextToken"`
	ReverseOrder         bool       `json:"reverseOrder"`
	IncludeExecutionData *bool      `json:"includeExecutionData"`
	IncludedData         string     `json:"includedData"`
}

func (s *statesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-RequestId", uuid.NewString())
	answer, err := s.answer(strings.TrimPrefix(r.Header.Get("X-Amz-Target"), statesTarget), r)
	var body []byte
	if err == nil {
		body, err = json.Marshal(answer)
	}
	if err != nil {
		refuseStates(w, err)
		return
	}
	_, _ = w.Write(body)
}

func (s *statesAPI) answer(operation string, r *http.Request) (any, error) {
	var in statesRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, &statesError{"SerializationException", err.Error()}
	}
	if (in.IncludeExecutionData != nil && !*in.IncludeExecutionData) || in.IncludedData == "METADATA_ONLY" {
		return nil, &statesError{"ValidationException", "The local Step Functions always includes the data."}
	}
	switch operation {
	case "StartExecution":
		return s.startExecution(in)
	case "StopExecution":
		return s.stopExecution(in)
	case "ListExecutions":
		return s.listExecutions(in)
	case "DescribeExecution":
		return s.describeExecution(in)
	case "GetExecutionHistory":
		return s.history(in)
	case "ListMapRuns":
		return s.listMapRuns(in)
	case "DescribeMapRun":
		return s.describeMapRun(in)
	}
	return nil, &statesError{"UnknownOperationException", fmt.Sprintf("The local Step Functions does not have %s.", operation)}
}

func refuseStates(w http.ResponseWriter, err error) {
	status, kind, message := http.StatusInternalServerError, "InternalFailure", err.Error()
	if refusal, ok := err.(*statesError); ok {
		status, kind, message = http.StatusBadRequest, refusal.kind, refusal.message
	}
	w.Header().Set("X-Amzn-ErrorType", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": kind, "message": message})
}

func (s *statesAPI) execution(arn string) (*asl.Execution, error) {
	if !strings.HasPrefix(arn, "arn:") {
		return nil, &statesError{"InvalidArn", fmt.Sprintf("Invalid Arn: 'Invalid ARN prefix: %s'", arn)}
	}
	execution := s.executions.find(arn)
	if execution == nil {
		return nil, &statesError{"ExecutionDoesNotExist", fmt.Sprintf("Execution Does Not Exist: '%s'", arn)}
	}
	return execution, nil
}

func (s *statesAPI) describeExecution(in statesRequest) (any, error) {
	execution, err := s.execution(in.ExecutionARN)
	if err != nil {
		return nil, err
	}
	return inEpochSeconds(execution.Describe())
}

// listMapRuns gives all of them as one page: an execution has few.
func (s *statesAPI) listMapRuns(in statesRequest) (any, error) {
	execution, err := s.execution(in.ExecutionARN)
	if err != nil {
		return nil, err
	}
	var summaries []asl.MapRunSummary
	for _, run := range execution.MapRuns() {
		summaries = append(summaries, run.Summary())
	}
	list, err := allInEpochSeconds(summaries)
	return map[string]any{"mapRuns": list}, err
}

func (s *statesAPI) describeMapRun(in statesRequest) (any, error) {
	run, err := s.mapRun(in.MapRunARN)
	if err != nil {
		return nil, err
	}
	return inEpochSeconds(run.Describe())
}

func (s *statesAPI) mapRun(arn string) (*asl.MapRun, error) {
	run := s.executions.findMapRun(arn)
	if run == nil {
		return nil, &statesError{"ResourceNotFound", fmt.Sprintf("Resource not found: '%s'", arn)}
	}
	return run, nil
}

// The pages of GetExecutionHistory and ListExecutions, from their API reference.
const (
	defaultPage = 100
	maxPage     = 1000
)

func (s *statesAPI) history(in statesRequest) (any, error) {
	execution, err := s.execution(in.ExecutionARN)
	if err != nil {
		return nil, err
	}
	events := execution.History()
	if in.ReverseOrder {
		slices.Reverse(events)
	}
	// A token is the id of the next event, which stays right while events are added.
	if in.NextToken != "" {
		next := slices.IndexFunc(events, func(e asl.Event) bool { return strconv.FormatInt(e.ID, 10) == in.NextToken })
		if next < 0 {
			return nil, &statesError{"InvalidToken", fmt.Sprintf("Invalid Token: '%s'", in.NextToken)}
		}
		events = events[next:]
	}
	answer := map[string]any{}
	if size := pageSizeOf(in); len(events) > size {
		answer["nextToken"] = strconv.FormatInt(events[size].ID, 10)
		events = events[:size]
	}
	answer["events"], err = allInEpochSeconds(events)
	return answer, err
}

func pageSizeOf(in statesRequest) int {
	if in.MaxResults <= 0 {
		return defaultPage
	}
	return min(in.MaxResults, maxPage)
}

func allInEpochSeconds[T any](descriptions []T) ([]map[string]json.RawMessage, error) {
	list := make([]map[string]json.RawMessage, len(descriptions))
	for i, description := range descriptions {
		var err error
		if list[i], err = inEpochSeconds(description); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// inEpochSeconds gives the times of a description the form of the protocol.
// The interpreter writes them as people read them.
func inEpochSeconds(description any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(description)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"startDate", "stopDate", "timestamp"} {
		value, ok := members[name]
		if !ok || bytes.Equal(value, []byte("null")) {
			continue
		}
		var at time.Time
		if err := json.Unmarshal(value, &at); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		members[name] = json.RawMessage(strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	}
	return members, nil
}
