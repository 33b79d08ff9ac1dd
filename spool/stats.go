package spool

import (
	"time"

	"kusto-agent/record"
)

// Stats is what the spool holds.
type Stats struct {
	Bytes   int64          // on disk, those of payloads that ended beside others included
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

// Stats sums up what the spool holds. It does not read from the disk.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Bytes: s.bytes(), Taken: len(s.taken), Records: map[string]int{}, Routes: map[record.Route]RouteStats{}}
	for _, g := range s.segments {
		st.Frames += g.frames
		for input, n := range g.records {
			st.Records[input] += n
		}
		for to, share := range g.routes {
			r := st.Routes[to.Value()]
			if r.Frames += share.frames; r.Oldest.IsZero() {
				r.Oldest = time.Unix(0, g.oldest(to))
			}
			st.Routes[to.Value()] = r
			if st.Oldest.IsZero() || r.Oldest.Before(st.Oldest) {
				st.Oldest = r.Oldest
			}
		}
	}
	return st
}

// bytes is the size of all segments. Needs mu.
func (s *Spool) bytes() (n int64) {
	for _, g := range s.segments {
		n += g.size
	}
	return n
}

// oldest is when the oldest payload of a route came that has not ended, or,
// where the index is not loaded, the oldest of those that were there when it was.
func (g *segment) oldest(to route) int64 {
	for i := range g.index {
		if e := &g.index[i]; e.route == to && g.fate[e.ord] == 0 {
			return e.spooled
		}
	}
	return g.routes[to].oldest
}
