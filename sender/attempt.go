package sender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"kusto-agent/kusto"
	"kusto-agent/record"
)

// attempt makes one request for a payload and acts on its answer.
func (s *Sender) attempt(ctx context.Context, l *lane, it *item) {
	if it.Payload == nil && !s.fetch(l, it) {
		return
	}
	err := s.waitForRate(ctx, it.RawBytes)
	s.ask(l) // waiting for send.rate_limit says nothing of the service
	if err != nil {
		s.settle(l, func() { l.back(it) })
		return
	}
	if it.refused != nil {
		s.quarantine(l, it, *it.refused)
		return
	}
	if it.Attempt++; it.Attempt > 1 {
		s.o.Metrics.Retry()
	}
	s.begin(it)
	began := time.Now()
	it.asked = began
	if it.first.IsZero() {
		it.first = began
	}
	ans := s.ingest(ctx, l, &kusto.Ingest{
		Database:  it.Route.Database,
		Table:     it.Route.Table,
		Format:    string(it.Route.Format),
		Mapping:   it.Route.Mapping,
		Body:      it.Body,
		Gzip:      it.Gzip,
		RequestID: fmt.Sprintf("kusto-agent.ingest;%v;%d", it.ID, it.Attempt),
	})
	s.o.Metrics.Request(outcome(ans.Verdict), code(ans.Status), time.Since(began))
	s.act(ctx, l, it, ans, began)
}

func (s *Sender) waitForRate(ctx context.Context, bytes int) error {
	s.mu.Lock()
	limiter := s.limiter
	s.mu.Unlock()
	if limiter == nil {
		return nil
	}
	return limiter.WaitN(ctx, bytes)
}

// ask notes that a request is wanted from now on.
func (s *Sender) ask(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l.began(now)
	l.cluster.began(now)
	l.cluster.wake() // patience counts from here
}

// outcome is the word of the metric: an answer that refuses is an answer.
func outcome(v kusto.Verdict) string {
	switch v {
	case kusto.Accepted:
		return "accepted"
	case kusto.Unknown:
		return "unknown"
	case kusto.NotSent:
		return "not_sent"
	}
	return "refused"
}

func code(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

// act is the one place where a verdict becomes a deed.
func (s *Sender) act(ctx context.Context, l *lane, it *item, ans kusto.Answer, began time.Time) {
	if ctx.Err() != nil && ans.Verdict != kusto.Accepted {
		it.cut = ans.Wrote
		s.settle(l, func() { l.back(it) }) // broken off by us: says nothing of the service
		return
	}
	switch ans.Verdict {
	case kusto.Accepted:
		s.accept(l, it, ans)
	case kusto.Throttled:
		s.settle(l, func() {
			l.cluster.throttle(began, time.Now(), ans.RetryAfter)
			s.later(l, it, ans)
		})
	case kusto.Auth:
		if ans.Token() == kusto.TokenLater {
			s.settle(l, func() { s.later(l, it, ans) })
			return
		}
		s.refuseToken(l, it, ans)
	case kusto.Hold:
		s.settle(l, func() {
			if l.outdated(it) {
				s.later(l, it, ans)
				return
			}
			s.hold(l, it, holdOf(ans), ans.RetryAfter)
		})
	case kusto.TooLarge, kusto.BadData:
		s.refuse(l, it, ans)
	case kusto.Unknown:
		s.o.Metrics.Unknown(it.Records)
		fallthrough
	default: // not sent, or to be tried again
		s.settle(l, func() { s.later(l, it, ans) })
	}
}

// settle ends a request: it counts it as answered, does what follows from the
// answer under the lock, and lets the dispatcher look again.
func (s *Sender) settle(l *lane, follow func()) {
	s.finish(l, func() {
		l.asking--
		l.cluster.asking--
		follow()
	})
}

// finish ends what dispatch started.
func (s *Sender) finish(l *lane, follow func()) {
	s.mu.Lock()
	l.inflight--
	l.cluster.inflight--
	follow()
	s.announce()
	wake := s.wakes
	s.wakes = nil
	s.mu.Unlock()
	l.cluster.wake()
	for _, r := range wake {
		s.o.Wake(r)
	}
}

// accept ends a payload well.
func (s *Sender) accept(l *lane, it *item, ans kusto.Answer) {
	if ans.UpdatePolicy != "" {
		s.o.Logger.Warn("rows were stored but an update policy failed", "database", it.Route.Database,
			"table", it.Route.Table, "err", ans.UpdatePolicy, "activity", ans.ActivityID,
			"fix", "look at the policy with .show table "+kusto.EntityName(it.Route.Table)+" policy update; what it did not make of these rows is missing where it leads")
	}
	s.end(it, record.Accepted)
	it.Inputs(s.o.Books.Accepted)
	s.o.Metrics.EndToEnd(it.Route, time.Since(it.ReadAt))
	s.settle(l, func() {
		s.gone(l, it)
		l.sent += uint64(it.Records)
		l.cluster.smooth()
		l.accepted = time.Now()
		s.routeAnswered(l)
	})
	s.o.Sealer.Release(it.Payload)
}

// routeAnswered ends the bad time of a lane and its cluster, if they had one:
// the service took a payload, or refused it for nothing but what is in it. The
// caller holds mu.
func (s *Sender) routeAnswered(l *lane) {
	if l.failures > 0 {
		s.o.Logger.Info("route answers again", "database", l.route.Database, "table", l.route.Table, "failures", l.failures)
	}
	if l.succeeded(time.Now()) {
		s.wakes = append(s.wakes, l.route)
	}
	s.clusterAnswered(l.cluster)
}

// clusterAnswered ends the bad time of a cluster, if it had one. The caller
// holds mu.
func (s *Sender) clusterAnswered(c *cluster) {
	if c.succeeded(time.Now()) {
		for _, l := range c.lanes {
			s.wakes = append(s.wakes, l.route)
		}
	}
}

// later puts a payload back to be tried again. The caller holds mu.
func (s *Sender) later(l *lane, it *item, ans kusto.Answer) {
	if it.backoff == nil {
		it.backoff = newBackoff(s.o.Config.Retry)
	}
	now := time.Now()
	it.notBefore = now.Add(after(it.backoff, ans.RetryAfter))
	if l.outdated(it) {
		l.back(it)
		return
	}
	l.failed(now, ans.RetryAfter)
	l.cluster.failed(now, ans.RetryAfter)
	s.tell(l, it, ans)
	if ans.Verdict != kusto.Throttled && s.failsAlone(it, now) {
		s.keep(l, it, false)
		return
	}
	l.back(it)
}

// tell logs a failure when it is not the one that was told last.
func (s *Sender) tell(l *lane, it *item, ans kusto.Answer) {
	what := ans.Verdict.String() + " " + code(ans.Status)
	if ans.Err != nil {
		what += " " + ans.Err.Code
	}
	if l.told == what || ans.Verdict == kusto.NotSent && l.cluster.told == what {
		return // one that cannot be reached is out of reach for all its routes
	}
	l.told, l.cluster.told = what, what
	if ans.Err != nil {
		l.last, l.cluster.last = ans.Err, ans.Err
	}
	s.o.Logger.Warn("request was not accepted, trying again", "verdict", ans.Verdict.String(), "database", l.route.Database,
		"table", l.route.Table, "batch", it.ID.String(), "attempt", it.Attempt, "records", it.Records,
		"activity", ans.ActivityID, "err", ans.Err, "fix", cmp.Or(ans.Hint, helped(ans.Verdict)))
}

// helped is what to do about an answer that the agent helps itself with.
func helped(v kusto.Verdict) string {
	const itself = "nothing, it is sent again by itself; "
	switch v {
	case kusto.Throttled:
		return itself + "if it stays so, the cluster is too small for what is sent to it: give it more nodes, or lower send.concurrency"
	case kusto.Unknown:
		return itself + "its records may then be stored twice"
	}
	return itself + "if it stays so, give support the activity id"
}

func holdOf(ans kusto.Answer) Hold {
	h := Hold{Status: ans.Status, Fix: ans.Hint, Activity: ans.ActivityID}
	if ans.Err != nil {
		h.Code, h.Message, h.Refused = ans.Err.Code, ans.Err.Message, ans.Err.Refused()
	}
	return h
}

// hold stops a route but for a probe now and then. The caller holds mu.
func (s *Sender) hold(l *lane, it *item, h Hold, asked time.Duration) {
	l.back(it)
	now := time.Now()
	if l.held(now, h, asked) {
		s.o.Logger.Error("route is held, its records stay where they are", "database", l.route.Database,
			"table", l.route.Table, "status", h.Status, "code", h.Code, "activity", h.Activity, "err", h.Message, "fix", h.Fix)
	}
	if h.Status != 0 || h.Local {
		// The service answered: it is the route that is refused.
		s.clusterAnswered(l.cluster)
	}
}

// refuseToken tries once more with a fresh token, at once; then the cluster is
// held, since the token is one for all its routes.
func (s *Sender) refuseToken(l *lane, it *item, ans kusto.Answer) {
	s.settle(l, func() {
		l.back(it)
		if ans.Wrote && !it.reauth {
			it.reauth = true
			return
		}
		it.reauth = false
		h := holdOf(ans)
		if c := l.cluster; c.held(time.Now(), h, ans.RetryAfter) {
			s.o.Logger.Error("cluster is held: no valid token", "cluster", c.Name, "code", h.Code, "activity", h.Activity, "err", h.Message, "fix", h.Fix)
		}
	})
}

// refuse isolates what the service will not take: a payload of one record, or of
// one block of records, goes to quarantine, a larger one is halved and both
// halves are sent.
func (s *Sender) refuse(l *lane, it *item, ans kusto.Answer) {
	if it.Records == 1 || ans.Verdict == kusto.BadData && ans.Err.Empty() {
		s.quarantine(l, it, ans)
		return
	}
	s.split(l, it, ans)
}

// split sends the halves of a payload in its place.
func (s *Sender) split(l *lane, it *item, ans kusto.Answer) {
	children, err := s.o.Sealer.Split(it.Payload)
	if errors.Is(err, record.ErrWhole) {
		it.whole = true
		s.quarantine(l, it, ans)
		return
	}
	if err != nil {
		s.settle(l, func() {
			s.hold(l, it, Hold{Local: true, Code: "split", Message: err.Error(), Fix: "the batch cannot be taken apart; please report this"}, 0)
		})
		return
	}
	halves, err := s.halve(it, children)
	if err != nil { // the spool tells why; its own backoff brings the payload here again
		s.settle(l, func() {
			s.later(l, it, ans)
			s.routeAnswered(l)
		})
		return
	}
	s.settle(l, func() {
		s.gone(l, it)
		s.items += len(halves)
		if it.family == nil {
			it.family = new(int)
			s.o.Logger.Warn("batch was refused, looking for the records at fault", "database", l.route.Database, "table", l.route.Table,
				"batch", it.ID.String(), "records", it.Records, "activity", ans.ActivityID, "err", ans.Err,
				"fix", "nothing, the others are sent, and those at fault go to quarantine")
		}
		*it.family += len(halves)
		for _, h := range halves {
			h.family = it.family
			if h.spooled() {
				l.replays++
			}
		}
		l.back(halves...)
		s.routeAnswered(l)
	})
	s.o.Sealer.Release(it.Payload)
}

// quarantine keeps the records of a refused payload and ends it.
func (s *Sender) quarantine(l *lane, it *item, ans kusto.Answer) {
	recs, err := s.o.Sealer.Records(it.Payload)
	for i := range recs {
		recs[i].Route, recs[i].Reason = it.Route, record.Refused
		where := recs[i].Message
		if recs[i].Code, recs[i].Message = ans.Err.Code, ans.Err.Message; where != "" {
			recs[i].Message += " (" + where + ")"
		}
	}
	if err == nil {
		// The line is durable before the end that covers its record is written.
		err = s.o.Quarantine.Put(recs)
	}
	if err != nil && it.Records > 1 && !it.whole {
		s.split(l, it, ans) // there may be room for some
		return
	}
	if err != nil {
		it.refused = &ans
		s.settle(l, func() {
			s.hold(l, it, Hold{Local: true, Code: "quarantine", Message: err.Error(),
				Fix: "make room for quarantine (quarantine.max_size, the disk of state_dir) or remove what is no longer needed"}, 0)
		})
		return
	}
	s.end(it, record.Quarantined)
	it.Inputs(func(input string, n int) { s.o.Books.Quarantined(input, record.Refused, n) })
	s.o.Logger.Warn("records were refused and are in quarantine", "database", l.route.Database, "table", l.route.Table,
		"records", it.Records, "activity", ans.ActivityID, "err", ans.Err,
		"fix", "look at them: kusto-agent quarantine ls --reason refused")
	s.settle(l, func() {
		s.gone(l, it)
		s.routeAnswered(l)
	})
	s.o.Sealer.Release(it.Payload)
}
