package kusto

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
)

// Column is a column of a result.
type Column struct {
	Name string
	Type string // a scalar type of KQL; empty: the answer does not tell
}

// Table is the head of a table of a result.
type Table struct {
	Name    string
	Kind    string // PrimaryResult is what was asked for; the others tell of the request
	Columns []Column
}

// PrimaryResult is the kind of the tables that were asked for.
const PrimaryResult = "PrimaryResult"

// Reader takes a result as it comes. An error of its own ends the reading and is
// what Query returns.
type Reader interface {
	// Table is called once for each table, before its rows.
	Table(t *Table) error
	// Row has a cell of JSON for each column, numbers with all their digits. It
	// belongs to the caller again when Row returns.
	Row(t *Table, row []json.RawMessage) error
	// Replace says that the rows of t so far are void: progressive answers send
	// better ones. It is called for no others.
	Replace(t *Table) error
	// Progress tells how much of the work is done, in percent, where the answer does.
	Progress(percent float64)
}

// Collector is a Reader for small results: it keeps the primary tables.
type Collector struct {
	Tables []Collected
	Most   int // rows of a table that are kept; 0: 100,000. More is an error.
}

// Collected is a table with its rows.
type Collected struct {
	Table
	of   *Table
	Rows [][]json.RawMessage
}

// Table begins a table, if it was asked for.
func (c *Collector) Table(t *Table) error {
	if t.Kind == PrimaryResult {
		c.Tables = append(c.Tables, Collected{Table: *t, of: t})
	}
	return nil
}

// Row keeps a row.
func (c *Collector) Row(t *Table, row []json.RawMessage) error {
	most := c.Most
	if most == 0 {
		most = 100_000
	}
	for i := range c.Tables {
		if own := &c.Tables[i]; own.of == t {
			if len(own.Rows) == most {
				return fmt.Errorf("read result: it has more than %d rows", most)
			}
			cells := make([]json.RawMessage, len(row))
			for j := range row {
				cells[j] = bytes.Clone(row[j])
			}
			own.Rows = append(own.Rows, cells)
		}
	}
	return nil
}

// Replace forgets the rows of a table.
func (c *Collector) Replace(t *Table) error {
	for i := range c.Tables {
		if c.Tables[i].of == t {
			c.Tables[i].Rows = nil
		}
	}
	return nil
}

// Progress does nothing.
func (c *Collector) Progress(float64) {}

// Each calls f for every row of the first table, with its cells as text by the
// name of their column: addressed by name, since their order is not promised.
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

// CellText is a cell for people and for CSV: a string without its quotes, null as
// nothing, all else as it came.
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

// columnType is the scalar type that a column is told to have, in whichever of
// the service's two ways.
func columnType(kusto, dotnet string) string {
	if t, err := ScalarType(kusto); err == nil {
		return t
	}
	switch strings.TrimPrefix(dotnet, "System.") {
	case "SByte", "Boolean":
		return "bool"
	case "Int32":
		return "int"
	case "Int64":
		return "long"
	case "Double":
		return "real"
	case "SqlDecimal", "Data.SqlTypes.SqlDecimal":
		return "decimal"
	case "DateTime":
		return "datetime"
	case "TimeSpan":
		return "timespan"
	case "Guid":
		return "guid"
	case "Object":
		return "dynamic"
	case "String":
		return "string"
	}
	return ""
}

// decoded is the body without its compression. Of deflate both meanings are in
// use: with the frame of zlib, as the standard has it, and without.
func decoded(resp *http.Response) (io.Reader, error) {
	raw := bufio.NewReaderSize(resp.Body, 64<<10)
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		return raw, nil
	case "gzip":
		return gzip.NewReader(raw)
	case "deflate":
		if head, err := raw.Peek(2); err == nil && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			return zlib.NewReader(raw)
		}
		return flate.NewReader(raw), nil
	}
	return nil, fmt.Errorf("%w: it is encoded as %s, which was not asked for", errShape, quoteName(resp.Header.Get("Content-Encoding")))
}

// errShape says that an answer is no result.
var errShape = errors.New("the answer is not a result of the service; a proxy or a portal may have answered")

// errTorn says that an answer was not read to its end, whatever ended it.
var errTorn = errors.New("the answer ends early")

// readResult reads an answer, by the form of its first byte: an object is a result
// of version 1, a list one of version 2.
func readResult(body io.Reader, q *Query, r Reader) error {
	p := &parser{dec: json.NewDecoder(body), q: q, r: r, tables: make(map[int64]*Table)}
	p.dec.UseNumber()
	first, err := p.dec.Token()
	if err != nil {
		return shapeError(err)
	}
	switch first {
	case json.Delim('{'):
		err = p.version1()
	case json.Delim('['):
		err = p.version2()
	default:
		return errShape
	}
	if err != nil {
		return err
	}
	return p.fault
}

// shapeError tells an answer that ends early from one that is no JSON, or other
// JSON than a result.
func shapeError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errShape):
		return err
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, gzip.ErrHeader), errors.Is(err, zlib.ErrHeader):
		return fmt.Errorf("%w: %w", errShape, err)
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", errTorn, err)
}

// parser reads a result token by token, so that it never holds more than a row.
type parser struct {
	dec     *json.Decoder
	q       *Query
	r       Reader
	tables  map[int64]*Table // of version 2, by id
	tables1 int              // of version 1, so far
	row     []json.RawMessage
	fault   error // what the service says went wrong after it began to answer
	given   bool  // rows were handed on
}

// object calls f for each key of an object whose opening brace was read.
func (p *parser) object(f func(key string) error) error {
	for p.dec.More() {
		key, err := p.dec.Token()
		if err != nil {
			return shapeError(err)
		}
		if err := f(key.(string)); err != nil {
			return err
		}
	}
	_, err := p.dec.Token()
	return shapeErrorOrNil(err)
}

// list calls f while a list, which begins here, has more.
func (p *parser) list(f func() error) error {
	open, err := p.dec.Token()
	if err != nil {
		return shapeError(err)
	}
	if open == nil {
		return nil // null is an empty list
	}
	if open != json.Delim('[') {
		return errShape
	}
	for p.dec.More() {
		if err := f(); err != nil {
			return err
		}
	}
	_, err = p.dec.Token()
	return shapeErrorOrNil(err)
}

func shapeErrorOrNil(err error) error {
	if err != nil {
		return shapeError(err)
	}
	return nil
}

// into decodes the value that comes next.
func (p *parser) into(v any) error {
	if err := p.dec.Decode(v); err != nil {
		return shapeError(err)
	}
	return nil
}

func (p *parser) skip() error {
	var v json.RawMessage
	return p.into(&v)
}

// open expects an object and reads its brace.
func (p *parser) open() error {
	brace, err := p.dec.Token()
	if err != nil {
		return shapeError(err)
	}
	if brace != json.Delim('{') {
		return errShape
	}
	return nil
}

// rows reads the rows of a table. In place of a row may stand an object that says
// what went wrong.
func (p *parser) rows(t *Table) error {
	return p.list(func() error {
		var raw json.RawMessage
		if err := p.into(&raw); err != nil {
			return err
		}
		if raw[0] == '{' {
			p.noteRaw(raw)
			return nil
		}
		p.row = p.row[:0]
		if err := json.Unmarshal(raw, &p.row); err != nil {
			return fmt.Errorf("%w: a row is not a list", errShape)
		}
		if len(p.row) != len(t.Columns) {
			return fmt.Errorf("%w: a row has %d cells, its table %d columns", errShape, len(p.row), len(t.Columns))
		}
		p.given = true
		return p.r.Row(t, p.row)
	})
}

// columns reads the columns of a table.
func (p *parser) columns() (all []Column, err error) {
	var told []struct{ ColumnName, ColumnType, DataType string }
	if err := p.into(&told); err != nil {
		return nil, err
	}
	for _, c := range told {
		all = append(all, Column{c.ColumnName, columnType(c.ColumnType, c.DataType)})
	}
	return all, nil
}
