package rows

import (
	"encoding/json"
	"strings"

	"kusto-agent/internal/kusto/query"
)

// delimited prints CSV and TSV.
type delimited struct {
	unheld
	p    *printer
	sep  byte
	cell func(cell json.RawMessage) string
	line []string
}

// head prints the line of column names, unless it is switched off.
func (d *delimited) head(columns []query.Column) error {
	if d.p.o.NoHeader {
		return nil
	}
	d.line = d.line[:0]
	for _, c := range columns {
		name, err := json.Marshal(d.p.name(c))
		if err != nil {
			return err
		}
		d.line = append(d.line, d.cell(name))
	}
	return d.print()
}

// row prints one line with the cells.
func (d *delimited) row(_ []query.Column, cells []json.RawMessage) error {
	d.line = d.line[:0]
	for _, cell := range cells {
		d.line = append(d.line, d.cell(cell))
	}
	return d.print()
}

// print writes the line. A line with one empty cell is written as "" in CSV, since an empty line would
// be read as no row.
func (d *delimited) print() error {
	line := strings.Join(d.line, string(d.sep))
	if line == "" && len(d.line) == 1 && d.sep == ',' {
		line = `""`
	}
	_, err := d.p.w.WriteString(line + "\n")
	return err
}

// csvCell returns a cell for CSV. A null is nothing, an empty text "". Other texts are quoted if RFC
// 4180 requires it, or if they begin or end with a space.
func (p *printer) csvCell(cell json.RawMessage) string {
	if IsNull(cell) {
		return ""
	}
	text := p.text(query.CellText(cell))
	if text != "" && !strings.ContainsAny(text, ",\"\r\n") && text[0] != ' ' && text[len(text)-1] != ' ' {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

var tsvEscapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// tsvCell returns a cell for TSV: null as \N, tabs and line ends escaped with a backslash.
func (p *printer) tsvCell(cell json.RawMessage) string {
	if IsNull(cell) {
		return `\N`
	}
	return p.text(tsvEscapes.Replace(query.CellText(cell)))
}
