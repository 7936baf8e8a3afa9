package demo

import (
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// WriteText tells the report to a person.
func (r *Report) WriteText(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	origin := r.Runs[0].Queued
	since := func(at time.Time) string { return fmt.Sprintf("%.2fs", at.Sub(origin).Seconds()) }

	fmt.Fprintln(t, "RUNS\tstatus\ttoken\tqueued\tgot the lock\tended\twaited\tfiles\trows\trejected rows")
	for _, run := range r.Runs {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%.2fs\t%d\t%d\t%d\n", run.Name, run.Status, run.Token,
			since(run.Queued), since(run.Started), since(run.Ended), run.Waited, run.Files, run.Rows, run.Rejected)
	}
	fmt.Fprintln(t, "\nSTATES\tentered\tstate")
	for _, run := range r.Runs {
		for _, line := range journey(r.History[run.Name]) {
			fmt.Fprintf(t, "%s\t%s\t%s\n", run.Name, since(line.at), line.states)
		}
	}
	fmt.Fprintln(t, "\nLOCK\ttoken\tholder\tfrom\tuntil (server's clock, whole seconds)")
	for _, h := range r.Holders {
		holder := h.Owner[strings.LastIndex(h.Owner, ":")+1:]
		fmt.Fprintf(t, "\t%d\t%s\t%s\t%s\n", h.Token, holder, h.From.Format(time.TimeOnly), h.Until.Format(time.TimeOnly))
	}
	fmt.Fprintln(t, "\nFILES\tdone by\tfolder\tfiles\trows\trejected rows")
	for _, g := range r.byFolder() {
		fmt.Fprintf(t, "\t%s\t%s\t%d\t%d\t%d\n", g.run, g.folder, g.files, g.rows, g.rejected)
	}
	for _, f := range r.Files {
		if f.Error != "" {
			fmt.Fprintf(t, "\t%s\t%s\t%s: %s\n", f.Run, f.Key, f.Outcome, f.Error)
		}
	}
	return t.Flush()
}

// leg is one visit to a state, or the same two states in turn many times.
type leg struct {
	at     time.Time
	states string
}

// journey lists the states of a history, with the turns of a waiting run
// folded into one line.
func journey(events []asl.Event) []leg {
	var legs []leg
	turns := 0
	for _, event := range events {
		if !strings.HasSuffix(string(event.Type), "StateEntered") {
			continue
		}
		switch state := event.State(); {
		case state == "WaitForLock":
			if turns++; turns == 1 {
				legs = append(legs, leg{event.Timestamp, state})
			}
		case turns > 0 && (state == "AcquireLock" || state == "LockDecision"):
		default:
			legs = append(legs, leg{event.Timestamp, state})
		}
		if n := len(legs); turns > 1 && legs[n-1].states[:4] == "Wait" {
			legs[n-1].states = fmt.Sprintf("WaitForLock, AcquireLock, LockDecision (%d turns)", turns)
		}
	}
	return legs
}

type group struct {
	run, folder           string
	files, rows, rejected int64
}

// byFolder sums the files by run and folder, in the order of Files.
func (r *Report) byFolder() []*group {
	var groups []*group
	for _, f := range r.Files {
		folder := path.Dir(f.Key)
		var g *group
		if n := len(groups); n > 0 && groups[n-1].run == f.Run && groups[n-1].folder == folder {
			g = groups[n-1]
		} else {
			g = &group{run: f.Run, folder: folder}
			groups = append(groups, g)
		}
		if f.Error == "" {
			g.files++
			g.rows += f.Rows
			g.rejected += f.Rejected
		}
	}
	return groups
}
