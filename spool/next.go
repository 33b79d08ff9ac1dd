package spool

import (
	"errors"
	"time"
	"unique"

	"kusto-agent/ledger"
	"kusto-agent/record"
)

// Next returns the oldest payload of a route that is not given out and may be tried
// now (see ReturnUntil), or nil, and
// the id that Return and Done know it by: its own, unless Rebuild gave it another.
// It stays on disk until Done; the caller owns its bytes. Its Attempt is the last
// that the spool knows of. Payloads older than max_age are dropped and those that
// cannot be read or made again are told of when they are met, and the next one is
// returned. Nil while payloads wait means that reading is to be tried again later,
// such as where the disk does not answer in time.
func (s *Spool) Next(r record.Route) (p *record.Payload, frame record.BatchID) {
	to := unique.Make(r)
	for {
		s.mu.Lock()
		g := s.head(to)
		if g == nil {
			s.mu.Unlock()
			return nil, frame
		}
		if g.index == nil {
			g.pins++
			s.mu.Unlock()
			if err := s.load(g); errors.Is(err, record.ErrStalled) {
				return nil, frame // told
			} else if err != nil {
				s.o.Logger.Warn("spool segment not read, it is tried again", "file", g.name, "err", err)
				return nil, frame
			}
			continue
		}
		t := s.take(g, to)
		s.mu.Unlock()
		if p, again := s.fetch(t); !again {
			return p, t.id
		}
	}
}

// Waiting is how many payloads of a route Next has to give, now or, of those that
// were returned until some time, later; see Ready. It does not read from the disk.
func (s *Spool) Waiting(r record.Route) int {
	to := unique.Make(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[to]
}

// Routes returns the routes that Next has payloads of, in no order.
func (s *Spool) Routes() []record.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]record.Route, 0, len(s.waiting))
	for to := range s.waiting {
		out = append(out, to.Value())
	}
	return out
}

// head is the oldest segment with a payload for the route. Needs mu.
func (s *Spool) head(to route) *segment {
	if s.waiting[to] == 0 {
		return nil
	}
	s.wakeDue()
	for _, g := range s.segments {
		if g.has(to) {
			return g
		}
	}
	return nil
}

// take gives out the oldest payload of a route that waits in a segment, which
// is loaded and has one. Needs mu.
func (s *Spool) take(g *segment, to route) *taken {
	s.touch(g)
	sh := g.routes[to]
	i := sh.cursor
	for ; ; i++ {
		e := &g.index[i]
		if e.route != to || g.fate[e.ord] != 0 || s.isTaken(g, e) || s.rests[e.id].seg == g {
			continue
		}
		sh.cursor = i + 1
		t := s.give(g, e, nil)
		if g.frames == g.taken && g != s.segments[len(s.segments)-1] {
			g.index = nil
		}
		return t
	}
}

// give notes that a payload that waits is given out. Needs mu.
func (s *Spool) give(g *segment, e *entry, p *record.Payload) *taken {
	t := &taken{entry: *e, seg: g, payload: p}
	s.taken[e.id] = t
	g.taken++
	g.wait(e.route, -1)
	return t
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
	p, err := s.readPatiently(t)
	if err != nil && (errors.Is(err, errBody) || lasts(err)) {
		if p == nil {
			p = unreadable(t.id, t.route.Value(), t.inputs)
		}
		p, err = s.mend(t, p, err)
	}
	switch {
	case errors.Is(err, ErrGone):
		return nil, true
	case errors.Is(err, record.ErrStalled): // told
		s.giveBack(t.id, time.Time{})
		return nil, false
	case err != nil:
		if s.isNews(t, err.Error()) {
			s.o.Logger.Warn("spooled payload not read, it is tried again", "file", t.seg.name, "batch", t.id.String(), "err", err)
		}
		s.giveBack(t.id, time.Time{})
		return nil, false
	}
	if age := s.o.Now().Sub(time.Unix(0, t.spooled)); s.cfg().MaxAge > 0 && age > s.cfg().MaxAge.D() {
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

// mend has a payload made again whose frame cannot be read. The frame stays where
// it is: after a crash it is met again, and made again.
func (s *Spool) mend(t *taken, p *record.Payload, cause error) (*record.Payload, error) {
	s.mu.Lock()
	t.seg.damaged = true
	first := t.seg.told[t.ord] == ""
	s.mu.Unlock()
	if first && s.isNews(t, cause.Error()) {
		s.o.Logger.Error("spooled payload is damaged, its ranges are read again", "file", t.seg.name, "offset", t.at,
			"batch", t.id.String(), "database", p.Route.Database, "table", p.Route.Table, "records", p.Records, "err", cause)
	}
	err := s.o.Rebuild(p)
	if !errors.Is(err, ErrGone) {
		return p, err
	}
	s.finish(t, record.SourceGone)
	p.Body = nil
	s.o.OnDrop(p, ledger.SourceGone)
	return nil, err
}

// isNews says whether something was not the last that was told of a payload.
func (s *Spool) isNews(t *taken, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.seg.told[t.ord] == what {
		return false
	}
	if t.seg.told == nil {
		t.seg.told = map[int]string{}
	}
	t.seg.told[t.ord] = what
	return true
}

// Return puts a payload back that Next gave out and that was not accepted. It
// keeps its place, and the Attempt it has now.
func (s *Spool) Return(id record.BatchID) { s.giveBack(id, time.Time{}) }

// ReturnUntil is Return for a payload that is not to be tried before a time, by
// the clock of Options.Now: until then Next passes over it.
func (s *Spool) ReturnUntil(id record.BatchID, notBefore time.Time) { s.giveBack(id, notBefore) }

// Ready says whether Next has a payload of a route to give at a time, and if not
// when it has one; zero: none waits. It does not read from the disk.
func (s *Spool) Ready(r record.Route, now time.Time) (ready bool, due time.Time) {
	to := unique.Make(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.waiting[to]
	for _, p := range s.rests {
		if p.route == to && p.until.After(now) {
			if n--; due.IsZero() || p.until.Before(due) {
				due = p.until
			}
		}
	}
	if n > 0 {
		return true, time.Time{}
	}
	return false, due
}

// rest is a payload that is not to be given out yet.
type rest struct {
	route route
	seg   *segment
	until time.Time
}

// wakeDue ends the rest of what is due. Needs mu.
func (s *Spool) wakeDue() {
	now := s.o.Now()
	for id, p := range s.rests {
		if !p.until.After(now) {
			s.endRest(id)
		}
	}
}

// endRest has a payload be given out in its turn. Needs mu.
func (s *Spool) endRest(id record.BatchID) {
	if p, rests := s.rests[id]; rests {
		delete(s.rests, id)
		if sh := p.seg.routes[p.route]; sh != nil {
			sh.resting, sh.cursor = sh.resting-1, 0
		}
	}
}

func (s *Spool) giveBack(id record.BatchID, until time.Time) bool {
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
	sh := t.seg.routes[t.route]
	if sh.cursor = 0; until.After(s.o.Now()) {
		s.rests[id] = rest{t.route, t.seg, until}
		sh.resting++
	}
	return true
}

// untake makes a payload wait again. Needs mu.
func (s *Spool) untake(t *taken) {
	delete(s.taken, t.id)
	t.seg.taken--
	t.seg.wait(t.route, 1)
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
	if s.rests[e.id].seg == g {
		s.endRest(e.id)
	}
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
