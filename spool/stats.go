package spool

import (
	"fmt"
	"math"
	"slices"
	"time"

	"kusto-agent/internal/record"
)

// Stats is what the spool holds.
type Stats struct {
	Bytes  int64                // on disk, those of payloads that ended beside others and of the folder damaged included
	Frames int                  // payloads that have not ended
	Routes map[record.Route]int // of these, by route
	Oldest time.Time            // when the oldest of them came here; zero: there is none
}

// Stats sums up what the spool holds, without reading from the disk. Payloads that were given out and
// have not ended count too. The caller owns the result.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Bytes: s.bytes(), Routes: map[record.Route]int{}}
	oldest := int64(math.MaxInt64)
	for _, g := range s.segments {
		st.Frames += g.live
		for _, sh := range g.order {
			if sh.live > 0 {
				st.Routes[sh.to.Value()] += sh.live
			}
			if sh.waiting > 0 {
				oldest = min(oldest, sh.oldestFresh())
			}
		}
	}
	for _, t := range s.out {
		oldest = min(oldest, t.sh.g.when(&t.slot))
	}
	if st.Frames > 0 {
		st.Oldest = time.Unix(0, oldest)
	}
	return st
}

// bytes returns the size of all segments with their indexes, and of the folder damaged.
// Needs mu.
func (s *Spool) bytes() (n int64) {
	n = s.spoiled
	for _, g := range s.segments {
		n += g.disk()
	}
	return n
}

// oldestFresh returns when the oldest payload of the share that was never given out came to the spool,
// in nanoseconds since 1970. (A share is the payloads of a route in one segment.) If its index entry is
// not in memory, the result may be too early. Needs mu.
func (sh *share) oldestFresh() int64 {
	for i := max(sh.next-sh.from, 0); i < len(sh.slots); i++ {
		if e := &sh.slots[i]; !sh.g.ended.has(e.ord) {
			return sh.g.when(e)
		}
	}
	return sh.oldest
}

// Segments returns the numbers of the segments in the folder, sorted, without those that are about to
// be removed because all their payloads have ended. The caller owns the slice. After the first call
// of Segments the spool calls Options.OnSegments whenever these numbers change.
func (s *Spool) Segments() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	all := make([]uint64, 0, len(s.segments))
	for _, g := range s.segments {
		if !g.leaving {
			all = append(all, g.seq)
		}
	}
	slices.Sort(all)
	return all
}

// segmentsChanged calls Options.OnSegments, if Segments was called before.
func (s *Spool) segmentsChanged() {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	if asked {
		s.o.OnSegments()
	}
}

// NumberAbove makes new segments get numbers above n, so that none gets the number of a segment
// that is gone and that the journal still remembers.
func (s *Spool) NumberAbove(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, n+1)
}

// newNumber returns a new segment with a number that was never used before, as far as is
// known.
func (s *Spool) newNumber() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.next
	s.next++
	return newSegment(fmt.Sprintf("%016x%s", n, suffix), n)
}
