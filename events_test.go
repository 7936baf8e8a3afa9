package lockstep_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// inputs are the golden events: what each function, or an execution, is given.
var inputs = map[string]any{
	"acquire.json":               &step.AcquireInput{},
	"discover.json":              &step.DiscoverInput{},
	"process.json":               &step.ProcessInput{},
	"commit.json":                &step.CommitInput{},
	"release.json":               &step.ReleaseInput{},
	"release-after-failure.json": &step.ReleaseInput{},
	"schedule.json":              &step.RunConfig{},
	"backfill.json":              &step.RunConfig{},
	"status-change.json":         nil, // EventBridge's; Release reads a part of it
}

func event(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("events", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An event never has a field that the code does not know, and none is lost on
// its way through the code. Two parts are Step Functions' own, and have more
// than any step reads: the execution, and the data that the machine keeps.
func TestEventsMakeTheRoundTripThroughTheMessages(t *testing.T) {
	files, err := filepath.Glob("events/*.json")
	if err != nil || len(files) != len(inputs) {
		t.Fatalf("%d events, and %d are known here: %v", len(files), len(inputs), err)
	}
	for name, into := range inputs {
		text := event(t, name)
		if into == nil {
			continue
		}
		var before map[string]any
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if execution, has := before["execution"].(map[string]any); has {
			delete(execution, "RoleArn")
			delete(before, "state")
		}
		text, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		encoded, err := json.Marshal(into)
		if err != nil {
			t.Fatal(err)
		}
		var after any
		if err := json.Unmarshal(encoded, &after); err != nil {
			t.Fatal(err)
		}
		if lost := missing(any(before), after, ""); lost != "" {
			t.Errorf("%s: %s was lost or changed:\n%s", name, lost, encoded)
		}
	}
}

// missing returns the path of the first value of want that got does not have.
// got may have more: fields that the event left out.
func missing(want, got any, path string) string {
	object, isObject := want.(map[string]any)
	if !isObject {
		if reflect.DeepEqual(want, got) {
			return ""
		}
		return path
	}
	other, _ := got.(map[string]any)
	for name, value := range object {
		if lost := missing(value, other[name], path+"."+name); lost != "" {
			return lost
		}
	}
	return ""
}

func TestEveryEventHasAGoodConfiguration(t *testing.T) {
	for name := range inputs {
		text := event(t, name)
		var envelope struct {
			Execution struct{ Input json.RawMessage }
			Detail    struct{ Input string }
		}
		if err := json.Unmarshal(text, &envelope); err != nil {
			t.Fatal(err)
		}
		config := text
		switch {
		case envelope.Execution.Input != nil:
			config = envelope.Execution.Input
		case envelope.Detail.Input != "":
			config = []byte(envelope.Detail.Input)
		}
		if _, err := step.ParseConfig(config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The state machine hands the functions what their events show.
func TestTheMachineSendsWhatTheEventsShow(t *testing.T) {
	for name, of := range map[string]string{
		"acquire.json": "AcquireLock", "discover.json": "DiscoverFiles", "commit.json": "CommitLedger",
		"release.json": "ReleaseLock", "release-after-failure.json": "ReleaseAfterFailure",
	} {
		var shown map[string]any
		if err := json.Unmarshal(event(t, name), &shown); err != nil {
			t.Fatal(err)
		}
		payload, _ := states(t)[of].Parameters["Payload"].(map[string]any)
		if payload == nil {
			t.Fatalf("%s sends no payload", of)
		}
		sent := map[string]any{}
		for key := range payload {
			sent[strings.TrimSuffix(key, ".$")] = nil
		}
		for key := range shown {
			if _, is := sent[key]; !is {
				t.Errorf("%s shows %s, which %s does not send", name, key, of)
			}
		}
		for key := range sent {
			if _, is := shown[key]; !is {
				t.Errorf("%s sends %s, which %s does not show", of, key, name)
			}
		}
	}
}
