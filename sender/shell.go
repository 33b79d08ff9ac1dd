package sender

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// apply gives an event to the machine and has the actions carried out that follow
// from it. It does not block: what takes time has a goroutine of its own.
func (s *Sender) apply(e delivery.Event) { s.applyFrom(e, false) }

// report is apply for the goroutines that carry out actions. It blocks while a
// payload is ended.
func (s *Sender) report(e delivery.Event) { s.applyFrom(e, true) }

func (s *Sender) applyFrom(e delivery.Event, worker bool) {
	var buf [4]delivery.Action
	s.mu.Lock()
	actions := append(buf[:0], s.m.Apply(time.Now(), s.stocked(e))...)
	for _, a := range actions {
		s.start(a, worker)
	}
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
			s.tell(&a)
		case delivery.CheckSpool:
			s.applyFrom(delivery.SpoolIs{Condition: s.condition()}, worker)
		}
	}
}

// stocked adds to an event what the spool has for its route now. The caller holds mu: read
// before that, it could be older than what a payload that was returned meanwhile has told.
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

// start begins an action that takes time. The caller holds mu, so that Run knows of
// all that was started when nothing more is.
func (s *Sender) start(a delivery.Action, worker bool) {
	switch a := a.(type) {
	case delivery.Request:
		s.goDo(func() { s.request(a.P) })
	case delivery.Fetch:
		s.goDo(func() { s.fetch(a.Ticket, a.Must) })
	case delivery.Divide:
		s.goDo(func() { s.divide(a.P) })
	case delivery.Quarantine:
		s.goDo(func() { s.quarantine(a.P, &a.Answer) })
	case delivery.End:
		if !worker {
			s.goDo(func() { s.end(a.P, a.How) })
		}
	case delivery.Spill, delivery.Return:
		s.write(a)
	}
}

// goDo starts a goroutine that ends with its action; Run waits for it.
func (s *Sender) goDo(f func()) { s.work.Go(f) }

// condition is whether the spool takes payloads.
func (s *Sender) condition() delivery.Condition {
	if s.o.Spill.Health() != nil {
		return delivery.Sick
	}
	return delivery.Healthy
}

// stock is what the spool has for a route.
func (s *Sender) stock(r record.Route) delivery.Stock {
	ready, due := s.o.Stock.Ready(r, time.Now())
	if ready {
		return delivery.Stock{Ready: max(s.o.Stock.Waiting(r), 1)}
	}
	return delivery.Stock{Next: due}
}
