package sam_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/test/sam"
)

func start(t *testing.T, addresses ...string) *sam.Laptop {
	t.Helper()
	laptop, err := sam.Start(t.Context(), addresses...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := laptop.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return laptop
}

func event(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(read(t, "events/"+name+".json"), into); err != nil {
		t.Fatal(err)
	}
}

// Otherwise only the first event would do anything.
func TestTheEventsSuitTheBuckets(t *testing.T) {
	laptop := start(t)
	steps, err := step.New(step.Config{Open: func(name string) (step.Store, error) { return laptop.Bucket(name) }})
	if err != nil {
		t.Fatal(err)
	}
	var acquire step.AcquireInput
	event(t, "acquire", &acquire)
	held, err := steps.Acquire(t.Context(), acquire)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"discover", "process", "commit"} {
		var in struct{ Token int64 }
		event(t, name, &in)
		if in.Token != held.Token || held.Token != sam.Token {
			t.Errorf("%s.json is about token %d, and the first run gets %d", name, in.Token, held.Token)
		}
	}
	var process step.ProcessInput
	event(t, "process", &process)
	config, err := step.ParseConfig(process.Execution.Input)
	if err != nil {
		t.Fatal(err)
	}
	source, err := laptop.Bucket(config.Source.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range process.Batch.Files {
		object, err := source.Get(t.Context(), file.Key, bucket.Condition{IfMatch: file.ETag})
		if err != nil {
			t.Errorf("%s.json: %v", "process", err)
			continue
		}
		_ = object.Body.Close()
		if object.Size != file.Size {
			t.Errorf("process.json: %s has %d bytes, not %d", file.Key, object.Size, file.Size)
		}
	}
}

func TestTheServiceAnswersLikeS3(t *testing.T) {
	address := start(t, "127.0.0.1:0").At()[0]
	answer, err := http.Get("http://" + address + "/lockstep-source?list-type=2&prefix=incoming/penguins/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if listing, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(listing), "<KeyCount>5</KeyCount>") {
		t.Errorf("%v: %s", err, listing)
	}
}
