package spool

import (
	"fmt"
	"unique"

	"kusto-agent/internal/record"
)

// Reroute changes the cluster of the payloads that wait for the route from, and returns how many it
// moved. only, which gets them without their Body, selects the payloads; nil: all. Each payload is
// written again under its own id before the old copy ends, so that a crash leaves at least one copy,
// of which the newest counts. While a payload moves, nobody else gets it. If one cannot be read or
// written now, the error says so; those moved before stay moved.
//
// While Reroute runs, Done and Return may be called only for a payload that their caller has from Next
// or Hold, and Put only for one that does not wait in the spool: a payload that Next gives to Reroute
// must stay given until Reroute itself ends or returns it.
func (s *Spool) Reroute(from record.Route, cluster string, only func(*record.Payload) bool) (moved int, err error) {
	var kept []record.BatchID
	defer func() {
		for _, id := range kept {
			s.Return(id)
		}
	}()
	s.wakeAll(from)
	for s.Waiting(from) > 0 {
		p, frame := s.Next(from)
		if p == nil && s.wakeAll(from) { // somebody has called ReturnUntil meanwhile
			continue
		}
		if p == nil {
			return moved, fmt.Errorf("read the oldest payload for %v", from)
		}
		s.mu.Lock()
		t := s.out[frame] // not nil, since nobody else ends it
		t.payload = nil   // so that payloads that are kept do not hold their bodies in memory
		s.mu.Unlock()
		if only != nil && !only(p) {
			kept = append(kept, frame)
			continue
		}
		p.Route.Cluster = cluster
		s.o.OnMove(p)
		if err := s.write(p, nil, true); err != nil { // true: there is another copy, until finish
			p.Route = from
			s.o.OnMove(p)
			s.Return(frame)
			return moved, fmt.Errorf("move batch %v: %w", frame, err)
		}
		s.finish(t) // the old copy, also where the new one was given out meanwhile
		moved++
	}
	return moved, nil
}

// wakeAll lets all returned payloads of a route be tried again at once, and reports whether there
// were any that waited for a time.
func (s *Spool) wakeAll(r record.Route) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[unique.Make(r)]
	if l == nil || len(l.back) == 0 {
		return false
	}
	last := l.back[len(l.back)-1].until
	l.wake(last)
	return !last.IsZero()
}
