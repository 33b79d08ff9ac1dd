package spool

import (
	"fmt"

	"kusto-agent/internal/record"
)

// Reroute has the payloads that wait for a route go to another cluster instead,
// and returns how many it moved. Each is written anew under its own id before the
// old copy ends, so that a crash leaves at least one, and the newest counts. Where
// one cannot be read or written now, the error says so; what was moved stays
// moved.
func (s *Spool) Reroute(from record.Route, cluster string) (moved int, err error) {
	for s.Waiting(from) > 0 {
		p, frame := s.Next(from)
		if p == nil {
			return moved, fmt.Errorf("read the oldest payload for %v", from)
		}
		s.Return(frame)
		p.Route.Cluster = cluster
		if err := s.put(p, nil); err != nil {
			return moved, fmt.Errorf("move batch %v: %w", frame, err)
		}
		s.Done(frame, record.Replaced) // the oldest that has not ended: the old copy
		moved++
	}
	return moved, nil
}
