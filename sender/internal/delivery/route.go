package delivery

import (
	"time"

	"kusto-agent/internal/record"
)

// route is one table with its format and mapping: its queues, and what the spool
// has for it.
type route struct {
	breaker
	name    record.Route
	cluster *cluster

	fresh    queue[*Payload] // may be sent at any time
	retries  schedule        // are sent again at their time
	suspects schedule        // the same of payloads that fail alone
	durable  queue[*Payload] // are to be in the spool before they are sent

	candidate *Payload // while down: the newest payload, in hand and in the spool
	safe      int      // payloads in hand that are in the spool and did not come from there

	stock        Stock
	tickets      int
	noReadBefore time.Time // nothing is read from the spool until then

	inflight int // slots, those of tickets too
	busy     int // payloads that the shell works on without a slot
	queued   int // payloads in the queues above

	paused    time.Time // Retry-After, or throttled again and again
	throttled time.Time
	throttles int  // since the last acceptance, those of one time counted once
	longTold  bool // a Retry-After of more than MaxPause was told
	sizes     sizes

	replayed bool // the last payload served came out of the spool
	round    int  // of probes: each payload of the spool is probed once in a round
	probed   int  // payloads of the spool in this round

	memos map[record.BatchID]memo
	alone map[record.BatchID]struct{} // payloads that fail alone

	accepted uint64 // payloads
	records  uint64 // accepted
	last     time.Time

	inReady, inCareful bool // it is in these queues of its cluster
	inWait             bool // it is looked at when the condition of the spool is told
	alarm              time.Time
	at                 int // its index among the alarms; -1: none
}

// memo is what is remembered of a payload that failed and went to the spool.
type memo struct {
	trials
	round int // of probes in which it was tried
}

// maxMemos bounds what is remembered for a route. What is beyond is taken for a
// payload that has not failed.
const maxMemos = 4096

func (r *route) blocked() bool { return r.breaker.blocked() || r.cluster.blocked() }

func (r *route) isDown() bool { return r.down || r.cluster.down }

// look acts on the state of a route and must be called after each change of it. It takes the route
// down if its patience is over, writes to the spool what belongs there, adds the route to the
// queues of its cluster if it has something to send, and otherwise sets the time at which it will
// have. The candidate, which a route that is down keeps in memory as its next probe, is queued
// again once the route is up.
func (m *Machine) look(r *route) {
	c := r.cluster
	if at := r.deadline(m.settings.Patience); !at.IsZero() && !m.now.Before(at) {
		m.goDown(&r.breaker)
		if r.hold == nil && !c.blocked() {
			m.emit(Notice{What: RouteDown, Cluster: c.name, Route: r.name, Last: r.breaker.last, Elapsed: m.now.Sub(r.wanted)})
		}
	}
	m.secureAll(r)
	if r.isDown() && m.phase < halted {
		m.shed(r)
	} else if p := r.candidate; p != nil && m.phase != keeping {
		r.dropCandidate()
		m.queueFirst(p)
	}
	ready, careful, at := m.ready(r)
	if ready && !r.inReady {
		r.inReady = true
		c.ready.push(r)
	}
	if careful && !r.inCareful {
		r.inCareful = true
		c.careful.push(r)
	}
	if at = earlier(at, r.deadline(m.settings.Patience)); !at.IsZero() {
		m.setAlarm(r, at)
	}
}

// ready reports whether a route has something to send now: ready is about ordinary payloads and
// probes, in memory or in the spool, careful about payloads that fail alone. at is when there will
// be something to send, or more of it; zero: not before another event.
func (m *Machine) ready(r *route) (ready, careful bool, at time.Time) {
	switch {
	case m.phase != serving:
		return false, false, time.Time{}
	case m.now.Before(r.paused):
		return false, false, r.paused
	}
	if r.blocked() {
		switch {
		case r.inflight > 0:
			return false, false, time.Time{}
		case m.now.Before(r.gate):
			return false, false, r.gate
		}
		replay, again := m.replayable(r)
		return replay || r.probeable(), false, again
	}
	replay, at := m.replayable(r)
	retry, next := r.retries.due(m.now)
	careful, after := r.suspects.due(m.now)
	return replay || r.fresh.len() > 0 || retry, careful, earlier(earlier(at, next), after)
}

// probeable reports whether a payload in hand can be the next probe.
func (r *route) probeable() bool {
	return r.candidate != nil || r.fresh.len()+len(r.retries)+len(r.suspects) > 0
}

// replayable reports whether a payload of the route may be fetched from the spool now: more
// payloads are ready there than are being fetched (r.tickets), or the time of the next one has
// come. If not, it returns the time at which to ask again; zero: not before another event, such as
// the end of a fetch. While the sender drains before a stop it is always false.
func (m *Machine) replayable(r *route) (bool, time.Time) {
	switch {
	case m.draining:
		return false, time.Time{}
	case r.stock.Ready > r.tickets:
		if m.now.Before(r.noReadBefore) {
			return false, r.noReadBefore
		}
		return true, time.Time{}
	case r.stock.Next.IsZero() || r.tickets > 0:
		return false, time.Time{}
	}
	if at := later(r.stock.Next, r.noReadBefore); m.now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// serve uses one free slot of the cluster (the right to have one request in flight) for the route:
// it fetches from the spool, sends a payload that is in memory, or sends a probe. Memory and spool
// take turns: r.replayed says that the spool had the last one. It does nothing if the route has
// nothing to send any more.
func (m *Machine) serve(r *route) {
	if ready, _, _ := m.ready(r); !ready {
		return
	}
	replay, _ := m.replayable(r)
	retry, _ := r.retries.due(m.now)
	inHand := r.fresh.len() > 0 || retry
	if r.blocked() {
		inHand = r.probeable()
	}
	if r.replayed = replay && (!inHand || !r.replayed); r.replayed {
		m.occupy(r)
		m.ticket(r)
		return
	}
	switch {
	case r.blocked():
		m.send(m.probe(r))
	case retry:
		m.send(r.retries.pop())
	default:
		m.send(r.fresh.pop())
	}
}

// probe removes the payload for the next probe from the queues of a route that is down or held, and
// returns it: the candidate, which was kept in memory for that, or the payload whose last request
// is the oldest. The route must have a payload in memory.
func (m *Machine) probe(r *route) *Payload {
	if p := r.candidate; p != nil {
		r.dropCandidate()
		r.queued++ // send subtracts it again
		return p
	}
	all := m.empty(r)
	oldest := 0
	for i, p := range all {
		if p.asked.Before(all[oldest].asked) {
			oldest = i
		}
	}
	p := all[oldest]
	for i, other := range all {
		if i != oldest {
			m.requeue(other)
		}
	}
	r.queued++ // send subtracts it again
	return p
}

// ticket asks the shell (package sender, which does the I/O) to fetch a payload of the route from
// the spool, for a request slot that is already taken. If nothing else of the cluster is being
// replayed, the fetch may exceed the memory limit, so that a full memory cannot stop the replay.
func (m *Machine) ticket(r *route) {
	r.tickets++
	must := r.cluster.replaying == 0
	r.cluster.replaying++
	m.emit(Fetch{&Ticket{r}, must})
}

// occupy counts a slot of the route and its cluster as in use.
func (m *Machine) occupy(r *route) {
	r.inflight++
	r.cluster.inflight++
}

// vacate counts a slot of the route and its cluster as free again.
func (m *Machine) vacate(r *route) {
	r.inflight--
	r.cluster.inflight--
}

// send starts what is next for a payload that was taken out of a queue. Usually it takes a slot and
// makes a request. A payload that waits for quarantine is written there, and one that is larger than
// the service takes is divided; neither needs a slot.
func (m *Machine) send(p *Payload) {
	p.route.queued--
	if p.stage == Refused {
		m.quarantine(p, p.refusal)
		return
	}
	if m.isOver(p) {
		m.divide(p)
		return
	}
	m.occupy(p.route)
	m.request(p)
}

// request asks the shell (package sender, which does the I/O) to make a request for a payload, in a
// slot that is already taken. A payload that fails alone is bound: it also uses one of the few
// slots for such payloads. As a probe it does not, since the circuit breaker sets the pace of
// probes.
func (m *Machine) request(p *Payload) {
	p.stage = Sending
	p.asked, p.refusal = time.Time{}, nil
	if p.bound = p.suspect() && !p.route.blocked(); p.bound {
		p.route.cluster.bind(p)
	}
	m.emit(Request{p})
}

// released undoes what a request counts while it is in flight: its slot, the slot for payloads that
// fail alone if it is bound to one, and patience if it is watched for that. It is called once at
// the end of each request; accepted says that the service stored the payload.
func (m *Machine) released(p *Payload, accepted bool) {
	r, c := p.route, p.route.cluster
	if !p.asked.IsZero() {
		c.underway--
	}
	if p.bound {
		p.bound = false
		c.suspects--
		switch {
		case accepted:
			c.redeem()
		case !p.asked.IsZero():
			c.distrust(m.now, m.now.Sub(p.asked))
		}
	}
	if p.watched {
		p.watched = false
		r.asking--
		c.asking--
	}
	m.vacate(r)
}

// enqueue has a payload wait in the queues of its route: in the stage Refused if its records wait
// for room in quarantine, otherwise as Queued. Once Keep was handled, at the end of a run, the
// payload is brought to the spool instead.
func (m *Machine) enqueue(p *Payload) {
	if p.stage = Queued; p.refusal != nil {
		p.stage = Refused
	}
	if m.phase == keeping {
		m.keepOne(p)
		return
	}
	m.requeue(p)
}

// requeue adds a payload to the queue of its route where it belongs: payloads that fail alone, those
// whose retry is not due yet, or those that may be sent at once. Its stage does not change.
func (m *Machine) requeue(p *Payload) {
	r := p.route
	r.queued++
	switch {
	case p.suspect():
		r.suspects.push(p)
		m.replaced(r)
	case m.now.Before(p.notBefore):
		r.retries.push(p)
		m.replaced(r)
	default:
		r.fresh.push(p)
	}
}

// replaced wakes the readers of a route that is neither down nor held, after a payload of it began to
// wait for its next attempt: the route may then have another payload in hand.
func (m *Machine) replaced(r *route) {
	if !r.cluster.blocked() && !r.blocked() {
		m.emit(Wake{r.name})
	}
}

// queueFirst puts a payload at the head of the queue of its route. A payload that fails alone,
// waits for room in quarantine, or comes after Keep, at the end of a run, goes where enqueue puts
// it.
func (m *Machine) queueFirst(p *Payload) {
	if p.suspect() || p.refusal != nil || m.phase == keeping {
		m.enqueue(p)
		return
	}
	p.stage = Queued
	p.route.queued++
	p.route.fresh.unpop(p)
}

func (r *route) dropCandidate() {
	r.candidate = nil
	r.cluster.candidates--
}
