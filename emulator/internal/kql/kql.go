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

// Source is where a query is asked.
type Source interface {
	Table(name string) (*Table, error) // an error for a table that there is not
	Database() string
	Principal() string
}

// ErrControl is that of a text that begins with a dot: it is no query.
var ErrControl = errors.New("BadRequest: Control commands may not be sent to the query endpoint: a request to a query endpoint must be a query; use the mgmt endpoint")

// Run evaluates a text of one or more statements and returns a table for each that
// gives one. Parameters are by name, as text; see the declare statement. It ends with
// the cause of the context when that does.
func Run(ctx context.Context, text string, parameters map[string]string, source Source) (all []*Table, err error) {
	defer ended(&err)
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
		t, err := s.statement(c, parameters)
		if err != nil {
			return nil, err
		}
		if t != nil {
			all = append(all, t)
		}
		if c.Peek().Kind != TokEnd && !c.Sign(";") {
			return nil, c.Fault("want an operator behind |, or the end of the statement")
		}
	}
	if len(all) == 0 {
		return nil, errors.New("SYN0002: Syntax error: there is no query: want a tabular expression")
	}
	return all, nil
}

// Pipe evaluates the operators that a text begins with, the first bar included, on a
// table.
func Pipe(ctx context.Context, text string, t *Table, source Source) (result *Table, err error) {
	defer ended(&err)
	c, err := NewCursor(text, false)
	if err != nil {
		return nil, err
	}
	if t, err = newScope(ctx, source).pipeline(c, t); err != nil {
		return nil, err
	}
	return t, c.End()
}

// ended is deferred by Run and Pipe. It stores in *err the error of a fault, with which functions deep
// in an evaluation panic; other panics go on.
func ended(err *error) {
	switch v := recover().(type) {
	case nil:
	case fault:
		*err = v.err
	default:
		panic(v)
	}
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

	at          *Table      // whose columns an expression speaks of; nil: none
	left, right *Table      // of a join
	aggregates  *aggregates // of a summarize whose columns are read; else nil
}

func newScope(ctx context.Context, source Source) *scope {
	return &scope{ctx: ctx, source: source, now: time.Now().UTC(), scalars: make(map[string]expression), tables: make(map[string]*Table),
		depth: new(int), cells: new(int)}
}

// over returns a copy of the scope for expressions about the columns of t; nil for expressions without
// columns.
func (s *scope) over(t *Table) *scope {
	inner := *s
	inner.at, inner.left, inner.right, inner.aggregates = t, nil, nil, nil
	return &inner
}

// maxDepth bounds brackets in brackets, maxCells what one query makes.
const (
	maxDepth = 200
	maxCells = 20_000_000
)

// deeper counts one more level of nesting, which the caller ends by calling leave. It is an error
// above maxDepth; leave is nil then.
func (s *scope) deeper(c *Cursor) (leave func(), err error) {
	if *s.depth++; *s.depth > maxDepth {
		return nil, c.Fault("brackets are nested too deep")
	}
	return func() { *s.depth-- }, nil
}

// made counts a new row of n cells. It returns an error when the query has made more than maxCells,
// and, checked every 4096 cells, the cause when its context has ended.
func (s *scope) made(n int) error {
	before := *s.cells
	*s.cells += n + 1
	if *s.cells > maxCells {
		return errors.New("E_LOW_MEMORY_CONDITION: the query makes more cells than the emulator has room for")
	}
	if before>>12 != *s.cells>>12 {
		return context.Cause(s.ctx)
	}
	return nil
}

// semantic is an error about names and types.
func semantic(format string, args ...any) error {
	return errors.New("SEM0100: Semantic error: " + fmt.Sprintf(format, args...))
}

// unknown is an error for a part of the language that is not in the subset.
func unknown(what, name string) error {
	return semantic("the %s '%s' is not among those that the emulator knows", what, name)
}

// statement reads one statement. It returns the table of a query, and nil for declare and let.
func (s *scope) statement(c *Cursor, parameters map[string]string) (*Table, error) {
	t := c.Peek()
	if t.Kind == TokSign && t.Text == "." {
		return nil, ErrControl
	}
	switch {
	case c.Words("declare", "query_parameters"):
		return nil, s.declare(c, parameters)
	case c.Word("let"):
		return nil, s.let(c)
	}
	if next := c.after(); t.Kind == TokWord && next.Kind == TokWord {
		switch strings.ToLower(t.Text) {
		case "declare", "set", "alias", "restrict":
			return nil, unknown("statement", t.Text)
		}
	}
	return s.tabular(c)
}

// after returns the token behind the next one, without moving the cursor.
func (c *Cursor) after() Token { return c.tokens[min(c.i+1, len(c.tokens)-1)] }

// declare reads the (name:type = default, …) of query parameters and defines them with the values in
// parameters. A parameter with neither a value nor a default is an error.
func (s *scope) declare(c *Cursor, parameters map[string]string) error {
	if err := c.Want("("); err != nil {
		return err
	}
	for !c.Sign(")") {
		name, typ, err := s.typed(c)
		if err != nil {
			return err
		}
		literal, given := parameters[name]
		var v any
		if c.Sign("=") {
			e, err := s.scalar(c)
			if err != nil {
				return err
			}
			if v, err = s.cast(e, typ, name); err != nil {
				return err
			}
		} else if !given {
			return semantic("the query parameter '%s' has no value", name)
		}
		if given {
			if v, err = s.parameter(typ, literal); err != nil {
				return semantic("the query parameter '%s' is of type %s: %s", name, typ, err)
			}
		}
		s.scalars[name] = fixed(typ, v)
		if !c.Sign(",") && (c.Peek().Kind != TokSign || c.Peek().Text != ")") {
			return c.Fault("want , or )")
		}
	}
	return nil
}

// typed reads name:type.
func (s *scope) typed(c *Cursor) (name, typ string, err error) {
	if name, err = c.Name(); err != nil {
		return "", "", err
	}
	if err := c.Want(":"); err != nil {
		return "", "", err
	}
	if typ = Types[c.Peek().Text]; typ == "" {
		return "", "", c.Fault("want a type")
	}
	c.Next()
	return name, typ, nil
}

// parameter converts the text of a query parameter to its type. A string may come with or without
// quotes. Any other type comes as a literal, such as datetime(2026-01-01), or as the text between its
// brackets.
func (s *scope) parameter(typ, literal string) (any, error) {
	inner, n, quoted, err := lexString(literal)
	if quoted = quoted && err == nil && n == len(literal); typ == "string" {
		if quoted {
			return inner, nil
		}
		return literal, nil
	}
	if c, err := NewCursor(literal, false); err == nil {
		if e, err := s.over(nil).literal(c); err == nil && c.End() == nil && (e.typ == typ || typ == "int" && e.typ == "long" && e.of(nil) == parsed("int", literal)) {
			return e.of(nil), nil
		}
	}
	if v := parsed(typ, literal); v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("'%s' is no literal of it", literal)
}

// cast converts a constant expression to the type of the declared parameter or column name. It is an
// error when the types are too different.
func (s *scope) cast(e expression, typ, name string) (any, error) {
	v := e.of(nil)
	number := func(t string) bool { return t == "int" || t == "long" || t == "real" || t == "decimal" }
	switch {
	case e.typ == typ:
		return v, nil
	case v == nil && e.typ == "dynamic":
		return nil, nil
	case number(e.typ) && number(typ), e.typ == "string" && typ != "dynamic", typ == "string":
		if w := converted(typ, v); w != nil || v == nil {
			return w, nil
		}
	case typ == "dynamic":
		return dynamicOf(v), nil
	}
	return nil, semantic("the value of '%s' is of type %s, not %s", name, e.typ, typ)
}

// let reads name = expression and defines the name as a scalar or as a table: a table where the text
// is not a complete scalar expression.
func (s *scope) let(c *Cursor) error {
	name, err := c.Name()
	if err != nil {
		return err
	}
	if err := c.Want("="); err != nil {
		return err
	}
	if c.Peek().Kind == TokWord && c.Peek().Text == "view" || c.isLambda() {
		return unknown("statement", "let "+name+" = (…) {…}")
	}
	begin := c.i
	e, scalarErr := s.over(nil).scalar(c)
	if scalarErr == nil && c.atEnd() {
		v := e.of(nil)
		s.scalars[name] = fixed(e.typ, v)
		delete(s.tables, name)
		return nil
	}
	reached := c.i
	c.i = begin
	t, err := s.tabular(c)
	if err != nil {
		if scalarErr != nil && reached > c.i {
			return scalarErr
		}
		return err
	}
	s.tables[name] = t
	delete(s.scalars, name)
	return nil
}

// atEnd reports whether the statement ends here.
func (c *Cursor) atEnd() bool {
	t := c.Peek()
	return t.Kind == TokEnd || t.Kind == TokSign && t.Text == ";"
}

// isLambda reports whether a function begins: (), or (name:type.
func (c *Cursor) isLambda() bool {
	if t := c.Peek(); t.Kind != TokSign || t.Text != "(" {
		return false
	}
	a, b := c.after(), c.tokens[min(c.i+2, len(c.tokens)-1)]
	return a.Kind == TokSign && a.Text == ")" || b.Kind == TokSign && b.Text == ":"
}
