package chart

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/guptarohit/asciigraph"

	"kusto-agent/internal/telemetry"
)

// Screen is the terminal that a chart is drawn in.
type Screen struct {
	Width, Height int
	Color         bool // else series differ by their signs
}

// signs are what series are drawn with where there are no colors, and colors those
// of 256 where there are.
var (
	signs  = []string{"█", "▒", "▓", "░", "#", "+", "o", "x", "*", "%", "@", "="}
	colors = []int{33, 208, 40, 196, 135, 45, 220, 201, 244, 118, 130, 99}
)

// Draw draws the chart with characters of the terminal and writes it to w. It treats a screen smaller
// than 30 by 10 as one of that size. It returns an error for a kind that it cannot draw.
func (c *Chart) Draw(w io.Writer, s Screen) error {
	s.Width, s.Height = max(s.Width, 30), max(s.Height, 10)
	var b strings.Builder
	if c.Title != "" {
		b.WriteString(telemetry.Printable(c.Title) + "\n\n")
	}
	switch c.Kind {
	case Time, Line:
		c.lines(&b, s)
	case Bar:
		c.bars(&b, s)
	case Column:
		c.columns(&b, s)
	case Pie:
		c.pie(&b, s)
	default:
		return fmt.Errorf("%s is not drawn", c.Kind)
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// paint returns text in the color of a series, given by its index. Without colors it returns text
// unchanged: the caller draws each series with a sign of its own then.
func (s Screen) paint(series int, text string) string {
	if !s.Color {
		return text
	}
	return fmt.Sprintf("\x1b[38;5;%dm%s\x1b[0m", colors[series%len(colors)], text)
}

// sign returns the character that the bars of a series, given by its index, are drawn with, in its
// color. Without colors each series has a character of its own.
func (s Screen) sign(series int) string {
	return s.paint(series, s.plain(series))
}

// legend appends a line with the sign and the name of each series, if there are several.
func (c *Chart) legend(b *strings.Builder, s Screen) {
	if len(c.Series) < 2 {
		return
	}
	b.WriteString("\n")
	for i, one := range c.Series {
		b.WriteString("  " + s.sign(i) + " " + telemetry.Printable(one.Name))
	}
	b.WriteString("\n")
}

// lines appends a line chart for the screen s to b. Each column of the screen shows the largest value
// that falls on it, or a point on the line between two rows.
func (c *Chart) lines(b *strings.Builder, s Screen) {
	low, high := c.bounds()
	label := max(len(figure(low)), len(figure(high))) + 2
	width := max(s.Width-label-6, 10)
	var data [][]float64
	var sets []asciigraph.CharSet
	var hues []asciigraph.AnsiColor
	for i, one := range c.Series {
		data = append(data, c.onScreen(one, width))
		hues = append(hues, asciigraph.AnsiColor(colors[i%len(colors)]))
		if len(c.Series) == 1 || s.Color {
			sets = append(sets, asciigraph.DefaultCharSet)
		} else {
			sets = append(sets, asciigraph.CreateCharSet(signs[i%len(signs)]))
		}
	}
	options := []asciigraph.Option{
		asciigraph.Height(max(s.Height-6, 4)), asciigraph.SeriesChars(sets...),
		asciigraph.YAxisValueFormatter(figure),
	}
	if low == high { // the axis needs a length above 0
		options = append(options, asciigraph.LowerBound(min(low, 0)), asciigraph.UpperBound(max(high, 1)))
	}
	first, last := c.ends()
	if first < last {
		options = append(options, asciigraph.XAxisRange(first, last), asciigraph.XAxisTickCount(max(min(width/14, 8), 2)), asciigraph.XAxisValueFormatter(c.place))
	}
	if s.Color {
		options = append(options, asciigraph.SeriesColors(hues...))
	}
	b.WriteString(asciigraph.PlotMany(data, options...) + "\n")
	if first == last {
		b.WriteString("  " + c.place(first) + "\n")
	}
	c.legend(b, s)
}

// onScreen returns the value of a series for each of width columns of the screen: the largest value
// that falls on the column, a point on the line between two values, or NaN where there is no line. A
// null breaks the line.
func (c *Chart) onScreen(s Series, width int) []float64 {
	out := make([]float64, width)
	for i := range out {
		out[i] = math.NaN()
	}
	first, last := c.ends()
	length := last - first
	column := func(at float64) int {
		if length == 0 {
			return 0
		}
		return int(math.Round((at - first) / length * float64(width-1)))
	}
	was := -1 // the index of the value before; -1: none, or a null
	for i, v := range s.Y {
		if math.IsNaN(v) {
			was = -1 // a null breaks the line
			continue
		}
		to := column(s.At[i])
		if was >= 0 {
			from := column(s.At[was])
			for x := from + 1; x < to; x++ {
				out[x] = s.Y[was] + (v-s.Y[was])*float64(x-from)/float64(to-from)
			}
		}
		if math.IsNaN(out[to]) || v > out[to] {
			out[to] = v
		}
		was = i
	}
	return out
}

// labelled returns a label cut or padded with spaces to a width, in columns of the screen.
func labelled(text string, width int) string {
	text = ansi.Truncate(telemetry.Printable(text), width, "…")
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// bars appends a bar chart for the screen s to b: a line with a bar to the right for each name in c.X
// and each series. Bars for values below 0 point to the left.
func (c *Chart) bars(b *strings.Builder, s Screen) {
	label, value := 0, 0
	for _, x := range c.X {
		label = max(label, ansi.StringWidth(telemetry.Printable(x)))
	}
	for _, one := range c.Series {
		for _, v := range one.Y {
			value = max(value, len(figure(v)))
		}
	}
	label = min(label, s.Width/3)
	room := max(s.Width-label-value-5, 8)
	low, high := c.bounds()
	low, high = min(low, 0), max(high, 0)
	if low == high {
		high = 1
	}
	zero := int(math.Round(-low / (high - low) * float64(room)))
	if low < 0 { // each direction in which there are bars has at least one column
		zero = max(zero, 1)
	}
	if high > 0 {
		zero = min(zero, room-1)
	}
	for i, x := range c.X {
		for j, one := range c.Series {
			name := ""
			if j == 0 {
				name = x
			}
			v := one.Y[i]
			if math.IsNaN(v) {
				if j == 0 { // the first line has the name, also without a bar
					b.WriteString(labelled(name, label) + " │\n")
				}
				continue
			}
			size := int(math.Round(math.Abs(v) / (high - low) * float64(room)))
			if size == 0 && v != 0 { // too small to be seen otherwise
				size = 1
			}
			left := zero
			if v < 0 {
				size = min(size, zero)
				left -= size
			}
			bar := strings.Repeat(" ", left) + s.paint(j, strings.Repeat(s.plain(j), min(size, room-left)))
			b.WriteString(labelled(name, label) + " │" + bar + " " + figure(v) + "\n")
		}
	}
	c.legend(b, s)
}

// plain returns the sign of a series without its color.
func (s Screen) plain(series int) string {
	if s.Color {
		return "█"
	}
	return signs[series%len(signs)]
}

// columns appends a column chart for the screen s to b, with columns that point upwards. It
// draws it as a bar chart instead where the columns do not fit beside each other, or a value is below
// 0.
func (c *Chart) columns(b *strings.Builder, s Screen) {
	low, high := c.bounds()
	height := max(s.Height-6, 5)
	middle := (height + 1) / 2
	axis := max(len(figure(high)), len(figure(low)), len(figure(high*float64(middle)/float64(height)))) + 2
	each := (s.Width - axis) / max(len(c.X), 1)
	thick := (each - 1) / len(c.Series) // of one column; each is for all at one name, and a space
	if thick < 1 || each < 4 || low < 0 {
		c.bars(b, s)
		return
	}
	thick = min(thick, 12)
	each = thick*len(c.Series) + 1
	if high == 0 {
		high = 1
	}
	for row := height; row > 0; row-- {
		mark := ""
		if row == height || row == middle {
			mark = figure(high * float64(row) / float64(height))
		}
		fmt.Fprintf(b, "%*s │", axis-2, mark)
		for i := range c.X {
			for j, one := range c.Series {
				filled := math.Round(one.Y[i] / high * float64(height))
				if one.Y[i] > 0 {
					filled = max(filled, 1)
				}
				if filled >= float64(row) { // false for NaN, a missing value
					b.WriteString(s.paint(j, strings.Repeat(s.plain(j), thick)))
				} else {
					b.WriteString(strings.Repeat(" ", thick))
				}
			}
			b.WriteString(" ")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "%*s └%s\n%*s", axis-2, "0", strings.Repeat("─", each*len(c.X)), axis, "")
	for _, x := range c.X {
		b.WriteString(labelled(x, each-1) + " ")
	}
	b.WriteString("\n")
	if len(c.Series) == 1 { // the values, below their names
		fmt.Fprintf(b, "%*s", axis, "")
		for i := range c.X {
			text := figure(c.Series[0].Y[i])
			if math.IsNaN(c.Series[0].Y[i]) {
				text = "null"
			}
			b.WriteString(labelled(text, each-1) + " ")
		}
		b.WriteString("\n")
	}
	c.legend(b, s)
}

// slice is one of a pie.
type slice struct {
	name  string
	value float64
	part  float64
}

// slices returns the slices of a pie in their order, without nulls. If there are more than most, the
// last one stands for all others.
func (c *Chart) slices(most int) (all []slice) {
	total := 0.0
	for _, v := range c.Series[0].Y {
		if !math.IsNaN(v) {
			total += v
		}
	}
	for i, v := range c.Series[0].Y {
		if math.IsNaN(v) {
			continue
		}
		one := slice{c.X[i], v, 0}
		if total > 0 {
			one.part = v / total
		}
		all = append(all, one)
	}
	if len(all) > most {
		rest := slice{name: fmt.Sprintf("%d others", len(all)-most+1)}
		for _, one := range all[most-1:] {
			rest.value += one.value
			rest.part += one.part
		}
		all = append(all[:most-1], rest)
	}
	return all
}

// pie appends a pie chart for the screen s to b: a disc, and the names of its slices beside it, or
// below it on a narrow screen.
func (c *Chart) pie(b *strings.Builder, s Screen) {
	all := c.slices(len(signs))
	name, value := 0, 0
	for _, one := range all {
		name = max(name, ansi.StringWidth(telemetry.Printable(one.name)))
		value = max(value, len(figure(one.value)))
	}
	const parts = 14 // what stands between disc, name and value
	height := min(max(min(s.Height-4, s.Width/4), len(all), 9), s.Width/2)
	beside := s.Width-2*height-parts-value >= 8
	if beside {
		name = min(name, s.Width-2*height-parts-value)
	} else {
		name = min(name, max(s.Width-parts-value, 4))
	}
	key := func(i int) string {
		return fmt.Sprintf("  %s %s %5.1f%%  %s", s.sign(i), labelled(all[i].name, name), 100*all[i].part, figure(all[i].value))
	}
	top := (height - len(all)) / 2
	for row := range height {
		c.pieRow(b, s, all, row, height)
		if i := row - top; beside && i >= 0 && i < len(all) {
			b.WriteString(key(i))
		}
		b.WriteString("\n")
	}
	for i := range all {
		if !beside {
			b.WriteString(key(i) + "\n")
		}
	}
}

// pieRow appends one row of the disc of a pie to b: row counts from 0 at the top, and height is the
// number of rows. The disc is 2*height characters wide, because a character is half as wide as high.
func (c *Chart) pieRow(b *strings.Builder, s Screen, all []slice, row, height int) {
	radius := float64(height) / 2
	y := float64(row) + 0.5 - radius
	for column := range 2 * height {
		x := (float64(column)+0.5)/2 - radius
		if x*x+y*y > radius*radius {
			b.WriteString(" ")
			continue
		}
		angle := math.Atan2(x, -y) / (2 * math.Pi) // from the top, clockwise
		if angle < 0 {
			angle++
		}
		b.WriteString(s.sign(sliceAt(all, angle)))
	}
}

// sliceAt returns the index of the slice at the fraction part (0 to 1) of the way around the disc.
func sliceAt(all []slice, part float64) int {
	for i, one := range all {
		if part -= one.part; part < 0 {
			return i
		}
	}
	return len(all) - 1
}
