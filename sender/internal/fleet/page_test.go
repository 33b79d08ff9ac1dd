package fleet

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-analyze/charts"
)

var update = flag.Bool("update", false, "play the fleets of docs/fleets.md, and write its table and pictures anew")

// TestPage: the page about fleets has a place for the table, and table and pictures can be made. With
// -update they are those of the page; else of a few agents, and nobody keeps them.
func TestPage(t *testing.T) {
	const docs = "../../../docs"
	if *update {
		if err := write(t, 10_000, docs); err != nil {
			t.Error(err)
		}
		return
	}
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(docs, "fleets.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleets.md"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(t, 20, dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"fleets.md": "| plain, no jitter | ", "fleets-requests.svg": "</svg>", "fleets-backlog.svg": "</svg>"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q: %v", file, want, err)
		}
	}
}

// TestTableOfUndoneFleets: an agent that did not deliver everything within the limit is shown as never
// done, also where that is the first one.
func TestTableOfUndoneFleets(t *testing.T) {
	f := Fleet{Agents: 4, Slots: 1, Takes: time.Second, Every: time.Hour}
	var all []played
	for n := range f.Agents + 1 {
		done := []time.Duration{1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}[:n]
		all = append(all, played{Fleet: f, History: &History{Done: done, Accepted: 1, Seconds: make([]Second, 1)}})
	}
	text := figures(all)
	for _, want := range []string{"never | never | never", "1:00 | never | never", "1:00 | 3:00 | never", "1:00 | 3:00 | 4:00"} {
		if !strings.Contains(text, "| "+want+" |") {
			t.Errorf("no row has %s:\n%s", want, text)
		}
	}
}

// played is a fleet and what came of it.
type played struct {
	name string
	Fleet
	*History
}

// write plays an outage of an hour for fleets with different policies of retrying, and writes the table
// and the pictures into the folder docs.
func write(t *testing.T, agents int, docs string) error {
	var all []played
	for _, p := range []played{
		{name: "kusto-agent", Fleet: Fleet{Policy: Ours}},
		{name: "kusto-agent, Retry-After 5 s", Fleet: Fleet{Policy: Ours, RetryAfter: 5 * time.Second}},
		{name: "plain back-off", Fleet: Fleet{Policy: Plain}},
		{name: "plain, no jitter", Fleet: Fleet{Policy: Even}},
	} {
		f := p.Fleet
		f.Agents, f.Seed, f.Outage, f.Every, f.Limit = agents, 1, time.Hour, 30*time.Second, 2*time.Hour
		f.Slots, f.Takes = max(1, agents/50), 100*time.Millisecond
		began := time.Now()
		p.Fleet, p.History = f, f.Play()
		t.Logf("%s: played in %.0f s", p.name, time.Since(began).Seconds())
		all = append(all, p)
	}
	if err := fill(filepath.Join(docs, "fleets.md"), figures(all)); err != nil {
		return err
	}
	requests := func(s Second) float64 { return float64(s.Requests) }
	backlog := func(s Second) float64 { return float64(s.Backlog) }
	return errors.Join(
		draw(filepath.Join(docs, "fleets-requests.svg"), "Requests a second, after the service is back", all, requests),
		draw(filepath.Join(docs, "fleets-backlog.svg"), "Payloads that wait", all, backlog))
}

// figures returns the table of results for the page docs/fleets.md, as Markdown: a sentence about what
// all fleets have in common, and a row for each  Agents that were not done within the limit have
// never been.
func figures(all []played) string {
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
func draw(path, title string, all []played, value func(Second) float64) error {
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
