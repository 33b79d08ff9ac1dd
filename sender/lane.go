package sender

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"kusto-agent/kusto"
	"kusto-agent/record"
)

// item is a payload in hand, or, with none, the wish for the next one of its lane
// out of the spool.
type item struct {
	*record.Payload
	frame     record.BatchID              // what the spool knows it by; zero: it is not there
	first     time.Time                   // when it was first tried in this run
	asked     time.Time                   // when its last request began
	backoff   *backoff.ExponentialBackOff // nil before the first failure
	notBefore time.Time
	reauth    bool          // the token was refused once and replaced
	refused   *kusto.Answer // quarantine could not take it yet: it is not asked for again
	cut       bool          // its last request was broken off by us: the outcome is unknown
	tooLarge  bool          // the spool cannot take it
	whole     bool          // it cannot be taken apart
	family    *int          // requests made to isolate refused records; nil: none
}

func (it *item) spooled() bool { return it.frame != record.BatchID{} }

// asSpooled says that it is in the spool with the body and under the id it has.
func (it *item) asSpooled() bool { return it.spooled() && it.frame == it.ID }

// lane is a route: its queue and how it fares. Guarded by Sender.mu.
type lane struct {
	pace
	route    record.Route
	cluster  *cluster
	spool    Spool
	queue    []*item
	inflight int
	sent     uint64    // records accepted
	accepted time.Time // the last time

	replays  int       // items in hand that are in the spool, and wishes for one
	replayed bool      // the last item taken was one
	unread   time.Time // the spool had one and could not read it: not asked again before
}

// outdated says that a request began before the route last accepted another: what
// its answer says of the route may be over.
func (l *lane) outdated(it *item) bool { return !it.asked.After(l.accepted) }

// waiting is how many payloads of the lane rest in the spool.
func (l *lane) waiting() int { return l.spool.Waiting(l.route) }

// bisectAtFullRate is how many requests the search for the refused records of
// one batch may make before it goes on one request at a time.
const bisectAtFullRate = 64

// next takes the first payload that may be sent now, from the queue and from the
// spool by turns; the latter unless draining. Where none may, it tells when that
// can change; zero: not by time.
func (l *lane) next(now time.Time, draining bool) (*item, time.Time) {
	i, at := l.fresh(now)
	spooled, again := l.replay(now, draining)
	switch {
	case i < 0 && !spooled:
		return nil, earlier(at, again)
	case l.blocked() && l.inflight > 0:
		return nil, time.Time{}
	case l.blocked() && now.Before(l.gate):
		return nil, l.gate
	case spooled && (i < 0 || !l.replayed):
		l.replays++
		l.replayed = true
		return &item{}, time.Time{}
	}
	l.replayed = false
	return l.take(i), time.Time{}
}

// fresh finds the first payload of the queue that may be sent now: its index, or
// -1 and when one may be.
func (l *lane) fresh(now time.Time) (int, time.Time) {
	if l.blocked() && len(l.queue) > 0 {
		return 0, time.Time{} // the gate of the lane is that of the payload
	}
	var soonest time.Time
	for i, it := range l.queue {
		if it.family != nil && *it.family > bisectAtFullRate && l.inflight > 0 {
			return -1, soonest
		}
		if !now.Before(it.notBefore) {
			return i, time.Time{}
		}
		soonest = earlier(soonest, it.notBefore)
	}
	return -1, soonest
}

// replay says whether a payload may be taken out of the spool now, or when.
func (l *lane) replay(now time.Time, draining bool) (bool, time.Time) {
	switch {
	case draining || l.replays >= l.cluster.limit || l.waiting() == 0:
		return false, time.Time{}
	case now.Before(l.unread):
		return false, l.unread
	}
	return true, time.Time{}
}

func (l *lane) take(i int) *item {
	it := l.queue[i]
	l.queue = append(l.queue[:i], l.queue[i+1:]...)
	return it
}

// back puts payloads at the head of the queue.
func (l *lane) back(items ...*item) { l.queue = append(items, l.queue...) }

// verdict says whether the lane can be given up for now: refused, or without
// acceptance for as long as patience.
func (l *lane) verdict(now time.Time, patience time.Duration) (refused, down bool) {
	for _, p := range []*pace{&l.pace, &l.cluster.pace} {
		if h := p.hold; h != nil {
			if h.Refused {
				return true, false
			}
			down = down || now.Sub(h.Since) >= patience
		}
		down = down || p.down
	}
	return false, down
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// cluster is one service. Guarded by Sender.mu.
type cluster struct {
	Name, URL string
	client    *client
	wanted    bool // it is configured; else it only takes what is left for it
	pace
	most      int // requests under way, as configured
	limit     int // the same, lowered by throttling
	streak    int // acceptances since the limit last changed
	throttled time.Time
	notBefore time.Time // the service asked for a pause
	inflight  int
	lanes     []*lane // in turn: the one served last is at the end
	kick      chan struct{}
}

func newCluster(c Cluster, cfg Config) *cluster {
	return &cluster{
		Name: c.Name, URL: c.URL, client: &client{Ingester: c.Ingester, close: c.Close}, wanted: true,
		pace: newPace(cfg.Retry), most: cfg.Concurrency, limit: cfg.Concurrency, kick: make(chan struct{}, 1),
	}
}

// wake lets the dispatcher look again.
func (c *cluster) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// throttle halves the concurrency, once for all requests that were under way
// at that time.
func (c *cluster) throttle(began, now time.Time, asked time.Duration) {
	if began.After(c.throttled) {
		c.limit, c.streak, c.throttled = max(c.limit/2, 1), 0, now
	}
	if asked > 0 {
		c.notBefore = now.Add(asked)
	}
}

// smooth counts an acceptance: ten of them earn one more request at a time.
func (c *cluster) smooth() {
	if c.limit == c.most {
		return
	}
	if c.streak++; c.streak == 10 {
		c.limit, c.streak = c.limit+1, 0
	}
}

// pick chooses the next payload, lanes taking turns. Where there is none it
// tells when to look again; zero: when kicked.
func (c *cluster) pick(now time.Time, draining bool) (*lane, *item, time.Time) {
	if c.inflight >= c.limit {
		return nil, nil, time.Time{}
	}
	if now.Before(c.notBefore) {
		return nil, nil, c.notBefore
	}
	if c.blocked() {
		if c.inflight > 0 {
			return nil, nil, time.Time{}
		}
		if now.Before(c.gate) {
			return nil, nil, c.gate
		}
	}
	var soonest time.Time
	for i, l := range c.lanes {
		it, at := l.next(now, draining)
		if it != nil {
			c.lanes = append(append(c.lanes[:i:i], c.lanes[i+1:]...), l)
			return l, it, time.Time{}
		}
		soonest = earlier(soonest, at)
	}
	return nil, nil, soonest
}

// dispatch starts the requests of one cluster until ctx ends, then waits for
// those under way, which ctx breaks off.
func (s *Sender) dispatch(ctx context.Context, c *cluster) {
	done := make(chan struct{})
	running := 0
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		l, it, wait := s.choose(c)
		if it != nil {
			running++
			// Started here, ended by its request, awaited through done.
			go func() {
				s.attempt(ctx, l, it)
				done <- struct{}{}
			}()
			continue
		}
		timer.Reset(wait)
		select {
		case <-done:
			running--
		case <-c.kick:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for ; running > 0; running-- {
		<-done
	}
}

// choose picks a payload and counts it as under way, or says how long to wait.
func (s *Sender) choose(c *cluster) (*lane, *item, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	patience := earlier(s.tellOverdue(c, now), s.shed(c, now))
	l, it, at := c.pick(now, s.draining)
	if it != nil {
		c.inflight++
		l.inflight++
		return l, it, 0
	}
	if at = earlier(at, patience); at.IsZero() {
		return nil, nil, time.Hour
	}
	return nil, nil, at.Sub(now)
}

// tellOverdue turns what was not accepted for patience to down, and returns
// when that will next be due. The caller holds mu.
func (s *Sender) tellOverdue(c *cluster, now time.Time) (next time.Time) {
	due := func(p *pace, what string, l *lane) {
		if p.overdue(now) {
			s.announce()
			if p.hold != nil || l != nil && c.blocked() {
				return // what is the matter was told
			}
			log := s.o.Logger.With("cluster", c.Name, "last", p.last)
			if e := (*kusto.Error)(nil); errors.As(p.last, &e) {
				log = log.With("activity", e.ActivityID, "fix", cmp.Or(e.Hint, helped(kusto.Retry)))
			}
			if l != nil {
				log = log.With("database", l.route.Database, "table", l.route.Table)
			}
			log.Warn(what, "elapsed", now.Sub(p.wanted).Round(time.Millisecond))
		} else if !p.down && !p.wanted.IsZero() {
			next = earlier(next, p.wanted.Add(p.retry.Patience.D()))
		}
	}
	due(&c.pace, "cluster is down, asking it now and then", nil)
	for _, l := range c.lanes {
		due(&l.pace, "route is down, asking it now and then", l)
	}
	return next
}
