package spool

import (
	"slices"

	"kusto-agent/record"
)

// Held calls fn with each payload that has not ended and is not given out,
// without Body, oldest first; fn owns it. Where fn returns false the payload
// has ended elsewhere, and is not to be sent: that is how a start lets what the
// journal knows as accepted win over a frame that is still there. It reads the
// metas from disk, so that a full spool costs no memory. The error is one of
// reading; damage is none.
func (s *Spool) Held(fn func(p *record.Payload) bool) error {
	return s.each(func(g *segment, e *entry, p *record.Payload, fate record.Outcome) {
		if fate == 0 && !fn(own(p)) {
			s.endWaiting(g, e, record.Accepted)
		}
	})
}

// Ended calls fn with each payload that has ended and whose segment is still
// there, and how: what a journal must not forget, since a restart meets them
// again.
func (s *Spool) Ended(fn func(id record.BatchID, how record.Outcome)) error {
	return s.each(func(_ *segment, e *entry, _ *record.Payload, fate record.Outcome) {
		if fate != 0 {
			fn(e.id, fate)
		}
	})
}

// each goes over all payloads that are not given out.
func (s *Spool) each(fn func(g *segment, e *entry, p *record.Payload, fate record.Outcome)) error {
	s.mu.Lock()
	segments := slices.Clone(s.segments)
	for _, g := range segments {
		g.pins++
	}
	s.mu.Unlock()
	var failed error
	for _, g := range segments {
		if failed == nil {
			failed = s.scan(g, func(e *entry, p *record.Payload) {
				s.mu.Lock()
				fate, out := g.fate[e.ord], s.isTaken(g, e)
				s.mu.Unlock()
				if !out {
					fn(g, e, p, fate)
				}
			})
		}
		if failed != nil && lasts(failed) {
			failed = nil // Next will tell what is gone
		}
		s.unpin(g)
	}
	s.poke()
	return failed
}

func (s *Spool) unpin(g *segment) {
	s.mu.Lock()
	g.pins--
	s.mu.Unlock()
}

// Has says whether a payload is in the spool and has not ended. It may read the
// index of a segment.
func (s *Spool) Has(id record.BatchID) bool {
	s.mu.Lock()
	out := s.taken[id] != nil
	s.mu.Unlock()
	if out {
		return true
	}
	g, _ := s.find(id)
	return g != nil
}

// Drop ends a payload that another place knows to have been accepted.
func (s *Spool) Drop(id record.BatchID) { s.Done(id, record.Accepted) }

// find returns where a payload waits; nil: nowhere.
func (s *Spool) find(id record.BatchID) (*segment, *entry) {
	want := prefix(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range slices.Clone(s.segments) {
		for ord := 0; ord < len(g.ids); ord++ {
			if g.ids[ord] != want || g.fate[ord] != 0 {
				continue
			}
			if g.index == nil {
				g.pins++
				s.mu.Unlock()
				_ = s.load(g)
				s.mu.Lock()
			}
			if e := g.byOrd(ord); e != nil && e.id == id {
				found := *e
				return g, &found
			}
		}
	}
	return nil, nil
}
