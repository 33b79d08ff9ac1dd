package delivery

import (
	"time"

	"kusto-agent/internal/record"
)

// maxRound bounds the payloads that go back for each probe.
const maxRound = 64

// fetched handles Fetched: a payload came out of the spool into the slot of a ticket. It is sent,
// or returns to the spool if it fails alone and no slot for such payloads is free, or is divided if
// it is too large. While the route is down or held, a payload that was a probe in this round
// returns to the spool and another one is fetched, so that each payload is a probe once in a round.
// r.memos has what is remembered of payloads that failed and went to the spool.
func (m *Machine) fetched(e Fetched) {
	r := e.Ticket.route
	r.tickets--
	r.stock = e.Stock
	p := &Payload{Data: e.Data, Place: Spooled, Frame: e.Frame, route: r, replayed: true}
	if e.Frame != e.Data.ID {
		p.Place = Rebuilt // it was made again from its files, under a new id
	}
	m.left++
	old, known := r.memos[e.Frame]
	if known {
		p.trials = old.trials
	} else {
		p.uncertain = e.Data.Attempt > 0 // how the requests of an earlier run ended is not known here
	}
	c := r.cluster
	switch {
	case m.phase != serving:
		m.vacate(r) // no requests are made any more
		p.stage = Queued
		m.enqueue(p)
	case r.blocked():
		if known && old.round == r.round && r.stock.Ready > 0 && r.probed < maxRound {
			p.notBefore = m.now.Add(m.settings.Max)
			m.giveBack(p)
			m.ticket(r) // in the same slot
			break
		}
		if known && old.round == r.round { // there is no other: the next round begins
			r.round, r.probed = r.round+1, 0
		}
		r.probed++
		m.request(p)
	case p.suspect() && !c.admits(p, m.now):
		m.vacate(r)
		p.notBefore = c.passOver(p, m.now, m.delay(p.failures), m.settings)
		m.giveBack(p)
	case m.isOver(p):
		m.vacate(r)
		m.divide(p)
	default:
		m.request(p)
	}
	m.look(r)
}

// notFetched handles NotFetched: it frees the slot of the ticket (a slot that was to be filled from
// the spool), and delays the next read of the spool if there was no memory or the spool could not
// read what it has.
func (m *Machine) notFetched(e NotFetched) {
	r := e.Ticket.route
	r.tickets--
	m.vacate(r)
	r.cluster.replaying--
	r.stock = e.Stock
	switch {
	case e.NoMemory:
		r.noReadBefore = m.now.Add(memoryAgain)
	case e.Stock.Ready > 0:
		r.noReadBefore = m.now.Add(readAgain)
	}
	m.look(r)
}

// putBack has a payload wait for its retry: in the spool if it has a copy there, or if it has
// failed long enough to be written there, otherwise in memory. A payload that the spool cannot take
// for its size (Oversized) stays in memory.
func (m *Machine) putBack(p *Payload) {
	switch {
	case m.phase != serving:
		m.enqueue(p)
	case p.Place.InSpool():
		m.giveBack(p)
	case p.failures > 0 && m.enough(p) && p.Place != Oversized && m.spoolTakes(p.route):
		m.spill(p)
	default:
		m.enqueue(p)
	}
}

// giveBack returns a payload that has a copy in the spool to the spool, with the time of its next
// attempt. The payload stays in hand, in the stage Returning, until the shell reports Returned. If
// it was made again under a new id and may be stored under that id, a notice says so, since the id
// is given up.
func (m *Machine) giveBack(p *Payload) {
	if p.Place == Rebuilt && p.uncertain {
		m.emit(Notice{What: UnknownReplaced, Cluster: p.route.cluster.name, Route: p.route.name, Batch: p.batch()})
	}
	p.route.remember(p, p.Frame)
	p.unlend()
	if p.stage = Returning; p.replayed {
		p.replayed = false
		p.route.cluster.replaying--
	}
	p.route.busy++
	m.spilling++
	m.emit(Return{p, p.notBefore})
}

// unlend ends the extra credit that the route of a payload has while the payload is both in the
// spool and in memory. It does nothing if the payload has brought none.
func (p *Payload) unlend() {
	if p.lent {
		p.lent = false
		p.route.safe--
	}
}

// returned handles Returned: the payload lies in the spool and leaves the machine.
func (m *Machine) returned(p *Payload) {
	r := p.route
	r.busy--
	m.spilling--
	m.restock(r, p.notBefore)
	m.remove(p)
	m.look(r)
}

// restocked handles Restock: it takes over what the spool has for a route, which may be read at once.
func (m *Machine) restocked(e Restock) {
	r := m.route(e.Route)
	r.stock, r.noReadBefore = e.Stock, time.Time{}
	m.look(r)
}

// restock updates the route's view of the spool after a payload was written there: the payload can be
// fetched at the given time, or at once if that is past.
func (m *Machine) restock(r *route, notBefore time.Time) {
	if m.now.Before(notBefore) {
		r.stock.Next = earlier(r.stock.Next, notBefore)
		return
	}
	r.stock.Ready++
}

// spill asks the shell (package sender, which does the I/O) to write a payload to the spool and
// free its memory. The payload keeps the time of its retry if it failed by itself; if its route is
// down, it can be fetched as soon as the route is up again.
func (m *Machine) spill(p *Payload) {
	p.stage = Spilling
	p.route.busy++
	m.spilling++
	at := p.notBefore
	if p.failures == 0 || p.route.isDown() {
		at = time.Time{} // its route is at fault
	}
	p.notBefore = at
	m.emit(Spill{P: p, NotBefore: at})
}

// secure asks the shell (package sender, which does the I/O) to write a copy of a payload to the
// spool. The payload stays in memory, in the stage Holding, and is sent from memory once the shell
// reports Spilled.
func (m *Machine) secure(p *Payload) {
	p.stage = Holding
	p.route.busy++
	m.spilling++
	m.emit(Spill{P: p, Stay: true})
}

// spilled handles Spilled, the result of a write to the spool. A payload that was to leave memory
// and was kept there is removed from the machine. Every other one stays in hand, with its new
// Place, and is queued again or becomes the next probe of its route. After a failed write the spool
// counts as taking nothing, unless this payload alone was too large for it.
func (m *Machine) spilled(p *Payload, result SpillResult) {
	r := p.route
	r.busy--
	m.spilling--
	defer m.look(r)
	switch {
	case result == Kept && p.stage == Spilling:
		if p.failures > 0 {
			r.remember(p, p.Data.ID)
		}
		m.restock(r, p.notBefore)
		m.remove(p)
		return
	case result == Kept:
		p.Place, p.Frame = Spooled, p.Data.ID
		p.lent = true
		if r.safe++; r.blocked() {
			m.emit(Wake{r.name})
		}
		if m.phase < halted && r.isDown() {
			m.propose(p)
			return
		}
	case result == TooLarge:
		p.Place = Oversized
	case result == Doubtful:
		p.Place = Perhaps
		m.spoolIs(Sick)
	default:
		m.spoolIs(Sick)
	}
	m.enqueue(p)
}

// propose makes a payload the candidate of its route, which is down: it stays in memory to be the
// next probe, and a candidate that the route had before returns to the spool. If the cluster has as
// many candidates as slots already, the payload itself returns to the spool.
func (m *Machine) propose(p *Payload) {
	r, c := p.route, p.route.cluster
	p.stage = Queued
	switch old := r.candidate; {
	case old != nil:
		r.candidate = p
		m.giveBack(old)
	case c.candidates < c.most:
		r.candidate = p
		c.candidates++
	default:
		m.giveBack(p)
	}
}

// secureAll starts to write the payloads of a route to the spool that must be there before they are
// sent. If the spool takes nothing now, they are sent all the same.
func (m *Machine) secureAll(r *route) {
	for r.durable.len() > 0 && m.phase < halted {
		p := r.durable.pop()
		r.queued--
		if m.spoolTakes(r) {
			m.secure(p)
		} else {
			m.enqueue(p)
		}
	}
}

// shed moves the payloads in the queues of a route that is down to the spool, which frees memory
// for reading. The newest one also stays in memory as the next probe, if it has not failed. What
// the spool does not take now is queued again, and so is a payload of the spool that waits for room
// in quarantine.
func (m *Machine) shed(r *route) {
	if r.queued == 0 {
		return
	}
	var stay []*Payload
	takes := m.spoolTakes(r)
	waiting := m.empty(r) // the newest last
	probe := r.cluster.served && (r.candidate != nil || r.cluster.candidates < r.cluster.most)
	for i, p := range waiting {
		switch {
		case p.stage == Refused && p.Place.InSpool():
			stay = append(stay, p)
		case p.Place.InSpool():
			m.giveBack(p)
		case !takes || p.Place == Oversized:
			stay = append(stay, p)
		case probe && i == len(waiting)-1 && p.failures == 0:
			m.secure(p)
		default:
			m.spill(p)
		}
	}
	for _, p := range stay {
		m.requeue(p)
	}
}

// spoolTakes reports whether the spool takes payloads, as far as is known. If not, the route is
// looked at again when the condition of the spool is reported. The shell is asked for the
// condition, with CheckSpool, once a second at most.
func (m *Machine) spoolTakes(r *route) bool {
	if m.spool != Sick {
		return true
	}
	if !r.inWait {
		r.inWait = true
		m.spoolWait = append(m.spoolWait, r)
	}
	if again := m.spoolSince.Add(spoolAgain); m.now.Before(again) {
		m.setAlarm(r, again)
	} else if !m.spoolAsked {
		m.spoolAsked = true
		m.emit(CheckSpool{})
	}
	return false
}

// spoolIs stores the condition of the spool, as a write or a check has shown it, and looks again at
// the routes that waited for a change of it.
func (m *Machine) spoolIs(c Condition) {
	m.spool, m.spoolSince, m.spoolAsked = c, m.now, false
	wait := m.spoolWait
	m.spoolWait = nil
	for _, r := range wait {
		r.inWait = false
	}
	for _, r := range wait {
		m.look(r)
	}
}

// keep handles Keep, which comes after the last request of a run: it writes all queued payloads to
// the spool or returns them to it. A payload whose request was canceled after its body was sent
// (broken) is logged, since the service may have stored it.
func (m *Machine) keep() {
	m.phase = keeping
	for _, r := range m.all {
		all := m.empty(r)
		for r.durable.len() > 0 {
			r.queued--
			all = append(all, r.durable.pop())
		}
		if p := r.candidate; p != nil {
			r.dropCandidate()
			all = append(all, p)
		}
		for _, p := range all {
			if p.broken {
				p.broken = false
				m.emit(Notice{What: UnknownAtStop, Cluster: r.cluster.name, Route: r.name, Batch: p.batch()})
			}
			m.keepOne(p)
		}
	}
}

// keepOne returns a payload to the spool or writes it there; if the spool does not take it, it stays
// in memory.
func (m *Machine) keepOne(p *Payload) {
	switch {
	case p.Place.InSpool():
		m.giveBack(p)
	case m.spool != Sick && p.Place != Oversized:
		m.spill(p)
	default:
		m.requeue(p)
	}
}

// empty removes all payloads from the queues of a route, except those that must be written to the
// spool before they are sent, and returns them: first those that wait for a retry, then the others
// from the oldest to the newest.
func (m *Machine) empty(r *route) (all []*Payload) {
	all = append(all, r.retries...)
	all = append(all, r.suspects...)
	r.retries, r.suspects = nil, nil
	for r.fresh.len() > 0 {
		all = append(all, r.fresh.pop())
	}
	r.queued -= len(all)
	return all
}

// remember stores how a payload failed before it goes to the spool, for when it is fetched again.
// frame is its id in the spool. It stores nothing for a payload without failures, or if maxMemos
// payloads of the route are remembered already.
func (r *route) remember(p *Payload, frame record.BatchID) {
	if _, known := r.memos[frame]; p.failures == 0 || !known && len(r.memos) >= maxMemos {
		return
	}
	if r.memos == nil {
		r.memos = make(map[record.BatchID]memo)
	}
	r.memos[frame] = memo{p.trials, r.round}
}

// forget removes what the route remembers of a payload that ends: how it failed (memos), and that
// it is marked as failing alone.
func (r *route) forget(p *Payload) {
	delete(r.memos, p.Data.ID)
	delete(r.memos, p.Frame)
	delete(r.alone, p.name())
}

// Forget removes what is remembered of a payload that was in the spool for a route, under the id
// frame, and has left it by no doing of the sender: somebody removed or moved it, or it was dropped.
func (m *Machine) Forget(name record.Route, frame record.BatchID) {
	if r := m.routes[name]; r != nil {
		delete(r.memos, frame)
		delete(r.alone, frame)
	}
}

// name returns the id of the payload in the tables of its route: the id that the spool has for it, or
// its own if it is not in the spool.
func (p *Payload) name() record.BatchID {
	if p.Place.InSpool() {
		return p.Frame
	}
	return p.Data.ID
}

// isAlone reports whether the payload is marked as failing alone: while its route accepts others.
func (r *route) isAlone(p *Payload) bool {
	_, is := r.alone[p.name()]
	return is
}

// setAlone marks the payload as failing alone: its requests fail while its route accepts others. If
// maxMemos payloads of the route are marked already, it does nothing.
func (r *route) setAlone(p *Payload) {
	if len(r.alone) >= maxMemos {
		return
	}
	if r.alone == nil {
		r.alone = make(map[record.BatchID]struct{})
	}
	r.alone[p.name()] = struct{}{}
}
