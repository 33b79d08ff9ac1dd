package spool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"kusto-agent/internal/record"
)

// Stats is what the spool holds.
type Stats struct {
	Bytes   int64          // on disk, those of payloads that ended beside others and of the folder damaged included
	Frames  int            // payloads that have not ended
	Taken   int            // of these, given out
	Records map[string]int // in these, by input
	Oldest  time.Time      // when the oldest of them came here; zero: there is none
	Routes  map[record.Route]RouteStats
}

// RouteStats is what the spool holds for a route.
type RouteStats struct {
	Frames int
	Oldest time.Time
}

// Stats sums up what the spool holds, in all and by route, without reading from the disk. Payloads
// that were given out and have not ended count too. The caller owns the result.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Bytes: s.bytes(), Taken: s.given, Records: maps.Clone(s.records), Routes: map[record.Route]RouteStats{}}
	frames, oldest := map[route]int{}, map[route]int64{}
	came := func(to route, at int64) {
		if was, known := oldest[to]; !known || at < was {
			oldest[to] = at
		}
	}
	for _, g := range s.segments {
		st.Frames += g.live
		for _, sh := range g.order {
			if sh.live == 0 {
				continue
			}
			if frames[sh.to] += sh.live; sh.waiting > 0 {
				came(sh.to, sh.oldestFresh())
			}
		}
	}
	for _, t := range s.out {
		came(t.sh.to, t.sh.g.when(&t.slot))
	}
	for to, n := range frames {
		at := time.Unix(0, oldest[to])
		st.Routes[to.Value()] = RouteStats{Frames: n, Oldest: at}
		if st.Oldest.IsZero() || at.Before(st.Oldest) {
			st.Oldest = at
		}
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
