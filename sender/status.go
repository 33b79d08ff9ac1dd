package sender

import (
	"time"

	"kusto-agent/record"
	"kusto-agent/sender/internal/delivery"
)

// Hold is why a route or a cluster is not asked at full rate.
type Hold = delivery.Hold

// RouteStatus is how a route fares, for people.
type RouteStatus struct {
	Route        record.Route
	State        string // up, retrying, down or held
	Hold         *Hold  // nil unless held; the cluster's, where that is held
	NextTry      time.Time
	Queued       int
	Spooled      int // payloads that rest in the spool
	InFlight     int
	FailingAlone int    // payloads that fail while others of the route are accepted
	Accepted     uint64 // records since the start
	Last         time.Time
}

// ClusterStatus is how a cluster fares, for people.
type ClusterStatus = delivery.ClusterStatus

// Status tells how all routes and clusters fare, but for clusters that are no
// longer named and have taken all that was for them.
func (s *Sender) Status() (routes []RouteStatus, clusters []ClusterStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.m.Routes() {
		routes = append(routes, RouteStatus{
			Route: r.Route, State: r.State, Hold: r.Hold, NextTry: r.NextTry, Queued: r.Queued, Spooled: s.o.Stock.Waiting(r.Route),
			InFlight: r.InFlight, FailingAlone: r.FailingAlone, Accepted: r.Accepted, Last: r.Last,
		})
	}
	return routes, s.m.Clusters(s.o.Stock.Waiting)
}
