package scale

import (
	"fmt"
	"testing"
	"text/tabwriter"
)

// table is what a run has to show.
type table struct {
	*testing.T
	lines []line
}

type line struct{ what, measured, bound string }

// note adds a figure that has no bound.
func (b *table) note(what, format string, args ...any) {
	b.lines = append(b.lines, line{what, fmt.Sprintf(format, args...), ""})
}

// hold adds a figure that has one; the test fails where it does not keep to it.
func (b *table) hold(kept bool, what, bound, format string, args ...any) {
	b.Helper()
	measured := fmt.Sprintf(format, args...)
	b.lines = append(b.lines, line{what, measured, bound})
	if !kept {
		b.Errorf("%s: %s, the bound is %s", what, measured, bound)
	}
}

// limit is hold where time and memory are looked at, and note elsewhere.
func (b *table) limit(kept bool, what, bound, format string, args ...any) {
	b.Helper()
	if measures() {
		b.hold(kept, what, bound, format, args...)
		return
	}
	b.note(what, format, args...)
}

// print writes the table to where the test's output goes.
func (b *table) print() {
	w := tabwriter.NewWriter(b.Output(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tBOUND")
	for _, l := range b.lines {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.what, l.measured, l.bound)
	}
	w.Flush()
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// count writes a number with its thousands apart.
func count[N int | int64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
