package top

import (
	"fmt"
	"strings"
	"time"

	"kusto-agent/internal/telemetry"
)

// orders are what each list can be sorted by, the most first; the last is the name.
var orders = [listCount][]string{
	routes:   {"state", "rate", "waiting", "name"},
	files:    {"behind", "rate", "size", "name"},
	troubles: {"state"},
}

// column is one of a list. The first is as wide as there is room.
type column struct {
	head  string
	right bool
	from  int // the width of the window from which on it is shown
}

var columns = [listCount][]column{
	routes: {{head: "ROUTE"}, {head: "STATE"}, {head: "ACCEPTED", right: true}, {head: "QUEUED", right: true}, {head: "SPOOLED", right: true}, {head: "IN FLIGHT", right: true},
		{head: "TOTAL", right: true, from: 100}, {head: "FORMAT", from: 100}, {head: "CLUSTER", from: 120}, {head: "LAST", right: true}},
	files: {{head: "FILE"}, {head: "STATE"}, {head: "BEHIND", right: true}, {head: "READ", right: true}, {head: "SIZE", right: true, from: 100}, {head: "SAFE", right: true, from: 100},
		{head: "INPUT", from: 90}, {head: "WHY", from: 140}},
	troubles: {{head: "WHAT IS WRONG"}, {head: "STATE"}, {head: "SINCE", right: true}, {head: "NEXT TRY", right: true}},
}

// perSecond returns how fast a count grew from was to n between two status answers of the agent, by
// the agent's clock; 0 if the count became smaller or no time passed.
func perSecond(now, before *telemetry.Status, n, was int64) float64 {
	over := now.UptimeSeconds - before.UptimeSeconds
	if over <= 0 || n < was {
		return 0
	}
	return float64(n-was) / over
}

func routeKey(r telemetry.Route) string {
	return fmt.Sprintf("%q %q %q %q %q", r.Cluster, r.Database, r.Table, r.Format, r.Mapping)
}

// routeRows returns the rows of the list of routes. Rates are those since the answer before; without
// one (nil), and for a route that it does not have, they are 0.
func routeRows(now, before *telemetry.Status) (out []row) {
	was := make(map[string]uint64)
	if before != nil {
		for _, r := range before.Routes {
			was[routeKey(r)] = r.Accepted
		}
	}
	rank := map[string]float64{telemetry.Held: 3, telemetry.Down: 2, telemetry.Retrying: 1}
	p := telemetry.Printable
	at := now.Clock()
	for _, r := range now.Routes {
		key, rate := routeKey(r), 0.0
		if n, known := was[key]; known {
			rate = perSecond(now, before, int64(r.Accepted), int64(n))
		}
		name := p(r.Database) + "." + p(r.Table)
		out = append(out, row{
			key: key, name: name, state: r.State,
			cells: []string{name, p(r.State), telemetry.RateText(rate), fmt.Sprint(r.Queued), fmt.Sprint(r.Spooled), fmt.Sprint(r.InFlight),
				telemetry.CountText(r.Accepted), p(r.Format), p(r.Cluster), telemetry.AgoText(at, r.LastAccepted)},
			sorted: []float64{rank[r.State], rate, float64(r.Queued + r.Spooled)},
			detail: append([]string{
				"route      " + name,
				"format     " + r.FormatText(),
				"cluster    " + p(r.Cluster),
				"state      " + p(r.State),
				"accepted   " + telemetry.CountText(r.Accepted) + " records in this run, " + telemetry.RateText(rate),
				"last       " + telemetry.AgoText(at, r.LastAccepted),
				fmt.Sprintf("payloads   %d queued, %d in flight, %d in the spool, %d fail alone", r.Queued, r.InFlight, r.Spooled, r.FailingAlone),
			}, holdLines(r.Hold, at)...),
		})
	}
	return out
}

// holdLines returns lines about why a route or cluster does not deliver, since when, and what to do;
// none for nil. at is the time of the agent, for ages.
func holdLines(h *telemetry.Hold, at time.Time) []string {
	if h == nil {
		return nil
	}
	p := telemetry.Printable
	out := []string{"", "why        " + p(h.Message)}
	for _, l := range [][2]string{{"code       ", h.Code}, {"activity   ", h.Activity}, {"what to do ", h.Fix}} {
		if l[1] != "" {
			out = append(out, l[0]+p(l[1]))
		}
	}
	if !h.Since.IsZero() {
		out = append(out, "since      "+telemetry.AgoText(at, h.Since))
	}
	if !h.NextTry.IsZero() {
		out = append(out, "next try   "+telemetry.InText(at, h.NextTry))
	}
	return out
}

func fileKey(f telemetry.File) string { return fmt.Sprintf("%q %q %d", f.Input, f.ID, f.Generation) }

// fileRows returns the rows of the list of files. Rates are those since the answer before; without one
// (nil), and for a file that it does not have, they are 0.
func fileRows(now, before *telemetry.Status) (out []row) {
	was := make(map[string]int64)
	if before != nil {
		for _, f := range before.Files {
			was[fileKey(f)] = f.Read
		}
	}
	p := telemetry.Printable
	for _, f := range now.Files {
		key, rate := fileKey(f), 0.0
		if n, known := was[key]; known {
			rate = perSecond(now, before, f.Read, n)
		}
		r := row{
			key: key, name: p(f.Path), state: f.State,
			cells: []string{p(f.Path), p(f.State), telemetry.BytesText(f.BehindBytes), telemetry.BytesText(int64(rate)) + "/s", telemetry.BytesText(f.Size),
				telemetry.BytesText(f.Safe), p(f.Input), p(f.Why)},
			sorted: []float64{float64(f.BehindBytes), rate, float64(f.Size)},
			detail: []string{
				"file       " + p(f.Path),
				fmt.Sprintf("identity   %s, generation %d", p(f.ID), f.Generation),
				"input      " + p(f.Input),
				"state      " + p(f.State),
				"size       " + telemetry.BytesText(f.Size),
				"read       " + telemetry.BytesText(f.Read) + ", " + telemetry.BytesText(int64(rate)) + "/s",
				"safe       " + telemetry.BytesText(f.Safe),
				"behind     " + telemetry.BytesText(f.BehindBytes),
			},
		}
		if f.Fix != "" { // somebody has to do something, so it gets the colour of a failure
			r.state = telemetry.Held
		}
		for _, l := range [][2]string{{"why        ", f.Why}, {"what to do ", f.Fix}} {
			if l[1] != "" {
				r.detail = append(r.detail, l[0]+p(l[1]))
			}
		}
		out = append(out, r)
	}
	return out
}

// troubleRows returns the rows of the list of errors: the problems that the status reports, of which the
// first line is shown in the list, and the routes and clusters that do not deliver.
func troubleRows(s *telemetry.Status) (out []row) {
	at := s.Clock()
	for _, text := range s.Problems {
		lines := strings.Split(telemetry.Lines(text), "\n")
		out = append(out, row{key: "problem " + text, name: lines[0], state: telemetry.Held,
			cells:  []string{lines[0], "problem", "", ""},
			detail: strings.Split("problem    "+strings.Join(lines, "\n           "), "\n")})
	}
	for _, t := range s.Troubles() {
		message := telemetry.Printable(t.Message)
		out = append(out, row{key: t.What, name: t.What + ": " + message, state: t.State,
			cells:  []string{t.What + ": " + message, telemetry.Printable(t.State), telemetry.AgoText(at, t.Since), telemetry.InText(at, t.NextTry)},
			detail: append([]string{"what       " + t.What, "state      " + telemetry.Printable(t.State)}, holdLines(&t.Hold, at)...)})
	}
	return out
}
