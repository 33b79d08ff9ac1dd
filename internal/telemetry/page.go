package telemetry

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/ledger"
)

//go:embed page.html
var pageText string

// renewed is how often the browser asks for the page again.
const renewed = 5 * time.Second

// shownTroubles is how many troubles the page tells in full: of 200 routes that fail at
// once for one cause, a few say all.
const shownTroubles = 8

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count": CountText, "bytes": BytesText, "printable": Printable, "total": ledger.Total, "byState": byState, "lines": Lines,
	"percent": func(fill float64) int { return int(fill * 100) },
}).Parse(pageText))

// view is what the page shows: the status, and the clock it is told by.
type view struct {
	*Status
	Now    time.Time
	Nonce  string
	Icon   template.URL // made of constants alone
	Pause  int          // seconds until the browser asks again
	Query  selection
	Flow   Flow
	Plots  []figure
	Broken []Trouble // the first of them
	More   int       // troubles that are not told in full
	Lists  lists
	Config bool // the configuration can be looked at
}

// lists are one page of each.
type lists struct {
	Inputs listing[Input]
	Routes listing[Route]
	Files  listing[File]
}

// figure is a plot with its words.
type figure struct {
	Name, Now, Top string
	plot
}

func (v view) Ago(t time.Time) string { return AgoText(v.Now, t) }
func (v view) In(t time.Time) string  { return InText(v.Now, t) }

// viewOf returns what the template of the page shows: the status s, plots of the history in points,
// and the rows of the lists that the query q selects. now is the time that ages are computed from.
func viewOf(s *Status, points []point, now time.Time, q selection) view {
	v := view{Status: s, Now: now, Query: q, Flow: FlowOf(s), Icon: icon(s.Headline.Tone),
		Plots: figuresOf(points, now), Lists: lists{inputsOf(s, q), routesOf(s, q), filesOf(s, q)}}
	v.Broken = s.Troubles()
	if n := len(v.Broken) - shownTroubles; n > 0 {
		v.Broken, v.More = v.Broken[:shownTroubles], n
	}
	return v
}

// figuresOf returns the three plots of the page over the hour before now, each with the texts of
// its upper edge and, if there is a value of the last 30 s, of the newest value.
func figuresOf(points []point, now time.Time) []figure {
	draw := func(name string, value func(point) (float64, bool), words func(float64) string) figure {
		f := figure{Name: name, plot: plotOf(points, now, value)}
		if f.Known {
			f.Top = words(f.plot.Top)
		}
		if f.Fresh {
			f.Now = words(f.Last)
		}
		return f
	}
	return []figure{
		draw("Records accepted", point.acceptedRate, RateText),
		draw("Behind in files", point.lag, func(v float64) string { return BytesText(int64(v)) }),
		draw("From read to accepted", point.delay, secondsText),
	}
}

// servePage answers with the status page. It is rendered completely before the first byte is sent,
// so that an error does not leave half a page. html/template escapes everything in it, and the
// security policy in the header lets the browser run no script and load nothing.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	status, now := s.status(), time.Now()
	v := viewOf(status, s.history.points(now), now, readSelection(r.URL.Query()))
	v.Nonce, v.Config, v.Pause = rand.Text(), s.opts.Configuration != nil, int(s.renewed/time.Second)
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, v); err != nil {
		s.opts.Logger.Error("status page could not be rendered, the browser gets an error; delivery is not affected", "err", err)
		http.Error(w, "status page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+v.Nonce+
		"'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	s.write(w, body.Bytes())
}

// serveConfiguration answers GET /config with the configuration in force as text, with secrets
// masked.
func (s *Server) serveConfiguration(w http.ResponseWriter, _ *http.Request) {
	text, err := s.opts.Configuration()
	if err != nil {
		s.opts.Logger.Error("status page cannot show the configuration, the browser gets an error; delivery is not affected", "err", err)
		http.Error(w, "status page cannot show the configuration", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	s.write(w, []byte(text))
}

// icon is a dot in the colour of the tone, for the browser's tab.
func icon(tone string) template.URL {
	colour := map[string]string{"good": "2a9d63", "wait": "d08700", "bad": "d0342c"}[tone]
	return template.URL("data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='6' fill='%23" + colour + "'/%3E%3C/svg%3E")
}

// sums is the state of the whole in a few figures.
type sums struct {
	Accepted, Pending, Quarantined, Dropped, Spooled uint64
	Lag                                              int64
}

// number returns n with its noun: one if n is 1, otherwise many.
func number(n int, one, many string) string {
	return fmt.Sprintf("%d %s", n, unit(uint64(n), one, many))
}

// byState returns counts by state as text, such as "2 idle, 1 waiting"; "none" if there are none.
func byState(count map[string]int) string {
	if len(count) == 0 {
		return "none"
	}
	var words []string
	for _, state := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%d %s", count[state], Printable(state)))
	}
	return strings.Join(words, ", ")
}
