package spool

import (
	"errors"

	"kusto-agent/internal/record"
)

// Remove gives up payloads that wait, by their ids, and returns how many and how many
// records they had. OnDrop is told of each, with record.DropRemoved, before Remove returns.
// Busy are those that are given out: somebody may be sending them. One that has ended, or
// is not here, is none of both. The error is one of reading; what was given up stays so.
func (s *Spool) Remove(ids []record.BatchID) (payloads, records int, busy []record.BatchID, err error) {
	wanted := make(map[record.BatchID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for again := true; again && len(wanted) > 0; {
		s.mu.Lock()
		swaps := s.swaps
		s.mu.Unlock()
		err = s.each(func(g *segment) error {
			return s.removeFrom(g, wanted, func(p *record.Payload) {
				delete(wanted, p.ID)
				payloads, records = payloads+1, records+p.Records
				s.o.OnDrop(p, record.DropRemoved)
			})
		})
		s.mu.Lock()
		again = err == nil && s.swaps != swaps // a compaction may have moved some behind our back
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range wanted {
		if t := s.out[id]; t != nil && t.given {
			busy = append(busy, id)
		}
	}
	return payloads, records, busy, err
}

// removeFrom ends those of a segment that are wanted, and calls fn with each.
func (s *Spool) removeFrom(g *segment, wanted map[record.BatchID]bool, fn func(*record.Payload)) error {
	all, err := s.all(g)
	if errors.Is(err, errIndex) || err != nil && lasts(err) {
		return nil // Next tells what is gone
	}
	if err != nil {
		return err
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
	err = s.scanSlots(g, found, func(at placed, p *record.Payload) {
		if s.endWaiting(at) {
			fn(own(p))
		}
	})
	if err != nil && lasts(err) {
		return nil
	}
	return err
}
