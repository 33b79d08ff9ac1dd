package tail

import (
	"path/filepath"
	"time"
)

// A copy is seen too where heads can not be compared: so little of it is written yet,
// or nothing of the original was read. Then its name has to tell.

// namesakes are the files that are being read whose paths a path begins with: what it
// may be a copy of. The caller holds mu.
func (t *Tailer) namesakes(in *input, s *sample) (all []*candidate) {
	path := s.f.Name()
	for end := len(path) - 1; end > len(filepath.Dir(path))+1; end-- {
		for _, r := range t.byPath[path[:end]] {
			if r.in.files == in.files && r.f != s.f && r.z == nil {
				all = append(all, r.k.candidate(t.scanNo))
			}
		}
	}
	return all
}

// firstShort finds the first of some candidates that a short file may be a copy of.
func firstShort(named []*candidate, s *sample, quiet time.Duration) (*candidate, likeness) {
	for _, c := range named {
		if c.reader == nil {
			continue
		}
		if like := c.shortCopy(s, quiet); like != different {
			return c, like
		}
	}
	return nil, different
}

// shortCopy compares a file with one that it is named after, and begins like, or that
// was truncated just now.
func (c *candidate) shortCopy(s *sample, quiet time.Duration) likeness {
	switch short := s.size < int64(headLens[0]); {
	case short && time.Since(c.anew) < quiet:
		return copied
	case c.mark == 0 && c.inTurn:
		return unsettled
	case c.mark == 0 && c.isShorter(s.size):
		return different
	case c.mark == 0: // nobody knows yet how it begins
	case !short || int64(c.info.Head.Len) <= s.size:
		return different
	case !c.isIntact():
		return unsettled
	}
	return c.beginsWith(s)
}

func (c *candidate) isShorter(size int64) bool {
	f, done := c.original()
	if f == nil {
		return true
	}
	defer done()
	st, err := statFile(f)
	return err != nil || st.size < size
}
