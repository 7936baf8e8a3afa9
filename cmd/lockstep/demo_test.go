package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/lockstep-pipeline/lockstep/samples"
)

// The demo starts its functions as "lockstep function NAME" with an
// environment of their own, so the command line alone says that this test
// binary is to be the command.
func init() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "function":
		main()
	case len(os.Args) > 1 && os.Args[1] == heldDemo:
		beHeldDemo()
	}
}

// demoReport is what a consumer reads.
type demoReport struct {
	Runs []struct {
		Name, Status                  string
		Token                         int64
		Queued, Started, Ended        time.Time
		WaitedSeconds                 float64
		Files, Failed, Rows, Rejected int64
	}
	Holders []struct {
		Token       int64
		Owner       string
		From, Until time.Time
	}
	Files []struct {
		Key, Version, Run, Outcome, OutputKey, Error string
		Rows, Rejected                               int64
	}
	History map[string]json.RawMessage
}

func decodeReport(t *testing.T, document string) demoReport {
	t.Helper()
	var report demoReport
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("%v in\n%.2000s", err, document)
	}
	if decoder.More() {
		t.Fatal("there is more than one document")
	}
	return report
}

func TestDemoTellsItsStoryInOneDocumentAndKeepsIt(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "kept")
	out, stderr, code := lockstep(t, nil, "", "demo", "-o", "json", "--keep", keep)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	report := decodeReport(t, out)

	if len(report.Runs) != 3 || len(report.Holders) != 3 || len(report.History) != 3 {
		t.Fatalf("%d runs, %d holders, %d histories, want three of each", len(report.Runs), len(report.Holders), len(report.History))
	}
	for i, run := range report.Runs {
		if run.Name != fmt.Sprint("P", i+1) || run.Status != "SUCCEEDED" || run.Token != report.Runs[0].Token+int64(i) || run.Failed != 0 || run.Rejected != 0 {
			t.Errorf("run %+v", run)
		}
		if run.Queued.After(run.Started) || run.Started.After(run.Ended) || run.WaitedSeconds != run.Started.Sub(run.Queued).Seconds() {
			t.Errorf("the times of run %+v", run)
		}
		holder := report.Holders[i]
		if holder.Token != run.Token || !strings.HasSuffix(holder.Owner, ":"+run.Name) || holder.Until.Before(holder.From) {
			t.Errorf("holder %+v of %s", holder, run.Name)
		}
		if i > 0 && holder.From.Before(report.Holders[i-1].Until) {
			t.Errorf("%+v overlaps %+v", holder, report.Holders[i-1])
		}
	}
	p1, p2, p3 := report.Runs[0], report.Runs[1], report.Runs[2]
	if !p2.Queued.Before(p1.Ended) || p2.WaitedSeconds <= 0 || p3.Files != 0 {
		t.Errorf("P2 did not wait for P1, or P3 found something: %+v", report.Runs)
	}

	// Every sample is done once, a third of them by P2, and with all rows.
	var keys []string
	rows, by := map[string]int64{}, map[string]int64{}
	for _, f := range report.Files {
		if f.Outcome != "done" || f.Version == "" || f.OutputKey == "" || f.Error != "" {
			t.Errorf("file %+v", f)
		}
		keys = append(keys, f.Key)
		by[f.Run]++
		rows[strings.Split(f.Key, "/")[1]] += f.Rows
		if kept := rowsOf(t, filepath.Join(keep, "lockstep-lake", filepath.FromSlash(f.OutputKey))); kept != f.Rows {
			t.Errorf("%s has %d rows, and its output %d", f.Key, f.Rows, kept)
		}
	}
	var want []string
	for path := range filesIn(t, samples.FS()) {
		want = append(want, "incoming/"+path)
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("the report has the files\n%q, want\n%q", keys, want)
	}
	if by["P1"] != p1.Files || by["P2"] != p2.Files || by["P2"] != int64(len(want)/3) || by["P1"]+by["P2"] != int64(len(want)) {
		t.Errorf("files by run: %v, by the runs' own count %d and %d", by, p1.Files, p2.Files)
	}
	if rows["seattle-weather"] != 1461 || rows["birdstrikes"] != 10000 {
		t.Errorf("rows by data set: %v", rows)
	}

	for run, events := range report.History {
		var history []struct {
			ID   int
			Type string
		}
		if err := json.Unmarshal(events, &history); err != nil {
			t.Fatal(err)
		}
		if last := history[len(history)-1]; history[0].Type != "ExecutionStarted" || last.Type != "ExecutionSucceeded" || last.ID != len(history) {
			t.Errorf("the history of %s goes from %+v to %+v", run, history[0], last)
		}
		var kept struct{ Events json.RawMessage }
		if err := json.Unmarshal(read(t, filepath.Join(keep, "histories", run+".json")), &kept); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(compact(t, kept.Events), compact(t, events)) {
			t.Errorf("the kept history of %s is another one", run)
		}
	}
	if string(read(t, filepath.Join(keep, "report.json"))) != out {
		t.Error("report.json is not what was printed")
	}
	for _, path := range []string{"lockstep-state/weather/lock.json", "lockstep-state/weather/ledger/lockstep-source/head.json"} {
		read(t, filepath.Join(keep, filepath.FromSlash(path)))
	}
	if strings.ContainsAny(stderr, "\r\x1b") || strings.Count(stderr, "\n") < 5 || !strings.Contains(stderr, "P2 waits for the lock that P1 holds") {
		t.Errorf("progress on something that is no terminal:\n%q", stderr)
	}
}

// times are what differs between two tellings.
var times = regexp.MustCompile(`\d+\.\d+s|\d\d:\d\d:\d\d| \(\d+ turns\)|\b\d{10}00`)

func TestDemoOfYourOwnFiles(t *testing.T) {
	dir, keep := t.TempDir(), t.TempDir() // empty is as good as new
	for path, content := range map[string]string{
		"a.csv": "x\n1\n2\n", "b/b.csv": "x\n1\n", "b/deep/c.csv": "x,y\n1,2\n3\n", "b/deep/d.json": `[{"x": 1}]`, "e.ndjson": "{\"x\": 1}\n", "f.csv": "x\n",
		"bad.json": `[{"x": `, "note.txt": "no table", "b/_draft.csv": "x\n1\n",
	} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, stderr, code := lockstep(t, nil, "", "demo", "--files", dir, "--keep", keep)
	if code != 1 || !strings.Contains(stderr, "no run could do 1 of the files, the first being incoming/bad.json") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	sections := strings.Split(out, "\n\n")
	if len(sections) != 6 {
		t.Fatalf("got %d sections:\n%s", len(sections), out)
	}
	for i, want := range map[int]string{
		0: `RUN STATUS TOKEN QUEUED GOT THE LOCK ENDED WAITED FILES FAILED ROWS REJECTED
P1 SUCCEEDED 1 4 1 4 0
P2 SUCCEEDED 2 2 1 2 1
P3 SUCCEEDED 3 0 1 0 0`,
		2: `TOKEN HELD BY FROM UNTIL (server's clock, whole seconds)
1 P1
2 P2
3 P3`,
		3: `DONE BY FOLDER FILES ROWS REJECTED
P1 incoming/ 2 2 0
P1 incoming/b/ 1 1 0
P1 incoming/b/deep/ 1 1 0
P2 incoming/b/deep/ 1 1 1
P2 incoming/ 1 1 0`,
		4: `FAILED IN FILE WHY
P1 incoming/bad.json malformed file: the JSON array ends in the middle (line 1, element 1); was the file cut?
P2 incoming/bad.json malformed file: the JSON array ends in the middle (line 1, element 1); was the file cut?
P3 incoming/bad.json malformed file: the JSON array ends in the middle (line 1, element 1); was the file cut?`,
		5: `One run held the lock at a time. 6 files with 6 rows done, each exactly once.
P2 waited for P1 and did what arrived meanwhile: 2 files. P3 found nothing new, and tried again 1 file that had failed.
Kept in ` + keep + `: a folder for each bucket, the runs' histories, and report.json with all that was shown.`,
	} {
		if got := squeeze(times.ReplaceAllString(sections[i], "")); got != want {
			t.Errorf("section %d is\n%s\nwant\n%s", i, got, want)
		}
	}
	for run, want := range map[int]string{
		1: "AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded",
		2: "AcquireLock LockDecision WaitForLock DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded",
		3: "AcquireLock LockDecision DiscoverFiles AnythingNew ProcessFiles CommitLedger ReleaseLock RunSucceeded",
	} {
		if got := times.ReplaceAllString(column(sections[1], fmt.Sprint("P", run)), ""); got != want {
			t.Errorf("P%d went %s, want %s", run, got, want)
		}
	}
	if want := "2 files beside them that the selection leaves out"; !strings.Contains(stderr, want) {
		t.Errorf("%q does not say %q", stderr, want)
	}
	if rejected, err := filepath.Glob(filepath.Join(keep, "lockstep-lake", "parquet", "b", "deep", "_c.csv.*.rejected.ndjson")); err != nil || len(rejected) != 1 {
		t.Errorf("the rejected row is kept in %q (%v)", rejected, err)
	}
}

// squeeze makes columns comparable: one space between cells, none at the ends.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// column joins the cells of a table below a name.
func column(table, name string) string {
	lines := strings.Split(table, "\n")
	at := strings.Index(lines[0], name)
	var cells []string
	for _, line := range lines[1:] {
		if len(line) > at && line[at] != ' ' {
			cell, _, _ := strings.Cut(line[at:], "  ")
			cells = append(cells, cell)
		}
	}
	return strings.Join(cells, " ")
}

func TestDemoRefuses(t *testing.T) {
	few, full := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(few, "a.csv"), filepath.Join(few, "b.csv"), filepath.Join(few, "c.txt"), filepath.Join(full, "mine")} {
		if err := os.WriteFile(path, []byte("x\n1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"a folder of too few files", []string{"--files", few}, 1, []string{"2 to process", "needs three", "c.txt"}},
		{"an empty folder", []string{"--files", t.TempDir()}, 1, []string{"0 to process"}},
		{"a folder that is not there", []string{"--files", filepath.Join(few, "nowhere")}, 1, []string{"--files", "nowhere", "no such file"}},
		{"a file for a folder", []string{"--files", filepath.Join(few, "a.csv")}, 1, []string{"--files", "a.csv is not a folder"}},
		{"to keep in a folder that is in use", []string{"--keep", full}, 1, []string{"--keep", "is not empty"}},
		{"an unknown format", []string{"-o", "yaml"}, 2, []string{"yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, stderr, code := lockstep(t, nil, "", append([]string{"demo"}, c.args...)...)
			if code != c.code || c.code == 1 && out != "" {
				t.Errorf("exit code %d, want %d, with %q on standard output", code, c.code, out)
			}
			for _, say := range c.says {
				if !strings.Contains(stderr, say) {
					t.Errorf("%q does not say %q", stderr, say)
				}
			}
		})
	}
	if mine := read(t, filepath.Join(full, "mine")); string(mine) != "x\n1\n" {
		t.Errorf("a refused demo left %q", mine)
	}
}

// heldDemo is the command line of a demo that stands still once P2 waits,
// until it is interrupted.
const heldDemo = "held-demo"

func beHeldDemo() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, []string{"demo", "-o", "json"}, &console{os.Stdin, os.Stdout, &holdingWriter{ctx}}))
}

// holdingWriter is a standard error that blocks.
type holdingWriter struct{ until context.Context }

func (w *holdingWriter) Write(p []byte) (int, error) {
	n, err := os.Stderr.Write(p)
	if bytes.Contains(p, []byte("P2 waits")) {
		<-w.until.Done()
	}
	return n, err
}

func TestCtrlCStopsTheDemoAndAllItStarted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	demo := exec.Command(self, heldDemo)
	var out bytes.Buffer
	demo.Stdout = &out
	stderr, err := demo.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	defer demo.Process.Kill() // no effect on a process that was waited for
	progress := bufio.NewScanner(stderr)
	for progress.Scan() && !strings.Contains(progress.Text(), "P2 waits") {
	}
	functions := childrenOf(t, demo.Process.Pid)
	if len(functions) < 2 {
		t.Errorf("the demo runs the function processes %v, want two at least", functions)
	}
	if err := demo.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	last := ""
	for progress.Scan() {
		last = progress.Text()
	}
	var exit *exec.ExitError
	if err := demo.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("the demo ended with %v, want exit code 130", err)
	}
	if out.Len() > 0 {
		t.Errorf("an interrupted demo printed %q", &out)
	}
	if !strings.Contains(last, "interrupted") {
		t.Errorf("the last words were %q", last)
	}
	for _, pid := range functions {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Errorf("function process %d outlived the demo", pid)
		}
	}
}

// childrenOf lists the children of a process.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("needs /proc to find the children of a process")
	}
	var children []int
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …, https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, pid)
		}
	}
	return children
}

func filesIn(t *testing.T, files fs.FS) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func rowsOf(t *testing.T, path string) int64 {
	t.Helper()
	content := read(t, path)
	table, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return table.NumRows()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func compact(t *testing.T, document []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, document); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
