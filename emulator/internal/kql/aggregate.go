package kql

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
)

// aggregates are the aggregate functions that one summarize calls. Each has a slot. The columns of the
// summarize are expressions over rows of slot values: one row for each group.
type aggregates struct {
	over  *Table // whose rows are summarized
	slots []func(rows [][]any) any

	// arg_max and arg_min are alone in their column, and make several.
	several []assignment
	starred int // how many of them the text names; a star adds the others
	rowOf   func(rows [][]any) []any
}

// aggregateFunction describes an aggregate. make returns, for its arguments, the type of its value and
// the function that computes it from the rows of a group. A nil make marks arg_max and arg_min, which
// extremeRow reads.
type aggregateFunction struct {
	prefix string // of the name of its column; empty: the argument alone is the name
	least  int
	most   int
	make   aggregateMaker
}

type aggregateMaker func(args []expression) (typ string, of func(rows [][]any) any)

var aggregateFunctions map[string]*aggregateFunction

// valuesOf returns the values of an expression for the rows, without nulls, also those of dynamic
// values.
func valuesOf(e expression, rows [][]any) []any {
	var all []any
	for _, row := range rows {
		v := e.of(row)
		if raw, ok := v.(json.RawMessage); ok {
			v = notNull(raw)
		}
		if v != nil {
			all = append(all, v)
		}
	}
	return all
}

// init fills aggregateFunctions. Each local function here makes, for some aggregates, the function
// make of their entries.
func init() {
	counting := func(f func(args []expression, rows [][]any) int) aggregateMaker {
		return func(args []expression) (string, func([][]any) any) {
			return "long", func(rows [][]any) any { return int64(f(args, rows)) }
		}
	}
	distinct := func(args []expression, rows [][]any) int {
		seen := make(map[string]bool)
		for _, v := range valuesOf(args[0], rows) {
			seen[keyOf([]any{v})] = true
		}
		return len(seen)
	}
	extremeOf := func(name string, sign int) aggregateMaker {
		return func(args []expression) (string, func([][]any) any) {
			if args[0].typ == "dynamic" {
				panic(semantic("%s(): wants values of a type with an order, not dynamic", name))
			}
			return args[0].typ, func(rows [][]any) any { return furthest(valuesOf(args[0], rows), sign) }
		}
	}
	sum := func(args []expression) (string, func([][]any) any) {
		typ := args[0].typ
		if !isNumber(typ) && typ != "timespan" {
			panic(semantic("sum(): wants numbers or timespans, not %s", typ))
		}
		if typ == "int" {
			typ = "long"
		}
		return typ, func(rows [][]any) any {
			total := map[string]any{"long": int64(0), "real": 0.0, "decimal": new(big.Rat), "timespan": time.Duration(0)}[typ]
			for _, v := range valuesOf(args[0], rows) {
				total = arithmetic("+", total, v)
			}
			return total
		}
	}
	avg := func(args []expression) (string, func([][]any) any) {
		typ := args[0].typ
		if isWhole(typ) {
			typ = "real"
		}
		_, total := sum(args)
		return typ, func(rows [][]any) any {
			n := int64(len(valuesOf(args[0], rows)))
			if n == 0 {
				return nil
			}
			if whole, ok := total(rows).(int64); ok {
				return float64(whole) / float64(n)
			}
			return arithmetic("/", total(rows), n)
		}
	}
	spread := func(sample, root bool) aggregateMaker {
		return func(args []expression) (string, func([][]any) any) {
			if !isNumber(args[0].typ) {
				panic(semantic("variance(): wants numbers, not %s", args[0].typ))
			}
			return "real", func(rows [][]any) any {
				values := valuesOf(args[0], rows)
				n := float64(len(values))
				mean, squares := 0.0, 0.0
				for _, v := range values {
					mean += asReal(v) / n
				}
				for _, v := range values {
					squares += (asReal(v) - mean) * (asReal(v) - mean)
				}
				if sample {
					n--
				}
				if n <= 0 {
					return 0.0
				}
				if root {
					return math.Sqrt(squares / n)
				}
				return squares / n
			}
		}
	}
	collect := func(set bool) aggregateMaker {
		return func(args []expression) (string, func([][]any) any) {
			most := int64(1 << 20)
			if len(args) > 1 {
				n, ok := constant(args[1]).(int64)
				if !ok || n < 0 {
					panic(semantic("the most that a list holds is no number"))
				}
				most = min(most, n)
			}
			return "dynamic", func(rows [][]any) any {
				list, seen := []json.RawMessage{}, make(map[string]bool)
				for _, value := range valuesOf(args[0], rows) {
					items := []any{value}
					if set { // of an array it takes the elements
						items = elements(value)
					}
					for _, v := range items {
						key := keyOf([]any{v})
						if int64(len(list)) == most || set && seen[key] {
							continue
						}
						seen[key] = true
						list = append(list, dynamicOf(v))
					}
				}
				return JSON(list)
			}
		}
	}
	anyOf := func(args []expression) (string, func([][]any) any) {
		return args[0].typ, func(rows [][]any) any {
			for _, v := range valuesOf(args[0], rows) {
				if v != "" {
					return v
				}
			}
			return nil
		}
	}
	// where is an aggregate of the rows for which its second argument holds.
	where := func(f aggregateMaker, at int) aggregateMaker {
		return func(args []expression) (string, func([][]any) any) {
			predicate := args[at]
			if predicate.typ != "bool" {
				panic(semantic("the predicate of an aggregate is of type %s, not bool", predicate.typ))
			}
			typ, of := f(slices.Delete(slices.Clone(args), at, at+1))
			return typ, func(rows [][]any) any {
				return of(slices.DeleteFunc(slices.Clone(rows), func(row []any) bool { return predicate.of(row) != true }))
			}
		}
	}
	rows := counting(func(_ []expression, rows [][]any) int { return len(rows) })
	distinctly := counting(distinct)
	aggregateFunctions = map[string]*aggregateFunction{
		"count": {"count_", 0, 0, rows}, "countif": {"countif_", 1, 1, where(rows, 0)},
		"dcount": {"dcount_", 1, 2, distinctly}, "dcountif": {"dcountif_", 2, 2, where(distinctly, 1)},
		"count_distinct": {"count_distinct_", 1, 1, distinctly}, "count_distinctif": {"count_distinctif_", 2, 2, where(distinctly, 1)},
		"sum": {"sum_", 1, 1, sum}, "sumif": {"sumif_", 2, 2, where(sum, 1)},
		"avg": {"avg_", 1, 1, avg}, "avgif": {"avgif_", 2, 2, where(avg, 1)},
		"min": {"min_", 1, 1, extremeOf("min", -1)}, "minif": {"minif_", 2, 2, where(extremeOf("minif", -1), 1)},
		"max": {"max_", 1, 1, extremeOf("max", 1)}, "maxif": {"maxif_", 2, 2, where(extremeOf("maxif", 1), 1)},
		"make_list": {"list_", 1, 2, collect(false)}, "make_list_if": {"list_", 2, 3, where(collect(false), 1)},
		"make_set": {"set_", 1, 2, collect(true)}, "make_set_if": {"set_", 2, 3, where(collect(true), 1)},
		"stdev": {"stdev_", 1, 1, spread(true, true)}, "variance": {"variance_", 1, 1, spread(true, false)},
		"stdevp": {"stdevp_", 1, 1, spread(false, true)}, "variancep": {"variancep_", 1, 1, spread(false, false)},
		"take_any": {"", 1, 1, anyOf},
		"arg_max":  {"", 1, math.MaxInt, nil}, "arg_min": {"", 1, math.MaxInt, nil},
	}
}

// call reads the arguments of the aggregate name and adds a slot for it: the function that computes
// its value from the rows of a group. The expression that it returns reads this value from a row with
// the values of all slots. For arg_max and arg_min, which make whole columns, the expression is empty,
// and a.several and a.rowOf are set instead.
func (a *aggregates) call(c *Cursor, s *scope, name string) expression {
	f := aggregateFunctions[name]
	if f.make == nil {
		a.extremeRow(c, s, name)
		return expression{}
	}
	args := s.over(a.over).arguments(c)
	if len(args) < f.least || len(args) > f.most {
		panic(semantic("%s(): it does not take %d arguments", name, len(args)))
	}
	typ, of := f.make(args)
	at := len(a.slots)
	a.slots = append(a.slots, of)
	e := expression{typ: typ, of: func(row []any) any { return row[at] }, name: f.prefix}
	if len(args) > 0 {
		e.name += args[0].name
	}
	return e
}

// extremeRow reads the arguments of arg_max or arg_min: (expression, columns…) or (expression, *). It
// sets a.several to the columns that they make and a.rowOf to the function that returns their values
// for a group: those of the row with the greatest (arg_max) or least (arg_min) expression. Of equal
// rows the first counts, and a row with a null only where all have one. a.starred is set to the number
// of columns that the text names; those that a star adds stand behind them.
func (a *aggregates) extremeRow(c *Cursor, s *scope, name string) {
	sign := map[string]int{"arg_max": 1, "arg_min": -1}[name]
	inner := s.over(a.over)
	if a.several != nil {
		panic(semantic("%s(): the emulator knows one of them in a summarize", name))
	}
	c.Want("(")
	parts := []assignment{inner.assignment(c, "Column", 1)}
	star := false
	for !star && c.Sign(",") {
		if star = c.Sign("*"); !star {
			parts = append(parts, inner.assignment(c, "Column", unnamed(parts)+1))
		}
	}
	a.starred = len(parts)
	if star {
		others := columnsOf(a.over)
		parts = append(parts, slices.DeleteFunc(others, func(other assignment) bool { return other.name == parts[0].name })...)
	}
	if parts[0].typ == "dynamic" {
		panic(semantic("%s(): wants values of a type with an order, not dynamic", name))
	}
	a.several = parts
	a.rowOf = func(rows [][]any) []any {
		var best []any
		for _, row := range rows {
			if v := parts[0].of(row); best == nil || v != nil && (parts[0].of(best) == nil || compare(v, parts[0].of(best))*sign > 0) {
				best = row
			}
		}
		out := make([]any, len(a.several))
		for i, p := range a.several {
			if best != nil {
				out[i] = p.of(best)
			}
		}
		return out
	}
	c.Want(")")
}

// summarize reads the aggregates and the by clause of a summarize and returns its result over the rows
// of t. The aggregates that it reads are gathered in a; columns has an expression for each column that
// the text makes of them.
func (s *scope) summarize(c *Cursor, t *Table) *Table {
	if p := c.Peek(); p.Kind == TokWord && strings.HasPrefix(p.Text, "hint") {
		panic(unknown("parameter of summarize", p.Text))
	}
	a := &aggregates{over: t}
	var columns []assignment
	several := -1 // the index in columns of arg_max or arg_min, which makes several columns
	grouped := c.Word("by")
	for !grouped && !c.Peek().is("|", ";", ")") && c.Peek().Kind != TokEnd {
		inner := s.over(nil)
		inner.aggregates = a
		before := a.several == nil // no arg_max or arg_min was read before
		one := inner.assignment(c, "Column", unnamed(columns)+1)
		if before && a.several != nil {
			if one.of != nil { // arg_max alone gives an empty expression
				panic(semantic("arg_max and arg_min are no part of an expression"))
			}
			several = len(columns)
			if one.explicit() { // x = arg_max(a, …) names the column of a
				a.several[0].name = one.name
			}
		}
		columns = append(columns, one)
		more := c.Sign(",")
		if grouped = c.Word("by"); !more {
			break
		}
	}
	var by []assignment
	if grouped {
		by = s.over(t).assignments(c, "Column")
	}
	if len(by) == 0 && len(columns) == 0 {
		panic(c.Fault("want aggregates, or by"))
	}
	return s.grouped(t, a, columns, several, by, grouped)
}

// unnamed counts the columns whose names begin with Column, the prefix of the names that columns get
// when the text gives none. The next such column is Column and this count plus 1.
func unnamed(columns []assignment) int {
	n := 0
	for _, one := range columns {
		if strings.HasPrefix(one.name, "Column") {
			n++
		}
	}
	return n
}

// grouped computes a summarize: it groups the rows of t by the values of by and returns a row for each
// group, with the values of by first. several is the index among columns of the one that arg_max or
// arg_min expands to a.several; -1 for none. The other columns are expressions over the values that
// the functions a.slots compute from the rows of a group. Without a by clause (grouped is false) there
// is always one row, even if t is empty.
func (s *scope) grouped(t *Table, a *aggregates, columns []assignment, several int, by []assignment, grouped bool) *Table {
	out := &Table{}
	for _, b := range by {
		out.Columns = append(out.Columns, Column{b.name, b.typ})
	}
	// Columns that a star has added, behind the first a.starred, are left out if by has them already.
	a.several = slices.DeleteFunc(a.several, func(p assignment) bool {
		a.starred--
		return a.starred < 0 && slices.ContainsFunc(by, func(b assignment) bool { return b.name == p.name })
	})
	for i, one := range columns {
		if i == several {
			for _, p := range a.several {
				out.Columns = append(out.Columns, Column{p.name, p.typ})
			}
		} else {
			out.Columns = append(out.Columns, Column{one.name, one.typ})
		}
	}
	out.Columns = distinctNames(out.Columns)
	type group struct {
		head []any // the values of by
		rows [][]any
	}
	groups, order := make(map[string]*group), []*group{}
	for _, row := range t.Rows {
		head := make([]any, len(by))
		for i, b := range by {
			head[i] = b.of(row)
		}
		g := groups[keyOf(head)]
		if g == nil {
			g = &group{head: head}
			groups[keyOf(head)], order = g, append(order, g)
		}
		g.rows = append(g.rows, row)
		s.made(len(by))
	}
	if !grouped && len(order) == 0 {
		order = append(order, &group{})
	}
	for _, g := range order {
		values := make([]any, len(a.slots))
		for i, of := range a.slots {
			values[i] = of(g.rows)
		}
		row := slices.Clone(g.head)
		for i, one := range columns {
			if i == several {
				row = append(row, a.rowOf(g.rows)...)
			} else {
				row = append(row, one.of(values))
			}
		}
		out.Rows = append(out.Rows, row)
		s.made(len(row))
	}
	return out
}
