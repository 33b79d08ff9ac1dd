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
	var picture []byte
	if err == nil {
		picture, err = p.Bytes()
	}
	if err != nil {
		return fmt.Errorf("draw a %s: %w", c.Kind, err)
	}
	_, err = w.Write(picture)
	return err
}

// barsPicture draws a bar or column chart into p. A NaN, which stands for a missing value, has no bar.
func (c *Chart) barsPicture(p *charts.Painter) error {
	var values [][]float64
	for _, s := range c.Series {
		values = append(values, withNulls(slices.Clone(s.Y)))
	}
	o := charts.NewBarChartOptionWithData(values)
	o.Horizontal = c.Kind == Bar
	o.Title.Text = c.Title
	c.nameSeries(&o.Legend)
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

// withNulls replaces each NaN in values by what the library takes for a missing value.
func withNulls(values []float64) []float64 {
	for i, v := range values {
		if math.IsNaN(v) {
			values[i] = charts.GetNullValue()
		}
	}
	return values
}

// nameSeries puts the names of the series into a legend, if there are several.
func (c *Chart) nameSeries(l *charts.LegendOption) {
	if len(c.Series) < 2 {
		return
	}
	l.Offset = charts.OffsetRight
	for _, s := range c.Series {
		l.SeriesNames = append(l.SeriesNames, s.Name)
	}
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
	for _, s := range c.Series {
		row := c.onScreen(s, grid)
		for i, v := range row {
			if math.IsNaN(v) && i > 0 && (i == 1 || math.IsNaN(row[i-2])) {
				row[i] = row[i-1] // a point before that stands alone; a line needs two points
			}
		}
		values = append(values, withNulls(row))
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
	c.nameSeries(&o.Legend)
	if low, high := c.bounds(); low == high { // the axis needs a length above 0
		o.YAxis[0].Min, o.YAxis[0].Max = charts.Ptr(min(low, 0)), charts.Ptr(max(high, 1))
	}
	return p.LineChart(o)
}

// grid is how many places a line has in a picture.
const grid = 241
