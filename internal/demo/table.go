package demo

import (
	"strings"
	"unicode/utf8"
)

// table is text in columns.
type table struct {
	head  []string
	right []bool // alignment of each column
	rows  [][]string
}

// newTable names the columns; a name that ends in ">" is of one aligned to the
// right, as numbers are.
func newTable(columns ...string) *table {
	t := &table{}
	for _, name := range columns {
		name, right := strings.CutSuffix(name, ">")
		t.head, t.right = append(t.head, name), append(t.right, right)
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(out *strings.Builder) {
	lines := append([][]string{t.head}, t.rows...)
	widths := make([]int, len(t.head))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				line.WriteString(padding + cell + "  ")
			} else {
				line.WriteString(cell + padding + "  ")
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
