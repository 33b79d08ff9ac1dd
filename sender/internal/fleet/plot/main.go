// Command plot plays fleets and draws what came of them, for docs/fleets.md: it writes the
// pictures, and the table between the marks in the page.
//
//	go run ./sender/internal/fleet/plot
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-analyze/charts"

	"kusto-agent/sender/internal/fleet"
)

// main reads the flags and calls run; after an error, the exit code is 1.
func main() {
	agents := flag.Int("agents", 10_000, "how many agents there are")
	docs := flag.String("docs", "docs", "the `folder` that the page and the pictures are in; empty: nothing is written")
	flag.Parse()
	if err := run(*agents, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// played is a fleet and what came of it.
type played struct {
	name string
	fleet.Fleet
	*fleet.History
}

// run plays an outage of an hour for fleets with different policies of retrying, prints a table, and
// writes the table and the pictures into the folder docs; nothing is written if docs is empty.
func run(agents int, docs string) error {
	var all []played
	for _, p := range []played{
		{name: "kusto-agent", Fleet: fleet.Fleet{Policy: fleet.Ours}},
		{name: "kusto-agent, Retry-After 5 s", Fleet: fleet.Fleet{Policy: fleet.Ours, RetryAfter: 5 * time.Second}},
		{name: "plain back-off", Fleet: fleet.Fleet{Policy: fleet.Plain}},
		{name: "plain, no jitter", Fleet: fleet.Fleet{Policy: fleet.Even}},
	} {
		f := p.Fleet
		f.Agents, f.Seed, f.Outage, f.Every, f.Limit = agents, 1, time.Hour, 30*time.Second, 2*time.Hour
		f.Slots, f.Takes = max(1, agents/50), 100*time.Millisecond
		began := time.Now()
		p.Fleet, p.History = f, f.Play()
		fmt.Fprintf(os.Stderr, "%s: played in %.0f s\n", p.name, time.Since(began).Seconds())
		all = append(all, p)
	}
	text := table(all)
	fmt.Print(text)
	if docs == "" {
		return nil
	}
	if err := fill(filepath.Join(docs, "fleets.md"), text); err != nil {
		return err
	}
	requests := func(s fleet.Second) float64 { return float64(s.Requests) }
	backlog := func(s fleet.Second) float64 { return float64(s.Backlog) }
	return errors.Join(
		draw(filepath.Join(docs, "fleets-requests.svg"), "Requests a second, after the service is back", all, requests),
		draw(filepath.Join(docs, "fleets-backlog.svg"), "Payloads that wait", all, backlog))
}

// table returns the table of results for the page docs/fleets.md, as Markdown: a sentence about what
// all fleets have in common, and a row for each fleet. Agents that were not done within the limit have
// never been.
func table(all []played) string {
	var b strings.Builder
	f := all[0]
	fmt.Fprintf(&b, "%d agents, a payload each %v; %v of outage; then %d requests at once of %v each, which is %.0f a second; %d payloads had gathered, for which the service alone needs %s.\n\n",
		f.Agents, f.Every, f.Outage, f.Slots, f.Takes, float64(f.Slots)/f.Takes.Seconds(), f.Made, short(f.Ideal(f.History)))
	b.WriteString("| | requests in the outage | requests after it | for each payload | most in a second | first agent done | half of them | last | fairness at half |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range all {
		done := func(agent int) string {
			if agent >= len(p.Done) {
				return "never"
			}
			return short(p.Done[agent])
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.2f | %d | %s | %s | %s | %.2f |\n", p.name, p.Probes, p.Requests,
			float64(p.Requests)/float64(p.Accepted), p.Peak(), done(0), done(p.Agents/2), done(p.Agents-1), p.Fairness)
	}
	return b.String()
}

// short returns a duration as minutes and seconds, such as 7:05.
func short(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// fill replaces the text between the two HTML comments that mark the place for the figures in the
// page at path. It is an error if the page has no such marks.
func fill(path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const from, to = "<!-- figures -->\n", "<!-- end of figures -->\n"
	head, rest, ok := bytes.Cut(page, []byte(from))
	_, tail, ok2 := bytes.Cut(rest, []byte(to))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks for the figures", path)
	}
	return os.WriteFile(path, bytes.Join([][]byte{head, []byte(from + text + to), tail}, nil), 0o644)
}

// draw writes a line chart as SVG to path, with a line for each fleet: what value returns for each
// second after the outage, as the mean of twenty seconds.
func draw(path, title string, all []played, value func(fleet.Second) float64) error {
	const mean = 20
	most := 0
	for _, p := range all {
		most = max(most, len(p.Seconds)/mean)
	}
	var names, labels []string
	var lines [][]float64
	for _, p := range all {
		line := make([]float64, most)
		for i := range line {
			if line[i] = charts.GetNullValue(); (i+1)*mean > len(p.Seconds) {
				continue
			}
			sum := 0.0
			for _, one := range p.Seconds[i*mean : (i+1)*mean] {
				sum += value(one)
			}
			line[i] = sum / mean
		}
		names, lines = append(names, p.name), append(lines, line)
	}
	for i := range most {
		labels = append(labels, short(time.Duration(i*mean)*time.Second))
	}
	o := charts.NewLineChartOptionWithData(lines)
	o.Symbol.Shape = charts.SymbolNone
	o.Title.Text = title
	o.XAxis.Labels, o.XAxis.LabelCount, o.XAxis.Title = labels, 8, "minutes"
	o.XAxis.BoundaryGap = charts.Ptr(false)
	o.YAxis[0].Min = charts.Ptr(0.0)
	o.Legend.SeriesNames = names
	o.Legend.Offset = charts.OffsetRight
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: 960, Height: 480})
	if err := p.LineChart(o); err != nil {
		return err
	}
	picture, err := p.Bytes()
	if err != nil {
		return err
	}
	return os.WriteFile(path, picture, 0o644)
}
