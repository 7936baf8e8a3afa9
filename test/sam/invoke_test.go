package sam_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
	"github.com/lockstep-pipeline/lockstep/test/sam"
)

// invokeEvent calls a function as a user does, with make, and reads its answer.
func invokeEvent(t *testing.T, function, path string, answer any) {
	t.Helper()
	command := exec.Command("make", "--no-print-directory", "sam-"+function, "EVENT="+path, "SAM_FLAGS="+*samFlags)
	command.Dir = root
	var log bytes.Buffer
	command.Stderr = &log
	said, err := command.Output()
	if err == nil {
		err = json.Unmarshal(said, answer)
	}
	if err != nil {
		t.Fatalf("make sam-%s EVENT=%s: %v\n%s\n%s", function, path, err, said, log.Bytes())
	}
	t.Logf("%s %s -> %s", function, filepath.Base(path), bytes.TrimSpace(said))
}

// golden calls a function with its event in events/.
func golden(t *testing.T, function, name string, answer any) {
	t.Helper()
	invokeEvent(t, function, "events/"+name+".json", answer)
}

// with calls a function with its event in events/, one part of it replaced.
func with(t *testing.T, function, part string, value, answer any) {
	t.Helper()
	var in map[string]any
	event(t, function, &in)
	in[part] = value
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), function+"-with-"+part+".json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	invokeEvent(t, function, path, answer)
}

// refusal is how a function's error comes out of SAM.
type refusal struct{ ErrorType, ErrorMessage string }

func TestARunThroughSAM(t *testing.T) {
	if !*invoke {
		t.Skip("needs -invoke: make sam-test")
	}
	laptop := start(t, sam.Addresses()...)

	var held step.AcquireOutput
	golden(t, "acquire", "acquire", &held)
	if held.Decision != step.DecisionHeld || held.Token != sam.Token {
		t.Fatalf("acquire answered %+v", held)
	}

	var found step.DiscoverOutput
	golden(t, "discover", "discover", &found)
	if found.Files != int64(laptop.Files()) || found.Batches != 2 {
		t.Fatalf("discover answered %+v; there are %d files", found, laptop.Files())
	}
	state, err := laptop.Bucket(found.Manifest.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	var manifest []step.Batch
	if err := json.Unmarshal(content(t, state, found.Manifest.Key), &manifest); err != nil {
		t.Fatal(err)
	}

	var processed step.ProcessOutput
	golden(t, "process", "process", &processed)
	if processed.Done != 1 || processed.Failed != 0 {
		t.Errorf("process answered %+v", processed)
	}
	for _, batch := range manifest {
		with(t, "process", "batch", batch, &processed)
		if processed.Done != len(batch.Files) || processed.Failed != 0 || processed.Batch != batch.Number {
			t.Errorf("process answered %+v for a batch of %d files", processed, len(batch.Files))
		}
	}

	// The event's manifest is not one that discover wrote just now.
	var refused refusal
	golden(t, "commit", "commit", &refused)
	if refused.ErrorType != "StepError" || !strings.Contains(refused.ErrorMessage, "discovery-6f1d0c2a9be84735.json") {
		t.Errorf("commit answered %+v", refused)
	}
	var done step.CommitOutput
	with(t, "commit", "discovered", found, &done)
	if done.Done != int64(laptop.Files()) || done.Failed != 0 || done.Rows == 0 {
		t.Errorf("commit answered %+v", done)
	}

	var released step.ReleaseOutput
	golden(t, "release", "release", &released)
	if !released.Released {
		t.Errorf("release answered %+v", released)
	}
	for _, name := range []string{"release-after-failure", "status-change"} { // no longer held
		released = step.ReleaseOutput{Released: true}
		golden(t, "release", name, &released)
		if released.Released || !strings.Contains(released.Reason, "held no lock") {
			t.Errorf("release answered %+v to %s", released, name)
		}
	}
	refused = refusal{}
	golden(t, "process", "process", &refused)
	if refused.ErrorType != "LeaseLostError" {
		t.Errorf("process answered %+v without a lease", refused)
	}

	checkOutputs(t, laptop, manifest, done.Rows)
}

// checkOutputs compares what the containers wrote with what this process makes
// of the same files, and reads it.
func checkOutputs(t *testing.T, laptop *sam.Laptop, manifest []step.Batch, rows int64) {
	t.Helper()
	var in step.ProcessInput
	event(t, "process", &in)
	config, err := step.ParseConfig(in.Execution.Input)
	if err != nil {
		t.Fatal(err)
	}
	source, err := laptop.Bucket(config.Source.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	destination, err := laptop.Bucket(config.Destination.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	processor, err := process.NewParquet(process.Config{ScratchDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want := shelf{}
	for _, batch := range manifest {
		for _, f := range batch.Files {
			_, err := processor.Process(t.Context(), process.File{
				Key: f.Key, ETag: f.ETag, Size: f.Size, LastModified: f.LastModified, Token: sam.Token, Body: bytes.NewReader(content(t, source, f.Key)),
			}, want)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var read int64
	var keys int
	for page, err := range destination.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range page.Entries {
			keys++
			text := content(t, destination, entry.Key)
			if !want[string(text)] {
				t.Errorf("%s is not what this process makes of any file", entry.Key)
			}
			if strings.HasSuffix(entry.Key, ".parquet") {
				table, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
				if err != nil {
					t.Errorf("%s: %v", entry.Key, err)
					continue
				}
				read += table.NumRows()
			}
		}
	}
	if keys != len(want) || read != rows {
		t.Errorf("%d objects with %d rows; wanted %d with %d: %v", keys, read, len(want), rows, slices.Collect(maps.Keys(want)))
	}
	t.Logf("%d outputs with %d rows, byte for byte as this process makes them", keys, read)
}

// shelf keeps what a processor publishes.
type shelf map[string]bool

func (s shelf) Publish(_ context.Context, out process.Output) error {
	body := out.Body
	text, err := io.ReadAll(body)
	s[string(text)] = true
	return err
}

func content(t *testing.T, from *bucket.Bucket, key string) []byte {
	t.Helper()
	object, err := from.Get(t.Context(), key, bucket.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	text, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
