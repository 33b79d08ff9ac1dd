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

// shownFiles is how many files the page lists, those furthest behind. The
// status document has all of them.
const shownFiles = 50

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count": countText, "bytes": bytesText, "printable": printable, "total": ledger.Total, "byState": byState, "lines": lines,
}).Parse(pageText))

// view is what the page shows: the status, and the clock it is told by.
type view struct {
	*Status
	sums
	Now   time.Time
	Nonce string
	Icon  template.URL // made of constants alone
	Shown []File
	Pause int // seconds until the browser asks again
}

func (v view) Ago(t time.Time) string { return agoText(v.Now, t) }
func (v view) In(t time.Time) string  { return inText(v.Now, t) }
func (v view) Unshown() int           { return len(v.Files) - len(v.Shown) }
func (v view) Troubles() []trouble    { return v.troubles() }

// servePage renders the page whole before it writes, so that an error is an
// error and not half a page. Everything in it is escaped by html/template, and
// the policy lets nothing run or load.
func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	status := s.status()
	v := view{Status: status, sums: sum(status), Now: time.Now(), Nonce: rand.Text(), Pause: 5}
	v.Icon = icon(v.Headline.Tone)
	v.Shown = status.Files[:min(len(status.Files), shownFiles)]
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, v); err != nil {
		s.opts.Logger.Error("status page could not be rendered", "err", err)
		http.Error(w, "status page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+v.Nonce+
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	s.write(w, body.Bytes())
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

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// byState is a count by state as words, in the order of their names.
func byState(count map[string]int) string {
	if len(count) == 0 {
		return "none"
	}
	var words []string
	for _, state := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%d %s", count[state], printable(state)))
	}
	return strings.Join(words, ", ")
}
