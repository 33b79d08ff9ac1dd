package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A query is a source of rows and operators that each make a table of the one
// before. This is as much of KQL as tools ask for that look after a table:
//
//	T, print, datatable-free
//	| where | count | take | limit | project | extend | distinct | summarize … by …
//	| order by | sort by | top | getschema

// relation is a table under evaluation.
type relation struct {
	columns Columns
	rows    [][]any // bool, int64, float64, *big.Rat, string, time.Time, time.Duration, json.RawMessage or nil
}

func (r *relation) index(name string) int {
	return slices.IndexFunc(r.columns, func(c Column) bool { return c.Name == name })
}

// scope is what names mean in a query.
type scope struct {
	*session
	parameters map[string]any
	types      map[string]string // of parameters
	at         *relation         // whose columns an expression speaks of; nil: none
}

// semantic is an error about names and types.
func semantic(format string, args ...any) error {
	return errors.New("SEM0100: Semantic error: " + fmt.Sprintf(format, args...))
}

// runQuery evaluates a text.
func (s *session) runQuery(text string, literals map[string]string) (*result, error) {
	c, err := newCursor(text, false)
	if err != nil {
		return nil, err
	}
	sc := &scope{session: s, parameters: make(map[string]any), types: make(map[string]string)}
	for c.words("declare", "query_parameters") {
		if err := sc.declare(c, literals); err != nil {
			return nil, err
		}
	}
	if c.peek().kind == tokSign && c.peek().text == "." {
		return nil, errControl
	}
	r, err := sc.source(c)
	if err != nil {
		return nil, err
	}
	if r, err = sc.pipeline(c, r); err != nil {
		return nil, err
	}
	return r.result(), c.end()
}

// errControl: the query calls take no commands.
var errControl = errors.New("BadRequest: Control commands may not be sent to the query endpoint: a request to a query endpoint must be a query; use the mgmt endpoint")

// declare reads (name:type = default, …); of the service.
func (sc *scope) declare(c *cursor, literals map[string]string) error {
	if err := c.want("("); err != nil {
		return err
	}
	for !c.sign(")") {
		name, err := c.name()
		if err != nil {
			return err
		}
		if err := c.want(":"); err != nil {
			return err
		}
		typ := scalarTypes[strings.ToLower(c.next().text)]
		if typ == "" {
			return c.fault("want a type")
		}
		literal, given := literals[name]
		var v any
		if c.sign("=") {
			if v, err = sc.constant(c); err != nil {
				return err
			}
		} else if !given {
			return semantic("the query parameter '%s' has no value", name)
		}
		if given {
			if v, err = sc.parameter(typ, literal); err != nil {
				return semantic("the query parameter '%s' is of type %s: %s", name, typ, err)
			}
		}
		sc.parameters[name], sc.types[name] = v, typ
		c.sign(",")
	}
	return c.want(";")
}

// parameter reads the value of a parameter. Those of type string may come as they
// are, all others are literals; where a type writes its literals in quotes or in
// brackets, what is in them is enough.
func (sc *scope) parameter(typ, literal string) (any, error) {
	inner, n, quoted, err := lexString(literal)
	if quoted = quoted && err == nil && n == len(literal); typ == "string" {
		if quoted {
			return inner, nil
		}
		return literal, nil
	}
	if c, err := newCursor(literal, false); err == nil {
		if e, err := sc.expression(c); err == nil && c.end() == nil && e.typ == typ {
			return e.of(nil), nil
		}
	}
	if v := valueOf(typ, quote(literal)); v != nil && typ != "dynamic" {
		return v, nil
	}
	return nil, fmt.Errorf("'%s' is no literal of it", literal)
}

func (sc *scope) constant(c *cursor) (any, error) {
	e, err := sc.expression(c)
	if err != nil {
		return nil, err
	}
	return e.of(nil), nil
}

// source reads what a query begins with.
func (sc *scope) source(c *cursor) (*relation, error) {
	if c.word("print") {
		return sc.print(c)
	}
	if c.peek().kind == tokWord && strings.EqualFold(c.peek().text, "table") {
		c.next()
		if err := c.want("("); err != nil {
			return nil, err
		}
		name, err := c.str()
		if err != nil {
			return nil, err
		}
		if err := c.want(")"); err != nil {
			return nil, err
		}
		return sc.tableRows(name)
	}
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	return sc.tableRows(name)
}

func (sc *scope) print(c *cursor) (*relation, error) {
	cells, err := sc.assignments(c, "print_")
	if err != nil {
		return nil, err
	}
	return sc.compute(&relation{rows: [][]any{nil}}, cells), nil
}

// pipeline applies operators while there are more.
func (sc *scope) pipeline(c *cursor, r *relation) (*relation, error) {
	for c.sign("|") {
		sc.at = r
		var err error
		if r, err = sc.operator(c, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (sc *scope) operator(c *cursor, r *relation) (*relation, error) {
	op := c.next()
	switch strings.ToLower(op.text) {
	case "where", "filter":
		return sc.where(c, r)
	case "count":
		return &relation{Columns{{"Count", "long"}}, [][]any{{int64(len(r.rows))}}}, nil
	case "take", "limit":
		n, err := sc.number(c)
		return &relation{r.columns, r.rows[:min(n, len(r.rows))]}, err
	case "project":
		cells, err := sc.assignments(c, "Column")
		if err != nil {
			return nil, err
		}
		return sc.compute(r, cells), nil
	case "extend":
		return sc.extend(c, r)
	case "distinct":
		return sc.distinct(c, r)
	case "summarize":
		return sc.summarize(c, r)
	case "order", "sort":
		if !c.word("by") {
			return nil, c.fault("want by")
		}
		return sc.order(c, r)
	case "top":
		n, err := sc.number(c)
		if err != nil || !c.word("by") {
			return nil, errors.Join(err, c.fault("want a number and by"))
		}
		if r, err = sc.order(c, r); err != nil {
			return nil, err
		}
		return &relation{r.columns, r.rows[:min(n, len(r.rows))]}, nil
	case "getschema":
		out := &relation{columns: Columns{{"ColumnName", "string"}, {"ColumnOrdinal", "long"}, {"DataType", "string"}, {"ColumnType", "string"}}}
		for i, col := range r.columns {
			out.rows = append(out.rows, []any{col.Name, int64(i), "System." + dotnet[col.Type], col.Type})
		}
		return out, nil
	}
	c.i--
	return nil, c.fault("the emulator does not know this operator")
}

func (sc *scope) number(c *cursor) (int, error) {
	v, err := sc.constant(c)
	n, ok := v.(int64)
	if err == nil && (!ok || n < 0) {
		err = c.fault("want a number")
	}
	return int(n), err
}

func (sc *scope) where(c *cursor, r *relation) (*relation, error) {
	e, err := sc.expression(c)
	if err != nil {
		return nil, err
	}
	if e.typ != "bool" {
		return nil, semantic("the predicate of where is of type %s, not bool", e.typ)
	}
	out := &relation{columns: r.columns}
	for _, row := range r.rows {
		if e.of(row) == true {
			out.rows = append(out.rows, row)
		}
	}
	return out, nil
}

// assignment is one cell of project, extend and print.
type assignment struct {
	name string
	expression
}

// assignments reads name = expression, …; what has no name is called as its column,
// or by the prefix and its number.
func (sc *scope) assignments(c *cursor, prefix string) (all []assignment, err error) {
	for {
		a := assignment{name: fmt.Sprint(prefix, len(all))}
		if t := c.peek(); (t.kind == tokWord || t.kind == tokName) && c.tokens[c.i+1].kind == tokSign && c.tokens[c.i+1].text == "=" {
			a.name = t.text
			c.i += 2
		} else if t.kind == tokWord || t.kind == tokName {
			if n := c.tokens[c.i+1]; n.kind == tokEnd || n.kind == tokSign && strings.Contains(",|;", n.text) {
				a.name = t.text
			}
		}
		if a.expression, err = sc.expression(c); err != nil {
			return nil, err
		}
		all = append(all, a)
		if !c.sign(",") {
			return all, nil
		}
	}
}

// compute makes a table of the cells of each row.
func (sc *scope) compute(r *relation, cells []assignment) *relation {
	out := &relation{}
	for _, a := range cells {
		out.columns = append(out.columns, Column{a.name, a.typ})
	}
	for _, row := range r.rows {
		made := make([]any, len(cells))
		for i, a := range cells {
			made[i] = a.of(row)
		}
		out.rows = append(out.rows, made)
	}
	return out
}

func (sc *scope) extend(c *cursor, r *relation) (*relation, error) {
	cells, err := sc.assignments(c, "Column")
	if err != nil {
		return nil, err
	}
	var all []assignment
	for i, col := range r.columns {
		all = append(all, assignment{col.Name, expression{col.Type, func(row []any) any { return row[i] }}})
	}
	for _, a := range cells {
		if i := r.index(a.name); i >= 0 {
			all[i] = a
		} else {
			all = append(all, a)
		}
	}
	return sc.compute(r, all), nil
}

func (sc *scope) distinct(c *cursor, r *relation) (*relation, error) {
	if c.sign("*") {
		return unique(r), nil
	}
	cells, err := sc.assignments(c, "Column")
	if err != nil {
		return nil, err
	}
	return unique(sc.compute(r, cells)), nil
}

func unique(r *relation) *relation {
	out, seen := &relation{columns: r.columns}, make(map[string]bool)
	for _, row := range r.rows {
		if key := keyOf(row); !seen[key] {
			seen[key] = true
			out.rows = append(out.rows, row)
		}
	}
	return out
}

func keyOf(row []any) string {
	var b strings.Builder
	for _, v := range row {
		fmt.Fprintf(&b, "%T %v\x00", v, v)
	}
	return b.String()
}

// order reads expression [asc|desc] [nulls first|last], …; desc is the default.
func (sc *scope) order(c *cursor, r *relation) (*relation, error) {
	type key struct {
		expression
		asc bool
	}
	var keys []key
	for {
		e, err := sc.expression(c)
		if err != nil {
			return nil, err
		}
		k := key{expression: e}
		if k.asc = c.word("asc"); !k.asc {
			c.word("desc")
		}
		if c.word("nulls") {
			c.next()
		}
		keys = append(keys, k)
		if !c.sign(",") {
			break
		}
	}
	out := &relation{r.columns, slices.Clone(r.rows)}
	slices.SortStableFunc(out.rows, func(a, b []any) int {
		for _, k := range keys {
			d := compare(k.of(a), k.of(b))
			if !k.asc {
				d = -d
			}
			if d != 0 {
				return d
			}
		}
		return 0
	})
	return out, nil
}

// summarize reads aggregates and the groups they are of.
func (sc *scope) summarize(c *cursor, r *relation) (*relation, error) {
	var aggregates []aggregate
	for !c.word("by") && c.peek().kind != tokEnd && !(c.peek().kind == tokSign && c.peek().text == "|") {
		a, err := sc.aggregate(c)
		if err != nil {
			return nil, err
		}
		aggregates = append(aggregates, a)
		if !c.sign(",") {
			c.word("by")
			break
		}
	}
	grouped := c.tokens[max(c.i-1, 0)].kind == tokWord && strings.EqualFold(c.tokens[max(c.i-1, 0)].text, "by")
	var by []assignment
	if grouped {
		var err error
		if by, err = sc.assignments(c, "Column"); err != nil {
			return nil, err
		}
	}
	out := &relation{}
	for _, b := range by {
		out.columns = append(out.columns, Column{b.name, b.typ})
	}
	for _, a := range aggregates {
		out.columns = append(out.columns, Column{a.name, a.typ})
	}
	groups, order := make(map[string][][]any), []string{}
	heads := make(map[string][]any)
	for _, row := range r.rows {
		head := make([]any, len(by))
		for i, b := range by {
			head[i] = b.of(row)
		}
		k := keyOf(head)
		if heads[k] == nil {
			heads[k] = head
			order = append(order, k)
		}
		groups[k] = append(groups[k], row)
	}
	if !grouped && len(order) == 0 {
		order, heads[""] = []string{""}, []any{}
	}
	for _, k := range order {
		row := slices.Clone(heads[k])
		for _, a := range aggregates {
			row = append(row, a.over(groups[k]))
		}
		out.rows = append(out.rows, row)
	}
	return out, nil
}

// result writes a relation as JSON.
func (r *relation) result() *result {
	out := &result{columns: r.columns}
	for _, row := range r.rows {
		cells := make([]json.RawMessage, len(row))
		for i, v := range row {
			cells[i] = written(v, r.columns[i].Type)
		}
		out.rows = append(out.rows, cells)
	}
	return out
}

// relationOf reads a result back, so that operators can follow a command.
func relationOf(r *result) *relation {
	out := &relation{columns: r.columns}
	for _, row := range r.rows {
		values := make([]any, len(row))
		for i, cell := range row {
			values[i] = valueOf(r.columns[i].Type, cell)
		}
		out.rows = append(out.rows, values)
	}
	return out
}
