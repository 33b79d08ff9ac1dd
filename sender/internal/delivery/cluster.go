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

// open reports whether a request may be sent to the cluster now: a slot is free, the cluster is not
// paused and, if it is down or held, a probe is due and none is in flight.
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

// suspectSlots returns how many slots (requests in flight at a time) payloads that fail alone may
// use: a sixteenth of the slots, at least one, doubled for each such payload that was accepted
// after all, until one fails again.
func (c *cluster) suspectSlots() int {
	return min(max(1, c.limit/suspectShare)<<c.leniency, c.limit)
}

// trusts reports whether a payload that fails alone may be sent now: a slot for such payloads is free,
// and the pause after the last failure of one is over.
func (c *cluster) trusts(now time.Time) bool {
	return c.suspects < c.suspectSlots() && !now.Before(c.rested)
}

// promise reserves the next free slot for suspects (payloads that fail alone) for one payload of the
// spool. Payloads of the spool come at times of their own, so that without a reservation one that
// never finds a slot free could wait for as long as there are others.
type promise struct {
	frame  record.BatchID // the payload for which it is
	passed int            // how often that payload was turned away
	until  time.Time      // zero, or in the past: nothing is reserved
}

// promiseAfter is how often a suspect is turned away before it is promised a slot.
const promiseAfter = 3

// promised reports whether a slot for suspects is reserved at this time.
func (c *cluster) promised(now time.Time) bool { return now.Before(c.promise.until) }

// admits reports whether p, which came out of the spool and fails alone (while others of its route
// are accepted), may be sent now: a slot for such payloads is free, and is not reserved for another
// payload.
func (c *cluster) admits(p *Payload, now time.Time) bool {
	return c.trusts(now) && (!c.promised(now) || c.promise.frame == p.Frame)
}

// passOver handles a payload that fails alone, came out of the spool and finds no free slot for
// such payloads. It returns the time until which the payload is to wait in the spool: wait from
// now, or less if it now has the reservation of the next slot. p.passed counts how often a payload
// was turned away. The reservation goes to the one with the highest count, at least promiseAfter,
// and lapses if it does not come back in time. While payloads of this kind also wait in memory,
// every other slot is theirs.
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

// bind counts a request of a payload that fails alone (while others are accepted), which uses a
// slot for such payloads. A reservation of a slot for this payload ends. fromDisk notes whether the
// payload came out of the spool, so that spool and memory take turns.
func (c *cluster) bind(p *Payload) {
	c.suspects++
	p.passed = 0
	c.fromDisk = p.replayed
	if c.promise.frame == p.Frame {
		c.promise = promise{}
	}
}

// redeem is called after a payload that failed alone was accepted: the pause of such payloads ends,
// and they may use twice as many slots (leniency counts the doublings), up to all of them.
func (c *cluster) redeem() {
	c.rested = time.Time{}
	if c.suspectSlots() < c.limit {
		c.leniency++
	}
}

// distrust is called when a suspect, a payload that keeps failing while others are accepted, has
// failed again in a request that took d. From then on suspects use at most one slot in
// suspectShare. If the cluster has fewer slots than that, one slot is more than the share, so the
// next suspect also waits: on average suspects then take no more than 1/suspectShare of the time
// of all slots.
func (c *cluster) distrust(now time.Time, d time.Duration) {
	c.leniency = 0
	slots := max(1, c.limit/suspectShare)
	if wait := d*time.Duration(suspectShare*slots)/time.Duration(c.limit) - d; wait > 0 {
		c.rested = later(c.rested, now.Add(wait))
	}
}

// smooth counts an acceptance, which ends a pause after throttling. If the number of slots is
// configured and throttling has lowered it, every tenth acceptance raises it by one.
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

// throttle lowers the number of slots after a 429: to half, or as the finder says, which searches
// for the best number if none is configured. began is when the throttled request began. A request
// that began before the number was last lowered changes nothing, so that requests throttled
// together count once.
func (c *cluster) throttle(began, now time.Time) {
	if !began.After(c.throttled) {
		return
	}
	c.throttled = now
	if f := c.finder; f != nil {
		f.throttled(c.underway+1, now) // one more: the throttled request is not counted any longer
		c.limit = f.limit
		return
	}
	c.limit, c.streak = max(c.limit/2, 1), 0
}

// measure gives the latency of an accepted request, which began at the time began, to the finder,
// if the number of slots is found automatically, and takes over the new number. It must be called
// before the slot of the request is freed.
func (c *cluster) measure(began, now time.Time) {
	if f := c.finder; f != nil {
		// A route waits for a slot, and requests use three quarters of them: the slots limit the rate.
		f.accepted(began, now, c.ready.len() > 0 && 4*c.underway >= 3*c.limit)
		c.limit = f.limit
	}
}

// setMost sets the number of slots from the configuration. Found has the cluster search for a
// good number, and changes nothing if it searches already. A fixed number applies at once if the
// cluster was searching, if the number is lower than the present one, or if throttling has not
// lowered the present one. Otherwise the present number rises to it as requests succeed.
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

// due returns the next time at which something of the cluster has to be done without another event:
// patience ends, a route is to be looked at, or a request that waits may be sent because a pause,
// the time before a probe, or a reservation ends. Zero: nothing has to be done.
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

// trip sets every cluster down that has accepted nothing for as long as patience. It runs before
// the event is handled, so that the notice about the cluster comes before those about its routes.
// The search for the best number of slots begins anew.
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

// goDown marks a route or cluster as down and sets the time of the first probe, after one backoff.
func (m *Machine) goDown(b *breaker) {
	b.down, b.probes = true, 1
	b.gate = later(b.gate, m.now.Add(m.delay(1)))
}

// pump looks at the routes whose time has come and then uses the free slots of a cluster for
// requests. Routes that have something to send take turns. Those with a payload that fails alone
// come first, unless the next slot for such payloads is reserved for one of the spool.
func (m *Machine) pump(c *cluster) {
	for len(c.alarms) > 0 && !m.now.Before(c.alarms[0].alarm) {
		m.look(heap.Pop(&c.alarms).(*route))
	}
	for m.phase == serving && c.open(m.now) {
		if c.careful.len() > 0 && !c.blocked() && c.trusts(m.now) && !c.promised(m.now) {
			r := c.careful.pop()
			r.inCareful = false
			if _, careful, _ := m.ready(r); careful { // the retry of its payload is still due
				m.send(r.suspects.pop())
			}
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

// setAlarm makes sure that the route is looked at no later than the given time. It keeps an earlier
// time that was set before. r.at is the index of the route in the heap of alarms; negative: it is
// not there.
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
