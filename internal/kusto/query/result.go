package query

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/units"
)

// Column is a column of a result.
type Column struct {
	Name string
	Type string // a scalar type of KQL; empty: the answer does not tell
}

// Table is the head of a table of a result.
type Table struct {
	Name    string
	Kind    string // PrimaryResult is what was asked for; the others tell of the request. Never empty
	Columns []Column
}

// PrimaryResult is the kind of the tables that were asked for.
const PrimaryResult = "PrimaryResult"

// Reader takes a result as it comes: its tables one after another, each with all
// its rows before the next begins. An error of its own ends the reading and is
// what Query returns.
type Reader interface {
	// Table is called once for each table, before its rows.
	Table(t *Table) error
	// Row has a cell of JSON for each column, numbers with all their digits. It
	// belongs to the caller again when Row returns.
	Row(t *Table, row []json.RawMessage) error
	// Progress reports how much of the work is done, in percent, if the answer says it.
	Progress(percent float64)
}

// Collector is a Reader for small results: it keeps the primary tables, up to
// 100,000 rows of each and 64 MiB in all. More is an error.
type Collector struct {
	Tables []Collected

	size int // of all rows, in bytes
}

// Collected is a table with its rows.
type Collected struct {
	Table
	Rows [][]json.RawMessage
}

// Table implements Reader: it begins to collect a table if it is a primary result. Rows of other
// tables are dropped.
func (c *Collector) Table(t *Table) error {
	if t.Kind == PrimaryResult {
		c.Tables = append(c.Tables, Collected{Table: *t})
	}
	return nil
}

const (
	cellCost     = 32 // what a cell takes besides its text
	maxCollected = 100_000
)

// Row keeps a copy of the row if it is of a primary table. It fails if the table would have more than
// maxCollected rows, or all rows more than 64 MiB.
func (c *Collector) Row(t *Table, row []json.RawMessage) error {
	if t.Kind != PrimaryResult {
		return nil
	}
	own := &c.Tables[len(c.Tables)-1]
	if len(own.Rows) == maxCollected {
		return fmt.Errorf("read result: it has more than %d rows", maxCollected)
	}
	cells := make([]json.RawMessage, len(row))
	for j := range row {
		if c.size += len(row[j]) + cellCost; c.size > maxHeld {
			return fmt.Errorf("read result: it takes more than %d MiB", maxHeld>>20)
		}
		cells[j] = bytes.Clone(row[j])
	}
	own.Rows = append(own.Rows, cells)
	return nil
}

// Progress does nothing.
func (c *Collector) Progress(float64) {}

// Each calls f for every row of the first table, with the text of each cell under the name of its
// column. Without tables it does nothing.
func (c *Collector) Each(f func(row map[string]string)) {
	if len(c.Tables) == 0 {
		return
	}
	t := &c.Tables[0]
	for _, row := range t.Rows {
		cells := make(map[string]string, len(row))
		for i, cell := range row {
			cells[t.Columns[i].Name] = CellText(cell)
		}
		f(cells)
	}
}

// CellText returns a cell as text for people and CSV: a string without its quotes and escapes, null as
// "", anything else as it came.
func CellText(cell json.RawMessage) string {
	switch {
	case len(cell) == 0 || string(cell) == "null":
		return ""
	case cell[0] != '"':
		return string(cell)
	}
	var s string
	if json.Unmarshal(cell, &s) != nil {
		return string(cell)
	}
	return s
}

// dotnetTypes are the scalar types of columns by their .NET names.
var dotnetTypes = map[string]string{
	"SByte": "bool", "Boolean": "bool", "Int32": "int", "Int64": "long", "Double": "real", "SqlDecimal": "decimal", "Data.SqlTypes.SqlDecimal": "decimal",
	"DateTime": "datetime", "TimeSpan": "timespan", "Guid": "guid", "Object": "dynamic", "String": "string",
}

// columnType returns the scalar type of a column, which the service gives by its KQL name or by its
// .NET name; "" if neither is known.
func columnType(kusto, dotnet string) string {
	if t, err := ScalarType(kusto); err == nil {
		return t
	}
	return dotnetTypes[strings.TrimPrefix(dotnet, "System.")]
}

// decoded returns a reader of the uncompressed body. For deflate both forms in use are accepted:
// with the header of zlib, as the standard says, and without. An encoding that was not asked for is
// an error.
func decoded(resp *http.Response) (io.Reader, error) {
	raw := bufio.NewReaderSize(resp.Body, 64<<10)
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "", "identity":
		return raw, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(raw)
	case "deflate":
		// The first two bytes of a zlib header name the method 8 and are a multiple of 31.
		if head, err := raw.Peek(2); err == nil && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			return zlib.NewReader(raw)
		}
		return flate.NewReader(raw), nil
	}
	return nil, fmt.Errorf("%w: it is encoded as %s, which was not asked for", errShape, reply.QuoteName(resp.Header.Get("Content-Encoding")))
}

// errShape: an answer is no result.
var errShape = errors.New("the answer is not a result of the service; a proxy or a portal may have answered")

// errTorn: an answer was not read to its end, whatever ended it.
var errTorn = errors.New("the answer ends early")

// pageError is a web page in place of a result.
type pageError struct{ words string }

func (e *pageError) Error() string { return errShape.Error() + ": " + e.words }

// Unwrap is errShape.
func (e *pageError) Unwrap() error { return errShape }

var byteOrderMark = []byte("\xef\xbb\xbf")

// readResult reads an answer and passes its tables and rows to r. An answer that begins with a
// brace is of version 1, one that begins with a bracket of version 2. It returns nil only if the
// whole answer was read, every row was passed on, and the answer reports no error. An answer that
// is a web page is a *pageError.
func readResult(body io.Reader, q *Query, r Reader) error {
	raw := bufio.NewReaderSize(body, 4<<10)
	if mark, _ := raw.Peek(len(byteOrderMark)); bytes.Equal(mark, byteOrderMark) {
		_, _ = raw.Discard(len(mark))
	}
	p := &parser{in: &scanner{r: raw}, q: q, r: r, tables: make(map[int64]*turn)}
	p.out = &turns{to: reading{r}, of: budget{maxHeld}}
	first, err := p.in.peek()
	if err != nil {
		return shapeError(err)
	}
	switch first {
	case '{':
		err = p.version1()
	case '[':
		err = p.version2()
	case '<':
		page, _ := io.ReadAll(io.LimitReader(io.MultiReader(bytes.NewReader(p.in.buf[p.in.pos:p.in.end]), raw), reply.MaxAnswer))
		words, _ := reply.PageWords(page)
		return &pageError{words}
	default:
		return errShape
	}
	if err == nil {
		var done bool
		if done, err = p.in.atEnd(); err == nil && !done {
			err = fmt.Errorf("%w: something follows its end", errShape)
		}
	}
	if err != nil {
		return shapeError(err)
	}
	return p.fault
}

// readerError is an error of the Reader, which is returned as it is.
type readerError struct{ error }

// Unwrap is the error itself.
func (e *readerError) Unwrap() error { return e.error }

// reading marks the errors of a Reader, so that they are not taken for errors of
// the answer.
type reading struct{ Reader }

// marked wraps an error of the Reader in a *readerError, so that it is not taken for an error of
// the answer; nil stays nil.
func marked(err error) error {
	if err != nil {
		return &readerError{err}
	}
	return nil
}

func (r reading) Table(t *Table) error                      { return marked(r.Reader.Table(t)) }
func (r reading) Row(t *Table, row []json.RawMessage) error { return marked(r.Reader.Row(t, row)) }

// shapeError classifies an error of reading an answer. It wraps errShape if the answer is no
// result, and errTorn if it ends early. An error of the Reader, and one that is classified already,
// is returned as it is.
func shapeError(err error) error {
	var own *readerError
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &own):
		return own.error
	case errors.Is(err, errShape), errors.Is(err, errSize), errors.Is(err, errReplaced):
		return err
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, gzip.ErrHeader), errors.Is(err, zlib.ErrHeader):
		return fmt.Errorf("%w: %w", errShape, err)
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", errTorn, err)
}

// Bounds of the pieces of a result, in bytes. Rows held for later have maxHeld.
const (
	maxRow     = 60 << 20 // with the smaller steps of a text 64 MiB at most
	maxSmall   = 64 << 10 // a name, a number, a column
	maxHead    = 8 << 20  // all columns of a table
	maxFault   = 64 << 10 // what the answer says went wrong
	maxColumns = 20_000   // the service allows 10,000
	maxTables  = 10_000   // begun and not ended, or waiting for their kind
)

// parser reads a result piece by piece, so that it holds no more than a row and
// what cannot be handed on yet.
type parser struct {
	in     *scanner
	q      *Query
	r      Reader
	out    *turns
	tables map[int64]*turn // of version 2, begun and not ended, by id

	progressive bool // the header of version 2 says so
	ended       bool // the completion of version 2 was read

	row   text
	small text
	cells []json.RawMessage
	ends  []int
	fault error // what the service says went wrong after it began to answer
}

// object reads an object and calls f for each key; f must read the value of that key.
func (p *parser) object(f func(key string) error) error {
	return p.sequence('{', '}', func() error {
		b, err := p.in.peek()
		if err != nil {
			return err
		}
		if b != '"' {
			return misplaced(b)
		}
		var key string
		if err := p.into(&key); err != nil {
			return err
		}
		if err := p.in.expect(':', nil); err != nil {
			return err
		}
		return f(key)
	})
}

// list reads a list and calls f for each value, which f must read; null counts as an empty list.
func (p *parser) list(f func() error) error {
	b, err := p.in.peek()
	if err != nil {
		return err
	}
	if b == 'n' {
		return p.skip()
	}
	return p.sequence('[', ']', f)
}

// sequence reads what stands between the signs open and end, and calls f for each of its parts, which
// have commas between them.
func (p *parser) sequence(open, end byte, f func() error) error {
	if err := p.in.expect(open, nil); err != nil {
		return err
	}
	for first := true; ; first = false {
		b, err := p.in.peek()
		if err != nil {
			return err
		}
		if b == end {
			return p.in.take(nil)
		}
		if !first {
			if err := p.in.expect(',', nil); err != nil {
				return err
			}
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// raw reads a JSON value of at most limit bytes and returns its text, which is valid until the next
// call. A longer value is an error.
func (p *parser) raw(limit int) (json.RawMessage, error) {
	p.small.b, p.small.limit = p.small.b[:0], limit
	err := p.in.value(&p.small)
	return p.small.b, err
}

// into reads a value of at most maxSmall bytes and decodes it to v.
func (p *parser) into(v any) error {
	raw, err := p.raw(maxSmall)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// skip reads over a value, however large.
func (p *parser) skip() error { return p.in.value(nil) }

// rows reads a list of rows and calls f for each with its cells as JSON. The row is valid until f
// returns. An object in the place of a row is read as an error that the service reports.
func (p *parser) rows(f func(row []json.RawMessage) error) error {
	return p.list(func() error {
		b, err := p.in.peek()
		switch {
		case err != nil:
			return err
		case b == '{':
			return p.readFault(true)
		case b != '[':
			return fmt.Errorf("%w: a row is not a list", errShape)
		}
		p.row.b, p.row.limit, p.ends = p.row.b[:0], maxRow, p.ends[:0]
		err = p.list(func() error {
			err := p.in.value(&p.row)
			if p.ends = append(p.ends, len(p.row.b)); len(p.ends) > maxColumns {
				return fmt.Errorf("%w: a row has more than %d cells", errSize, maxColumns)
			}
			return err
		})
		if err != nil {
			return err
		}
		p.cells = p.cells[:0]
		begin := 0
		for _, end := range p.ends {
			p.cells = append(p.cells, p.row.b[begin:end:end])
			begin = end
		}
		return f(p.cells)
	})
}

// handOn passes a row of the table n to the Reader, or keeps it until the tables before n are
// complete. It fails if the row has another number of cells than the table has columns. If a row of
// a status table reports an error of the query, handOn notes the error for the end of the query and
// passes the row on as well.
func (p *parser) handOn(n *turn, row []json.RawMessage) error {
	if len(row) != len(n.t.Columns) {
		return fmt.Errorf("%w: a row has %s, its table %s", errShape, units.Counted(len(row), "cell"), units.Counted(len(n.t.Columns), "column"))
	}
	if e := rowFault(n.t, row, p.q); e != nil {
		p.blame(e)
	}
	return p.out.row(n, row)
}

// columns reads the JSON list that describes a table's columns. More than maxColumns of them, or more
// than maxHead bytes, are an error.
func (p *parser) columns() ([]Column, error) {
	all, size := []Column{}, 0
	err := p.list(func() error {
		raw, err := p.raw(maxSmall)
		if err != nil {
			return err
		}
		if size += len(raw); size > maxHead || len(all) == maxColumns {
			return fmt.Errorf("%w: a table has more than %d columns, or they take more than %d MiB", errSize, maxColumns, maxHead>>20)
		}
		var c struct{ ColumnName, ColumnType, DataType string }
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		all = append(all, Column{c.ColumnName, columnType(c.ColumnType, c.DataType)})
		return nil
	})
	return all, err
}
