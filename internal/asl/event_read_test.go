package asl_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

func TestEveryEventCanBeReadAgain(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := sections(t, string(text))
		for _, event := range run(t, s["definition"], s["input"], s["mocks"]).History() {
			written, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			var again asl.Event
			if err := json.Unmarshal(written, &again); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if !reflect.DeepEqual(again, event) {
				t.Errorf("%s: %#v became %#v", file, event, again)
			}
		}
	}
}

func TestWhatOnlyAWSRecordsIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		text, state, failure string
		details              any
	}{
		"a member that is not known": {
			text: `{"timestamp":"2026-03-01T12:00:00.123Z","type":"TaskStateExited","id":7,"previousEventId":6,` +
				`"stateExitedEventDetails":{"name":"Work","output":"{}","outputDetails":{"truncated":false},"assignedVariables":{"x":"1"}}}`,
			state: "Work", details: asl.StateExitedDetails{Name: "Work", Output: "{}"},
		},
		"a type that is not known": {
			text: `{"timestamp":"2026-03-01T12:00:00.123Z","type":"TaskSubmitted","id":7,"previousEventId":6,` +
				`"taskSubmittedEventDetails":{"resource":"submitJob.sync","resourceType":"batch"}}`,
			details: json.RawMessage(`{"resource":"submitJob.sync","resourceType":"batch"}`),
		},
		"an abort without a word": {
			text: `{"timestamp":"2026-03-01T12:00:00.123Z","type":"ExecutionAborted","id":7,"previousEventId":0,` +
				`"executionAbortedEventDetails":{}}`,
			details: asl.FailureDetails{},
		},
		"no details": {
			text: `{"timestamp":"2026-03-01T12:00:00.123Z","type":"MapStateSucceeded","id":7,"previousEventId":6}`,
		},
	} {
		var event asl.Event
		if err := json.Unmarshal([]byte(c.text), &event); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if event.ID != 7 || event.State() != c.state || !reflect.DeepEqual(event.Details, c.details) {
			t.Errorf("%s: %#v", name, event)
		}
		if again, err := json.Marshal(event); err != nil || string(again) != c.text {
			t.Errorf("%s: %v, written again\n%s\nfrom\n%s", name, err, again, c.text)
		}
	}
	for _, broken := range []string{`[]`, `{"timestamp":"noon","id":1}`, `{"timestamp":"2026-03-01T12:00:00Z","type":"MapRunStarted","id":1,"mapRunStartedEventDetails":[]}`} {
		if err := json.Unmarshal([]byte(broken), new(asl.Event)); err == nil {
			t.Errorf("%s was read", broken)
		}
	}
}
