package rows

import (
	"encoding/json"
	"strings"

	"kusto-agent/internal/kusto/query"
)

// markdown prints tables as GitHub reads them.
type markdown struct {
	unheld
	p *printer
}

var markdownEscapes = strings.NewReplacer("\\", `\\`, "|", `\|`, "\r\n", "<br>", "\n", "<br>", "\r", "<br>",
	"<", "&lt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)

// head prints the names of the columns and the line below them, which aligns numbers to the right.
func (m *markdown) head(columns []query.Column) error {
	var names, under []string
	for _, c := range columns {
		names = append(names, m.text(m.p.name(c)))
		if isNumber(c.Type) {
			under = append(under, "---:")
		} else {
			under = append(under, "---")
		}
	}
	if err := m.print(names); err != nil {
		return err
	}
	return m.print(under)
}

// row prints one line of the table; null is in italics.
func (m *markdown) row(_ []query.Column, cells []json.RawMessage) error {
	var line []string
	for _, cell := range cells {
		if IsNull(cell) {
			line = append(line, "*null*")
		} else {
			line = append(line, m.text(query.CellText(cell)))
		}
	}
	return m.print(line)
}

// text escapes a text for a cell of a Markdown table.
func (m *markdown) text(text string) string {
	return m.p.text(markdownEscapes.Replace(text))
}

func (m *markdown) print(cells []string) error {
	_, err := m.p.w.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	return err
}
