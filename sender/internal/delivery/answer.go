package delivery

import (
	"strconv"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// take handles Take: it adds a new payload and queues it, or, if the payload must be in the spool
// before it is sent, queues it for that.
func (m *Machine) take(e Take) {
	r := m.route(e.Data.Route)
	p := &Payload{Data: e.Data, Place: Memory, stage: Queued, route: r}
	m.left++
	if e.Durable {
		r.queued++
		r.durable.push(p)
	} else {
		m.enqueue(p)
	}
	m.look(r)
}

// remove takes a payload that has ended, or lies in the spool now, out of the counts of payloads in
// hand, and ends the extra credit of its route for it. It changes no queue: the payload is in none.
func (m *Machine) remove(p *Payload) {
	m.left--
	p.unlend()
	if p.replayed {
		p.route.cluster.replaying--
	}
}

// asked handles Asked: the request of the payload leaves now. It notes the time and how many
// payloads the route has accepted so far. It starts the patience of the route and of the cluster,
// unless the payload has proven to fail alone, so that another failure of it would say nothing
// about them.
func (m *Machine) asked(p *Payload) {
	r := p.route
	p.asked, p.askedAt = m.now, r.accepted
	if p.first.IsZero() {
		p.first = m.now
	}
	if p.search != nil {
		p.search.requests++
	}
	r.cluster.underway++
	if p.watched = p.strikes < proven; p.watched {
		r.began(m.now)
		r.cluster.began(m.now)
	}
	m.look(r)
}

// proven is how many strikes show that a payload fails alone.
const proven = 2

// answered handles Answered: it frees the slot of the request and acts on the verdict. The payload is
// then being ended, divided or quarantined, goes back to the spool, or is queued again.
func (m *Machine) answered(p *Payload, ans *kusto.Answer) {
	r := p.route
	if ans.Verdict == kusto.Accepted {
		r.cluster.measure(p.asked, m.now)
	}
	m.released(p, ans.Verdict == kusto.Accepted)
	defer m.look(r)
	switch ans.Verdict {
	case kusto.Accepted:
		m.accept(p)
	case kusto.Throttled:
		m.throttled(p, ans)
	case kusto.Auth:
		m.auth(p, ans)
	case kusto.Hold:
		if m.isOwn(p) { // the route accepts others: this payload alone is refused
			m.failed(p, ans)
			return
		}
		m.hold(p, holdOf(ans), m.pause(r, ans))
	case kusto.TooLarge, kusto.BadData:
		if ans.Verdict == kusto.TooLarge && r.sizes.refuse(p.Data.RawBytes, m.now) {
			m.emit(Notice{What: SizeLearned, Cluster: r.cluster.name, Route: r.name, Batch: p.batch(), Answer: *ans, Count: r.sizes.largest(m.now)})
		}
		// Halving finds nothing in a single record, or where the service found no usable record at all.
		if p.Data.Records == 1 || ans.Verdict == kusto.BadData && ans.Err.Empty() {
			m.quarantine(p, ans)
			return
		}
		p.refusal = ans
		m.divide(p)
	case kusto.Unknown:
		p.uncertain = true
		m.failed(p, ans)
	default: // not sent, or to be tried again
		m.failed(p, ans)
	}
}

// accept ends a payload that the service stored, resets the failures of its route and cluster, and
// ends their pauses after throttling.
func (m *Machine) accept(p *Payload) {
	r, c := p.route, p.route.cluster
	r.accepted++
	r.records += uint64(p.Data.Records)
	r.last = m.now
	if p.asked.After(r.throttled) { // else it was sent before the 429, and does not show that the pause can end
		r.throttles, r.paused, r.longTold = 0, time.Time{}, false
	}
	r.sizes.accept(p.Data.RawBytes)
	c.smooth()
	m.end(p, record.Accepted)
	m.recovered(r)
}

// end puts a payload into the stage Ending and asks the shell (package sender, which does the I/O)
// to write its outcome to the journal and the spool. The payload stays in hand until the shell
// reports Ended.
func (m *Machine) end(p *Payload, how record.Outcome) {
	p.stage = Ending
	p.route.busy++
	p.route.forget(p)
	m.emit(End{p, how})
}

// ended handles Ended: the outcome of the payload is written, and the payload leaves the machine.
func (m *Machine) ended(p *Payload) {
	p.route.busy--
	m.remove(p)
	m.look(p.route)
}

// recovered closes the circuit breakers of a route and its cluster after an answer that shows that
// they work: the service stored a payload, or refused it for its content alone. If one of them was
// down or held, the readers are woken, and a route that had failures is logged as recovered.
func (m *Machine) recovered(r *route) {
	if r.failures > 0 {
		m.emit(Notice{What: RouteRecovered, Cluster: r.cluster.name, Route: r.name, Count: r.failures})
	}
	if r.succeeded(m.now) {
		m.emit(Wake{r.name})
	}
	m.clusterRecovered(r.cluster)
}

// clusterRecovered closes the circuit breaker of a cluster. If it was down or held, all routes of the
// cluster are woken and served again.
func (m *Machine) clusterRecovered(c *cluster) {
	if !c.served || !c.succeeded(m.now) {
		return
	}
	for _, r := range c.routes {
		m.emit(Wake{r.name})
		m.look(r)
	}
}

// isOwn reports whether a failure is the fault of the payload and says nothing about its route: the
// route accepted another payload since this request began or since this payload failed before. It
// is also true once that was so at as many failures of this payload as proven says.
func (m *Machine) isOwn(p *Payload) bool {
	r := p.route
	return r.accepted > p.askedAt || p.failures > 0 && r.accepted > p.failedAt || p.strikes >= proven
}

// failed handles a request that may be made again. A failure that is the payload's own, since the
// route accepts others, counts against the payload and not for patience; any other counts against
// the route and cluster. The payload waits for a backoff, or for the Retry-After of the answer if
// that is longer, in memory or in the spool. Once it has failed long enough by itself it is marked
// as failing alone.
func (m *Machine) failed(p *Payload, ans *kusto.Answer) {
	r, c := p.route, p.route.cluster
	own := m.isOwn(p)
	asked := min(ans.RetryAfter, MaxPause)
	p.failures++
	p.failedAt = r.accepted
	if own {
		p.strikes++
		r.excuse(p.asked, m.now)
		c.excuse(p.asked, m.now)
		m.closeGates(r, ans, asked)
	} else {
		asked = m.pause(r, ans)
		m.blame(p, ans, asked)
	}
	p.notBefore = m.now.Add(max(m.delay(p.failures), asked))
	if p.strikes > 0 && m.enough(p) && !r.isAlone(p) {
		r.setAlone(p)
		m.emit(Notice{What: FailingAlone, Cluster: c.name, Route: r.name, Batch: p.batch(), Answer: *ans})
	}
	m.putBack(p)
}

// blame counts a failure against the route and the cluster, and delays the next probe if they are
// down. It emits the notice Retrying, unless the last notice was about the same verdict, status and
// code. asked is the delay that the service asked for; 0: none.
func (m *Machine) blame(p *Payload, ans *kusto.Answer, asked time.Duration) {
	r, c := p.route, p.route.cluster
	r.failures++
	c.failures++
	m.closeGates(r, ans, asked)
	what := ans.Verdict.String() + " " + strconv.Itoa(ans.Status)
	if ans.Err != nil {
		what += " " + ans.Err.Code
	}
	everywhere := ans.Verdict == kusto.NotSent || ans.Verdict == kusto.Auth // no connection or token: the same for all routes
	if r.told == what || everywhere && c.told == what {
		return
	}
	r.told, c.told = what, what
	if ans.Err != nil {
		r.breaker.last, c.last = ans.Err, ans.Err
	}
	m.emit(Notice{What: Retrying, Cluster: c.name, Route: r.name, Batch: p.batch(), Answer: *ans})
}

// tokenPause is how long at most nobody asks for a token that is not to be had now: as
// long as the authority itself is left alone.
const tokenPause = 15 * time.Second

// again returns how long to wait after n failures in a row, the last with the answer ans: the backoff,
// at most tokenPause if there is no token at present, and at least asked, the delay that the service
// asked for.
func (m *Machine) again(n int, ans *kusto.Answer, asked time.Duration) time.Duration {
	wait := m.delay(n)
	if ans.Verdict == kusto.Auth && ans.Token() == kusto.TokenLater {
		wait = min(wait, tokenPause)
	}
	return max(wait, asked)
}

// closeGates is called after a request failed with the answer ans. If the route or its cluster is
// down, it counts a failed probe and delays the next one, by asked at least, the delay that the
// service asked for.
func (m *Machine) closeGates(r *route, ans *kusto.Answer, asked time.Duration) {
	for _, b := range []*breaker{&r.breaker, &r.cluster.breaker} {
		if b.down {
			b.probes++
			b.gate = m.now.Add(m.again(b.probes, ans, asked))
		}
	}
}

// pause has the route wait for the Retry-After of an answer, and returns that delay, cut to MaxPause;
// 0 if there is none.
func (m *Machine) pause(r *route, ans *kusto.Answer) time.Duration {
	wait := min(ans.RetryAfter, MaxPause)
	if ans.RetryAfter > MaxPause && !r.longTold {
		r.longTold = true
		m.emit(Notice{What: LongRetryAfter, Cluster: r.cluster.name, Route: r.name, Answer: *ans})
	}
	if wait > 0 {
		r.paused = later(r.paused, m.now.Add(wait))
	}
	return wait
}

// enough reports whether a failing payload has had three attempts, and has failed for as long as
// patience in this run or came out of the spool, so that it may wait in the spool.
func (m *Machine) enough(p *Payload) bool {
	const attempts = 3
	return p.Data.Attempt >= attempts && (p.replayed || m.now.Sub(p.first) >= m.settings.Patience)
}

// throttled handles a 429: it lowers the number of slots of the cluster and pauses the route,
// longer each time. If two routes are throttled with no acceptance between, the whole cluster
// pauses. The payload waits for its route; it does not count as failed.
func (m *Machine) throttled(p *Payload, ans *kusto.Answer) {
	r, c := p.route, p.route.cluster
	c.throttle(p.asked, m.now)
	asked := m.pause(r, ans)
	if p.asked.After(r.throttled) { // requests that are throttled together count once
		r.throttled = m.now
		if r.throttles++; r.throttles > 1 {
			r.paused = later(r.paused, m.now.Add(m.delay(r.throttles)))
		}
	}
	if c.throttler != nil && c.throttler != r {
		c.paused = later(c.paused, earlierOf(r.paused, c.throttler.paused))
	}
	c.throttler = r
	if r.accepted == p.askedAt { // the route accepted nothing since this request began
		m.blame(p, ans, asked)
	}
	p.notBefore = later(r.paused, m.now.Add(m.delay(max(r.throttles, 1))))
	m.putBack(p)
}

// earlierOf returns the earlier of two times. Unlike in earlier, the zero time is the earliest.
func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// renewEvery is how often a cluster that accepts payloads gets a fresh token for
// one that was refused.
const renewEvery = 30 * time.Second

// auth handles a refused or missing token. If the token may be stale, the request is made once more
// at once with a fresh one. A fresh token that is refused too, or a fault in the credentials, holds
// the cluster, since all its routes use the same token. If there is no token just now, or others
// are accepted with this token, the payload is retried like after any failure.
func (m *Machine) auth(p *Payload, ans *kusto.Answer) {
	r, c := p.route, p.route.cluster
	works := c.accepted > c.renewal // something was accepted since the token was last renewed
	switch {
	case ans.Token() == kusto.TokenLater:
		m.failed(p, ans) // there is none now
	case ans.Status == 0: // no request was made: the credentials are at fault
		m.holdCluster(p, ans, holdCredentials)
	case c.renewed.IsZero(), p.asked.Before(c.renewed), works && m.now.Sub(c.renewed) >= renewEvery:
		if !p.asked.Before(c.renewed) { // else the token was renewed since this request began
			c.renewed, c.renewal = m.now, c.accepted
		}
		if m.phase != serving {
			m.queueFirst(p)
			return
		}
		m.occupy(r) // answered has freed the slot
		m.request(p)
	case works:
		m.failed(p, ans) // it is refused for this request alone
	default:
		m.holdCluster(p, ans, 0)
	}
}

// holdCluster counts a refusal of the token against the cluster, which then sends only probes, the
// next one not sooner than least or the service's Retry-After. The payload is queued again, or goes
// back to the spool.
func (m *Machine) holdCluster(p *Payload, ans *kusto.Answer, least time.Duration) {
	c := p.route.cluster
	h := holdOf(ans)
	if c.refuse(m.now, h, max(least, min(ans.RetryAfter, MaxPause)), m.jitter) {
		m.emit(Notice{What: ClusterHeld, Cluster: c.name, Hold: h})
	}
	p.notBefore = m.now
	m.putBack(p)
}

// holdOf returns the status, code, message and advice of an answer as the reason of a hold. Since is
// left zero.
func holdOf(ans *kusto.Answer) Hold {
	h := Hold{Status: ans.Status, Fix: ans.Hint, Activity: ans.ActivityID}
	if ans.Err != nil {
		h.Code, h.Message, h.Refused = ans.Err.Code, ans.Err.Message, ans.Err.Refused()
	}
	return h
}

// hold counts a refusal that a person has to fix against the route of p, which then
// sends only probes. asked is the delay that the service asked for; 0: none. The payload
// is kept: it is queued again, or goes back to the spool.
func (m *Machine) hold(p *Payload, h Hold, asked time.Duration) {
	r, c := p.route, p.route.cluster
	p.failures++
	p.failedAt = r.accepted
	if r.refuse(m.now, h, asked, m.jitter) {
		m.emit(Notice{What: RouteHeld, Cluster: c.name, Route: r.name, Hold: h})
	}
	if h.Status != 0 || h.Local {
		m.clusterRecovered(c) // the service answered: it is the route that is refused
	}
	p.notBefore = m.now.Add(m.delay(p.failures))
	if p.refusal != nil { // it waits for room in quarantine, and no request is made for it
		m.enqueue(p)
		return
	}
	m.putBack(p)
}

// divide asks the shell (package sender, which does the I/O) to halve a payload that was refused or
// is too large. The payload stays in hand until the shell reports Divided or NotDivided.
func (m *Machine) divide(p *Payload) {
	p.stage = Bisecting
	p.route.busy++
	m.emit(Divide{p})
}

// divided handles Divided: the halves take the place of their payload at the head of the queue of
// its route, the first half first, and the payload leaves the machine. The halves of a refused
// payload share one search, which counts the requests that are made to find the bad records.
func (m *Machine) divided(p *Payload, halves []*record.Payload) {
	r := p.route
	r.busy--
	if p.search == nil && p.refusal != nil {
		p.search = &search{}
	}
	if p.refusal != nil && p.refusal.Verdict == kusto.BadData && !p.search.told { // else it was too large, which SizeLearned tells
		p.search.told = true
		m.emit(Notice{What: Searching, Cluster: r.cluster.name, Route: r.name, Batch: p.batch(), Answer: *p.refusal})
	}
	if p.uncertain { // it may be stored, and the halves are sent under ids of their own
		m.emit(Notice{What: UnknownReplaced, Cluster: r.cluster.name, Route: r.name, Batch: p.batch()})
	}
	for i := len(halves) - 1; i >= 0; i-- {
		h := &Payload{Data: halves[i], Place: Memory, route: r, search: p.search}
		if p.Place.InSpool() {
			h.Place, h.Frame = Spooled, halves[i].ID
		}
		m.left++
		m.queueFirst(h)
	}
	r.forget(p)
	m.remove(p)
	if p.refusal != nil { // the service has answered
		m.recovered(r)
	}
	m.look(r)
}

// notDivided handles NotDivided; why is the reason, and err the error if the reason is Failed. A
// refused payload goes to quarantine if it cannot be divided (IsWhole) and is retried later if the
// spool has no room for the halves; any other failure holds the route. A payload that was to be
// divided before its first request, p.refusal is nil, is sent undivided.
func (m *Machine) notDivided(p *Payload, why Indivisible, err error) {
	r := p.route
	r.busy--
	defer m.look(r)
	if p.refusal == nil {
		p.asIs = true
		m.queueFirst(p)
		return
	}
	switch why {
	case IsWhole:
		p.parts = IsWhole
		m.quarantine(p, p.refusal)
	case SpoolFull: // the spool logs why
		p.failures++
		p.failedAt = r.accepted
		p.notBefore = m.now.Add(m.delay(p.failures))
		p.refusal = nil // another request is made, whose answer decides anew
		m.recovered(r)
		m.putBack(p)
	default:
		p.refusal = nil
		m.hold(p, Hold{Local: true, Code: "split", Message: err.Error(), Fix: "the batch cannot be taken apart; please report this"}, 0)
	}
}

// quarantine asks the shell (package sender, which does the I/O) to write the records of a refused
// payload to quarantine. The payload stays in hand until the shell reports Quarantined or
// NotQuarantined.
func (m *Machine) quarantine(p *Payload, ans *kusto.Answer) {
	p.refusal = ans
	p.stage = Quarantining
	p.route.busy++
	m.emit(Quarantine{p, *ans})
}

// quarantined handles Quarantined: the records are durable in quarantine, and the payload is ended
// with that outcome.
func (m *Machine) quarantined(p *Payload) {
	r := p.route
	r.busy--
	m.end(p, record.Quarantined)
	m.recovered(r)
	m.look(r)
}

// notQuarantined handles NotQuarantined; err is why. A payload of several records is divided, since
// there may be room for some of them. Otherwise the payload waits and is tried again. Its route is
// held meanwhile, unless the route accepted others since the payload failed before.
func (m *Machine) notQuarantined(p *Payload, err error) {
	r := p.route
	r.busy--
	defer m.look(r)
	if p.Data.Records > 1 && p.parts != IsWhole {
		m.divide(p) // there may be room for some
		return
	}
	waited := p.failures > 0 && r.accepted > p.failedAt
	if waited {
		p.failures++
		p.failedAt = r.accepted
		p.notBefore = m.now.Add(holdFirst + m.jitter(holdFirst/10))
		m.enqueue(p)
		return
	}
	m.hold(p, Hold{Local: true, Code: "quarantine", Message: err.Error(),
		Fix: "make room for quarantine (quarantine.max_size, the disk of state_dir) or remove what is no longer needed"}, 0)
}

// brokenOff handles BrokenOff: the stop of the sender canceled the request, or it was never made.
// No more requests are made, and the payload waits at the head of its queue until Keep brings it to
// the spool. unknown says that the body was sent, so that the service may have stored it.
func (m *Machine) brokenOff(p *Payload, unknown bool) {
	m.released(p, false)
	m.phase = max(m.phase, halted)
	p.broken = p.broken || unknown
	m.queueFirst(p)
	m.look(p.route)
}
