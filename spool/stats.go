package spool

import (
	"time"
)

// Stats is what the spool holds.
type Stats struct {
	Bytes    int64          // on disk, those of payloads that ended beside others included
	Frames   int            // payloads that have not ended
	Taken    int            // of these, given out
	Records  map[string]int // in these, by input
	Oldest   time.Time      // when the oldest of them came here; zero: there is none
	Clusters map[string]ClusterStats
}

// ClusterStats is what the spool holds for a cluster URL.
type ClusterStats struct {
	Frames int
	Oldest time.Time
}

// Stats sums up what the spool holds. It does not read from the disk.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Bytes: s.bytes(), Taken: len(s.taken), Records: map[string]int{}, Clusters: map[string]ClusterStats{}}
	for _, g := range s.segments {
		st.Frames += g.frames
		for input, n := range g.records {
			st.Records[input] += n
		}
		for cluster, share := range g.clusters {
			c := st.Clusters[cluster]
			if c.Frames += share.frames; c.Oldest.IsZero() {
				c.Oldest = time.Unix(0, g.oldest(cluster))
			}
			st.Clusters[cluster] = c
			if st.Oldest.IsZero() || c.Oldest.Before(st.Oldest) {
				st.Oldest = c.Oldest
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

// oldest is when the oldest payload of a cluster came that has not ended, or,
// where the index is not loaded, the oldest of those that were there when it was.
func (g *segment) oldest(cluster string) int64 {
	for i := range g.index {
		if e := &g.index[i]; e.cluster == cluster && g.fate[e.ord] == 0 {
			return e.spooled
		}
	}
	return g.clusters[cluster].oldest
}
