package chart

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/go-analyze/charts"
)

// The size of a picture, in pixels.
const (
	pictureWidth  = 960
	pictureHeight = 540
)

// SVG draws the chart as an SVG picture and writes it to w, in one piece.
func (c *Chart) SVG(w io.Writer) error {
	height := pictureHeight
	if c.Kind == Bar { // room for each of its bars, which lie below each other
		height = max(height, 60+len(c.X)*(8+14*len(c.Series)))
	}
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: pictureWidth, Height: height})
	var err error
	switch {
	case c.isLines():
		err = c.linesPicture(p)
	case c.Kind == Pie:
		err = c.piePicture(p)
	default:
		err = c.barsPicture(p)
	}
	if err != nil {
		return fmt.Errorf("draw a %s: %w", c.Kind, err)
	}
	picture, err := p.Bytes()
	if err != nil {
		return fmt.Errorf("draw a %s: %w", c.Kind, err)
	}
	_, err = w.Write(picture)
	return err
}

// barsPicture draws a bar or column chart into p. A NaN, which stands for a missing value, has no bar.
func (c *Chart) barsPicture(p *charts.Painter) error {
	var values [][]float64
	var names []string
	for _, s := range c.Series {
		row := make([]float64, len(s.Y))
		for i, v := range s.Y {
			if row[i] = v; math.IsNaN(v) {
				row[i] = charts.GetNullValue()
			}
		}
		values, names = append(values, row), append(names, s.Name)
	}
	o := charts.NewBarChartOptionWithData(values)
	o.Horizontal = c.Kind == Bar
	o.Title.Text = c.Title
	if len(names) > 1 {
		o.Legend.SeriesNames = names
		o.Legend.Offset = charts.OffsetRight
	}
	o.CategoryAxis.Labels = c.X
	if o.Horizontal { // the library draws from the bottom; the first name is to be at the top
		o.CategoryAxis.Labels = slices.Clone(c.X)
		slices.Reverse(o.CategoryAxis.Labels)
		for _, row := range values {
			slices.Reverse(row)
		}
	}
	o.ValueFormatter = figure
	if low, _ := c.bounds(); low >= 0 { // bars begin at 0, so the axis has to
		o.ValueAxis[0].Min = charts.Ptr(0.0)
	}
	return p.BarChart(o)
}

// piePicture draws a pie chart into p. Of more than 24 slices, the last stands for all others.
func (c *Chart) piePicture(p *charts.Painter) error {
	var values []float64
	var names []string
	for _, one := range c.slices(24) {
		values = append(values, one.value)
		names = append(names, fmt.Sprintf("%s (%s, %.1f%%)", one.name, figure(one.value), 100*one.part))
	}
	o := charts.NewPieChartOptionWithData(values)
	o.Title.Text = c.Title
	o.Legend.SeriesNames = names
	o.Legend.Show = charts.Ptr(false) // a slice has its name beside it
	o.Radius = "36%"
	for i := range o.SeriesList {
		o.SeriesList[i].Name = names[i]
		o.SeriesList[i].Label = charts.SeriesLabel{Show: charts.Ptr(true), LabelFormatter: func(i int, name string, _ float64) (string, *charts.LabelStyle) { return name, nil }}
	}
	return p.PieChart(o)
}

// linesPicture draws a line chart into p, on an even grid of positions, so that times are in their
// right places however far apart the rows are. A null breaks a line.
func (c *Chart) linesPicture(p *charts.Painter) error {
	var values [][]float64
	var names []string
	for _, s := range c.Series {
		row := c.onScreen(s, grid)
		for i, v := range row {
			if !math.IsNaN(v) {
				continue
			}
			row[i] = charts.GetNullValue()
			if i > 0 && row[i-1] != charts.GetNullValue() && (i == 1 || row[i-2] == charts.GetNullValue()) {
				row[i] = row[i-1] // the point before stands alone; a line needs two points
			}
		}
		values, names = append(values, row), append(names, s.Name)
	}
	first, last := c.ends()
	labels := make([]string, grid)
	for i := range labels {
		labels[i] = c.place(first + (last-first)*float64(i)/(grid-1))
	}
	labels[grid-1] = "" // there is no room for it beside the label before
	o := charts.NewLineChartOptionWithData(values)
	o.Symbol.Shape = charts.SymbolNone
	o.Title.Text = c.Title
	o.XAxis.Labels, o.XAxis.LabelCount, o.XAxis.Title = labels, 8, c.XTitle
	o.XAxis.BoundaryGap = charts.Ptr(false)
	o.YAxis[0].Title = c.YTitle
	o.ValueFormatter = figure
	if len(names) > 1 {
		o.Legend.SeriesNames = names
		o.Legend.Offset = charts.OffsetRight
	}
	if low, high := c.bounds(); low == high { // the axis needs a length above 0
		o.YAxis[0].Min, o.YAxis[0].Max = charts.Ptr(min(low, 0)), charts.Ptr(max(high, 1))
	}
	return p.LineChart(o)
}

// grid is how many places a line has in a picture.
const grid = 241
