// Package rows prints the tables that a query answers with, row by row, in a form
// for people or for programs: no row is left out unless that was asked for, and in
// every form a null is told from an empty text.
//
// A printer holds at most the rows whose widths it has to know, so that a result of
// any size costs little memory.
package rows

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"kusto-agent/internal/kusto/query"
)

// Form is how a table is printed.
type Form string

// The forms.
const (
	Table     Form = "table"      // columns of equal width, for people
	CSV       Form = "csv"        // RFC 4180: null is nothing, an empty text ""
	TSV       Form = "tsv"        // null is \N; tab, line ends and backslash are escaped with a backslash
	JSON      Form = "json"       // an object a line
	JSONArray Form = "json-array" // one array of objects
	Markdown  Form = "markdown"   // a table of GitHub's Markdown
	Vertical  Form = "vertical"   // a line for each cell, for rows that are wide
)

// Forms are all of them, for messages.
var Forms = []Form{Table, CSV, TSV, JSON, JSONArray, Markdown, Vertical}

var otherNames = map[string]Form{"ndjson": JSON, "jsonl": JSON, "md": Markdown}

// FormOf returns the form with this name; false if there is none.
func FormOf(name string) (Form, bool) {
	if f, ok := otherNames[name]; ok {
		return f, true
	}
	return Form(name), slices.Contains(Forms, Form(name))
}

// FormOfFile returns the form for the extension of a file; false if it has none of the known ones.
func FormOfFile(path string) (Form, bool) {
	switch ext := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."); ext {
	case "csv", "tsv", "ndjson", "jsonl", "md", "markdown":
		return FormOf(ext)
	case "json":
		return JSONArray, true
	case "txt":
		return Table, true
	}
	return "", false
}

// Options say how to print.
type Options struct {
	Form     Form
	NoHeader bool // without the names of the columns; not for forms that have them in each row
	Types    bool // the names with their types, as name:type; likewise
	MaxRows  int  // of each table; 0: all
	Width    int  // of the terminal, that lines of Table are cut to; 0: they are not
	Screen   bool // a terminal reads it, and must not be steered by it
	Color    bool // of nulls in Table
}

// Check returns an error if the form of output cannot do what the other options ask.
func (o Options) Check() error {
	heads := o.Form == Table || o.Form == CSV || o.Form == TSV || o.Form == Markdown
	switch {
	case (o.NoHeader || o.Types) && !heads:
		return fmt.Errorf("the form %s has no line of names to leave out or to give types", o.Form)
	case o.NoHeader && o.Form == Markdown:
		return fmt.Errorf("a table of Markdown is none without its names")
	case o.NoHeader && o.Types:
		return fmt.Errorf("types stand in the line of names, which is to be left out")
	}
	return nil
}

// Writer is what is printed to. It is flushed by its owner.
type Writer interface {
	Write([]byte) (int, error)
	WriteString(string) (int, error)
	WriteByte(byte) error
}

// Printer is a kusto.Reader that prints the tables that were asked for. Rows are
// not its own when Row has returned.
type Printer interface {
	query.Reader
	// Flush prints what is held, so that it is seen with what is behind it.
	Flush() error
	// End prints what follows the last row.
	End() error
	// Left is what was not printed.
	Left() Left
}

// Left is what a printer did not print.
type Left struct {
	Rows, Of int // rows above MaxRows, and how many there were
	Columns  int // that had no place on the lines of Table
}

// New returns a printer that writes tables to w in the form that the options name. The options must
// have passed Check.
func New(w Writer, o Options) Printer {
	p := &printer{o: o, w: w}
	switch o.Form {
	case CSV:
		p.form = &delimited{p: p, sep: ',', cell: p.csvCell}
	case TSV:
		p.form = &delimited{p: p, sep: '\t', cell: p.tsvCell}
	case JSON, JSONArray:
		p.form = &objects{p: p, array: o.Form == JSONArray}
	case Markdown:
		p.form = &markdown{p: p}
	case Vertical:
		p.form = &vertical{p: p}
	default:
		p.form = &table{p: p}
	}
	return p
}

// form is one way to print.
type form interface {
	head(columns []query.Column) error // of a table
	row(columns []query.Column, cells []json.RawMessage) error
	flush() error
	end() error
}

// unheld is what forms have in common that hold nothing and print nothing behind the last row.
type unheld struct{}

func (unheld) flush() error { return nil }
func (unheld) end() error   { return nil }

// printer is what all forms have in common.
type printer struct {
	o      Options
	w      Writer
	form   form
	tables int
	rows   int // of the table
	left   Left
}

// Table prints what is held of the table before, and begins the table t, after an empty line if it is
// not the first one. It ignores a table that is not a result of the query.
func (p *printer) Table(t *query.Table) error {
	if !IsAsked(t) {
		return nil
	}
	if err := p.form.flush(); err != nil {
		return err
	}
	p.tables++
	p.rows = 0
	_, array := p.form.(*objects)
	if p.tables > 1 && !array { // between JSON objects there is no empty line
		if err := p.w.WriteByte('\n'); err != nil {
			return err
		}
	}
	return p.form.head(t.Columns)
}

// Row prints a row, or keeps a copy of its text until the form can print it. Rows above MaxRows are
// only counted, and rows of tables that are not a result of the query are ignored.
func (p *printer) Row(t *query.Table, row []json.RawMessage) error {
	if !IsAsked(t) {
		return nil
	}
	p.rows++
	p.left.Of++
	if p.o.MaxRows > 0 && p.rows > p.o.MaxRows {
		p.left.Rows++
		return nil
	}
	return p.form.row(t.Columns, row)
}

// Progress does nothing.
func (p *printer) Progress(float64) {}

func (p *printer) Flush() error { return p.form.flush() }
func (p *printer) End() error   { return p.form.end() }
func (p *printer) Left() Left   { return p.left }

// IsAsked reports whether a table is a result of the query, and not about the request.
func IsAsked(t *query.Table) bool { return t.Kind == query.PrimaryResult }

// IsNull reports whether a cell is null.
func IsNull(cell json.RawMessage) bool { return len(cell) == 0 || string(cell) == "null" }

// isNumber says that the values of a type are numbers, which stand to the right.
func isNumber(typ string) bool {
	return slices.Contains([]string{"int", "long", "real", "decimal"}, typ)
}

// text returns the text of a cell, or of a name, which cannot steer a terminal if one reads it.
func (p *printer) text(text string) string {
	if p.o.Screen {
		return seen(text)
	}
	return text
}

// name returns the name of a column for a header, as name:type if the option Types is set.
func (p *printer) name(c query.Column) string {
	if p.o.Types && c.Type != "" {
		return c.Name + ":" + c.Type
	}
	return c.Name
}
