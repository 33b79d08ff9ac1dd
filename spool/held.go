package spool

import (
	"slices"

	"kusto-agent/record"
)

// Held calls fn with each payload that has not ended and is not given out,
// without Body, oldest first; fn owns it. Sound is false where the body was found
// not to be what was written: a write may have been under way, and nobody relied
// on it, or the disk lost it. Where fn returns false the payload is not to be
// sent from here: that is how a start lets what the journal knows as ended win
// over a frame that is still there. It reads the metas from disk, so that a full
// spool costs no memory. The error is one of reading; damage is none.
func (s *Spool) Held(fn func(p *record.Payload, sound bool) bool) error {
	return s.each(func(g *segment, e *entry, p *record.Payload) {
		if !fn(own(p), !g.unsound[e.ord]) {
			s.endWaiting(g, e, record.Replaced)
		}
	})
}

// each goes over all payloads that wait.
func (s *Spool) each(fn func(g *segment, e *entry, p *record.Payload)) error {
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
				waits := g.fate[e.ord] == 0 && !s.isTaken(g, e)
				s.mu.Unlock()
				if waits {
					fn(g, e, p)
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

// find returns where a payload waits; nil: nowhere.
func (s *Spool) find(id record.BatchID) (*segment, *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range slices.Clone(s.segments) {
		for ord := 0; ord < len(g.ids); ord++ {
			if g.ids[ord] != id || g.fate[ord] != 0 {
				continue
			}
			if g.index == nil {
				g.pins++
				s.mu.Unlock()
				_ = s.load(g)
				s.mu.Lock()
			}
			if e := g.byOrd(ord); e != nil {
				found := *e
				return g, &found
			}
		}
	}
	return nil, nil
}
