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

	stock   Stock
	tickets int
	unread  time.Time // nothing is read from the spool before

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
	failures, strikes int
	passed            int
	failedAt          uint64 // route.accepted at its last failure
	round             int    // of probes in which it was tried
	uncertain         bool   // the outcome of one of its requests is unknown
}

// maxMemos bounds what is remembered for a route. What is beyond is taken for a
// payload that has not failed.
const maxMemos = 4096

func (r *route) blocked() bool { return r.breaker.blocked() || r.cluster.blocked() }

func (r *route) isDown() bool { return r.down || r.cluster.down }

// look follows up a change of a route: it opens the route's breaker if patience is over,
// moves payloads to the spool if they belong there, enters the route among those that are
// served, and sets its next alarm.
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

// ready reports whether a route has a payload to send now, and whether it has a suspect (a
// payload that fails for its own reason) to send. at is when that changes by time; zero:
// it does not.
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
	ready = replay || r.fresh.len() > 0
	if len(r.retries) > 0 {
		if next := r.retries[0].notBefore; m.now.Before(next) {
			at = earlier(at, next)
		} else {
			ready = true
		}
	}
	if len(r.suspects) > 0 {
		if next := r.suspects[0].notBefore; m.now.Before(next) {
			at = earlier(at, next)
		} else {
			careful = true
		}
	}
	return ready, careful, at
}

// probeable reports whether a payload in hand can be the next probe.
func (r *route) probeable() bool {
	return r.candidate != nil || r.fresh.len()+len(r.retries)+len(r.suspects) > 0
}

// replayable reports whether a payload of the route may be fetched from the spool now, or
// else when.
func (m *Machine) replayable(r *route) (bool, time.Time) {
	switch {
	case m.draining:
		return false, time.Time{}
	case r.stock.Ready > r.tickets:
		if m.now.Before(r.unread) {
			return false, r.unread
		}
		return true, time.Time{}
	case r.stock.Next.IsZero() || r.tickets > 0:
		return false, time.Time{}
	}
	if at := later(r.stock.Next, r.unread); m.now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// serve uses one slot for a route: by turns for a payload in memory and for one in the
// spool. If there is none any more, it does nothing.
func (m *Machine) serve(r *route) {
	if ready, _, _ := m.ready(r); !ready {
		return
	}
	replay, _ := m.replayable(r)
	inHand := r.fresh.len() > 0 || len(r.retries) > 0 && !m.now.Before(r.retries[0].notBefore)
	if r.blocked() {
		inHand = r.probeable()
	}
	if r.replayed = replay && (!inHand || !r.replayed); r.replayed {
		m.issue(r)
		return
	}
	switch {
	case r.blocked():
		m.send(m.probe(r))
	case len(r.retries) > 0 && !m.now.Before(r.retries[0].notBefore):
		m.send(r.retries.pop())
	default:
		m.send(r.fresh.pop())
	}
}

// serveSuspect uses one slot for a suspect of the route that is due.
func (m *Machine) serveSuspect(r *route) {
	if _, careful, _ := m.ready(r); careful {
		m.send(r.suspects.pop())
	}
}

// probe takes the payload with which a route is probed out of its queues: the newest one
// that is also safe in the spool, else the one whose last attempt is longest ago.
func (m *Machine) probe(r *route) *Payload {
	if p := r.candidate; p != nil {
		r.dropCandidate()
		r.queued++ // send takes it out of a queue
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
	r.queued++ // send takes it out of a queue
	return p
}

// issue takes a slot for a payload that the shell is asked to fetch from the spool.
func (m *Machine) issue(r *route) {
	m.occupy(r)
	m.ticket(r)
}

// ticket asks the shell to fetch a payload of the route from the spool. If it is the only
// one under way for the cluster, memory must be found for it.
func (m *Machine) ticket(r *route) {
	r.tickets++
	must := r.cluster.replaying == 0
	r.cluster.replaying++
	m.emit(Fetch{&Ticket{r}, must})
}

func (m *Machine) occupy(r *route) {
	r.inflight++
	r.cluster.inflight++
}

func (m *Machine) vacate(r *route) {
	r.inflight--
	r.cluster.inflight--
}

// send uses a slot for a payload that was taken out of a queue. Two kinds make no request
// and need no slot: a payload that waits for quarantine, and one that is larger than the
// service takes, which is divided.
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

// request emits the request of a payload, for which a slot is taken. A probe of a blocked
// route does not count as a suspect, whatever its payload is.
func (m *Machine) request(p *Payload) {
	p.stage = Sending
	p.asked, p.refusal = time.Time{}, nil
	if p.bound = p.suspect() && !p.route.blocked(); p.bound {
		p.route.cluster.bind(p)
	}
	m.emit(Request{p})
}

// released frees the slot of a request and takes the request out of the counts.
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

// enqueue puts a payload into the queue it belongs to; while the agent stops, it is kept
// in the spool instead.
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

// requeue puts a payload into a queue of its route: suspects, retries that wait for their
// time, or fresh ones.
func (m *Machine) requeue(p *Payload) {
	r := p.route
	r.queued++
	switch {
	case p.suspect():
		r.suspects.push(p)
	case m.now.Before(p.notBefore):
		r.retries.push(p)
	default:
		r.fresh.push(p)
	}
}

// queueFirst makes a payload the next one of its route, if it may be sent as it is.
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
