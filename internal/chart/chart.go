// Package chart draws what a query renders, in a terminal or as a picture. A value
// that is not drawn is told of; nothing is made up between the rows but the lines
// that join them.
package chart

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/kusto/query"
)

// Kind is a way to draw.
type Kind string

// The kinds that are drawn.
const (
	Time   Kind = "timechart"   // lines over times
	Line   Kind = "linechart"   // lines over times or numbers
	Bar    Kind = "barchart"    // bars to the right
	Column Kind = "columnchart" // bars upwards
	Pie    Kind = "piechart"
)

// Kinds are all of them.
var Kinds = []Kind{Time, Line, Bar, Column, Pie}

// Spec is what is said of a chart beside its rows. Empty fields are chosen by the
// types of the columns.
type Spec struct {
	Kind           Kind
	Title          string
	XTitle, YTitle string
	XColumn        string
	YColumns       []string
	Series         []string // columns whose values name the series
}

// list is a list of names, as JSON or with commas.
type list []string

// UnmarshalJSON reads a list of names, or a string with commas between names.
func (l *list) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name != "" {
				*l = append(*l, name)
			}
		}
		return nil
	}
	var all []string
	err := json.Unmarshal(raw, &all)
	*l = all
	return err
}

// Parse reads the JSON in which the service reports what the render operator of a query asks for. The
// kind may be one that this package cannot draw; see IsDrawn.
func Parse(visualization string) (Spec, error) {
	var v struct {
		Visualization, Title, XTitle, YTitle, XColumn string
		YColumns, Series                              list
	}
	if err := json.Unmarshal([]byte(visualization), &v); err != nil {
		return Spec{}, fmt.Errorf("read what is to be rendered: %w", err)
	}
	return Spec{Kind(v.Visualization), v.Title, v.XTitle, v.YTitle, v.XColumn, v.YColumns, v.Series}, nil
}

// IsDrawn says whether there is a drawing for a kind.
func IsDrawn(k Kind) bool { return slices.Contains(Kinds, k) }

// Most is how many rows are drawn at most.
const Most = 100_000

// Chart is what is drawn.
type Chart struct {
	Spec
	X      []string // of bars and slices: their names
	IsTime bool     // the places are times
	Series []Series
}

// Series is a line, or the bars of one color.
type Series struct {
	Name string
	At   []float64 // of lines: where the values are, ascending; times in seconds since 1970
	Y    []float64 // one for each of At, or of X; NaN: none
}

// Build makes a chart of the rows of a table. It adds up values of one series that have the same value
// in the column of the x axis. It returns an error if the columns do not fit s, or nothing can be
// drawn.
func Build(s Spec, columns []query.Column, rows [][]json.RawMessage) (*Chart, error) {
	b, err := newBuilder(s, columns)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("there are no rows to draw")
	}
	for _, row := range rows {
		b.add(row)
	}
	return b.chart()
}

// builder knows which columns are what.
type builder struct {
	c       *Chart
	columns []query.Column
	x       int
	ys      []int
	names   []int // columns that name the series

	places map[string]int // of X, or of all series together
	starts []float64      // of times that are names of bars
	series map[string]int
	points map[point]int // of lines: which value of its series
}

type point struct{ series, place int }

// newBuilder returns a builder that has chosen the columns of a chart: one for the x axis, those with
// values, and those that name the series. It uses those that s names; else it chooses by type. It
// returns an error if the columns do not fit the kind of chart.
func newBuilder(s Spec, columns []query.Column) (*builder, error) {
	b := &builder{c: &Chart{Spec: s}, columns: columns, places: make(map[string]int), series: make(map[string]int), points: make(map[point]int)}
	b.x = slices.IndexFunc(columns, func(c query.Column) bool {
		switch {
		case s.XColumn != "":
			return c.Name == s.XColumn
		case s.Kind == Time:
			return c.Type == "datetime"
		case s.Kind == Line:
			return c.Type == "datetime" || isNumber(c.Type)
		}
		return true
	})
	for i, c := range columns {
		switch {
		case i == b.x:
		case slices.Contains(s.Series, c.Name):
			b.names = append(b.names, i)
		case len(s.YColumns) > 0:
			if slices.Contains(s.YColumns, c.Name) {
				b.ys = append(b.ys, i)
			}
		case isNumber(c.Type):
			b.ys = append(b.ys, i)
		case len(s.Series) == 0 && c.Type != "datetime" && c.Type != "timespan":
			b.names = append(b.names, i)
		}
	}
	var has []string
	for _, c := range columns {
		has = append(has, c.Name+":"+c.Type)
	}
	switch wants := "a column for its places and a number"; {
	case b.x < 0 || len(b.ys) == 0:
		if s.Kind == Time {
			wants = "a datetime and a number"
		}
		return nil, fmt.Errorf("%s wants %s; the result has %s", s.Kind, wants, strings.Join(has, ", "))
	case b.c.isLines() && columns[b.x].Type != "datetime" && !isNumber(columns[b.x].Type):
		return nil, fmt.Errorf("%s wants a datetime or a number for its places; %s is %s", s.Kind, columns[b.x].Name, columns[b.x].Type)
	}
	b.c.IsTime = columns[b.x].Type == "datetime"
	if s.Kind == Pie { // it shows one series
		b.ys, b.names = b.ys[:1], nil
	}
	return b, nil
}

func isNumber(typ string) bool {
	return slices.Contains([]string{"int", "long", "real", "decimal"}, typ)
}

// number returns a cell as a number; NaN if it is none.
func number(cell json.RawMessage) float64 {
	f, err := strconv.ParseFloat(query.CellText(cell), 64)
	if err != nil || math.IsInf(f, 0) {
		return math.NaN()
	}
	return f
}

// place returns the position of a cell on the x axis of a line chart: its number, or a time in seconds
// since 1970. If the cell has neither, such as a null, ok is false and at is NaN, which is sorted before
// all numbers.
func (b *builder) place(cell json.RawMessage) (at float64, ok bool) {
	if !b.c.IsTime {
		at = number(cell)
		return at, !math.IsNaN(at)
	}
	t, err := time.Parse(time.RFC3339Nano, query.CellText(cell))
	if err != nil {
		return math.NaN(), false
	}
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9, true
}

// add adds the values of a row to the chart, each to its series at the place on the x axis that the
// row names. A value that is no number adds nothing.
func (b *builder) add(row []json.RawMessage) {
	label := query.CellText(row[b.x])
	if len(row[b.x]) == 0 || string(row[b.x]) == "null" {
		label = "null"
	}
	at, hasPlace := b.place(row[b.x])
	if b.c.isLines() && !hasPlace {
		return // such as a null, which has no position on the x axis
	}
	x, known := b.places[label]
	if !known {
		x = len(b.places)
		b.places[label] = x
		if !b.c.isLines() {
			b.c.X = append(b.c.X, shortTime(label, b.c.IsTime))
			b.starts = append(b.starts, at)
		}
	}
	var of []string // the values that name the series
	for _, n := range b.names {
		of = append(of, query.CellText(row[n]))
	}
	for _, y := range b.ys {
		name := strings.Join(of, ", ")
		switch {
		case len(of) == 0:
			name = b.columns[y].Name
		case len(b.ys) > 1:
			name += ": " + b.columns[y].Name
		}
		value := b.value(name, x, at)
		switch v := number(row[y]); {
		case math.IsNaN(v):
		case math.IsNaN(*value):
			*value = v
		default:
			*value += v
		}
	}
}

// value returns a pointer to the value of the series name at the place x, counted from 0 in the order
// in which places appear; NaN if it has none yet. For a line chart, at is the position of the place on
// the x axis. The pointer is valid until the next call.
func (b *builder) value(name string, x int, at float64) *float64 {
	i, known := b.series[name]
	if !known {
		i = len(b.c.Series)
		b.series[name] = i
		b.c.Series = append(b.c.Series, Series{Name: name})
	}
	s := &b.c.Series[i]
	if !b.c.isLines() {
		for len(s.Y) <= x {
			s.Y = append(s.Y, math.NaN())
		}
		return &s.Y[x]
	}
	p, known := b.points[point{i, x}]
	if !known {
		p = len(s.Y)
		b.points[point{i, x}] = p
		s.At, s.Y = append(s.At, at), append(s.Y, math.NaN())
	}
	return &s.Y[p]
}

// shortTime returns a time in ISO 8601 without trailing parts that are zero, and with a space for the
// T. A label that is not a time is returned unchanged.
func shortTime(label string, isTime bool) string {
	if !isTime {
		return label
	}
	label = strings.TrimSuffix(strings.TrimSuffix(label, "Z"), ".0000000")
	return strings.Replace(strings.TrimSuffix(label, "T00:00:00"), "T", " ", 1)
}

// chart returns the finished chart. Values of line charts, and bars named by times, are sorted by
// their positions; other bars and slices stay in the order of the rows. It returns an error if there
// is nothing to draw.
func (b *builder) chart() (*Chart, error) {
	c := b.c
	if len(b.places) == 0 {
		return nil, fmt.Errorf("no row has a value of %s", b.columns[b.x].Name)
	}
	byTime := ascending(b.starts)
	for i := range c.Series {
		s := &c.Series[i]
		if c.isLines() {
			order := ascending(s.At)
			s.At, s.Y = inOrder(s.At, order), inOrder(s.Y, order)
			continue
		}
		for len(s.Y) < len(c.X) {
			s.Y = append(s.Y, math.NaN())
		}
		if c.IsTime {
			s.Y = inOrder(s.Y, byTime)
		}
	}
	if c.IsTime && !c.isLines() {
		c.X = inOrder(c.X, byTime)
	}
	low, high := c.bounds()
	switch {
	case low > high: // there are no values at all
		return nil, errors.New("no row has a number to draw")
	case low < 0 && c.Kind == Pie:
		return nil, fmt.Errorf("a piechart has no place for less than nothing, such as %s", figure(low))
	}
	return c, nil
}

// ascending returns the indexes that sort the values in ascending order.
func ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	return order
}

// inOrder returns values in the given order of indexes.
func inOrder[T any](values []T, order []int) []T {
	out := make([]T, len(values))
	for i, from := range order {
		out[i] = values[from]
	}
	return out
}

func (c *Chart) isLines() bool { return c.Kind == Time || c.Kind == Line }

// ends returns the first and the last position on the x axis of a line chart, of all its series.
func (c *Chart) ends() (first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for _, s := range c.Series {
		if len(s.At) > 0 {
			first, last = min(first, s.At[0]), max(last, s.At[len(s.At)-1])
		}
	}
	return first, last
}

// bounds returns the smallest and the largest value of all series; +Inf and -Inf if there is none.
func (c *Chart) bounds() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range c.Series {
		for _, v := range s.Y {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return low, high
}

// figure returns a number as text, rounded to two decimal places; a very large or very small one has
// four digits and an exponent.
func figure(v float64) string {
	if math.Abs(v) >= 1e15 || v != 0 && math.Abs(v) < 1e-4 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// timeFigure returns the time at, in seconds since 1970, as text in UTC. It is as precise as an axis
// needs that is length seconds long.
func timeFigure(at, length float64) string {
	seconds, fraction := math.Modf(at)
	t := time.Unix(int64(seconds), int64(fraction*1e9)).UTC()
	switch {
	case length >= 3*24*3600:
		return t.Format("2006-01-02")
	case length >= 24*3600:
		return t.Format("01-02 15:04")
	case length >= 300:
		return t.Format("15:04")
	case length >= 5:
		return t.Format("15:04:05")
	}
	return t.Format("15:04:05.000")
}

// place returns a position on the x axis of a line chart as text: a number, or a time as precise as
// the length of the axis needs.
func (c *Chart) place(at float64) string {
	if first, last := c.ends(); c.IsTime {
		return timeFigure(at, last-first)
	}
	return figure(at)
}
