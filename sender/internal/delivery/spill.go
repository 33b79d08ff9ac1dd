package delivery

import (
	"time"

	"kusto-agent/internal/record"
)

// maxRound bounds the payloads that go back for each probe.
const maxRound = 64

// fetched sends a payload that was fetched from the spool, in the slot that its ticket
// holds. While the route is blocked, a payload that was probed in this round goes back to
// the spool if there is another one to probe with.
func (m *Machine) fetched(e Fetched) {
	r := e.Ticket.route
	r.tickets--
	r.stock = e.Stock
	p := &Payload{Data: e.Data, Place: Spooled, Frame: e.Frame, route: r, replayed: true}
	if e.Frame != e.Data.ID {
		p.Place = Rebuilt
	}
	m.left++
	old, known := r.memos[e.Frame]
	if known {
		p.failures, p.strikes, p.passed, p.failedAt, p.uncertain = old.failures, old.strikes, old.passed, old.failedAt, old.uncertain
	} else {
		p.uncertain = e.Data.Attempt > 0 // how the requests of an earlier run ended is not known here
	}
	c := r.cluster
	switch {
	case m.phase != serving:
		m.vacate(r)
		p.stage = Queued
		m.enqueue(p)
	case r.blocked():
		if known && old.round == r.round && r.stock.Ready > 0 && r.probed < maxRound {
			p.notBefore = m.now.Add(m.settings.Max)
			m.giveBack(p)
			m.ticket(r) // in the same slot
			break
		}
		if known && old.round == r.round {
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

// notFetched frees the slot of a ticket for which the shell could fetch no payload, and
// sets when the spool is asked again.
func (m *Machine) notFetched(e NotFetched) {
	r := e.Ticket.route
	r.tickets--
	m.vacate(r)
	r.cluster.replaying--
	r.stock = e.Stock
	switch {
	case e.NoMemory:
		r.unread = m.now.Add(memoryAgain)
	case e.Stock.Ready > 0:
		r.unread = m.now.Add(readAgain)
	}
	m.look(r)
}

// putBack keeps a payload until it is tried again: in the spool if it is there or has
// failed long enough, else in memory.
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

// giveBack returns a payload whose frame is in the spool to the spool, with the time of
// its next attempt. The payload stays in hand, in the stage Returning, until the shell
// reports Returned.
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

// unlend ends the extra credit that a route has for a payload that is safe in the spool
// but stays in memory.
func (p *Payload) unlend() {
	if p.lent {
		p.lent = false
		p.route.safe--
	}
}

// returned removes a payload that is in the spool alone now.
func (m *Machine) returned(p *Payload) {
	r := p.route
	r.busy--
	m.spilling--
	m.restock(r, p.notBefore)
	m.remove(p)
	m.look(r)
}

// restock counts a payload that rests in the spool until the given time.
func (m *Machine) restock(r *route, notBefore time.Time) {
	if m.now.Before(notBefore) {
		r.stock.Next = earlier(r.stock.Next, notBefore)
		return
	}
	r.stock.Ready++
}

// spill asks the shell to write a payload to the spool, from where it is tried again
// later; it leaves memory then.
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

// secure asks the shell to write a payload to the spool although it stays in memory too.
func (m *Machine) secure(p *Payload) {
	p.stage = Holding
	p.route.busy++
	m.spilling++
	m.emit(Spill{P: p, Stay: true})
}

// spilled acts on the result of a write to the spool. A payload that was to leave memory
// and was kept is removed from the machine; every other one stays in hand, with its new
// Place, and is queued again or becomes the next probe of its route.
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

// propose makes a payload the next probe of a route that is down, in place of an older
// one, which goes to the spool. A cluster has no more such payloads than slots.
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

// secureAll writes the payloads with durability: spool to the spool before they are sent.
// If the spool takes nothing, they are sent without that.
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

// shed moves the payloads that wait for a route that is down to the spool, so that reading
// goes on. The newest one stays in memory as well, as the next probe. Payloads that the
// spool does not take now stay in memory.
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

// spoolTakes reports whether the spool accepts payloads. If not, the route is looked at
// again when the spool may have recovered.
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

// spoolIs notes whether the spool accepts payloads, and looks at the routes that waited
// for it.
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

// keep moves all payloads to the spool at a stop, and emits a notice for each whose
// request was cancelled.
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

// keepOne moves one payload to the spool; if the spool does not take it, it stays in
// memory.
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

// empty takes all payloads out of the queues of a route.
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

// remember keeps the failures of a payload that goes to the spool, by its frame.
func (r *route) remember(p *Payload, frame record.BatchID) {
	if _, known := r.memos[frame]; p.failures == 0 || !known && len(r.memos) >= maxMemos {
		return
	}
	if r.memos == nil {
		r.memos = make(map[record.BatchID]memo)
	}
	r.memos[frame] = memo{p.failures, p.strikes, p.passed, p.failedAt, r.round, p.uncertain}
}

// forget removes what the route remembers of a payload that ends: its failures, and that
// it fails alone.
func (r *route) forget(p *Payload) {
	delete(r.memos, p.Data.ID)
	delete(r.memos, p.Frame)
	delete(r.alone, p.name())
}

// name is the id by which a payload is known as long as it is in memory or in the spool.
func (p *Payload) name() record.BatchID {
	if p.Place.InSpool() {
		return p.Frame
	}
	return p.Data.ID
}

func (r *route) isAlone(p *Payload) bool {
	_, is := r.alone[p.name()]
	return is
}

// setAlone marks a payload as failing for its own reason.
func (r *route) setAlone(p *Payload) {
	if len(r.alone) >= maxMemos {
		return
	}
	if r.alone == nil {
		r.alone = make(map[record.BatchID]struct{})
	}
	r.alone[p.name()] = struct{}{}
}
