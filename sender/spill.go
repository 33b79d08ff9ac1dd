package sender

import (
	"errors"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// maxWriters is how many payloads are brought to the spool at a time: they share
// its syncs.
const maxWriters = 8

// write has a Spill or Return carried out. The caller holds mu.
func (s *Sender) write(a delivery.Action) {
	s.writes = append(s.writes, a)
	if s.writers < maxWriters {
		s.writers++
		// Started here, ends when nothing is left to write; Keep waits.
		go s.writeLoop()
	}
}

func (s *Sender) writeLoop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.writes) > 0 {
		a := s.writes[0]
		s.writes = s.writes[1:]
		s.mu.Unlock()
		switch a := a.(type) {
		case delivery.Spill:
			s.spill(a)
		case delivery.Return:
			s.giveBack(a)
		}
		s.mu.Lock()
	}
	s.writers--
	s.announce()
}

// spill brings one payload to the spool.
func (s *Sender) spill(a delivery.Spill) {
	d := a.P.Data
	s.mu.Lock()
	s.onWay[d.ID] = true
	s.mu.Unlock()
	result := s.store(a)
	if result == delivery.Kept && !a.Stay {
		d.Inputs(s.o.Books.Spooled)
		if !a.NotBefore.IsZero() {
			s.o.Backlog.ReturnUntil(d.ID, a.NotBefore)
		}
		s.o.Memory.Release(d)
	}
	s.mu.Lock()
	delete(s.onWay, d.ID)
	s.mu.Unlock()
	s.report(delivery.Spilled{P: a.P, Result: result})
}

// store writes a payload to the spool and says whether it is there.
func (s *Sender) store(a delivery.Spill) delivery.SpillResult {
	if s.o.Spill.Health() != nil {
		return delivery.NoRoom // nothing was tried
	}
	d := a.P.Data
	_ = s.o.Batches.Begin(d) // so that its end is known to cover something
	put := s.o.Spill.Put
	if a.Stay || !a.NotBefore.IsZero() {
		put = s.o.Spill.Hold
	}
	err := put(d)
	switch {
	case err == nil:
		_ = s.o.Batches.End(d.ID, record.Spooled)
		return delivery.Kept
	case errors.Is(err, durable.ErrTooLarge):
		return delivery.TooLarge
	case errors.Is(err, record.ErrFull), errors.Is(err, record.ErrOff):
		return delivery.NoRoom
	}
	return delivery.Doubtful
}

// giveBack has the spool keep a payload that it gave out. One that was made again
// will be made again.
func (s *Sender) giveBack(a delivery.Return) {
	d := a.P.Data
	if a.P.Place == delivery.Rebuilt {
		_ = s.o.Batches.End(d.ID, record.Replaced)
	}
	d.Inputs(s.o.Books.Spooled) // before it can be given out again
	s.o.Backlog.ReturnUntil(a.P.Frame, a.NotBefore)
	s.o.Memory.Release(d)
	s.report(delivery.Returned{P: a.P})
}

// fetch fills a ticket with the next payload of its route out of the spool.
func (s *Sender) fetch(t *delivery.Ticket, must bool) {
	r := t.Route()
	if !s.o.Memory.Reserve(must) {
		s.report(delivery.NotFetched{Ticket: t, NoMemory: true})
		return
	}
	d, frame := s.o.Backlog.Next(r)
	if d == nil {
		s.o.Memory.Unreserve()
		s.report(delivery.NotFetched{Ticket: t})
		return
	}
	s.awaitSpill(frame)
	d.Inputs(s.o.Books.Unspooled)
	s.o.Memory.Adopt(d)
	s.o.Memory.Unreserve()
	s.report(delivery.Fetched{Ticket: t, Data: d, Frame: frame})
}

// AwaitSpilled waits until books and journal know of those of some payloads that are being
// brought to the spool: one that is there can be ended only behind that.
func (s *Sender) AwaitSpilled(ids []record.BatchID) {
	for _, id := range ids {
		s.awaitSpill(id)
	}
}

// awaitSpill waits until the writer that brought a payload to the spool has told
// books and journal of it: the spool may give it out before.
func (s *Sender) awaitSpill(frame record.BatchID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.onWay[frame] {
		changed := s.watch()
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
}
