package kql

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operators are those that stand behind a bar.
var operators map[string]func(s *scope, c *Cursor, t *Table) *Table

// init fills operators: all tabular operators of the subset, by name.
func init() {
	operators = map[string]func(*scope, *Cursor, *Table) *Table{
		"where": (*scope).where, "filter": (*scope).where, "count": (*scope).count, "take": (*scope).take, "limit": (*scope).take,
		"project": (*scope).project, "project-away": (*scope).projectAway, "project-keep": (*scope).projectKeep,
		"project-rename": (*scope).projectRename, "extend": (*scope).extend, "distinct": (*scope).distinct,
		"summarize": (*scope).summarize, "order": (*scope).order, "sort": (*scope).order, "top": (*scope).top,
		"getschema": (*scope).getSchema, "join": (*scope).join, "union": (*scope).union, "render": (*scope).render,
	}
}

// beyond are operators of the language that are not in the subset.
var beyond = strings.Fields("as assert-schema consume evaluate externaldata facet find fork getschema graph-match graph-merge graph-to-table " +
	"graph-mark-components graph-shortest-paths invoke lookup macro-expand make-graph make-series mv-apply mv-expand parse parse-kv parse-where " +
	"partition project-by-names project-reorder reduce sample sample-distinct scan search serialize top-hitters top-nested entity_group cluster database")

// tabular reads and evaluates a tabular expression, which is a source and the operators behind it, and
// returns the resulting table.
func (s *scope) tabular(c *Cursor) *Table {
	defer s.deeper(c)()
	return s.pipeline(c, s.over(nil).from(c))
}

// bracketed reads a tabular expression in brackets.
func (s *scope) bracketed(c *Cursor) *Table {
	c.Want("(")
	t := s.tabular(c)
	c.Want(")")
	return t
}

// from reads the source of a tabular expression and returns its table: the name of a table, an
// expression in brackets, print, datatable, range, union, table() or materialize().
func (s *scope) from(c *Cursor) *Table {
	t := c.Peek()
	called := c.after().is("(")
	switch {
	case t.is("("):
		return s.bracketed(c)
	case t.Kind == TokName, t.Kind == TokWord && s.tables[t.Text] != nil: // a name, read below
	case t.Kind != TokWord:
		panic(c.Fault("want a table"))
	case t.Text == "print":
		c.Next()
		return s.print(c)
	case t.Text == "datatable":
		c.Next()
		return s.datatable(c)
	case t.Text == "range" && !called:
		c.Next()
		return s.rangeTable(c)
	case t.Text == "union" && !c.after().is("|"): // else a table with the name union
		c.Next()
		return s.union(c, nil)
	case t.Text == "table" && called:
		c.i += 2
		name := c.Str()
		c.Want(")")
		return s.stored(name)
	case t.Text == "materialize" && called:
		c.Next()
		return s.bracketed(c)
	case called && slices.Contains(beyond, t.Text):
		panic(unknown("operator", t.Text))
	case called:
		panic(unknown("function", t.Text))
	case slices.Contains(beyond, t.Text) && c.after().Kind == TokWord: // KQL has it, the subset does not
		panic(unknown("operator", t.Text))
	}
	name := c.Name()
	if inner := s.tables[name]; inner != nil {
		return inner
	}
	if _, scalar := s.scalars[name]; scalar {
		panic(semantic("'%s' is a scalar, not a table", name))
	}
	return s.stored(name)
}

// stored returns the table of the source with this name. It panics with a Fault, which ends the query,
// if there is none.
func (s *scope) stored(name string) *Table {
	t, err := s.source.Table(name)
	if err != nil {
		panic(Fault{err})
	}
	return t
}

// pipeline reads the operators that follow t, each behind a bar, applies each to the table that the
// one before has returned, and returns the last table.
func (s *scope) pipeline(c *Cursor, t *Table) *Table {
	for c.Sign("|") {
		name := c.operatorName()
		apply := operators[name]
		if apply == nil {
			if slices.Contains(beyond, name) { // KQL has it, the subset does not
				panic(unknown("operator", name))
			}
			panic(c.Fault("'" + name + "' is no operator that the emulator knows"))
		}
		t = apply(s.over(t), c, t)
	}
	return t
}

// operatorName reads the name of an operator, which may contain dashes: in a query, the lexer makes a
// token of each dash. Dashes belong to the name if no space is beside them.
func (c *Cursor) operatorName() string {
	t := c.Next()
	name := t.Text
	if t.Kind != TokWord {
		return name
	}
	for c.Peek().is("-") && c.Peek().At == t.At+len(name) && c.after().Kind == TokWord && c.after().At == c.Peek().At+1 {
		c.Next()
		name += "-" + c.Next().Text
	}
	return name
}

// assignment is a column that project, extend, print and the like make: its name and its expression.
// The name of the expression is "=" where the text gives the column's name.
type assignment struct {
	name string
	expression
}

// explicit reports whether the text gives the name of the column.
func (a assignment) explicit() bool { return a.expression.name == "=" }

// assignment reads one column that an operator makes: name = expression, or an expression alone.
// Without a name, the column gets that of the expression, for example of the column that it reads. If
// the expression has none, and always in print, the name is prefix and number.
func (s *scope) assignment(c *Cursor, prefix string, number int) (a assignment) {
	if t := c.Peek(); t.isName() && c.after().is("=") {
		if a.name = t.Text; !ValidName(a.name) {
			panic(c.Fault("want a name"))
		}
		c.i += 2
	}
	a.expression = s.scalar(c)
	switch {
	case a.name != "":
		a.expression.name = "="
	case a.expression.name != "" && prefix != "print_":
		a.name = a.expression.name
	default:
		a.name = fmt.Sprint(prefix, number)
	}
	return a
}

// assignments reads a list of columns that an operator makes, each with or without a name. A column
// that has no name is called prefix and a number.
func (s *scope) assignments(c *Cursor, prefix string) (list []assignment) {
	c.commas(func() {
		number := len(list)
		if prefix == "Column" {
			number = unnamed(list) + 1
		}
		list = append(list, s.assignment(c, prefix, number))
	})
	return list
}

// compute returns a new table with a column for each of cells. For each row of t it has a row with the
// values of their expressions.
func (s *scope) compute(t *Table, cells []assignment) *Table {
	out := &Table{Columns: make([]Column, 0, len(cells)), Rows: make([][]any, 0, len(t.Rows))}
	for _, a := range cells {
		out.Columns = append(out.Columns, Column{a.name, a.typ})
	}
	for _, row := range t.Rows {
		made := make([]any, len(cells))
		for i, a := range cells {
			made[i] = a.of(row)
		}
		out.Rows = append(out.Rows, made)
		s.made(len(cells))
	}
	return out
}

// uniqueColumns renames cells in place and returns them: it adds numbers to generated names that occur
// before. It panics with a Fault, which ends the query, when a name that the text gives occurs before.
func uniqueColumns(cells []assignment) []assignment {
	seen := make(map[string]bool)
	for i, a := range cells {
		for n := 1; seen[cells[i].name]; n++ {
			if a.explicit() {
				panic(semantic("a column named '%s' already exists", a.name))
			}
			cells[i].name = a.name + strconv.Itoa(n)
		}
		seen[cells[i].name] = true
	}
	return cells
}

// distinctNames renames columns in place by adding a number to a name that occurs before, as a join
// does.
func distinctNames(columns []Column) []Column {
	seen := make(map[string]bool)
	for _, c := range columns {
		seen[c.Name] = true
	}
	used := make(map[string]bool)
	for i, c := range columns {
		if used[c.Name] {
			n := 1
			for seen[c.Name+strconv.Itoa(n)] {
				n++
			}
			columns[i].Name = c.Name + strconv.Itoa(n)
			seen[columns[i].Name] = true
		}
		used[columns[i].Name] = true
	}
	return columns
}

// print reads the expressions of print and returns a table with one row.
func (s *scope) print(c *Cursor) *Table {
	return s.compute(&Table{Rows: [][]any{nil}}, uniqueColumns(s.assignments(c, "print_")))
}

// datatable reads (name:type, …) [value, …] and returns that table. The values fill it row by row;
// each is converted to the type of its column.
func (s *scope) datatable(c *Cursor) *Table {
	c.Want("(")
	t := &Table{}
	c.List(")", func() { t.Columns = append(t.Columns, c.Column()) })
	var values []any
	add := func(e expression) {
		if len(t.Columns) == 0 {
			panic(semantic("datatable: values without columns"))
		}
		col := t.Columns[len(values)%len(t.Columns)]
		values = append(values, s.cast(e, col.Type, col.Name))
	}
	if c.Peek().Kind == TokName { // the list ["one"] is one token, because names are written so too
		add(fixed("string", c.Next().Text))
	} else {
		c.Want("[")
		c.List("]", func() { add(s.over(nil).scalar(c)) })
	}
	if len(t.Columns) > 0 && len(values)%len(t.Columns) != 0 {
		panic(semantic("datatable: %d values do not fill rows of %d columns", len(values), len(t.Columns)))
	}
	for row := range slices.Chunk(values, max(len(t.Columns), 1)) {
		t.Rows = append(t.Rows, row)
	}
	s.made(len(values))
	return t
}

// rangeTable reads name from … to … step … and returns a table with one column of these values. It is
// empty when one of the three is null.
func (s *scope) rangeTable(c *Cursor) *Table {
	name := c.Name()
	var part [3]expression
	for i, word := range []string{"from", "to", "step"} {
		if !c.Word(word) {
			panic(c.Fault("want " + word))
		}
		part[i] = s.sum(c)
	}
	typ := rangeType(part[0].typ, part[1].typ, part[2].typ)
	t := &Table{Columns: []Column{{name, typ}}}
	x, last, step := converted(typ, part[0].of(nil)), part[1].of(nil), part[2].of(nil)
	if x == nil || last == nil || step == nil {
		return t
	}
	up := compare(arithmetic("+", x, step), x) // the sign of the step: 1, -1 or 0
	for ; up != 0 && compare(x, last)*up <= 0; x = arithmetic("+", x, step) {
		t.Rows = append(t.Rows, []any{x})
		s.made(1)
	}
	return t
}

// rangeType returns the type of the values from first to last by steps, for the types of the three. It
// panics with a Fault, which ends the query, for types that are not those of a range: numbers, times
// with timespans as steps, or timespans.
func rangeType(first, last, step string) string {
	typ := arithmeticType("+", first, step)
	if typ == "" || last == "dynamic" || !comparable(first, last, false) || !comparable(typ, last, false) {
		panic(semantic("range: from %s to %s by steps of %s", first, last, step))
	}
	return typ
}

// where reads a predicate and returns the rows for which it is true: not those for which it is null.
func (s *scope) where(c *Cursor, t *Table) *Table {
	e := s.scalar(c)
	if e.typ != "bool" {
		panic(semantic("the predicate of where is of type %s, not bool", e.typ))
	}
	out := &Table{Columns: t.Columns, Ingested: t.Ingested}
	for _, row := range t.Rows {
		if e.of(row) == true {
			out.Rows = append(out.Rows, row)
		}
		s.made(0) // so that a cancelled query ends here too
	}
	return out
}

// count returns a table with the number of rows.
func (s *scope) count(_ *Cursor, t *Table) *Table {
	return &Table{Columns: []Column{{"Count", "long"}}, Rows: [][]any{{int64(len(t.Rows))}}}
}

// take reads a number and returns the first rows of t, at most so many.
func (s *scope) take(c *Cursor, t *Table) *Table {
	n := s.number(c)
	return &Table{Columns: t.Columns, Rows: t.Rows[:min(n, len(t.Rows))], Ingested: t.Ingested}
}

// number reads a constant number of rows and returns it. It panics with a Fault, which ends the query,
// if that is not a whole number of at least 0.
func (s *scope) number(c *Cursor) int {
	e := s.over(nil).sum(c)
	n, ok := e.of(nil).(int64)
	if !ok || n < 0 {
		panic(semantic("a number of rows is wanted, not a value of type %s", e.typ))
	}
	return int(min(n, math.MaxInt32))
}

// project reads assignments and returns a table with these columns only.
func (s *scope) project(c *Cursor, t *Table) *Table {
	return s.compute(t, uniqueColumns(s.assignments(c, "Column")))
}

// extend reads assignments and returns the table with these columns added. One with the name of a
// column replaces it.
func (s *scope) extend(c *Cursor, t *Table) *Table {
	list := columnsOf(t)
	for _, a := range uniqueColumns(s.assignments(c, "Column")) {
		if i := t.index(a.name); i >= 0 {
			list[i] = a
		} else {
			list = append(list, a)
		}
	}
	return s.compute(t, list)
}

// columnsOf returns assignments that yield the columns of t as they are.
func columnsOf(t *Table) []assignment {
	var list []assignment
	for i, col := range t.Columns {
		list = append(list, assignment{col.Name, expression{typ: col.Type, of: func(row []any) any { return row[i] }, name: col.Name}})
	}
	return list
}

// patterns reads names of columns, in which * stands for any text, and returns a function that reports
// whether a name matches one of them. A name without * must be a column of t. The lexer cuts a pattern
// such as a*b into three tokens; those without a space between them belong together.
func (s *scope) patterns(c *Cursor, t *Table) func(name string) bool {
	var list []string
	c.commas(func() {
		name, pattern, ends := "", "", -1 // ends: where the token before ends
		for p := c.Peek(); (ends < 0 || p.At == ends) && (p.isName() || p.is("*")); p = c.Peek() {
			c.Next()
			ends = p.At + len(p.Text)
			name += p.Text
			if p.is("*") {
				pattern += ".*"
			} else {
				pattern += regexp.QuoteMeta(p.Text)
			}
		}
		if ends < 0 {
			panic(c.Fault("want a column"))
		}
		if pattern == regexp.QuoteMeta(name) {
			t.find(name)
		}
		list = append(list, pattern)
	})
	all, err := regexp.Compile("(?s)^(?:" + strings.Join(list, "|") + ")$")
	if err != nil { // a name is not UTF-8
		panic(c.Fault("want names of columns in UTF-8"))
	}
	return all.MatchString
}

func (s *scope) projectAway(c *Cursor, t *Table) *Table { return s.keep(c, t, false) }
func (s *scope) projectKeep(c *Cursor, t *Table) *Table { return s.keep(c, t, true) }

// keep reads column patterns and returns the table with the columns that match (named is true), or
// with those that do not.
func (s *scope) keep(c *Cursor, t *Table, named bool) *Table {
	match := s.patterns(c, t)
	return s.compute(t, slices.DeleteFunc(columnsOf(t), func(a assignment) bool { return match(a.name) != named }))
}

// projectRename reads new = old, … and returns the table with these columns renamed, in their places.
func (s *scope) projectRename(c *Cursor, t *Table) *Table {
	list := columnsOf(t)
	c.commas(func() {
		name := c.Name()
		c.Want("=")
		list[t.find(c.Name())].name = name
	})
	return s.compute(t, uniqueColumns(list))
}

// distinct reads expressions, or * for all columns, and returns each different row once.
func (s *scope) distinct(c *Cursor, t *Table) *Table {
	if !c.Sign("*") {
		t = s.compute(t, uniqueColumns(s.assignments(c, "Column")))
	}
	out, seen := &Table{Columns: t.Columns}, make(map[string]bool)
	for _, row := range t.Rows {
		if key := keyOf(row); !seen[key] {
			seen[key] = true
			out.Rows = append(out.Rows, row)
		}
		s.made(0)
	}
	return out
}

// sortKey is one expression of order by or top, and the direction to sort in.
type sortKey struct {
	expression
	asc        bool
	nullsFirst bool
}

// order reads by expression [asc|desc] [nulls first|last], … and returns a copy of t sorted so; desc
// is the default.
func (s *scope) order(c *Cursor, t *Table) *Table {
	if !c.Word("by") {
		panic(c.Fault("want by"))
	}
	return sorted(t, s.sortKeys(c))
}

// sortKeys reads expression [asc|desc] [nulls first|last], …. The default is desc; nulls are first in
// asc and last in desc.
func (s *scope) sortKeys(c *Cursor) (keys []sortKey) {
	c.commas(func() {
		e := s.scalar(c)
		if e.typ == "dynamic" {
			panic(semantic("rows have no order by a value of type dynamic; try tostring() or tolong()"))
		}
		k := sortKey{expression: e}
		if k.asc = c.Word("asc"); !k.asc {
			c.Word("desc")
		}
		k.nullsFirst = k.asc
		if c.Word("nulls") {
			if k.nullsFirst = c.Word("first"); !k.nullsFirst && !c.Word("last") {
				panic(c.Fault("want first or last"))
			}
		}
		keys = append(keys, k)
	})
	return keys
}

// sorted returns a copy of t sorted by the keys. Rows that are equal in all of them keep their order.
func sorted(t *Table, keys []sortKey) *Table {
	out := &Table{Columns: t.Columns, Rows: slices.Clone(t.Rows), Ingested: t.Ingested}
	slices.SortStableFunc(out.Rows, func(a, b []any) int {
		for _, k := range keys {
			if d := k.compare(k.of(a), k.of(b)); d != 0 {
				return d
			}
		}
		return 0
	})
	return out
}

// compare returns a negative number when value a sorts before b, a positive one when it sorts behind,
// and 0 when they are equal. Nulls sort first or last as nullsFirst says, whatever the direction is;
// NaN sorts next to them.
func (k sortKey) compare(a, b any) int {
	side := func(v any) int {
		rank := 0 // 0: an ordinary value
		if v == nil {
			rank = 2
		} else if x, ok := v.(float64); ok && math.IsNaN(x) {
			rank = 1
		}
		if k.nullsFirst {
			return -rank
		}
		return rank
	}
	if x, y := side(a), side(b); x != 0 || y != 0 {
		return x - y
	}
	d := compare(a, b)
	if !k.asc {
		d = -d
	}
	return d
}

// top reads a number and, behind by, the keys to sort by, and returns the first rows of t in that
// order, at most that number.
func (s *scope) top(c *Cursor, t *Table) *Table {
	n := s.number(c)
	out := s.order(c, t)
	out.Rows = out.Rows[:min(n, len(out.Rows))]
	return out
}

// Dotnet has the .NET names of the types.
var Dotnet = map[string]string{
	"bool": "System.SByte", "datetime": "System.DateTime", "decimal": "System.Data.SqlTypes.SqlDecimal", "dynamic": "System.Object",
	"guid": "System.Guid", "int": "System.Int32", "long": "System.Int64", "real": "System.Double", "string": "System.String",
	"timespan": "System.TimeSpan",
}

// getSchema returns a table with the name, the ordinal and the types of each column of t.
func (s *scope) getSchema(_ *Cursor, t *Table) *Table {
	out := &Table{Columns: []Column{{"ColumnName", "string"}, {"ColumnOrdinal", "int"}, {"DataType", "string"}, {"ColumnType", "string"}}}
	for i, col := range t.Columns {
		out.Rows = append(out.Rows, []any{col.Name, int64(i), Dotnet[col.Type], col.Type})
	}
	return out
}

// NoChart is what the service says of a table that is not to be drawn.
const NoChart = `{"Visualization":null,"Title":null,"XColumn":null,"Series":null,"YColumns":null,"AnomalyColumns":null,"XTitle":null,"YTitle":null,` +
	`"XAxis":null,"YAxis":null,"Legend":null,"YSplit":null,"Accumulate":false,"IsQuerySorted":false,"Kind":null,"Ymin":"NaN","Ymax":"NaN","Xmin":null,"Xmax":null}`

// render reads the kind of a chart and its properties into Table.Render; the rows stay as they are.
func (s *scope) render(c *Cursor, t *Table) *Table {
	kinds := strings.Fields("anomalychart areachart barchart card columnchart ladderchart linechart piechart pivotchart plotly scatterchart stackedareachart table timechart timepivot treemap")
	kind := c.Peek().Text
	if !slices.Contains(kinds, kind) {
		panic(c.Fault("want the kind of a chart"))
	}
	c.Next()
	chart, _ := bagOf(json.RawMessage(NoChart))
	chart.set("Visualization", JSON(kind))
	names := make(map[string]string) // of properties that can be set
	for _, key := range chart.keys {
		if key != "Visualization" && key != "IsQuerySorted" {
			names[strings.ToLower(key)] = key
		}
	}
	if c.Word("with") {
		c.Want("(")
		c.List(")", func() {
			key := names[strings.ToLower(c.Peek().Text)]
			if key == "" {
				panic(c.Fault("want a property of a chart"))
			}
			c.Next()
			c.Want("=")
			list := []string{}
			for {
				if v := c.Peek(); v.Kind == TokEnd || v.Kind == TokSign {
					panic(c.Fault("want the value of a property"))
				}
				list = append(list, c.Next().Text)
				// Only lists of columns go on behind a comma, unless the name of a property follows.
				if next := c.after(); !c.Peek().is(",") || key != "YColumns" && key != "Series" || names[strings.ToLower(next.Text)] != "" {
					break
				}
				c.Next()
			}
			chart.set(key, JSON(strings.Join(list, ",")))
		})
	}
	return &Table{Columns: t.Columns, Rows: t.Rows, Render: chart.json()}
}

// NoTable is the error of a table that there is not.
func NoTable(name string) error {
	return semantic("'%s': Failed to resolve table or column expression named '%s'", name, name).Err
}
