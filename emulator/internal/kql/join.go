package kql

import (
	"slices"
	"strings"
)

// kinds are the flavours of join, by their other names too.
var kinds = map[string]string{
	"innerunique": "innerunique", "inner": "inner", "leftouter": "leftouter", "rightouter": "rightouter", "fullouter": "fullouter",
	"leftanti": "leftanti", "anti": "leftanti", "leftantisemi": "leftanti", "rightanti": "rightanti", "rightantisemi": "rightanti",
	"leftsemi": "leftsemi", "rightsemi": "rightsemi",
}

// condition says which column of the left table must equal which of the right one, by their indexes.
type condition struct{ left, right int }

// join reads the parameters, the right table and the conditions of a join and returns the joined rows.
// Without a kind it is innerunique.
func (s *scope) join(c *Cursor, left *Table) *Table {
	kind := "innerunique"
	// A parameter is kind=…, or a hint such as hint.strategy=….
	for c.Peek().Kind == TokWord && c.after().is("=", ".") {
		word := c.Peek().Text
		if !strings.EqualFold(word, "kind") {
			panic(unknown("parameter of join", word))
		}
		c.i += 2
		if kind = kinds[c.Peek().Text]; kind == "" {
			panic(unknown("kind of join", c.Peek().Text))
		}
		c.Next()
	}
	right := s.over(nil).from(c)
	if !c.Word("on") {
		panic(c.Fault("want on"))
	}
	return s.match(kind, left, right, s.conditions(c, left, right))
}

// conditions reads the list behind on: names of columns that both tables have, or $left.a == $right.b,
// with a comma or and between them. The types of both columns must be equal, or both whole numbers.
func (s *scope) conditions(c *Cursor, left, right *Table) []condition {
	var list []condition
	for {
		one := s.condition(c, left, right)
		if a, b := left.Columns[one.left].Type, right.Columns[one.right].Type; a != b && !(isWhole(a) && isWhole(b)) {
			panic(semantic("join: the columns '%s' and '%s' are of types %s and %s", left.Columns[one.left].Name, right.Columns[one.right].Name, a, b))
		}
		list = append(list, one)
		if !c.Sign(",") && !c.Word("and") {
			return list
		}
	}
}

// condition reads one of the conditions of a join. The two sides of an equality may stand in either
// order.
func (s *scope) condition(c *Cursor, left, right *Table) (one condition) {
	side := func() (isLeft bool, at int) {
		word := c.Next().Text
		t := map[string]*Table{"$left": left, "$right": right}[word]
		if t == nil {
			panic(c.Fault("want $left or $right"))
		}
		c.Want(".")
		return word == "$left", t.find(c.Name())
	}
	if p := c.Peek(); p.Kind == TokWord && strings.HasPrefix(p.Text, "$") {
		first, a := side()
		c.Want("==")
		second, b := side()
		switch {
		case first == second:
			panic(semantic("join: an equality compares a column on the left with one on the right"))
		case first:
			return condition{a, b}
		}
		return condition{b, a}
	}
	name := c.Name()
	one = condition{left.index(name), right.index(name)}
	if one.left < 0 || one.right < 0 {
		panic(semantic("join: the column '%s' is not on both sides", name))
	}
	return one
}

// match joins two tables whose rows have equal values in the columns on; kind is a key of kinds. A row
// with a null in one of these columns matches no row. Each row of an innerunique join's left table
// with a key that occurred before is left out.
func (s *scope) match(kind string, left, right *Table, on []condition) *Table {
	key := func(row []any, at func(condition) int) (string, bool) {
		values := make([]any, len(on))
		for i, one := range on {
			if values[i] = row[at(one)]; values[i] == nil {
				return "", false
			}
		}
		return keyOf(values), true
	}
	ofLeft, ofRight := func(c condition) int { return c.left }, func(c condition) int { return c.right }
	byKey, matched := make(map[string][]int), make([]bool, len(right.Rows))
	for i, row := range right.Rows {
		if k, ok := key(row, ofRight); ok {
			byKey[k] = append(byKey[k], i)
		}
	}
	out := &Table{}
	switch kind {
	case "leftanti", "leftsemi":
		out.Columns = left.Columns
	case "rightanti", "rightsemi":
		out.Columns = right.Columns
	default:
		out.Columns = distinctNames(slices.Concat(left.Columns, right.Columns))
	}
	add := func(l, r []any) {
		row := make([]any, 0, len(out.Columns))
		row = append(row, fill(l, left)...)
		row = append(row, fill(r, right)...)
		out.Rows = append(out.Rows, row)
		s.made(len(row))
	}
	both := kind == "inner" || kind == "innerunique" || strings.HasSuffix(kind, "outer")
	seen := make(map[string]bool)
	for _, row := range left.Rows {
		k, ok := key(row, ofLeft)
		var found []int
		if ok && !(kind == "innerunique" && seen[k]) {
			found = byKey[k]
		}
		seen[k] = seen[k] || ok
		for _, i := range found {
			matched[i] = true
			if both {
				add(row, right.Rows[i])
			}
		}
		switch {
		case kind == "leftsemi" && len(found) > 0, kind == "leftanti" && len(found) == 0:
			out.Rows = append(out.Rows, row)
		case len(found) == 0 && (kind == "leftouter" || kind == "fullouter"):
			add(row, nil)
		}
	}
	for i, row := range right.Rows {
		switch {
		case kind == "rightsemi" && matched[i], kind == "rightanti" && !matched[i]:
			out.Rows = append(out.Rows, row)
		case !matched[i] && (kind == "rightouter" || kind == "fullouter"):
			add(nil, row)
		}
	}
	return out
}

// fill returns row, or as many nulls as t has columns when row is nil.
func fill(row []any, t *Table) []any {
	if row != nil {
		return row
	}
	return make([]any, len(t.Columns))
}

// union reads the parameters kind and withsource and the tables of a union, and returns the rows of
// all its tables. first is the table before the bar; nil where the union begins the query. In the
// column that withsource adds, a table that is given by an expression is called union_arg and its
// number.
func (s *scope) union(c *Cursor, first *Table) *Table {
	inner, source := false, ""
	// A parameter is name=value, or a hint such as hint.concurrency=….
	for c.Peek().Kind == TokWord && c.after().is("=", ".") {
		word := c.Next().Text
		if !c.Sign("=") {
			panic(unknown("parameter of union", word))
		}
		value := c.Next().Text
		switch {
		case word == "kind" && (value == "inner" || value == "outer"):
			inner = value == "inner"
		case word == "withsource" && ValidName(value):
			source = value
		default:
			panic(unknown("parameter of union", word+"="+value))
		}
	}
	var legs []*Table
	var names []string
	if first != nil {
		legs, names = append(legs, first), append(names, "union_arg0")
	}
	c.commas(func() {
		name := "union_arg" + string(rune('0'+len(legs)%10))
		if p := c.Peek(); p.isName() {
			name = p.Text
		}
		// A * that touches the name before it: App*.
		if c.after().is("*") && c.after().At == c.Peek().At+len(c.Peek().Text) || c.Peek().is("*") {
			panic(unknown("form of union", "with a wildcard"))
		}
		legs, names = append(legs, s.over(nil).from(c)), append(names, name)
	})
	return s.append(legs, names, inner, source)
}

// append returns the rows of all tables in legs as one table. Columns of the same name are one column
// and must have the same type. With inner only columns that all tables have are kept. If source is not
// empty, it is the name of an additional first column, which has for each row the name of its table;
// names has these names, in the order of legs.
func (s *scope) append(legs []*Table, names []string, inner bool, source string) *Table {
	out := &Table{}
	types := make(map[string]string)
	for _, t := range legs {
		for _, col := range t.Columns {
			if typ, there := types[col.Name]; there && typ != col.Type {
				panic(semantic("union: the column '%s' is of types %s and %s, which the emulator does not put together", col.Name, typ, col.Type))
			}
			everywhere := !slices.ContainsFunc(legs, func(other *Table) bool { return other.index(col.Name) < 0 })
			if _, there := types[col.Name]; !there && (everywhere || !inner) {
				out.Columns = append(out.Columns, col)
			}
			types[col.Name] = col.Type
		}
	}
	columns := out.Columns
	if source != "" {
		out.Columns = slices.Concat([]Column{{source, "string"}}, columns)
	}
	for n, t := range legs {
		at := make([]int, len(columns))
		for i, col := range columns {
			at[i] = t.index(col.Name)
		}
		for _, from := range t.Rows {
			row := make([]any, 0, len(out.Columns))
			if source != "" {
				row = append(row, names[n])
			}
			for _, i := range at {
				if i < 0 {
					row = append(row, nil)
				} else {
					row = append(row, from[i])
				}
			}
			out.Rows = append(out.Rows, row)
			s.made(len(row))
		}
	}
	return out
}
