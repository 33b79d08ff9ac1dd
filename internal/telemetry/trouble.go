package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kusto-agent/internal/ledger"
)

// Trouble is a cluster or a route that does not deliver, and why.
type Trouble struct {
	What  string // made of names
	State string
	Hold
}

// Troubles returns what does not deliver, with the reason: first clusters that are down or held,
// then routes with a reason of their own. Routes of a cluster that is listed are left out.
func (s *Status) Troubles() (out []Trouble) {
	blocked := map[string]bool{} // clusters that are listed, by name and URL, as a route may give either
	for _, c := range s.Clusters {
		if c.Hold == nil || c.State != Down && c.State != Held {
			continue
		}
		blocked[c.Name], blocked[c.URL] = true, true
		what := "cluster " + Printable(c.Name)
		if c.URL != "" {
			what += " (" + Printable(c.URL) + ")"
		}
		out = append(out, Trouble{what, c.State, *c.Hold})
	}
	for _, r := range s.Routes {
		if r.Hold != nil && !blocked[r.Cluster] {
			out = append(out, Trouble{Printable(r.Database) + "." + Printable(r.Table), r.State, *r.Hold})
		}
	}
	return out
}

// WorstFirst returns the routes sorted by state: held, down, retrying, up.
func WorstFirst(routes []Route) []Route {
	rank := map[string]int{Held: 0, Down: 1, Retrying: 2, Up: 3}
	out := slices.Clone(routes)
	slices.SortStableFunc(out, func(a, b Route) int { return cmp.Compare(rank[a.State], rank[b.State]) })
	return out
}

// routeStates returns how many routes are in each state, also of a state that none is in.
func routeStates(routes []Route) map[string]int {
	states := map[string]int{Up: 0, Retrying: 0, Down: 0, Held: 0}
	for _, r := range routes {
		states[r.State]++
	}
	return states
}

// verdict returns the headline: a tone (good, wait, bad) and one sentence. The sentence says
// "delivering" only if a route delivers, and neither that nor "up to date" while quarantine holds
// records.
func verdict(s *Status, t sums) (tone, sentence string) {
	switch s.State {
	case Stopping:
		return "wait", "Stopping: what is under way is being finished."
	case Starting:
		return "wait", "Starting."
	}
	states := routeStates(s.Routes)
	stuck, retrying, up := states[Held]+states[Down], states[Retrying], 0
	for _, r := range s.Routes {
		if r.State == Up && !r.LastAccepted.IsZero() {
			up++
		}
	}
	var but []string
	if n := len(s.Problems); n > 0 {
		but = append(but, number(n, "problem", "problems"))
	}
	if retrying > 0 {
		but = append(but, number(retrying, "route", "routes")+" trying again")
	}
	kept := s.Quarantine.Bytes > 0
	if kept {
		but = append(but, "refused records in quarantine (see kusto-agent quarantine ls)")
	}
	if t.Dropped > 0 {
		but = append(but, CountText(t.Dropped)+unit(t.Dropped, " record", " records")+" dropped since the start")
	}
	with := ""
	if len(but) > 0 {
		with = ", with " + join(but)
	}
	tone = "wait"
	if stuck > 0 || len(s.Problems) > 0 {
		tone = "bad"
	}
	busy := t.Lag > 0 || t.Pending > 0
	switch {
	case stuck > 0 && up == 0:
		return tone, fmt.Sprintf("Nothing is delivered: %s blocked%s.", number(stuck, "route is", "routes are"), with)
	case stuck > 0:
		return tone, fmt.Sprintf("Not everything is delivered: %s blocked%s.", number(stuck, "route is", "routes are"), with)
	case with != "" && up == 0:
		return tone, "Nothing is delivered just now" + with + "."
	case kept:
		return tone, "Not everything was accepted" + with + "."
	case with != "":
		return tone, "Delivering" + with + "."
	case up == 0 && busy:
		return tone, "Nothing is delivered yet: the first records are being read."
	case busy:
		return "good", "Delivering."
	case up == 0:
		return "good", "Waiting for records: there is nothing to deliver yet."
	}
	return "good", "Up to date: all that was read was accepted."
}

// join returns words as a list in a sentence: a, b and c.
func join(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// sumUp returns the sums over all inputs of what the headline and the page show: records accepted,
// pending, quarantined, dropped and in the spool, and the lag in bytes.
func sumUp(s *Status) sums {
	var t sums
	for _, in := range s.Inputs {
		t.Accepted += in.Books.Accepted
		t.Pending += in.Books.Pending
		t.Quarantined += ledger.Total(in.Books.Quarantined)
		t.Dropped += ledger.Total(in.Books.Dropped)
		t.Spooled += in.Books.Spooled
		t.Lag += in.LagBytes
	}
	return t
}

// Need is whether somebody has to do something about the agent.
type Need int

const (
	NeedNothing Need = iota // all is well, or mends itself
	NeedPerson              // something is held, refused, lost or wrong, and stays so
	NeedService             // the service takes nothing, and is asked again
)

// Need returns whether somebody has to act, by problems, records in quarantine or dropped, and the
// states of clusters and routes. NeedService, if one is down, comes before NeedPerson, since most
// other problems follow from it.
func (s *Status) Need() Need {
	states := routeStates(s.Routes)
	for _, c := range s.Clusters {
		states[c.State]++
	}
	switch {
	case states[Down] > 0:
		return NeedService
	case states[Held] > 0, len(s.Problems) > 0, s.Quarantine.Bytes > 0, sumUp(s).Dropped > 0:
		return NeedPerson
	}
	return NeedNothing
}
