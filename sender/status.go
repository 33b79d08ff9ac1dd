package sender

import "kusto-agent/sender/internal/delivery"

// Hold is why a route or a cluster is not asked at full rate: held, down, or about to
// be. In the latter cases the agent helps itself when it is answered again.
type Hold = delivery.Hold

// RouteStatus is how a route fares, for people.
type RouteStatus = delivery.RouteStatus

// ClusterStatus is how a cluster fares, for people.
type ClusterStatus = delivery.ClusterStatus

// Status returns the state of all routes and of all clusters, except clusters that were removed from
// the configuration and have nothing left to send.
func (s *Sender) Status() (routes []RouteStatus, clusters []ClusterStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Routes(s.o.Stock.Waiting), s.m.Clusters(s.o.Stock.Waiting)
}
