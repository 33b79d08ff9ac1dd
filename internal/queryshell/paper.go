package queryshell

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"kusto-agent/internal/chart"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/rows"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// Forms that are drawn.
const (
	FormChart rows.Form = "chart" // in letters
	FormSVG   rows.Form = "svg"
)

// Paper says what results are printed on, and how.
type Paper struct {
	Format string       // the name of a form; empty: by Output, and by whether it is a terminal
	JSON   bool         // Format is json
	Rows   rows.Options // but for the form
	Wide   bool         // lines of a table are not cut to the terminal
	Render string       // a kind of chart that is drawn whatever the query renders
	Output string       // a file, which is replaced when all is printed; empty: there is none
	Stats  bool         // what each request took is told

	to    io.Writer // where out goes
	out   console.Output
	words io.Writer // notes for people
	file  *os.File  // that out goes to, until it takes the place of output
	auto  bool      // a table, or a chart where the query renders one
	done  int       // results so far
}

// check decides in which form results are printed: by the flags, the name of the output file, and
// whether to, the output, is a terminal. Notes for the user go to words. It returns a usage error
// for flags that contradict each other.
func (p *Paper) check(to, words io.Writer) error {
	p.to, p.out, p.words = to, console.NewOutput(to), words
	if p.Output != "" {
		p.out.Terminal = false
	}
	p.Rows.Screen = p.out.Terminal
	p.Rows.Color = p.out.Color()
	name := p.Format
	if p.JSON {
		name = "json"
	}
	byFile, known := rows.FormOfFile(p.Output)
	if strings.EqualFold(filepath.Ext(p.Output), ".svg") {
		byFile, known = FormSVG, true
	}
	switch form, ok := rows.FormOf(name); {
	case ok:
		p.Rows.Form = form
	case name == string(FormChart) || name == string(FormSVG):
		p.Rows.Form = rows.Form(name)
	case name != "":
		return exit.Usagef("--format %q: want table, csv, tsv, json, json-array, markdown, vertical, chart or svg", name)
	case known:
		p.Rows.Form = byFile
	case p.Render != "" && p.Output == "":
		p.Rows.Form = FormChart
	case p.out.Terminal:
		p.Rows.Form, p.auto = rows.Table, true
	default:
		p.Rows.Form = rows.CSV
	}
	switch {
	case p.Render != "" && !chart.IsDrawn(chart.Kind(p.Render)):
		return exit.Usagef("--render %q: want timechart, linechart, barchart, columnchart or piechart", p.Render)
	case p.Render != "" && p.Rows.Form != FormChart && p.Rows.Form != FormSVG:
		return exit.Usagef("--render draws, and the form %s does not", p.Rows.Form)
	case p.Rows.MaxRows < 0:
		return exit.Usagef("--max-rows %d: want a number above 0", p.Rows.MaxRows)
	case p.Rows.MaxRows > 0 && p.draws():
		return exit.Usagef("a chart has all rows; limit them in the query")
	}
	if p.draws() && (p.Rows.NoHeader || p.Rows.Types) {
		return exit.Usagef("a chart has no line of names")
	}
	return exit.Default(exit.Usage, p.Rows.Check())
}

func (p *Paper) draws() bool     { return p.Rows.Form == FormChart || p.Rows.Form == FormSVG }
func (p *Paper) isPicture() bool { return p.Rows.Form == FormSVG }

// begin opens the output file, if one is given. For a regular or new file this is a temporary file
// in the same folder, which end renames; a device or pipe is written directly. The caller calls
// end.
func (p *Paper) begin() error {
	if p.Output == "" {
		return nil
	}
	st, err := os.Stat(p.Output)
	switch {
	case err == nil && st.IsDir():
		return exit.Usagef("--output %s is a folder", p.Output)
	case err == nil && !st.Mode().IsRegular(): // as /dev/null, or a pipe
		p.file, err = os.OpenFile(p.Output, os.O_WRONLY, 0)
	default:
		p.file, err = os.CreateTemp(filepath.Dir(p.Output), "."+filepath.Base(p.Output)+"-*") // its mode is 0600
	}
	if err != nil {
		return p.cannotWrite(err)
	}
	p.to, p.out.Writer = p.file, bufio.NewWriter(p.file)
	return nil
}

// cannotWrite returns err, of making the output file, with an exit code. It names the file that was
// asked for, not the temporary one.
func (p *Paper) cannotWrite(err error) error {
	var at *fs.PathError
	folder := filepath.Dir(p.Output)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Usagef("--output %q: there is no folder %q; make it, or name another file", p.Output, folder)
	case errors.Is(err, syscall.ENOTDIR):
		return exit.Usagef("--output %q: %q is no folder; name another file", p.Output, folder)
	case errors.As(err, &at):
		err = fmt.Errorf("--output %q: no file can be made in %q: %w; name another file", p.Output, folder, at.Err)
	}
	return exit.With(exit.Failed, err)
}

// end writes what is buffered and closes the output file, if there is one. If err, the error of the
// statements, is nil and all went well, it renames the temporary file to the output file; otherwise
// it removes it. It returns err or its own error, with an exit code.
func (p *Paper) end(err error) error {
	if p.file == nil {
		return p.out.End(err)
	}
	err = cmp.Or(err, p.out.Flush(), p.file.Close())
	if isTemporary := p.file.Name() != p.Output; isTemporary && err == nil {
		err = os.Rename(p.file.Name(), p.Output)
	}
	if err != nil {
		p.abandon()
	}
	return exit.Default(exit.Failed, err)
}

// abandon removes the temporary output file, if there is one, after an error or a second interrupt.
func (p *Paper) abandon() {
	if p.file != nil && p.file.Name() != p.Output {
		_ = os.Remove(p.file.Name()) // nothing more can be done
	}
}

// printer returns a printer for the next result. Except for JSON, an empty line separates it from
// the result before. about gets facts about the result, such as its chart, while the rows are read,
// so the printer must not use it earlier.
func (p *Paper) printer(about *rows.About) (rows.Printer, error) {
	p.done++
	if p.done > 1 && p.Rows.Form != rows.JSON && p.Rows.Form != rows.JSONArray {
		if err := cmp.Or(p.out.WriteByte('\n'), p.out.Flush()); err != nil {
			return nil, err
		}
	}
	o := p.Rows
	if p.out.Terminal && !p.Wide {
		o.Width, _ = p.size()
	}
	if !p.auto && !p.draws() {
		return rows.New(p.out, o), nil
	}
	if p.draws() {
		o.Form = rows.Table // the form of results that cannot be drawn
	}
	return &drawing{Printer: rows.New(p.out, o), p: p, about: about}, nil
}

// size returns the size of the terminal in characters; 80 by 24 if the output is not a terminal or
// its size is not known.
func (p *Paper) size() (width, height int) {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || !p.out.Terminal || width <= 0 {
		return 80, 24
	}
	return width, height
}

// note writes a line for people, not into the results.
func (p *Paper) note(format string, args ...any) {
	fmt.Fprintln(p.words, telemetry.Printable(fmt.Sprintf(format, args...)))
}

// noteLeft tells the user how many rows and columns a printer has left out, and by which option
// they are printed.
func (p *Paper) noteLeft(l rows.Left) {
	if l.Rows > 0 {
		p.note("%d of %s are not printed, for --max-rows %d", l.Rows, units.Counted(l.Of, "row"), p.Rows.MaxRows)
	}
	if l.Columns > 0 {
		p.note("%s to the right have no place on this terminal: --wide has whole lines, --format vertical a line a cell", units.Counted(l.Columns, "column"))
	}
}

// drawing is a Printer that draws tables, where that was asked for or the query
// renders them, and prints the others.
type drawing struct {
	rows.Printer
	p     *Paper
	about *rows.About

	spec  chart.Spec
	table *query.Table // that is to be drawn; nil: none
	cells [][]json.RawMessage
	drawn int
}

// wanted returns the chart to draw of the next table: as the flag --render or the query says. It
// returns false if no chart of a known kind is asked for.
func (d *drawing) wanted() (chart.Spec, bool) {
	spec, _ := chart.Parse(d.about.Visualization) // the zero Spec after an error
	if d.p.Render != "" {
		spec.Kind = chart.Kind(d.p.Render)
	}
	return spec, chart.IsDrawn(spec.Kind)
}

// Table begins a table: its rows are kept to be drawn, or printed at once if no chart is asked for.
// Tables about the request, not its result, are ignored. The table before is drawn first.
func (d *drawing) Table(t *query.Table) error {
	if !rows.IsAsked(t) {
		return nil
	}
	if err := d.draw(); err != nil {
		return err
	}
	spec, is := d.wanted()
	if !is && !d.p.draws() {
		if spec.Kind != "" && spec.Kind != "table" {
			d.p.note("%s is not drawn here; these are its rows", spec.Kind)
		}
		return d.Printer.Table(t)
	}
	d.spec, d.table, d.cells = spec, t, nil
	return nil
}

// Row keeps a copy of a row of the table to be drawn; rows of a table that is not drawn are printed
// at once. More than chart.Most rows to draw are an error. Tables about the request, not its
// result, are ignored.
func (d *drawing) Row(t *query.Table, row []json.RawMessage) error {
	if !rows.IsAsked(t) {
		return nil
	}
	if t != d.table {
		return d.Printer.Row(t, row)
	}
	if len(d.cells) == chart.Most {
		return exit.With(exit.Failed, fmt.Errorf("there are more than %d rows to draw; summarize them", chart.Most))
	}
	copied := make([]json.RawMessage, len(row))
	for i, cell := range row {
		copied[i] = slices.Clone(cell)
	}
	d.cells = append(d.cells, copied)
	return nil
}

// End draws the last table, if it is to be drawn, and ends the output of the printer.
func (d *drawing) End() error {
	if err := d.draw(); err != nil {
		return err
	}
	return d.Printer.End()
}

// draw draws the table whose rows are kept, if there is one. A table that cannot be drawn is
// printed, with a note about the reason; for a picture file (SVG), which holds one chart only, it
// is an error.
func (d *drawing) draw() error {
	t := d.table
	if t == nil {
		return nil
	}
	d.table = nil
	if d.spec.Kind == "" { // an answer of version 1 names the chart after the rows
		d.spec, _ = d.wanted()
	}
	if d.p.isPicture() && d.drawn > 0 {
		return exit.Usagef("a picture is of one table, and the result has several")
	}
	c, err := d.built(t)
	switch {
	case err != nil && d.p.isPicture():
		return exit.With(exit.Failed, fmt.Errorf("nothing is drawn: %w", err))
	case err != nil:
		d.p.note("nothing is drawn: %v", err)
		return d.print(t)
	case d.p.isPicture():
		d.drawn++
		return c.SVG(d.p.out)
	}
	if d.drawn++; d.drawn > 1 {
		if err := d.p.out.WriteByte('\n'); err != nil {
			return err
		}
	}
	width, height := d.p.size()
	return c.Draw(d.p.out, chart.Screen{Width: width, Height: min(height-2, 30), Color: d.p.Rows.Color})
}

// built returns the chart of the rows that are kept for the table t, or an error if no chart is
// asked for or the columns do not suit it.
func (d *drawing) built(t *query.Table) (*chart.Chart, error) {
	if !chart.IsDrawn(d.spec.Kind) {
		return nil, errors.New("the query renders no chart; give one with --render")
	}
	return chart.Build(d.spec, t.Columns, d.cells)
}

// print prints the rows that were kept for the table t and could not be drawn.
func (d *drawing) print(t *query.Table) error {
	err := d.Printer.Table(t)
	for _, row := range d.cells {
		if err == nil {
			err = d.Printer.Row(t, row)
		}
	}
	return err
}
