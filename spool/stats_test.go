package spool

import (
	"slices"
	"time"

	"kusto-agent/internal/record"
)

// heldStats is what Stats says of a spool, and what only tests ask for.
type heldStats struct {
	Stats
	Taken    int            // payloads that were given out
	Records  map[string]int // of the payloads that have not ended, by input
	OldestOf map[record.Route]time.Time
}

// statsOf sums up what a spool holds from what its segments count.
func statsOf(s *Spool) heldStats {
	st := heldStats{Stats: s.Stats(), Records: map[string]int{}, OldestOf: map[record.Route]time.Time{}}
	came := func(sh *share, ns int64) {
		at, r := time.Unix(0, ns), sh.to.Value()
		if was, known := st.OldestOf[r]; !known || at.Before(was) {
			st.OldestOf[r] = at
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		st.Taken += g.given
		for _, sh := range g.order {
			if sh.waiting > 0 {
				came(sh, sh.oldestFresh())
			}
			for _, c := range sh.sums {
				if st.Records[c.input] += c.records; st.Records[c.input] == 0 {
					delete(st.Records, c.input)
				}
			}
		}
	}
	for _, t := range s.out {
		came(t.sh, t.sh.g.when(&t.slot))
	}
	return st
}

// Has reports whether the payload with this id is in the spool and has not ended; the caller of Next
// may have it.
func (s *Spool) Has(id record.BatchID) bool {
	s.mu.Lock()
	has := s.out[id] != nil
	s.mu.Unlock()
	_ = s.each(func(g *segment) error {
		all, err := s.all(g)
		has = has || slices.ContainsFunc(all, func(at placed) bool { return at.id == id && s.waits(at) })
		return err
	})
	return has
}
