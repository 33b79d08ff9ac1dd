package delivery

import (
	"cmp"
	"slices"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// Progress sums up what is left to send.
type Progress struct {
	Left     int  // payloads in hand, not ended
	Spooled  int  // payloads in the spool for clusters that are served
	Fetching int  // slots that payloads of the spool are being read into: on the way, those are counted nowhere else
	Stuck    bool // all of them wait for a route or cluster that is down or held
	Refused  bool // a token or a route was refused, or there is no token
	Down     bool // another route with payloads does not accept
}

// Progress returns what is left to send. A route counts as refused if it or its cluster is held
// because the token or the permission of the agent was refused. It counts as down if it or its
// cluster is down, or held for as long as patience, or if all its payloads fail alone (while others
// were accepted) and it accepted nothing for patience. waiting returns how many payloads of a route
// lie in the spool.
func (m *Machine) Progress(now time.Time, patience time.Duration, waiting func(record.Route) int) Progress {
	p := Progress{Left: m.left}
	moving := m.spilling > 0
	for _, r := range m.all {
		inHand, rests := r.inHand(), waiting(r.name)
		if inHand+rests == 0 {
			continue
		}
		p.Spooled += rests
		p.Fetching += r.tickets
		refused, down := r.verdict(now, patience)
		down = down || !refused && inHand+rests <= len(r.alone) && now.Sub(r.last) >= patience
		p.Refused = p.Refused || refused
		p.Down = p.Down || down
		moving = moving || !refused && !down && (inHand > 0 || !m.draining) // draining: the spool is not read
	}
	p.Stuck = p.Left+p.Spooled > 0 && !moving
	return p
}

// Left is how many payloads are in hand, and how many of them on their way to the
// spool.
func (m *Machine) Left() (all, spilling int) { return m.left, m.spilling }

// inHand returns how many payloads of the route are in memory or in flight. It also counts request
// slots into which a payload of the spool is being read, and the candidate: the payload that stays
// in memory as the next probe while the route is down.
func (r *route) inHand() int {
	n := r.queued + r.inflight + r.busy
	if r.candidate != nil {
		n++
	}
	return n
}

// verdict returns whether sending to the route can be given up for now. refused: the route or its
// cluster is held because the token or the permission of the agent was refused. down: one of them
// is down, or held for as long as patience. At most one of the two is true.
func (r *route) verdict(now time.Time, patience time.Duration) (refused, down bool) {
	for _, b := range []*breaker{&r.breaker, &r.cluster.breaker} {
		if h := b.hold; h != nil {
			if h.Refused {
				return true, false
			}
			down = down || now.Sub(h.Since) >= patience
		}
		down = down || b.down
	}
	return false, down
}

// reason returns why a route or cluster is not up, in the form of a Hold: its hold if it is held;
// otherwise, if it is down or its last requests failed, since when and with which error. It is nil
// for one that is up.
func (b *breaker) reason() *Hold {
	if b.hold != nil || !b.down && b.failures == 0 {
		return b.hold
	}
	e := cmp.Or(b.last, NoAnswerYet)
	return &Hold{
		Since: b.wanted, Status: e.Status, Code: e.Code, Message: cmp.Or(e.Message, e.Error()), Activity: e.ActivityID,
		Fix: cmp.Or(e.Hint, RetryFix(kusto.Retry)),
	}
}

// NoAnswerYet is why a route or cluster is down of which no request has ended.
var NoAnswerYet = &kusto.Error{Message: "it has not answered yet", Hint: "nothing if it answers soon; else see to the way to it: name, proxy, firewall"}

// RetryFix returns what to do if requests go on to be answered with this verdict, for which the
// agent retries without help.
func RetryFix(v kusto.Verdict) string {
	const itself = "nothing, it is sent again by itself; "
	switch v {
	case kusto.Throttled:
		return itself + "if it stays so, the cluster is too small for what is sent to it: give it more nodes, or set send.concurrency to a low number"
	case kusto.Unknown:
		return itself + "its records may then be stored twice"
	}
	return itself + "if it stays so, give support the activity id"
}

// RouteStatus is how a route fares, for people.
type RouteStatus struct {
	Route        record.Route
	State        string // up, retrying, down or held
	Hold         *Hold  // nil where it is up; the cluster's, where that is held or down
	NextTry      time.Time
	Queued       int
	Spooled      int // payloads that rest in the spool
	InFlight     int
	FailingAlone int    // payloads that fail while others of the route are accepted
	Accepted     uint64 // records since the start
	Last         time.Time
}

// Routes returns the status of all routes, in the order in which they were first used. A route
// whose cluster is down or held has the state, hold and next try of the cluster. waiting returns how
// many payloads of a route lie in the spool.
func (m *Machine) Routes(waiting func(record.Route) int) []RouteStatus {
	out := make([]RouteStatus, len(m.all))
	for i, r := range m.all {
		b := &r.breaker
		if r.cluster.blocked() {
			b = &r.cluster.breaker
		}
		out[i] = RouteStatus{
			Route: r.name, State: b.state(), Hold: b.reason(), NextTry: r.nextTry(b),
			Queued: r.inHand() - r.inflight, Spooled: waiting(r.name), InFlight: r.inflight, FailingAlone: len(r.alone), Accepted: r.records, Last: r.last,
		}
	}
	return out
}

// nextTry returns when a request of the route is due next. b is the circuit breaker that decides,
// of the route or of its cluster: if it is down or held, its next probe is due; otherwise, if it
// has failures, the first retry of a payload. The result is zero if there are no failures, or if no
// payload waits for a retry.
func (r *route) nextTry(b *breaker) (at time.Time) {
	if b.blocked() || b.failures == 0 {
		return b.gate
	}
	for _, s := range []schedule{r.retries, r.suspects} {
		if len(s) > 0 && (at.IsZero() || s[0].notBefore.Before(at)) {
			at = s[0].notBefore
		}
	}
	if !at.IsZero() && r.paused.After(at) {
		return r.paused
	}
	return at
}

// ClusterStatus is how a cluster fares, for people.
type ClusterStatus struct {
	Name, URL   string
	State       string
	Hold        *Hold // nil where it is up
	NextTry     time.Time
	Concurrency int // slots just now
	InFlight    int
}

// Clusters returns the status of the clusters that have a client and are configured or have
// payloads left to send, in the order in which they were first named. waiting returns how many
// payloads of a route lie in the spool.
func (m *Machine) Clusters(waiting func(record.Route) int) (out []ClusterStatus) {
	for _, c := range m.order {
		if !c.served || !c.configured && c.isEmpty(waiting) {
			continue
		}
		out = append(out, ClusterStatus{Name: c.name, URL: c.url, State: c.state(), Hold: c.reason(), NextTry: c.gate, Concurrency: c.limit, InFlight: c.inflight})
	}
	return out
}

// isEmpty reports whether no route of the cluster has payloads in hand or in the spool. waiting
// returns how many payloads of a route lie in the spool.
func (c *cluster) isEmpty(waiting func(record.Route) int) bool {
	return !slices.ContainsFunc(c.routes, func(r *route) bool { return r.inHand()+waiting(r.name) > 0 })
}

// ahead is how many payloads of a route may wait until others have ended: a few, so that a request
// that ends is followed by the next at once. More would hold memory and bring nothing, but for those
// in place of payloads that wait for their next attempt.
const ahead = 3

// resting returns how many payloads of the route wait for the time of their next attempt; 0 if the
// route is nil, which stands for one that was never used.
func (r *route) resting() int {
	if r == nil {
		return 0
	}
	return r.retries.Len() + r.suspects.Len()
}

// Credit returns how many payloads of a route may be in hand, and whether the route is served: it
// and its cluster are neither down nor held. A served route may have one for each slot of its
// cluster, a few more (ahead), and one more for each that waits for a retry, at most twice the
// slots. Another route may have two, and up to two more for payloads that are safe in the spool and
// stay in hand as a probe, so that reading does not wait for a probe to end.
func (m *Machine) Credit(name record.Route) (payloads int, served bool) {
	c, r := m.clusters[name.Cluster], m.routes[name]
	switch {
	case c != nil && !c.blocked() && (r == nil || !r.blocked()):
		return min(c.limit+ahead+r.resting(), 2*max(c.limit, 2)), true
	case r == nil:
		return 2, false
	}
	return 2 + min(r.safe, 2), false
}

// Serves reports whether there is a client for the cluster.
func (m *Machine) Serves(url string) bool {
	c := m.clusters[url]
	return c != nil && c.served
}
