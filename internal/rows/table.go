package rows

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/telemetry"
)

// measured is how many rows a table is printed by the widths of.
const measured = 100

const (
	widest   = 80 // the most of the screen that a cell makes its column, where lines are not cut
	leastCut = 6  // the least that a column is cut to
	gap      = 2  // between two columns
)

// table prints columns of equal width, numbers to the right. The first rows, or
// those that came before it was flushed, decide how wide they are; what is wider
// afterwards stands out, or is cut where lines are, so that not all has to be held.
type table struct {
	p       *printer
	columns []query.Column
	held    [][]string
	widths  []int
	set     bool // the widths are decided
}

// head begins a table. Its header is printed later, once the widths of its columns are known.
func (t *table) head(columns []query.Column) error {
	t.columns, t.set, t.held = columns, false, nil
	return nil
}

// row prints a row, or keeps it until enough rows are known to choose the widths.
func (t *table) row(columns []query.Column, cells []json.RawMessage) error {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = t.p.shown(cell, columns[i])
	}
	if t.set {
		return t.print(line)
	}
	if t.held = append(t.held, line); len(t.held) >= measured {
		return t.begin()
	}
	return nil
}

// shown returns a cell for people, on one line and without control characters. A string with the text
// null is quoted to tell it from a null.
func (p *printer) shown(cell json.RawMessage, c query.Column) string {
	switch {
	case IsNull(cell) && p.o.Color:
		return "\x1b[2mnull\x1b[0m"
	case IsNull(cell):
		return "null"
	}
	text := query.CellText(cell)
	if text == "null" && cell[0] == '"' {
		return `"null"`
	}
	return telemetry.Printable(text)
}

// flush prints the rows that are kept. With none it prints nothing, since widths cannot be chosen from
// the header alone.
func (t *table) flush() error {
	if len(t.held) == 0 {
		return nil
	}
	return t.begin()
}

// end prints the rows that are kept, and the header, also if there are no rows.
func (t *table) end() error {
	if t.columns == nil || t.set {
		return nil
	}
	return t.begin()
}

// begin chooses the widths of the columns from the header and the rows that are kept, and prints both.
// Later rows are printed with the same widths.
func (t *table) begin() error {
	t.set = true
	var names []string
	for _, c := range t.columns {
		names = append(names, telemetry.Printable(t.p.name(c)))
	}
	t.widths = make([]int, len(names))
	all := t.held
	if !t.p.o.NoHeader {
		all = append([][]string{names}, all...)
	}
	for _, row := range all {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], ansi.StringWidth(cell))
		}
	}
	if t.p.o.Width > 0 {
		fit(t.widths, t.p.o.Width-gap*(len(names)-1))
	} else {
		for i, w := range t.widths {
			t.widths[i] = min(w, widest)
		}
	}
	if !t.p.o.NoHeader {
		var under []string
		for _, w := range t.widths {
			under = append(under, strings.Repeat("-", w))
		}
		if err := t.print(names); err != nil {
			return err
		}
		if err := t.print(under); err != nil {
			return err
		}
	}
	for _, row := range t.held {
		if err := t.print(row); err != nil {
			return err
		}
	}
	t.held = nil
	return nil
}

// fit changes widths in place: it makes the widest columns narrower until the sum of the widths is at
// most room, or the widest has only leastCut.
func fit(widths []int, room int) {
	total := 0
	for _, w := range widths {
		total += w
	}
	for total > room {
		i := slices.Index(widths, slices.Max(widths))
		if widths[i] <= leastCut {
			return
		}
		widths[i]--
		total--
	}
}

// print prints one line. If lines are cut to the terminal, columns without room are left out and
// counted.
func (t *table) print(cells []string) error {
	var line strings.Builder
	used := 0
	for i, cell := range cells {
		room := t.widths[i]
		if t.p.o.Width > 0 {
			if used >= t.p.o.Width {
				t.p.left.Columns = max(t.p.left.Columns, len(cells)-i)
				break
			}
			room = min(room, t.p.o.Width-used)
			cell = ansi.Truncate(cell, room, "…")
		}
		pad := max(room-ansi.StringWidth(cell), 0)
		used += room + gap
		if isNumber(t.columns[i].Type) {
			line.WriteString(strings.Repeat(" ", pad) + cell)
			pad = 0
		} else {
			line.WriteString(cell)
		}
		if i < len(cells)-1 {
			line.WriteString(strings.Repeat(" ", pad+gap))
		}
	}
	_, err := t.p.w.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	return err
}
