package sender

import (
	"time"

	"kusto-agent/record"
)

// RouteStatus is how a route fares, for people.
type RouteStatus struct {
	Route    record.Route
	State    string // up, retrying, down or held
	Hold     *Hold  // nil unless held; the cluster's, where that is held
	NextTry  time.Time
	Queued   int
	Spooled  int // payloads that rest in the spool
	InFlight int
	Accepted uint64 // records since the start
	Last     time.Time
}

// ClusterStatus is how a cluster fares, for people.
type ClusterStatus struct {
	Name        string
	URL         string
	State       string
	Concurrency int // most requests at a time just now
	InFlight    int
}

// Status tells how all routes and clusters fare, in no order, but for clusters that
// are no longer named and have taken all that was for them.
func (s *Sender) Status() (routes []RouteStatus, clusters []ClusterStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		p := &l.pace
		if l.cluster.blocked() {
			p = &l.cluster.pace
		}
		routes = append(routes, RouteStatus{
			Route: l.route, State: p.state(), Hold: p.hold, NextTry: p.gate,
			Queued: len(l.queue), Spooled: l.waiting(), InFlight: l.inflight, Accepted: l.sent, Last: l.accepted,
		})
	}
	for _, c := range s.clusters {
		if !c.wanted && c.isEmpty() {
			continue
		}
		clusters = append(clusters, ClusterStatus{
			Name: c.Name, URL: c.URL, State: c.state(), Concurrency: c.limit, InFlight: c.inflight,
		})
	}
	return routes, clusters
}

// isEmpty reports whether nothing is in hand or in the spool for a cluster.
func (c *cluster) isEmpty() bool {
	for _, l := range c.lanes {
		if len(l.queue)+l.inflight+l.waiting() > 0 {
			return false
		}
	}
	return true
}

func (p *pace) state() string {
	switch {
	case p.hold != nil:
		return "held"
	case p.down:
		return "down"
	case p.failures > 0:
		return "retrying"
	}
	return "up"
}
