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

// write queues a Spill (write a payload to the spool) or a Return (give one back to the spool) for
// the goroutines that write to the spool, and starts one more of these if fewer than maxWriters
// run. The caller holds mu.
func (s *Sender) write(a delivery.Action) {
	s.writes = append(s.writes, a)
	if s.writers < maxWriters {
		s.writers++
		// Started here, ends when nothing is left to write; Keep waits.
		go s.writeLoop()
	}
}

// writeLoop carries out queued writes to the spool until there are none. It releases mu during each
// write.
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

// spill writes one payload to the spool and reports Spilled with the result. A payload that was
// written and does not stay in hand (a.Stay) is counted as spooled, and its memory is given back;
// the spool gives it out again no sooner than a.NotBefore. Until Spilled is reported its id is in
// onWay, for which awaitSpill waits.
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

// store writes a payload to the spool and returns whether it is there. Before that it writes a
// begin to the journal, which accepts the end of a batch only after its begin. A payload that stays
// in hand, or that has a time before which it is not sent, is written with Hold: the spool then
// counts it as given out, and does not give it out a second time.
func (s *Sender) store(a delivery.Spill) delivery.SpillResult {
	if s.o.Spill.Health() != nil {
		return delivery.NoRoom // nothing was written
	}
	d := a.P.Data
	_ = s.o.Batches.Begin(d)
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

// giveBack returns a payload that came out of the spool to the spool, which gives it out again no
// sooner than a.NotBefore. It gives the memory of the payload back and reports Returned. A payload
// with the place Rebuilt was read again from its files, under a new id, because its copy in the
// spool is damaged: that id is ended as Replaced, and the spool makes the payload again when it
// next gives it out.
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

// fetch reads the next payload of the route of a ticket (a request slot to be filled from the
// spool) and reports Fetched, or NotFetched if there is no memory for it or the spool has none to
// give. If must is set, the payload is read even without free memory.
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
	s.awaitSpill(frame) // it may be given out before journal and books know that it was spilled
	d.Inputs(s.o.Books.Unspooled)
	s.o.Memory.Adopt(d)
	s.o.Memory.Unreserve()
	s.report(delivery.Fetched{Ticket: t, Data: d, Frame: frame})
}

// AwaitSpilled waits for those of the payloads that are being written to the spool at this moment,
// and returns once the journal and the books have recorded them as spooled. It must be called
// before a payload in the spool is ended, because the journal must record that end after the end as
// spooled.
func (s *Sender) AwaitSpilled(ids []record.BatchID) {
	for _, id := range ids {
		s.awaitSpill(id)
	}
}

// awaitSpill waits as long as a payload with the id frame is being written to the spool by spill.
// Then the journal and the books have recorded the result, which the spool does not wait for before
// it gives the payload out.
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
