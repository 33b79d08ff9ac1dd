package tail

import (
	"path/filepath"
	"time"

	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/identity"
)

// match is what an open file was recognised as.
type match struct {
	is   identity.Verdict
	of   *candidate    // nil: it is like no file that is known
	upTo compare.Place // Rest, Copy: all before it was read of that
	turn bool          // Undecided: a turn of the reader of that tells more

	compared []*candidate // see noteIntact
	scan     uint64       // that was under way when this began
}

// recognise finds out whether the open file s continues a known generation, is a copy of one, or is new.
func (t *Tailer) recognise(in *input, s *compare.Sample) match {
	quiet := in.RotateQuiet.D() // so long it may be undecided whether s is a copy
	t.mu.Lock()
	in.claim(s.File.Name(), s.Node, s.Handle)
	same, alike, named := in.sameFile(s, t.scans.no), in.alike(s, t.scans.no), t.namesakes(in, s)
	if s.Size > 0 {
		alike = append(alike, in.before(named, t.scans.no)...)
	}
	doubt, scan := in.suspect[s.Node], t.scans.no
	t.mu.Unlock()
	if same != nil {
		same.NoteReached(s)
		return match{is: identity.Judge(same.Same(s).Facts), of: same}
	}
	for _, c := range alike {
		if c.k == doubt.of {
			c.Equal = doubt.upTo
		}
	}
	// The clock may have been set back since.
	waited := time.Since(time.Unix(0, doubt.since)).Abs()
	late := func(c *candidate, f identity.Facts) bool {
		switch {
		case t.o.Once: // there is no other time to ask
			return true
		case f.Fate == identity.Changing && (c.turning || !doubt.turn):
			return false // the reader of the original has to look at it first
		}
		return doubt.since > 0 && waited >= quiet
	}
	m := likest(alike, late, func(c *candidate) compare.Finding {
		f := c.Compare(s)
		if f.Facts.Fate == identity.Unlinked && f.Facts.Content.IsAll() && in.isKeptElsewhere(c, s) {
			f.Facts.Content = identity.Little
		}
		return f
	})
	if m.is == identity.Own && s.Size > 0 { // an empty file is compared when it grows, see endIfCopy
		if short := likest(named, late, func(c *candidate) compare.Finding { return c.ShortCopy(s, quiet) }); short.of != nil {
			m = short
		}
		for _, c := range append(named, alike...) { // the log tells that the file is like it
			if m.of == nil && (c.IsShortAs(s) || c.IsUnreadAs(s)) {
				m.of = c
			}
		}
	}
	if m.is == identity.Continuation {
		m.of.NoteReached(s)
	}
	m.compared, m.scan = alike, scan
	return m
}

// likest compares a file with the candidates and returns the strongest verdict, at once if one says
// that the file, or part of it, needs no reading. late reports whether a finding may not remain
// undecided.
func likest(candidates []*candidate, late func(*candidate, identity.Facts) bool, held func(*candidate) compare.Finding) (m match) {
	for _, c := range candidates {
		f := held(c)
		f.Facts.Late = late(c, f.Facts)
		is := identity.Judge(f.Facts)
		if is > m.is || is == m.is && f.Facts.Content != identity.Differs {
			m = match{is: is, of: c, upTo: f.UpTo, turn: f.Facts.Fate == identity.Changing}
		}
		if m.is > identity.Undecided {
			return m
		}
	}
	return m
}

// noteIntact remembers, for the rest of the scan, which of the files that m was compared with still had
// what was read (see compare.Reader). The caller holds mu.
func (t *Tailer) noteIntact(m match) {
	for _, c := range m.compared {
		if c.Reader != nil && c.Reader.Intact && c.k.reader == c.reader {
			c.k.intact = uint32(m.scan)
			if files := c.k.of; len(c.Start) > 0 && c.k.position == c.Position && m.scan == t.scans.no {
				if files.starts == nil {
					files.starts = make(map[*generation][]byte)
				}
				files.starts[c.k] = c.Start
			}
		}
	}
}

// sameFile returns the generation that was read under the inode of the file s, if no reader has it;
// nil: there is none. The caller holds mu.
func (in *input) sameFile(s *compare.Sample, scan uint64) *candidate {
	switch k := in.byNode.get(s.Node); {
	case k == nil, in.doubted(s.Node) != nil: // what was doubted is compared as a new file is
	case k.node() != s.Node: // a rotation copied its content, and the generation goes on in the copy
		return k.candidate(scan)
	case k.reader == nil && !otherHandle(k.info.Info().Handle, s.Handle):
		return k.candidate(scan)
	}
	if s.Birth == 0 {
		return nil
	}
	// Device numbers change over a reboot; all else together does not.
	for _, h := range s.Heads {
		for k := range in.heads.Get(h) {
			if n := k.node(); k.reader == nil && n.SameIn(s.Node) {
				return k.candidate(scan)
			}
		}
	}
	return nil
}

// alike returns the generations that begin with the same bytes as the file s. Of those that are
// being read and have the same content up to the same offset, which may be thousands, it returns one. It leaves
// out those of which nothing was read, but one where there are no others (for the log), and those of which the first
// bytes of the file tell that it goes on otherwise: it is no copy of them, and is not compared. The caller holds mu.
func (in *input) alike(s *compare.Sample, scan uint64) (all []*candidate) {
	told := make(map[compare.Place]bool)
	var unread *generation
	for _, h := range s.Heads {
		for k := range in.heads.Get(h) {
			// Each of them, if this scan has found it intact, leads to the same verdict.
			if r := k.reader; r != nil && !r.life.IsDeleted() && k.intact == uint32(scan) && k.position <= s.Size {
				at := compare.Place{Offset: k.position, Mark: k.mark}
				if told[at] {
					continue
				}
				told[at] = true
			}
			switch {
			case len(k.ahead) > 0:
			case k.position == 0 && k.mark == 0 && (k.reader == nil || !k.reader.life.IsRunning()):
				if k.reader == nil || compare.IsOfStem(s.File.Name(), k.info.Info()) {
					unread = k
				}
				continue
			case s.Differs(k.position, k.mark), k.intact == uint32(scan) && k.reader != nil && s.Size < k.position && s.IsNoBeginning(in.starts[k]):
				continue
			}
			c := k.candidate(scan)
			c.Find, c.Latest = in.folders.FindInfo, in.byNode.has(k)
			all = append(all, c)
		}
	}
	if unread != nil && len(all) == 0 { // the log tells that the file begins like it
		all = append(all, unread.candidate(scan))
	}
	return all
}

// before returns the generations of the given files before their truncations that were too short to
// have a head, by which alike finds others. The caller holds mu.
func (in *input) before(files []*candidate, scan uint64) (all []*candidate) {
	for _, c := range files {
		for f := c.k.file(); f.Generation > 0; {
			f.Generation--
			k := in.known.Get(f)
			if k == nil {
				break // those before it are forgotten too
			}
			if k.position > 0 && !k.truncated.IsZero() && k.info.Head().Len == 0 {
				all = append(all, k.candidate(scan))
			}
		}
	}
	return all
}

// A copy is seen too where heads cannot be compared: so little of it is written yet,
// or nothing of the original was read. Then its name has to tell.

// namesakes returns the files being read whose path is the beginning of the path of s, as app.log
// is of app.log.1. The caller holds mu.
func (t *Tailer) namesakes(in *input, s *compare.Sample) (all []*candidate) {
	path := s.File.Name()
	for end := len(path) - 1; end > len(filepath.Dir(path))+1; end-- {
		for r := range t.byPath.Get(path[:end]) {
			if r.in.files == in.files && r.f != s.File && r.z == nil {
				all = append(all, r.k.candidate(t.scans.no))
			}
		}
	}
	return all
}

func otherHandle(a, b string) bool { return a != "" && b != "" && a != b }
