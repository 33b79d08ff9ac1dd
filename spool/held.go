package spool

import (
	"errors"
	"slices"

	"kusto-agent/record"
)

// Held calls fn with each payload that has not ended and is not given out,
// without Body, oldest first; fn owns it. Sound is false where the body was found
// not to be what was written: a write may have been under way, and nobody relied
// on it, or the disk lost it. Where fn returns false the payload is not to be
// sent from here: that is how a start lets what the journal knows as ended win
// over a frame that is still there. It reads the metas from disk, so that a full
// spool costs no memory. What the spool has in its index and cannot read is added
// to the Recovery that Open returned. The error is one of reading; damage is none.
func (s *Spool) Held(fn func(p *record.Payload, sound bool) bool) error {
	s.mu.Lock()
	s.walks++
	segments := slices.Clone(s.segments)
	for _, g := range segments {
		g.pins++
	}
	s.mu.Unlock()
	var failed error
	for _, g := range segments {
		if failed == nil {
			failed = s.held(g, fn)
		}
		s.unpin(g)
	}
	s.mu.Lock()
	s.walks--
	s.mu.Unlock()
	s.poke()
	return failed
}

func (s *Spool) held(g *segment, fn func(p *record.Payload, sound bool) bool) error {
	all, err := s.all(g)
	if errors.Is(err, errIndex) || err != nil && lasts(err) {
		return nil // Next tells what is gone
	}
	if err != nil {
		return err
	}
	var met bits
	err = s.scanSlots(g, all, func(at placed, p *record.Payload) {
		met.set(at.ord, g.n)
		if s.waits(at) && !fn(own(p), !at.isUnsound()) {
			s.endWaiting(at)
		}
	})
	if err != nil && !lasts(err) {
		return err
	}
	for i := range all {
		if at := all[i]; !met.has(at.ord) && s.waits(at) && s.endWaiting(at) {
			s.mu.Lock()
			g.damaged = true
			s.rec.miss(at.sh, &at.slot)
			s.mu.Unlock()
		}
	}
	s.refresh(all)
	return nil
}

// refresh looks for the oldest payloads of the shares of a segment anew.
func (s *Spool) refresh(all []placed) {
	oldest := map[*share]int64{}
	for i := range all {
		if at := &all[i]; s.waits(*at) {
			if was, known := oldest[at.sh]; !known || at.sh.g.when(&at.slot) < was {
				oldest[at.sh] = at.sh.g.when(&at.slot)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for sh, at := range oldest {
		sh.oldest = at
	}
}

// waits says whether a payload has not ended and is not given out.
func (s *Spool) waits(at placed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := at.sh.g
	if s.isOut(g, &at.slot) {
		return !s.out[at.id].given
	}
	return !g.lost && !g.ended.has(at.ord) && !g.moved.has(at.ord)
}

func (s *Spool) unpin(g *segment) {
	s.mu.Lock()
	g.pins--
	dead := g.dead()
	s.mu.Unlock()
	if dead {
		s.poke()
	}
}

// Has says whether a payload is in the spool and has not ended. It may read
// indexes.
func (s *Spool) Has(id record.BatchID) bool {
	s.mu.Lock()
	out := s.out[id] != nil
	s.mu.Unlock()
	if out {
		return true
	}
	_, all := s.find(id)
	return all != nil
}

// find returns where a payload waits that is not given out, and all that its
// segment has; nil: it is nowhere.
func (s *Spool) find(id record.BatchID) (at placed, in []placed) {
	for {
		at, in, swaps := s.findOnce(id)
		s.mu.Lock()
		same := s.swaps == swaps
		s.mu.Unlock()
		if in != nil || same { // else it may have moved from a segment behind to one before
			return at, in
		}
	}
}

func (s *Spool) findOnce(id record.BatchID) (at placed, in []placed, swaps int) {
	s.mu.Lock()
	segments, swaps := slices.Clone(s.segments), s.swaps
	for _, g := range segments {
		g.pins++
	}
	s.mu.Unlock()
	for _, g := range segments {
		if in == nil {
			all, _ := s.all(g)
			if i := slices.IndexFunc(all, func(e placed) bool { return e.id == id && s.waits(e) }); i >= 0 {
				at, in = all[i], all
			}
		}
		s.unpin(g)
	}
	return at, in, swaps
}
