package sender

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// apply gives an event to the delivery machine and carries out the actions that follow. It does not
// block: actions that do I/O run in goroutines of their own.
func (s *Sender) apply(e delivery.Event) { s.applyFrom(e, false) }

// report is apply for the goroutines that carry out actions: it tells the machine what came of one. It
// blocks while it writes the end of a payload, since such a goroutine may wait for the disk.
func (s *Sender) report(e delivery.Event) { s.applyFrom(e, true) }

// applyFrom gives an event to the delivery machine and carries out the actions that it returns.
// Actions that do I/O are started under mu, in goroutines of their own; calls into other packages
// follow after mu is released. worker says that the caller is such a goroutine: it then writes the
// end of a payload itself, in place of starting another goroutine.
func (s *Sender) applyFrom(e delivery.Event, worker bool) {
	var buf [4]delivery.Action
	s.mu.Lock()
	actions := append(buf[:0], s.m.Apply(time.Now(), s.stocked(e))...)
	for _, a := range actions {
		s.start(a, worker)
	}
	// Run sleeps until s.armed: it is woken if the machine wants its next Tick earlier.
	if at := s.m.Alarm(); !at.IsZero() && (s.armed.IsZero() || at.Before(s.armed)) {
		s.armed = at
		select {
		case s.rearm <- struct{}{}:
		default:
		}
	}
	s.announce()
	s.mu.Unlock()
	for _, a := range actions {
		switch a := a.(type) {
		case delivery.End:
			if worker {
				s.end(a.P, a.How)
			}
		case delivery.Wake:
			s.o.Wake(a.Route)
		case delivery.Notice:
			s.logNotice(&a)
		case delivery.CheckSpool:
			s.applyFrom(delivery.SpoolIs{Condition: s.condition()}, worker)
		}
	}
}

// stocked returns the event with its field Stock set to what the spool has for the route at this
// moment; events without that field are returned unchanged. The caller holds mu, so that no event
// about a payload that went to the spool comes between this count and its use.
func (s *Sender) stocked(e delivery.Event) delivery.Event {
	switch e := e.(type) {
	case delivery.Fetched:
		e.Stock = s.stock(e.Ticket.Route())
		return e
	case delivery.NotFetched:
		e.Stock = s.stock(e.Ticket.Route())
		return e
	case delivery.Restock:
		e.Stock = s.stock(e.Route)
		return e
	}
	return e
}

// start starts a goroutine for an action that does I/O, or queues a write to the spool; for other
// actions it does nothing. worker says that the caller is a goroutine that carries out End itself.
// The caller holds mu, so that Run, which waits for these goroutines, misses none.
func (s *Sender) start(a delivery.Action, worker bool) {
	switch a := a.(type) {
	case delivery.Request:
		s.work.Go(func() { s.request(a.P) })
	case delivery.Fetch:
		s.work.Go(func() { s.fetch(a.Ticket, a.Must) })
	case delivery.Divide:
		s.work.Go(func() { s.divide(a.P) })
	case delivery.Quarantine:
		s.work.Go(func() { s.quarantine(a.P, &a.Answer) })
	case delivery.End:
		if !worker {
			s.work.Go(func() { s.end(a.P, a.How) })
		}
	case delivery.Spill, delivery.Return:
		s.write(a)
	}
}

// condition returns whether the spool accepts payloads at this moment.
func (s *Sender) condition() delivery.Condition {
	if s.o.Spill.Health() != nil {
		return delivery.Sick
	}
	return delivery.Healthy
}

// stock returns what the spool has for a route. If a payload can be given out now, Ready is the
// number of all payloads that wait there, also of those whose next attempt is later; otherwise Next
// is when the first of them is due, zero if none waits.
func (s *Sender) stock(r record.Route) delivery.Stock {
	ready, due := s.o.Stock.Ready(r, time.Now())
	if ready {
		return delivery.Stock{Ready: max(s.o.Stock.Waiting(r), 1)}
	}
	return delivery.Stock{Next: due}
}
