package spool

import (
	"errors"
	"slices"
	"time"
	"unique"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Next gives out the oldest payload of route r that nobody has and that may be tried now (see
// ReturnUntil). p is nil if there is none. frame is the id to pass to Return or Done: that of p,
// unless Options.Rebuild gave p another. The payload stays on disk until Done; the caller owns its
// bytes. p.Attempt is the last attempt that the spool knows of.
//
// On its way Next drops payloads older than max_age, and gives up those that can neither be read
// nor made again, with Options.OnDrop or OnLost. If p is nil although payloads wait, the caller
// tries again later; for instance, the disk does not answer now.
func (s *Spool) Next(r record.Route) (p *record.Payload, frame record.BatchID) {
	to := unique.Make(r)
	var tooOld expired
	defer func() { s.tellExpired(r, &tooOld) }()
	for {
		s.mu.Lock()
		if !s.used {
			s.used = true
			s.disk.Wake() // the writer finishes what Open left alone until the first use
		}
		t, ahead := s.pick(to)
		s.mu.Unlock()
		switch {
		case t != nil:
			if p, again := s.fetch(t, &tooOld); !again {
				return p, t.id
			}
		case ahead.sh == nil || !s.load(ahead):
			return nil, frame
		}
	}
}

// Waiting returns how many payloads of a route Next can return now or later: those that were
// returned with ReturnUntil count too. It does not read from the disk.
func (s *Spool) Waiting(r record.Route) int {
	to := unique.Make(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lanes[to]; l != nil {
		return l.fresh + len(l.back)
	}
	return 0
}

// Ready reports whether Next can return a payload of a route at the time now. If not, due is the
// time when it can; zero: no payload of the route waits. It does not read from the disk.
func (s *Spool) Ready(r record.Route, now time.Time) (ready bool, due time.Time) {
	to := unique.Make(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[to]
	if l == nil {
		return false, time.Time{}
	}
	t := l.back.top()
	switch {
	case l.fresh > 0, t != nil && !t.until.After(now):
		return true, time.Time{}
	case t == nil:
		return false, time.Time{}
	}
	return false, t.until
}

// Routes returns the routes that Next has payloads of, now or later, in no order.
func (s *Spool) Routes() []record.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]record.Route, 0, len(s.lanes))
	for to := range s.lanes {
		out = append(out, to.Value())
	}
	return out
}

// fetch reads t, a payload that was given out, and returns it with its body. If p is nil, again says
// whether the next payload can be tried: true if t has ended, false if t was returned to wait
// and the disk has to be tried later. A damaged payload is made again with Options.Rebuild, one that
// is too old is dropped, and counted in tooOld.
func (s *Spool) fetch(t *taken, tooOld *expired) (p *record.Payload, again bool) {
	p, at, err := s.readPatiently(t)
	for err != nil && s.home(t) != at.sh.g { // it was copied meanwhile
		p, at, err = s.readPatiently(t)
	}
	g := at.sh.g
	if err != nil && !errors.Is(err, errBody) && lasts(err) && !s.isWritten(g) {
		// Not even its meta can be read, and never will be: others of the segment may be gone too.
		if found := s.verify(g); errors.Is(found, record.ErrStalled) {
			err = found
		}
	}
	if err != nil && (errors.Is(err, errBody) || lasts(err)) {
		if p == nil {
			s.mu.Lock()
			p = t.sh.unreadable(&t.slot)
			s.mu.Unlock()
		}
		s.setAttempts(t, p)
		p, err = s.mend(t, p, err)
	}
	switch {
	case errors.Is(err, ErrGone):
		return nil, true
	case errors.Is(err, record.ErrStalled): // patiently has logged it
		s.giveBack(t.id, time.Time{})
		return nil, false
	case err != nil:
		if s.isNews(t, err.Error()) {
			s.o.Logger.Warn("spooled payload could not be read, will retry", "file", g.name, "batch", t.id.String(), "err", err)
		}
		s.giveBack(t.id, time.Time{})
		return nil, false
	}
	if age := s.age.now().Sub(time.Unix(0, g.when(&at.slot))); s.cfg().MaxAge > 0 && age > s.cfg().MaxAge.D() {
		s.finish(t)
		p.Body = nil
		tooOld.payloads++
		tooOld.records += p.Records
		tooOld.age = max(tooOld.age, age)
		s.o.OnDrop(p, record.DropSpoolAge)
		return nil, true
	}
	s.setAttempts(t, p)
	s.mu.Lock()
	t.payload = p
	s.mu.Unlock()
	return p, false
}

// expired is what one call of Next has dropped because of max_age.
type expired struct {
	payloads, records int
	age               time.Duration // of the oldest
}

// tellExpired logs what Next has dropped of a route because of max_age, if anything.
func (s *Spool) tellExpired(r record.Route, e *expired) {
	if e.payloads > 0 {
		s.o.Logger.Warn("payloads dropped: they waited in the spool longer than max_age", "database", r.Database, "table", r.Table,
			"payloads", e.payloads, "records", e.records, "oldest", e.age.Round(time.Second),
			"fix", "raise spool.max_age; with 0s payloads are kept until they are sent")
	}
}

// setAttempts sets p.Attempt to the number of all attempts for the payload: p, as read from its
// frame, has those made before it came to the spool, and s.attempts those since.
func (s *Spool) setAttempts(t *taken, p *record.Payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Attempt = max(p.Attempt, s.attempts[t.id])
}

// isWritten reports whether g is the segment being written. That segment is never
// given up as a whole: payloads that are rebuilt from lost segments go into it.
func (s *Spool) isWritten(g *segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.open
}

// unreadable returns the payload of the index entry e as far as the index knows it: id, route and
// number of records by input, without ranges and body. Needs mu.
func (sh *share) unreadable(e *slot) *record.Payload {
	var by []count
	sh.g.counts(e, func(input string, n int) { by = append(by, count{input, n}) })
	return unreadable(e.id, sh.to.Value(), by)
}

// mend has Options.Rebuild make the payload t again from its source files, because its frame is
// damaged (cause). p is what is known of it, and is returned with its new body. If the source is
// gone, mend ends the payload, calls OnDrop and returns ErrGone; after another error it can be tried
// again. The damaged frame stays in its segment, so after a crash the payload is made again.
func (s *Spool) mend(t *taken, p *record.Payload, cause error) (*record.Payload, error) {
	s.mu.Lock()
	g := t.sh.g
	g.damaged = true
	first, offset := g.told[int(t.ord)] == "", t.offset()
	s.mu.Unlock()
	if first && s.isNews(t, cause.Error()) {
		s.o.Logger.Error("spooled payload is damaged, the agent reads its records again from the source files", "file", g.name, "offset", offset,
			"batch", t.id.String(), "database", p.Route.Database, "table", p.Route.Table, "records", p.Records, "err", cause)
	}
	err := s.o.Rebuild(p)
	if !errors.Is(err, ErrGone) {
		return p, err
	}
	s.finish(t)
	p.Body = nil
	s.o.OnDrop(p, record.DropSourceGone)
	return nil, err
}

// isNews reports whether the text what differs from the last one that was logged about the payload
// t, and remembers it. So the same error is not logged at every try.
func (s *Spool) isNews(t *taken, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := t.sh.g
	if g.told[int(t.ord)] == what {
		return false
	}
	if g.told == nil {
		g.told = map[int]string{}
	}
	g.told[int(t.ord)] = what
	return true
}

// Return puts a payload back that Next gave out and that was not accepted. It keeps its place in the
// order, and its present Attempt.
func (s *Spool) Return(id record.BatchID) { s.giveBack(id, time.Time{}) }

// ReturnUntil puts a payload back that Next gave out and that was not accepted. Until
// notBefore Next does not return it. notBefore is by the monotonic clock, so a jump of the
// wall clock changes nothing.
func (s *Spool) ReturnUntil(id record.BatchID, notBefore time.Time) { s.giveBack(id, notBefore) }

// giveBack makes a payload that Next returned wait again; Next does not return it before until.
// It returns false and changes nothing if Next has not returned the payload.
func (s *Spool) giveBack(id record.BatchID, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.out[id]
	if t == nil || !t.given {
		return false
	}
	if t.payload != nil { // only its number of attempts is kept
		s.attempts[id] = t.payload.Attempt
	}
	t.payload, t.until = nil, time.Time{}
	if until.After(time.Now()) {
		t.until = until
	}
	s.setGiven(t, false)
	s.lane(t.sh.to).back.put(t)
	return true
}

// Done ends a payload: it was accepted, quarantined, dropped, or split and all parts have ended. The
// spool does not need the outcome. Its goroutine removes a segment, after BeforeUnlink, once all its
// payloads have ended. An unknown id is ignored. A payload that is not given out is searched in the
// indexes on disk.
func (s *Spool) Done(id record.BatchID, _ record.Outcome) {
	s.mu.Lock()
	t := s.out[id]
	if t != nil {
		s.endOut(t)
	}
	s.mu.Unlock()
	if t != nil {
		return
	}
	done := false
	_ = s.each(func(g *segment) error { // its function returns none
		if done {
			return nil
		}
		all, _ := s.all(g)
		if done = slices.ContainsFunc(all, func(at placed) bool { return at.id == id && s.endWaiting(at) }); done {
			s.refresh(all)
		}
		return nil
	})
}

// finish ends a payload that was given out, also if it was returned since: it is not sent again, and
// its segment can be removed once all others in it have ended too.
func (s *Spool) finish(t *taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endOut(t)
}

// endWaiting ends a payload that waits and returns true. It returns false and changes nothing if
// the payload has ended, is in the hands of the caller of Next, was copied to another segment, or
// was given up with its whole segment.
func (s *Spool) endWaiting(at placed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch g := at.sh.g; {
	case g.ended.has(at.ord) || g.moved.has(at.ord), g.lost && !s.isOut(g, &at.slot):
		return false
	case s.isOut(g, &at.slot):
		t := s.out[at.id]
		if t.given {
			return false
		}
		s.endOut(t)
	default:
		s.endFresh(at.sh, &at.slot)
	}
	return true
}

// Attempted sets how many attempts were made for a payload in an earlier run, which the journal knows
// and the frame does not. It never lowers the number.
func (s *Spool) Attempted(id record.BatchID, attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[id] = max(s.attempts[id], attempt)
}

// verify reads a segment from which a payload could not be read, and gives up all payloads that
// cannot be found in it. After an error, which means that the disk cannot be read for now, nothing
// is given up.
func (s *Spool) verify(g *segment) error {
	s.mu.Lock()
	g.pins++
	s.mu.Unlock()
	defer s.unpin(g)
	there, err := patiently(s, func() (bits, error) {
		var there bits
		err := s.scan(g, func(at placed, _ *record.Payload) { there.set(at.ord, g.n) })
		if errors.Is(err, durable.ErrDamaged) { // in its header: nothing of it is readable
			there = nil
		}
		return there, err
	})
	if passable(err) != nil {
		return err
	}
	s.lose(g, there, err)
	return nil
}
