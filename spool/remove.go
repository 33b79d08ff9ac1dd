package spool

import "kusto-agent/internal/record"

// Remove gives up waiting payloads by their ids, and returns how many payloads and records that
// were. OnDrop is called for each of them, with record.DropRemoved, before Remove returns. busy
// has the payloads that were handed to the sender and may be in flight; they stay. Ids that have
// ended or are unknown are ignored. After an error, which is one of reading, payloads given up so
// far stay given up.
func (s *Spool) Remove(ids []record.BatchID) (payloads, records int, busy []record.BatchID, err error) {
	wanted := make(map[record.BatchID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for range passes {
		err = s.each(func(g *segment) error {
			return s.removeFrom(g, wanted, func(p *record.Payload) {
				delete(wanted, p.ID)
				payloads, records = payloads+1, records+p.Records
				s.o.OnDrop(p, record.DropRemoved)
			})
		})
		if err != nil || !s.anyBack(wanted) {
			break
		} // else one was returned after the search
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range wanted {
		if s.out[id] != nil {
			busy = append(busy, id)
		}
	}
	return payloads, records, busy, err
}

// passes is how often Remove looks for those that others take and return meanwhile.
const passes = 10

// anyBack reports whether one of the payloads was given out and has been returned.
func (s *Spool) anyBack(ids map[record.BatchID]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range ids {
		if t := s.out[id]; t != nil && !t.given {
			return true
		}
	}
	return false
}

// removeFrom ends the wanted payloads of a segment that wait, and calls fn with each, without its
// Body. Payloads that cannot be read stay, which is no error. The error is one of reading.
func (s *Spool) removeFrom(g *segment, wanted map[record.BatchID]bool, fn func(*record.Payload)) error {
	all, err := s.all(g)
	if err != nil {
		return passable(err) // Next reports payloads that cannot be read when it comes to them
	}
	var found []placed
	for _, at := range all {
		if wanted[at.id] && s.waits(at) {
			found = append(found, at)
		}
	}
	if len(found) == 0 {
		return nil
	}
	defer s.refresh(all)
	return passable(s.scanSlots(g, found, func(at placed, p *record.Payload) {
		if s.endWaiting(at) {
			fn(own(p))
		}
	}))
}
