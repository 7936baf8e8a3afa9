package asl_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"math/rand/v2"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/mock"
)

var update = flag.Bool("update", false, "rewrite the histories in testdata; read the difference before you commit it")

// TestHistories runs each machine of testdata and compares its whole history with what AWS has been seen, or is
// documented, to record. A file holds sections: what it shows, the definition, and where they are needed input and
// mocks; then the history, one event a line, and the end.
func TestHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := sections(t, string(text))
			e := run(t, s["definition"], s["input"], s["mocks"])
			got := compact(t, e)
			if *update {
				rewrite(t, file, string(text), got)
				return
			}
			compareLines(t, s["history"], got)
		})
	}
}

// run carries a machine to its end, in simulated time.
func run(t *testing.T, definition, input, mocks string) *asl.Execution {
	t.Helper()
	world, err := mock.Load([]byte(mocks))
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t, definition, asl.Config{Lambda: world, Objects: world})
	e, err := m.Start(t.Context(), asl.Input{Name: "N", JSON: strings.TrimSpace(input)})
	if err != nil {
		t.Fatal(err)
	}
	e.Wait()
	return e
}

var noWaiting = func() asl.WaitScale { s, _ := asl.ScaleWaits(0); return s }()

// machine loads a definition that must be executable, for simulated time.
func machine(t *testing.T, definition string, cfg asl.Config) *asl.Machine {
	t.Helper()
	def, err := asl.Load([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.RoleARN = "M", "arn:aws:iam::123456789012:role/R"
	cfg.Random = rand.NewPCG(1, 2)
	cfg.Simulated, cfg.WaitScale = true, noWaiting
	m, err := asl.NewMachine(def, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sections splits a file of testdata at its lines "-- name --".
func sections(t *testing.T, text string) map[string]string {
	t.Helper()
	s := map[string]string{}
	name := "about"
	for line := range strings.Lines(text) {
		if header, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(header, " --") {
			name = strings.TrimSuffix(header, " --")
			continue
		}
		s[name] += line
	}
	if s["definition"] == "" || s["history"] == "" && !*update {
		t.Fatal("the file needs the sections definition and history")
	}
	return s
}

func rewrite(t *testing.T, file, text string, got []string) {
	t.Helper()
	before, _, _ := strings.Cut(text, "-- history --\n")
	text = strings.TrimRight(before, "\n") + "\n-- history --\n" + strings.Join(got, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func compareLines(t *testing.T, want string, got []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(want), "\n")
	for i := range max(len(lines), len(got)) {
		w, g := "(nothing)", "(nothing)"
		if i < len(lines) {
			w = lines[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
}

// compact writes a history and its end as lines: "3<-2 PassStateExited name=P output={}". It checks what it leaves out:
// contiguous ids, timestamps that do not run backwards, and the companions of inputs and outputs.
func compact(t *testing.T, e *asl.Execution) []string {
	t.Helper()
	var lines []string
	last := time.Time{}
	for i, event := range e.History() {
		if event.ID != int64(i)+1 || event.Timestamp.Before(last) {
			t.Errorf("event %d has id %d and time %v, after %v", i+1, event.ID, event.Timestamp, last)
		}
		last = event.Timestamp
		line := fmt.Sprintf("%d<-%d %s", event.ID, event.PreviousEventID, event.Type)
		if details := detailsOf(t, event); details != "" {
			line += " " + details
		}
		lines = append(lines, line)
	}
	d := e.Describe()
	end := string(d.Status)
	for name, v := range map[string]*string{"output": d.Output} {
		if v != nil {
			end += " " + name + "=" + *v
		}
	}
	if d.Error != nil {
		end += " error=" + *d.Error
	}
	if d.Cause != nil {
		end += " cause=" + *d.Cause
	}
	return append(lines, masked(end))
}

func detailsOf(t *testing.T, event asl.Event) string {
	t.Helper()
	text, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"timestamp", "type", "id", "previousEventId"} {
		delete(whole, key)
	}
	if len(whole) == 0 {
		return ""
	}
	var details map[string]json.RawMessage
	for key, v := range whole {
		if !strings.HasSuffix(key, "EventDetails") {
			t.Errorf("event %d has the key %s", event.ID, key)
		}
		if err := json.Unmarshal(v, &details); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"input", "output"} {
		companion, ok := details[key+"Details"]
		if _, has := details[key]; has != ok || ok && string(companion) != `{"truncated":false}` {
			t.Errorf("event %d: %sDetails is %s", event.ID, key, companion)
		}
		delete(details, key+"Details")
	}
	if len(details) == 0 {
		return "{}"
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(details)) {
		v := details[key]
		var s string
		if json.Unmarshal(v, &s) == nil {
			v = json.RawMessage(s)
		}
		parts = append(parts, key+"="+string(bytes.ReplaceAll(v, []byte("\n"), []byte(`\n`))))
	}
	return masked(strings.Join(parts, " "))
}
