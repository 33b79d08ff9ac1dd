package delivery

import (
	"container/heap"
	"time"

	"kusto-agent/internal/record"
)

// cluster is one service: its slots, and the routes that have something to send.
type cluster struct {
	breaker
	name, url  string
	served     bool // there is a client for it
	configured bool // it is named; else it only takes what is left for it

	most     int     // slots, as configured
	limit    int     // the same, lowered by throttling, or what finder says
	finder   *finder // finds the slots out; nil: they are configured
	streak   int     // acceptances since the limit last changed
	inflight int     // slots in use
	underway int     // of these by requests that have left
	suspects int     // of these by payloads that fail alone
	leniency int     // how often the slots of these are doubled
	promise  promise
	fromDisk bool // the last suspect that was sent came out of the spool

	accepted  uint64    // payloads
	throttled time.Time // when the limit was last lowered
	throttler *route    // the route that was throttled last; nil: something was accepted since
	paused    time.Time // all routes are throttled until then
	rested    time.Time // no suspect is sent before
	renewed   time.Time // when a token was last refused and a fresh one asked for
	renewal   uint64    // accepted at that time

	replaying  int // payloads and tickets out of the spool
	candidates int // routes that have, or will have, one in hand while they are down

	routes  []*route
	ready   queue[*route] // have something to send, by turns
	careful queue[*route] // have a suspect to send, by turns
	alarms  alarms        // of routes
}

// open reports whether a request may be made now: a slot is free, and the breaker is
// closed or due for a probe.
func (c *cluster) open(now time.Time) bool {
	switch {
	case !c.served || c.inflight >= c.limit || now.Before(c.paused):
		return false
	case c.blocked():
		return c.inflight == 0 && !now.Before(c.gate)
	}
	return true
}

// suspectShare is the part of its slots, one in so many, that a cluster leaves to
// payloads that fail alone.
const suspectShare = 16

// suspectSlots is how many slots payloads that fail alone may use at a time: few,
// but more as long as such payloads are accepted after all.
func (c *cluster) suspectSlots() int {
	return min(max(1, c.limit/suspectShare)<<c.leniency, c.limit)
}

// trusts reports whether a suspect may be sent now.
func (c *cluster) trusts(now time.Time) bool {
	return c.suspects < c.suspectSlots() && !now.Before(c.rested)
}

// promise keeps the next slot for suspects for a payload of the spool. Each of these
// comes at its own time, and without it one that never finds a slot free may wait for as
// long as there are others.
type promise struct {
	frame  record.BatchID
	passed int
	until  time.Time // zero, or over: there is none
}

// promiseAfter is how often a suspect is turned away before it is promised a slot.
const promiseAfter = 3

func (c *cluster) promised(now time.Time) bool { return now.Before(c.promise.until) }

// admits reports whether a suspect that came out of the spool may be sent now.
func (c *cluster) admits(p *Payload, now time.Time) bool {
	return c.trusts(now) && (!c.promised(now) || c.promise.frame == p.Frame)
}

// passOver decides how long a suspect (a payload that fails for its own reason) rests in
// the spool because it gets no slot now. The suspect that was turned away most often is
// promised the next slot. If suspects in memory wait too, they get every second slot.
func (c *cluster) passOver(p *Payload, now time.Time, wait time.Duration, s Settings) time.Time {
	held := c.promised(now)
	if !held || c.promise.frame != p.Frame {
		p.passed++
		if p.passed < promiseAfter || held && p.passed <= c.promise.passed || c.fromDisk && c.careful.len() > 0 {
			return later(c.rested, now.Add(wait))
		}
	}
	at := later(c.rested, now.Add(min(wait, 4*s.Initial)))
	c.promise = promise{p.Frame, p.passed, at.Add(s.Max)}
	return at
}

// bind counts a suspect whose request is sent.
func (c *cluster) bind(p *Payload) {
	c.suspects++
	p.passed = 0
	c.fromDisk = p.replayed
	if c.promise.frame == p.Frame {
		c.promise = promise{}
	}
}

// redeem notes that a suspect was accepted: suspects need not rest, and get one more slot.
func (c *cluster) redeem() {
	c.rested = time.Time{}
	if c.suspectSlots() < c.limit {
		c.leniency++
	}
}

// distrust notes that a suspect failed after a request of duration d. The next suspect
// waits so long that, over time, suspects use only their share of the slots.
func (c *cluster) distrust(now time.Time, d time.Duration) {
	c.leniency = 0
	slots := max(1, c.limit/suspectShare)
	if wait := d*time.Duration(suspectShare*slots)/time.Duration(c.limit) - d; wait > 0 {
		c.rested = later(c.rested, now.Add(wait))
	}
}

// smooth notes an acceptance: without the finder, ten acceptances in a row add one slot.
func (c *cluster) smooth() {
	c.accepted++
	c.throttler, c.paused = nil, time.Time{}
	if c.finder != nil || c.limit == c.most {
		return
	}
	if c.streak++; c.streak == 10 {
		c.limit, c.streak = c.limit+1, 0
	}
}

// throttle halves the number of slots, once for all requests that were under way at the
// 429.
func (c *cluster) throttle(began, now time.Time) {
	if !began.After(c.throttled) {
		return
	}
	c.throttled = now
	if f := c.finder; f != nil {
		f.throttled(c.underway+1, now)
		c.limit = f.limit
		return
	}
	c.limit, c.streak = max(c.limit/2, 1), 0
}

// measure gives the duration of an accepted request to the finder, while the request still
// has its slot.
func (c *cluster) measure(began, now time.Time) {
	if f := c.finder; f != nil {
		f.accepted(began, now, c.ready.len() > 0 && 4*c.underway >= 3*c.limit)
		c.limit = f.limit
	}
}

// setMost applies the configured number of slots; Found: the finder looks for the number
// that gives the most throughput.
func (c *cluster) setMost(configured int) {
	found := c.finder != nil
	switch {
	case configured == Found:
		if !found {
			c.finder, c.most = newFinder(), MostFound
			c.limit = c.finder.limit
		}
		return
	case found, c.limit == c.most, c.limit > configured:
		c.limit = configured
	}
	c.finder, c.most = nil, configured
}

// due is when the machine has to look at the cluster without another event; zero: never.
func (c *cluster) due(m *Machine) (at time.Time) {
	if len(c.alarms) > 0 {
		at = c.alarms[0].alarm
	}
	if !c.served {
		return at
	}
	at = earlier(at, c.deadline(m.settings.Patience))
	ready, careful := c.ready.len() > 0, c.careful.len() > 0 && !c.blocked()
	if m.phase != serving || !ready && !careful || c.inflight >= c.limit {
		return at
	}
	switch {
	case m.now.Before(c.paused):
		return earlier(at, c.paused)
	case c.blocked() && c.inflight > 0:
		return at
	case c.blocked():
		return earlier(at, c.gate)
	case !ready && m.now.Before(c.rested):
		return earlier(at, c.rested)
	case !ready && c.promised(m.now):
		return earlier(at, c.promise.until)
	}
	return at
}

// trip opens the breakers of clusters whose patience is over. It comes before any event of
// their routes.
func (m *Machine) trip() {
	for _, c := range m.order {
		at := c.deadline(m.settings.Patience)
		if !c.served || at.IsZero() || m.now.Before(at) {
			continue
		}
		m.goDown(&c.breaker)
		if c.finder != nil {
			c.finder.restart()
			c.limit = c.finder.limit
		}
		if c.hold == nil {
			m.emit(Notice{What: ClusterDown, Cluster: c.name, Last: c.last, Elapsed: m.now.Sub(c.wanted)})
		}
		for _, r := range c.routes {
			m.look(r)
		}
	}
}

func (m *Machine) goDown(b *breaker) {
	b.down, b.probes = true, 1
	b.gate = later(b.gate, m.now.Add(m.delay(1)))
}

// pump gives the free slots of a cluster to its routes in turns: first to suspects that
// are due, then to routes that have something to send.
func (m *Machine) pump(c *cluster) {
	for len(c.alarms) > 0 && !m.now.Before(c.alarms[0].alarm) {
		m.look(heap.Pop(&c.alarms).(*route))
	}
	for m.phase == serving && c.open(m.now) {
		if c.careful.len() > 0 && !c.blocked() && c.trusts(m.now) && !c.promised(m.now) {
			r := c.careful.pop()
			r.inCareful = false
			m.serveSuspect(r)
			m.look(r)
			continue
		}
		if c.ready.len() == 0 {
			return
		}
		r := c.ready.pop()
		r.inReady = false
		m.serve(r)
		m.look(r)
	}
}

// setAlarm makes the machine look at a route at the given time at the latest.
func (m *Machine) setAlarm(r *route, at time.Time) {
	c := r.cluster
	switch {
	case r.at < 0:
		r.alarm = at
		heap.Push(&c.alarms, r)
	case at.Before(r.alarm):
		r.alarm = at
		heap.Fix(&c.alarms, r.at)
	}
}
