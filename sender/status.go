package sender

import (
	"cmp"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// Hold is why a route or a cluster is not asked at full rate: held, down, or about to
// be. In the latter cases the agent helps itself when it is answered again.
type Hold = delivery.Hold

// RouteStatus is how a route fares, for people.
type RouteStatus struct {
	Route        record.Route
	State        string // up, retrying, down or held
	Hold         *Hold  // nil where it is up; the cluster's, where that is held or down
	NextTry      time.Time
	Queued       int
	Spooled      int // payloads that rest in the spool
	InFlight     int
	FailingAlone int    // payloads that fail while others of the route are accepted
	Accepted     uint64 // records since the start
	Last         time.Time
}

// ClusterStatus is how a cluster fares, for people.
type ClusterStatus struct {
	Name, URL   string
	State       string
	Hold        *Hold // nil where it is up
	NextTry     time.Time
	Concurrency int // slots just now
	InFlight    int
}

// Status returns the state of all routes and of all clusters, except clusters that were removed from
// the configuration and have nothing left to send.
func (s *Sender) Status() (routes []RouteStatus, clusters []ClusterStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.m.Routes() {
		routes = append(routes, RouteStatus{
			Route: r.Route, State: r.State, Hold: holdOf(r.Hold, r.Failing), NextTry: r.NextTry, Queued: r.Queued, Spooled: s.o.Stock.Waiting(r.Route),
			InFlight: r.InFlight, FailingAlone: r.FailingAlone, Accepted: r.Accepted, Last: r.Last,
		})
	}
	for _, c := range s.m.Clusters(s.o.Stock.Waiting) {
		clusters = append(clusters, ClusterStatus{
			Name: c.Name, URL: c.URL, State: c.State, Hold: holdOf(c.Hold, c.Failing), NextTry: c.NextTry,
			Concurrency: c.Concurrency, InFlight: c.InFlight,
		})
	}
	return routes, clusters
}

// holdOf returns why a route or cluster is not up, in the form of a Hold: held if it is held;
// otherwise, if it is down or its last requests failed, a Hold with what f says, since when and
// with which error. f.Last is nil as long as no request was answered. The result is nil if both are
// nil: it is up.
func holdOf(held *Hold, f *delivery.Failing) *Hold {
	if held != nil || f == nil {
		return held
	}
	h := &Hold{Since: f.Since, Message: "it has not answered yet", Fix: "nothing if it answers soon; else see to the way to it: name, proxy, firewall"}
	if e := f.Last; e != nil {
		h.Status, h.Code, h.Message, h.Activity, h.Fix = e.Status, e.Code, cmp.Or(e.Message, e.Error()), e.ActivityID, cmp.Or(e.Hint, retryFix(kusto.Retry))
	}
	return h
}
