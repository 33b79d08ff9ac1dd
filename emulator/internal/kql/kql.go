// Package kql evaluates a named subset of the Kusto Query Language over tables in
// memory, and never lies about the rest: what it gives is what the service is
// documented to give, and what it does not know is an error that names it.
//
// docs/kql.md names the subset. Errors begin with the code of the service, SYN0002
// for a text that is none of the language and SEM0100 for names and types.
package kql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Column has the name and the scalar type of a column.
type Column struct{ Name, Type string }

// Table is a result, or a table that a query reads. Values are bool, int64, float64,
// *big.Rat, string, time.Time, time.Duration, json.RawMessage (for dynamic) or nil.
// Rows are not changed once they are in a table.
type Table struct {
	Columns []Column
	Rows    [][]any

	// Ingested says that each row has one more cell behind its length: a time.Time, when
	// it was stored, or nil. Those of a result have none.
	Ingested bool

	// Render is what the render operator said, a property bag; nil: nothing.
	Render json.RawMessage
}

// index returns the index of the column with this name; -1 when there is none.
func (t *Table) index(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
}

// find returns the index of the column with this name. When there is none, it panics with a Fault,
// which ends the query with an error.
func (t *Table) find(name string) int {
	i := t.index(name)
	if i < 0 {
		panic(semantic("Failed to resolve scalar expression named '%s'", name))
	}
	return i
}

// Source is where a query is asked.
type Source interface {
	Table(name string) (*Table, error) // an error for a table that there is not
	Database() string
	Principal() string
}

// ErrControl is that of a text that begins with a dot: it is no query.
var ErrControl = errors.New("BadRequest: Control commands may not be sent to the query endpoint: a request to a query endpoint must be a query; use the mgmt endpoint")

// Run evaluates a text of one or more statements and returns a table for each one that is a
// query; let and declare give none. parameters has the values of the query parameters as text,
// by name; a declare statement gives their types. When ctx ends, the error is its cause.
func Run(ctx context.Context, text string, parameters map[string]string, source Source) (all []*Table, err error) {
	defer Ended(&err)
	c, err := NewCursor(text, false)
	if err != nil {
		return nil, err
	}
	s := newScope(ctx, source)
	for {
		for c.Sign(";") {
		}
		if c.Peek().Kind == TokEnd {
			break
		}
		if t := s.statement(c, parameters); t != nil {
			all = append(all, t)
		}
		c.endOfStatement()
	}
	if len(all) == 0 {
		return nil, errors.New("SYN0002: Syntax error: there is no query: want a tabular expression")
	}
	return all, nil
}

// Pipe evaluates the operators of a text, which begins with the bar before the first of them,
// on the rows of t, and returns the resulting table.
func Pipe(ctx context.Context, text string, t *Table, source Source) (result *Table, err error) {
	defer Ended(&err)
	c, err := NewCursor(text, false)
	if err != nil {
		return nil, err
	}
	t = newScope(ctx, source).pipeline(c, t)
	c.End()
	return t, nil
}

// Fault is the value with which functions that read or evaluate a text panic. It does not
// leave the functions that defer Ended.
type Fault struct{ Err error }

// Ended recovers the panic of a Fault and stores the Fault's error in *err; other panics go on.
// Functions that a Fault must not leave, such as Run and Pipe, defer it.
func Ended(err *error) {
	switch v := recover().(type) {
	case nil:
	case Fault:
		*err = v.Err
	default:
		panic(v)
	}
}

// try calls f and returns the error of the Fault that f panicked with; nil if f returned.
func try(f func()) (err error) {
	defer Ended(&err)
	f()
	return nil
}

// scope is what names mean at one place of a query, and what the whole query shares: its time, limits
// and source.
type scope struct {
	ctx     context.Context
	source  Source
	now     time.Time
	scalars map[string]expression // parameters and let
	tables  map[string]*Table     // let
	depth   *int                  // of brackets
	cells   *int                  // made so far

	at         *Table      // whose columns an expression speaks of; nil: none
	aggregates *aggregates // of a summarize whose columns are read; else nil
}

func newScope(ctx context.Context, source Source) *scope {
	return &scope{ctx: ctx, source: source, now: time.Now().UTC(), scalars: make(map[string]expression), tables: make(map[string]*Table),
		depth: new(int), cells: new(int)}
}

// over returns a copy of the scope for expressions that read the columns of t. With a nil t they
// cannot read columns.
func (s *scope) over(t *Table) *scope {
	inner := *s
	inner.at, inner.aggregates = t, nil
	return &inner
}

// maxDepth bounds brackets in brackets, maxCells what one query makes.
const (
	maxDepth = 200
	maxCells = 20_000_000
)

// deeper counts one more level of nesting, which the caller ends by calling leave. Above maxDepth it
// panics with a Fault, which ends the query.
func (s *scope) deeper(c *Cursor) (leave func()) {
	if *s.depth++; *s.depth > maxDepth {
		panic(c.Fault("brackets are nested too deep"))
	}
	return func() { *s.depth-- }
}

// made counts a new row of n cells, and one cell more for the row itself. It panics with a Fault,
// which ends the query, when the query has made more than maxCells, or when its context has ended. The
// context is checked only once in 4096 cells.
func (s *scope) made(n int) {
	before := *s.cells
	*s.cells += n + 1
	if *s.cells > maxCells {
		panic(Fault{errors.New("E_LOW_MEMORY_CONDITION: the query makes more cells than the emulator has room for")})
	}
	if err := context.Cause(s.ctx); err != nil && before>>12 != *s.cells>>12 {
		panic(Fault{err})
	}
}

// semantic is a fault about names and types.
func semantic(format string, args ...any) Fault {
	return Fault{errors.New("SEM0100: Semantic error: " + fmt.Sprintf(format, args...))}
}

// unknown is a fault for a part of the language that is not in the subset.
func unknown(what, name string) Fault {
	return semantic("the %s '%s' is not among those that the emulator knows", what, name)
}

// statement reads and evaluates one statement. It returns the table of a query, and nil for declare
// and let, which define names in the scope. parameters has the values for declare, as text.
func (s *scope) statement(c *Cursor, parameters map[string]string) *Table {
	t := c.Peek()
	switch {
	case t.is("."):
		panic(Fault{ErrControl})
	case c.Words("declare", "query_parameters"):
		s.declare(c, parameters)
		return nil
	case c.Word("let"):
		s.let(c)
		return nil
	}
	// Two words are a statement; one alone may be a table with such a name.
	if next := c.after(); t.Kind == TokWord && next.Kind == TokWord {
		switch strings.ToLower(t.Text) {
		case "declare", "set", "alias", "restrict":
			panic(unknown("statement", t.Text))
		}
	}
	return s.tabular(c)
}

// declare reads the (name:type = default, …) of query parameters and defines them with the values in
// parameters. A parameter with neither a value nor a default ends the query with an error.
func (s *scope) declare(c *Cursor, parameters map[string]string) {
	c.Want("(")
	c.List(")", func() {
		column := c.Column()
		name, typ := column.Name, column.Type
		literal, given := parameters[name]
		var v any
		if c.Sign("=") {
			e := s.scalar(c)
			v = s.cast(e, typ, name)
		} else if !given {
			panic(semantic("the query parameter '%s' has no value", name))
		}
		if given {
			v = s.parameter(name, typ, literal)
		}
		s.scalars[name] = fixed(typ, v)
	})
}

// parameter converts the text of the query parameter name to its type. A string may come with or without
// quotes. Any other type comes as a literal, such as datetime(2026-01-01), or as the text between its
// brackets. A text that is neither ends the query with an error.
func (s *scope) parameter(name, typ, literal string) any {
	inner, n, quoted, err := lexString(literal)
	if quoted = quoted && err == nil && n == len(literal); typ == "string" {
		if quoted {
			return inner
		}
		return literal
	}
	if c, err := NewCursor(literal, false); err == nil {
		var e expression
		err = try(func() {
			e = s.over(nil).literal(c)
			c.End()
		})
		// The literal of an int is a long, which has to be in the range of an int.
		if err == nil && (e.typ == typ || typ == "int" && e.typ == "long" && e.of(nil) == parsed("int", literal)) {
			return e.of(nil)
		}
	}
	if v := parsed(typ, literal); v != nil {
		return v
	}
	panic(semantic("the query parameter '%s' is of type %s: '%s' is no literal of it", name, typ, literal))
}

// cast returns the value of a constant expression, converted to typ, the type of the declared
// parameter or column name. It panics with a Fault, which ends the query, when the types are too
// different.
func (s *scope) cast(e expression, typ, name string) any {
	v := e.of(nil)
	switch {
	case e.typ == typ:
		return v
	case v == nil && e.typ == "dynamic":
		return nil
	case isNumber(e.typ) && isNumber(typ), e.typ == "string" && typ != "dynamic", typ == "string":
		if w := converted(typ, v); w != nil || v == nil {
			return w
		}
	case typ == "dynamic":
		return dynamicOf(v)
	}
	panic(semantic("the value of '%s' is of type %s, not %s", name, e.typ, typ))
}

// let reads name = expression and defines the name as a scalar or as a table: a table where the text
// is not a complete scalar expression.
func (s *scope) let(c *Cursor) {
	name := c.Name()
	c.Want("=")
	// Views and functions are not in the subset.
	if c.Peek().Kind == TokWord && c.Peek().Text == "view" || c.isLambda() {
		panic(unknown("statement", "let "+name+" = (…) {…}"))
	}
	c.either(func() {
		e := s.over(nil).scalar(c)
		c.endOfStatement()
		s.scalars[name] = fixed(e.typ, e.of(nil))
		delete(s.tables, name)
	}, func() {
		s.tables[name] = s.tabular(c)
		delete(s.scalars, name)
	}, true)
}

// isLambda reports whether the next tokens begin a function: (), or (name:type. It does not move.
func (c *Cursor) isLambda() bool {
	return c.Peek().is("(") && (c.after().is(")") || c.tokens[min(c.i+2, len(c.tokens)-1)].is(":"))
}
