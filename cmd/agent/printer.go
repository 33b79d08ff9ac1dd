package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"kusto-agent/kusto"
	"kusto-agent/telemetry"
)

// printer is a kusto.Reader that prints the tables that were asked for as they come.
type printer interface {
	kusto.Reader
	// flush prints the rows that are held to be seen with those behind them.
	flush() error
	// finish prints all that is held, behind the last row.
	finish() error
}

func newPrinter(format string, out output) (printer, error) {
	switch format {
	case "table":
		return &tablePrinter{out: out}, nil
	case "csv":
		return &csvPrinter{out: out, w: csv.NewWriter(out.Writer)}, nil
	case "json":
		return &jsonPrinter{out: out}, nil
	}
	return nil, &exitError{exitUsage, fmt.Errorf("--format %q: want table, csv or json", format)}
}

// unreplaced is for results that are printed as they come: what was printed cannot
// be taken back. It is reached only by who asked for a progressive result.
type unreplaced struct{}

func (unreplaced) Replace(*kusto.Table) error {
	return &exitError{exitUsage, fmt.Errorf("the result is progressive: its first rows are replaced by better ones; leave the option results_progressive_enabled out")}
}

func (unreplaced) Progress(float64) {}

// unheld is for printers that hold nothing.
type unheld struct{}

func (unheld) flush() error { return nil }

func (unheld) finish() error { return nil }

func isAsked(t *kusto.Table) bool { return t.Kind == kusto.PrimaryResult }

// csvPrinter prints RFC 4180, each table with its header, an empty line between two.
type csvPrinter struct {
	unreplaced
	unheld
	out    output
	w      *csv.Writer // has no buffer but that of out
	tables int
	cells  []string
}

func (p *csvPrinter) Table(t *kusto.Table) error {
	if !isAsked(t) {
		return nil
	}
	if p.tables++; p.tables > 1 {
		if err := p.out.WriteByte('\n'); err != nil {
			return err
		}
	}
	p.cells = p.cells[:0]
	for _, c := range t.Columns {
		p.cells = append(p.cells, c.Name)
	}
	return p.print()
}

func (p *csvPrinter) Row(t *kusto.Table, row []json.RawMessage) error {
	if !isAsked(t) {
		return nil
	}
	p.cells = p.cells[:0]
	for _, cell := range row {
		p.cells = append(p.cells, kusto.CellText(cell))
	}
	return p.print()
}

// print quotes a lone cell that is empty: an empty line is read as no row, and
// stands between tables.
func (p *csvPrinter) print() error {
	if len(p.cells) == 1 && p.cells[0] == "" {
		_, err := p.out.WriteString("\"\"\n")
		return err
	}
	return p.w.Write(p.cells)
}

// jsonPrinter prints an object a row, its members in the order of the columns and
// its values as they came, but on one line.
type jsonPrinter struct {
	unreplaced
	unheld
	out  output
	line bytes.Buffer
}

func (p *jsonPrinter) Table(*kusto.Table) error { return nil }

func (p *jsonPrinter) Row(t *kusto.Table, row []json.RawMessage) error {
	if !isAsked(t) {
		return nil
	}
	p.line.Reset()
	p.line.WriteByte('{')
	for i, c := range t.Columns {
		if i > 0 {
			p.line.WriteByte(',')
		}
		name, err := json.Marshal(c.Name)
		if err != nil {
			return err
		}
		p.line.Write(name)
		p.line.WriteByte(':')
		if err := json.Compact(&p.line, row[i]); err != nil {
			return err
		}
	}
	p.line.WriteByte('}')
	return p.out.line(p.line.Bytes())
}

// measured is how many rows a table is printed by the widths of.
const measured = 100

// widest is the most columns of the screen that a cell takes.
const widest = 80

// tablePrinter prints columns of equal width. The first rows, or those that came
// before it was flushed, decide how wide they are; what is wider afterwards stands
// out, so that not all has to be held.
type tablePrinter struct {
	unreplaced
	out    output
	t      *kusto.Table
	tables int
	rows   [][]string
	widths []int
	set    bool // the widths are decided
}

func (p *tablePrinter) Table(t *kusto.Table) error {
	if !isAsked(t) {
		return nil
	}
	if err := p.finish(); err != nil {
		return err
	}
	if p.tables++; p.tables > 1 {
		fmt.Fprintln(p.out)
	}
	p.t, p.set = t, false
	var head []string
	for _, c := range t.Columns {
		head = append(head, telemetry.Printable(c.Name))
	}
	p.rows = [][]string{head}
	return nil
}

func (p *tablePrinter) Row(t *kusto.Table, row []json.RawMessage) error {
	if !isAsked(t) {
		return nil
	}
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = telemetry.Printable(kusto.CellText(cell))
	}
	if p.set {
		return p.print(cells)
	}
	if p.rows = append(p.rows, cells); len(p.rows) > measured {
		return p.finish()
	}
	return nil
}

// flush leaves a head without rows, which says too little about widths.
func (p *tablePrinter) flush() error {
	if len(p.rows) < 2 {
		return nil
	}
	return p.finish()
}

func (p *tablePrinter) finish() error {
	if p.t == nil || p.set {
		return nil
	}
	p.set = true
	p.widths = make([]int, len(p.t.Columns))
	for _, row := range p.rows {
		for i, cell := range row {
			p.widths[i] = max(p.widths[i], min(utf8.RuneCountInString(cell), widest))
		}
	}
	for i, row := range p.rows {
		if err := p.print(row); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		var under []string
		for _, w := range p.widths {
			under = append(under, strings.Repeat("-", w))
		}
		if err := p.print(under); err != nil {
			return err
		}
	}
	p.rows = nil
	return nil
}

func (p *tablePrinter) print(cells []string) error {
	var line strings.Builder
	for i, cell := range cells {
		line.WriteString(cell)
		if i < len(cells)-1 {
			line.WriteString(strings.Repeat(" ", max(p.widths[i]-utf8.RuneCountInString(cell), 0)+2))
		}
	}
	_, err := io.WriteString(p.out, strings.TrimRight(line.String(), " ")+"\n")
	return err
}
