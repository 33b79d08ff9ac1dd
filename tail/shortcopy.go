package tail

import (
	"kusto-agent/tail/internal/fingerprint"
	"path/filepath"
	"time"
)

// A copy is seen too where heads cannot be compared: so little of it is written yet,
// or nothing of the original was read. Then its name has to tell.

// namesakes returns, as candidates, the files being read whose path is the beginning of the path of
// the file s: s may be a copy of one, as app.log.1 of app.log. The caller holds mu.
func (t *Tailer) namesakes(in *input, s *sample) (all []*candidate) {
	path := s.f.Name()
	for end := len(path) - 1; end > len(filepath.Dir(path))+1; end-- {
		for r := range t.byPath.Get(path[:end]) {
			if r.in.files == in.files && r.f != s.f && r.z == nil {
				all = append(all, r.k.candidate(t.scanNo))
			}
		}
	}
	return all
}

// shortCopy compares the file s with the candidate, whose path is the beginning of the path of s,
// if s is too short to be compared by a hash of its beginning. The finding is unclear while the
// candidate's file has to be looked at again, or for the time quiet after it was found truncated: s
// may then be a copy that is still being written.
func (c *candidate) shortCopy(s *sample, quiet time.Duration) finding {
	switch short := s.size < int64(fingerprint.HeadLens[0]); {
	case short && time.Since(c.anew) < quiet:
		return c.unclear()
	case c.mark == 0 && c.inTurn:
		return c.unclear()
	case c.mark == 0: // nothing was read of it that s could have
		return c.differs()
	case !short || int64(c.info.Head.Len) <= s.size:
		return c.differs()
	case !c.isIntact():
		return c.unclear()
	}
	return c.beginsWith(s)
}
