package demo

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// WriteText tells the report to a person.
func (r *Report) WriteText(out io.Writer) error {
	var text strings.Builder
	for _, t := range []*table{r.runs(), r.states(), r.lock(), r.folders(), r.failures()} {
		if len(t.rows) > 0 {
			t.write(&text)
			text.WriteByte('\n')
		}
	}
	text.WriteString(r.moral())
	_, err := io.WriteString(out, strings.TrimSuffix(text.String(), "\n")+"\n")
	return err
}

func (r *Report) runs() *table {
	t := newTable("RUN", "STATUS", "TOKEN>", "QUEUED>", "GOT THE LOCK>", "ENDED>", "WAITED>", "FILES>", "FAILED>", "ROWS>", "REJECTED>")
	for _, run := range r.Runs {
		t.add(run.Name, run.Status, number(run.Token), r.since(run.Queued), r.since(run.Started), r.since(run.Ended),
			fmt.Sprintf("%.2fs", run.Waited), number(run.Files), number(run.Failed), number(run.Rows), number(run.Rejected))
	}
	return t
}

// states is a column for each run and a line for each state that was entered,
// in the order of time: who waits can be seen beside who works.
func (r *Report) states() *table {
	names := []string{"TIME>"}
	var legs []leg
	for i, run := range r.Runs {
		names = append(names, run.Name)
		for _, l := range journey(r.History[run.Name]) {
			l.run = i
			legs = append(legs, l)
		}
	}
	slices.SortStableFunc(legs, func(a, b leg) int { return a.at.Compare(b.at) })
	t := newTable(names...)
	for _, l := range legs {
		cells := make([]string, len(names))
		cells[0], cells[1+l.run] = r.since(l.at), l.state
		t.add(cells...)
	}
	return t
}

func (r *Report) lock() *table {
	t := newTable("TOKEN>", "HELD BY", "FROM", "UNTIL (server's clock, whole seconds)")
	for _, h := range r.Holders {
		t.add(number(h.Token), h.Owner[strings.LastIndex(h.Owner, ":")+1:], h.From.Format(time.TimeOnly), h.Until.Format(time.TimeOnly))
	}
	return t
}

// folders sums the files that were done, by run and folder.
func (r *Report) folders() *table {
	type sum struct{ files, rows, rejected int64 }
	sums := map[[2]string]*sum{}
	var order [][2]string
	for _, f := range r.done() {
		at := [2]string{f.Run, path.Dir(f.Key) + "/"}
		if sums[at] == nil {
			sums[at] = &sum{}
			order = append(order, at)
		}
		sums[at].files++
		sums[at].rows += f.Rows
		sums[at].rejected += f.Rejected
	}
	t := newTable("DONE BY", "FOLDER", "FILES>", "ROWS>", "REJECTED>")
	for _, at := range order {
		t.add(at[0], at[1], number(sums[at].files), number(sums[at].rows), number(sums[at].rejected))
	}
	return t
}

func (r *Report) failures() *table {
	t := newTable("FAILED IN", "FILE", "WHY")
	for _, f := range r.Files {
		if f.Error != "" {
			t.add(f.Run, f.Key, strings.TrimPrefix(f.Error, fmt.Sprintf("process %q: ", f.Key)))
		}
	}
	return t
}

// moral is what there is to learn, in numbers; nothing from a story that did
// not come out.
func (r *Report) moral() string {
	if !r.sound {
		return ""
	}
	var rows int64
	late := 0
	for _, f := range r.done() {
		rows += f.Rows
		if f.Run == "P2" {
			late++
		}
	}
	text := "One run held the lock at a time. "
	if len(r.done()) > 0 {
		text += fmt.Sprintf("%s with %s done, each exactly once.\n", count(len(r.done()), "file"), count(rows, "row"))
	} else {
		text += "No file was done.\n"
	}
	text += fmt.Sprintf("P2 waited for P1 and did what arrived meanwhile: %s. ", count(late, "file"))
	again := slices.DeleteFunc(slices.Clone(r.Files), func(f File) bool { return f.Run != "P3" })
	if len(again) == 0 {
		return text + "P3 found nothing new.\n"
	}
	return text + fmt.Sprintf("P3 found nothing new, and tried again %s that had failed.\n", count(len(again), "file"))
}

// Failed are the keys of the files that no run could do, in order.
func (r *Report) Failed() []string {
	last := map[string]step.Outcome{}
	for _, f := range r.Files { // by run
		last[f.Key] = f.Outcome
	}
	maps.DeleteFunc(last, func(_ string, o step.Outcome) bool { return o == step.OutcomeDone })
	return slices.Sorted(maps.Keys(last))
}

// done are the files that a run has done.
func (r *Report) done() []File {
	return slices.DeleteFunc(slices.Clone(r.Files), func(f File) bool { return f.Outcome != step.OutcomeDone })
}

// since is a moment in seconds after the first run was queued.
func (r *Report) since(at time.Time) string {
	return fmt.Sprintf("%.2fs", at.Sub(r.Runs[0].Queued).Seconds())
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// count is a number of things.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
