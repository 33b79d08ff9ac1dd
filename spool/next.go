package spool

import (
	"errors"
	"time"

	"kusto-agent/ledger"
	"kusto-agent/record"
)

// Next returns the oldest payload of a cluster that is not given out, or nil.
// It stays on disk until Done; the caller owns its bytes. Its Attempt is the last
// that the spool knows of. Payloads older than max_age are dropped and those whose
// body is damaged are told of when they are met, and the next one is returned.
// It reads from the disk and may take as long as that does.
func (s *Spool) Next(cluster string) *record.Payload {
	for {
		s.mu.Lock()
		g := s.head(cluster)
		if g == nil {
			s.mu.Unlock()
			return nil
		}
		if g.index == nil {
			g.pins++
			s.mu.Unlock()
			if err := s.load(g); err != nil {
				s.o.Logger.Warn("spool segment not read, it is tried again", "file", g.name, "err", err)
				return nil
			}
			continue
		}
		t := s.take(g, cluster)
		s.mu.Unlock()
		if p, again := s.fetch(t); !again {
			return p
		}
	}
}

// head is the oldest segment with a payload for the cluster. Needs mu.
func (s *Spool) head(cluster string) *segment {
	for _, g := range s.segments {
		if g.waiting(cluster) > 0 {
			return g
		}
	}
	return nil
}

// take gives out the oldest payload of a cluster that waits in a segment, which
// is loaded and has one. Needs mu.
func (s *Spool) take(g *segment, cluster string) *taken {
	sh := g.clusters[cluster]
	i := sh.cursor
	for ; ; i++ {
		e := &g.index[i]
		if e.cluster != cluster || g.fate[e.ord] != 0 || s.isTaken(g, e) {
			continue
		}
		t := &taken{entry: *e, seg: g}
		s.taken[e.id] = t
		g.taken++
		sh.waiting--
		if sh.cursor = i + 1; sh.waiting == 0 && g != s.segments[len(s.segments)-1] {
			g.index = nil // it is read again for other clusters
		}
		return t
	}
}

// isTaken says whether this very copy of a payload is given out. Needs mu.
func (s *Spool) isTaken(g *segment, e *entry) bool {
	t := s.taken[e.id]
	return t != nil && t.seg == g && t.ord == e.ord
}

// takenOf returns what is given out of a segment. Needs mu.
func (s *Spool) takenOf(g *segment) (out []entry) {
	for _, t := range s.taken {
		if t.seg == g {
			out = append(out, t.entry)
		}
	}
	return out
}

// fetch reads a payload that was taken. Where it is not to be had, again says
// whether to go on with the next one.
func (s *Spool) fetch(t *taken) (p *record.Payload, again bool) {
	p, err := s.read(t.seg, &t.entry)
	switch {
	case errors.Is(err, errBody), err != nil && lasts(err):
		s.damage(t, p, err)
		return nil, true
	case err != nil:
		s.o.Logger.Warn("spooled payload not read, it is tried again", "file", t.seg.name, "err", err)
		s.giveBack(t.id)
		return nil, false
	}
	if age := s.o.Now().Sub(time.Unix(0, t.spooled)); s.cfg.MaxAge > 0 && age > s.cfg.MaxAge.D() {
		s.finish(t, record.Dropped)
		p.Body = nil
		s.o.Logger.Warn("payload dropped: it waited in the spool longer than max_age", "database", p.Route.Database,
			"table", p.Route.Table, "records", p.Records, "elapsed", age)
		s.o.OnDrop(p, ledger.SpoolAge)
		return nil, true
	}
	s.mu.Lock()
	p.Attempt = max(p.Attempt, s.attempts[t.id])
	t.payload = p
	s.mu.Unlock()
	return p, false
}

// damage ends a payload that cannot be read any more. p is nil where not even
// its ranges can.
func (s *Spool) damage(t *taken, p *record.Payload, err error) {
	s.mu.Lock()
	t.seg.damaged = true
	s.mu.Unlock()
	s.finish(t, record.Replaced)
	if p == nil {
		p = unreadable(t.id, t.cluster, t.inputs)
	}
	s.o.Logger.Error("spooled payload is damaged, its ranges are read again", "file", t.seg.name, "offset", t.at,
		"batch", t.id.String(), "records", p.Records, "err", err)
	s.o.OnDamage(p)
}

// Return puts a payload back that Next gave out and that was not accepted. It
// keeps its place, and the Attempt it has now.
func (s *Spool) Return(id record.BatchID) { s.giveBack(id) }

func (s *Spool) giveBack(id record.BatchID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taken[id]
	if t == nil {
		return false
	}
	if t.payload != nil {
		s.attempts[id] = t.payload.Attempt
	}
	s.untake(t)
	t.seg.clusters[t.cluster].cursor = 0
	return true
}

// untake makes a payload wait again. Needs mu.
func (s *Spool) untake(t *taken) {
	delete(s.taken, t.id)
	t.seg.taken--
	t.seg.clusters[t.cluster].waiting++
}

// Done ends a payload: it was accepted, quarantined, dropped, or split and all
// of its parts have ended. When all payloads of a segment have, it is removed,
// after BeforeUnlink, by the spool's own goroutine. A payload the spool does not
// have is no error.
func (s *Spool) Done(id record.BatchID, how record.Outcome) {
	s.mu.Lock()
	t := s.taken[id]
	s.mu.Unlock()
	if t != nil {
		s.finish(t, how)
		return
	}
	if g, e := s.find(id); g != nil {
		s.endWaiting(g, e, how)
	}
}

// finish ends a payload that was taken.
func (s *Spool) finish(t *taken, how record.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[t.id] == t {
		s.untake(t)
		s.end(t.seg, &t.entry, how)
	}
}

// endWaiting ends a payload that waits and says whether it did so.
func (s *Spool) endWaiting(g *segment, e *entry, how record.Outcome) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.fate[e.ord] != 0 || s.isTaken(g, e) {
		return false
	}
	s.end(g, e, how)
	return true
}

// end ends a payload that waits. Needs mu.
func (s *Spool) end(g *segment, e *entry, how record.Outcome) {
	g.end(e, how)
	delete(s.attempts, e.id)
	if g.frames == 0 {
		s.poke()
	}
}

// Attempted notes how many attempts were made for a payload where the spool
// cannot know: those of an earlier run, which the journal remembers.
func (s *Spool) Attempted(id record.BatchID, attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[id] = max(s.attempts[id], attempt)
}
