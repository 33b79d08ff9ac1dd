package rows

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/telemetry"
)

// vertical prints a line for each cell, under a line for each row.
type vertical struct {
	unheld
	p     *printer
	names []string // as wide as the widest
}

// head keeps the names of the columns for the rows, each with a colon and padded to the same width.
func (v *vertical) head(columns []query.Column) error {
	v.names = v.names[:0]
	widest := 0
	for _, c := range columns {
		v.names = append(v.names, telemetry.Printable(c.Name)+":")
		widest = max(widest, ansi.StringWidth(v.names[len(v.names)-1]))
	}
	for i, name := range v.names {
		v.names[i] = name + strings.Repeat(" ", widest-ansi.StringWidth(name)+1)
	}
	return nil
}

// row prints the number of the row and one line for each cell.
func (v *vertical) row(columns []query.Column, cells []json.RawMessage) error {
	if _, err := fmt.Fprintf(v.p.w, "-- row %d --\n", v.p.rows); err != nil {
		return err
	}
	for i, cell := range cells {
		if _, err := v.p.w.WriteString(v.names[i] + v.p.shown(cell, columns[i]) + "\n"); err != nil {
			return err
		}
	}
	return nil
}
