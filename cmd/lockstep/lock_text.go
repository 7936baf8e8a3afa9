package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Text for people: who has it, since when, until when, and what can be done.

func writeStatus(w io.Writer, url objectURL, r lockReport) error {
	var b strings.Builder
	switch r.State {
	case stateCorrupt:
		fmt.Fprintf(&b, "%s cannot be read, and counts as held: %s\n", url, r.Corrupt)
		fmt.Fprintf(&b, "\nMake sure that nobody works under this lock, then repair it:\n  lockstep lock break %s --reason 'why'\n", shellWord(url.String()))
	case stateNewer:
		fmt.Fprintf(&b, "%s counts as held: a newer lockstep wrote it, in format %d; update lockstep\n", url, r.Newer)
	case stateDeleted:
		fmt.Fprintf(&b, "%s was deleted, and a delete marker is in its place: the next to ask creates it anew\n", url)
		fmt.Fprintf(&b, "\nSome stores refuse to create an object over a marker. There, write a new lock:\n  lockstep lock break %s --recreate --reason 'why'\n", shellWord(url.String()))
	case stateAbsent:
		fmt.Fprintf(&b, "%s is free: there is no such object yet\n", url)
	case stateFree:
		fmt.Fprintf(&b, "%s is free%s\n", url, room(r.Status))
		writeHolders(&b, r.Holders, r.Now)
		writeWaiters(&b, r.Waiters, r.Now)
	case stateHeld:
		fmt.Fprintf(&b, "%s is held%s\n", url, room(r.Status))
		writeHolders(&b, r.Holders, r.Now)
		writeWaiters(&b, r.Waiters, r.Now)
		writeBreak(&b, url, r.Holders)
	}
	if r.Hold != nil {
		fmt.Fprintf(&b, "  hold    nobody gets it since %s, by %s: %s\n", moment(r.Hold.Since, r.Now), oneLine(r.Hold.By), oneLine(r.Hold.Reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// room tells of places, where there are more than one.
func room(s lease.Status) string {
	if s.Limit <= 1 {
		return ""
	}
	return fmt.Sprintf(", %d of %d places", len(s.Holders), s.Limit)
}

// writeHolders names who has the lock. now is the server's clock; zero where
// it is not known.
func writeHolders(w io.Writer, holders []lease.Holder, now time.Time) {
	for _, h := range holders {
		until := moment(h.Expires, now) + ", unless renewed"
		if h.Expired {
			until = moment(h.Expires, now) + ", which is over: the next to ask gets it"
		}
		fmt.Fprintf(w, "  holder  %s, token %d\n", h.Owner, h.Token)
		fmt.Fprintf(w, "  since   %s\n", moment(h.Acquired, now))
		fmt.Fprintf(w, "  until   %s\n", until)
	}
}

func writeWaiters(w io.Writer, waiters []lease.Waiter, now time.Time) {
	for i, each := range waiters {
		fmt.Fprintf(w, "  queue   %d. %s since %s", i+1, each.Owner, moment(each.Arrived, now))
		if each.Priority != 0 {
			fmt.Fprintf(w, ", priority %d", each.Priority)
		}
		if each.Silent {
			fmt.Fprint(w, ", has stopped asking")
		}
		fmt.Fprintln(w)
	}
}

// writeBreak says how to take the lock from who is alive by the document.
func writeBreak(w io.Writer, url objectURL, holders []lease.Holder) {
	first := true
	for _, h := range holders {
		if h.Expired {
			continue
		}
		if first {
			fmt.Fprintf(w, "\nIf a holder is known to be dead, take the lock from it:\n")
			first = false
		}
		fmt.Fprintf(w, "  lockstep lock break %s --token %d --reason 'why'\n", shellWord(url.String()), h.Token)
	}
}

func writeEvents(w io.Writer, url objectURL, s lease.Status) error {
	if len(s.Events) == 0 {
		_, err := fmt.Fprintf(w, "nothing has happened to %s yet\n", url)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AT\tEVENT\tTOKEN\tOWNER\tWHY")
	for _, e := range s.Events {
		why := e.Reason
		if e.By != "" {
			why = "by " + e.By + ": " + e.Reason
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", moment(e.At, time.Time{}), e.Kind, e.Token, dash(oneLine(e.Owner)), dash(oneLine(why)))
	}
	return table.Flush()
}

func writeBroken(w io.Writer, r breakReport) error {
	var err error
	if r.Event.Kind == lease.Repaired {
		_, err = fmt.Fprintf(w, "repaired: %s is free, and its next token is above %d\n", r.Lock, r.Event.Token)
	} else {
		_, err = fmt.Fprintf(w, "broken: %s was taken from %s, token %d\n", r.Lock, r.Event.Owner, r.Event.Token)
	}
	return err
}

func writeList(w io.Writer, r listReport) error {
	if len(r.Locks) == 0 {
		_, err := fmt.Fprintf(w, "no locks below %s\n", r.Prefix)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LOCK\tSTATE\tQUEUE\tTOKEN\tHOLDER\tSINCE\tUNTIL")
	var trouble strings.Builder
	for _, lock := range r.Locks {
		row := fmt.Sprintf("%s\t%s\t%d", oneLine(lock.Lock), lock.State, len(lock.Waiters))
		for _, h := range lock.Holders {
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", row, h.Token, h.Owner, moment(h.Acquired, lock.Now), moment(h.Expires, lock.Now))
		}
		if lock.Error != "" {
			row = oneLine(lock.Lock) + "\tunknown\t-"
		}
		if len(lock.Holders) == 0 {
			fmt.Fprintf(table, "%s\t-\t-\t-\t-\n", row)
		}
		if why := lock.Corrupt + lock.Error; why != "" {
			fmt.Fprintf(&trouble, "\n%s: %s\n", lock.Lock, why)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, trouble.String())
	return err
}

// moment is a time of the server's clock, and how far it is from now.
func moment(t, now time.Time) string {
	text := t.UTC().Format(time.RFC3339)
	if now.IsZero() {
		return text
	}
	if d := now.Sub(t).Round(time.Second); d >= 0 {
		return fmt.Sprintf("%s (%v ago)", text, d)
	}
	return fmt.Sprintf("%s (in %v)", text, t.Sub(now).Round(time.Second))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// oneLine keeps text of others from breaking a table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// shellWord quotes text for a shell where it has to be.
func shellWord(s string) string {
	plain := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/._-+@%") == ""
	if plain && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
