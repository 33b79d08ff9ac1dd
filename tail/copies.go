package tail

import (
	"os"
	"path/filepath"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// What a truncated file held is recognised in another for this long with little
// evidence: a copy made at the truncation shows up at once. Later, or in another run,
// identity.Enough must have been read of it.
const freshCopy = 10 * time.Minute

// suspicion is that a file is a copy of one that is being read.
type suspicion struct {
	since int64  // ns
	turn  bool   // a turn of the reader of that tells more, and was asked for
	scan  uint64 // number of the last scan that had it
	path  string
	of    *known   // what it may be a copy of
	upTo  place    // so far it was found equal to that, while that was as it was read
	f     *os.File // holds it open, in case it is deleted or renamed meanwhile; nil: there are too few descriptors
}

// doubt notes that a file may be a copy of the one that m says, or repeats the note at a later
// scan. It owns the open file f, and keeps it open until that is decided, unless too many files are
// open. The journal is told, so that the next run finds the file under another name too. The caller
// holds mu.
func (t *Tailer) doubt(in *input, info record.FileInfo, m match, f *os.File) {
	n := inode.Of(info)
	s := in.suspect[n]
	if s.since == 0 {
		s.since = t.noteDoubt(in, info)
	}
	s.turn, s.scan, s.path = m.turn, t.scans.no, info.Path
	if m.of != nil && m.upTo.offset > 0 {
		s.of, s.upTo = m.of.k, m.upTo
	}
	switch {
	case s.f == f:
	case s.f == nil && int(t.fds.open.Load()) < t.fds.most:
		s.f = f
		t.fds.open.Add(1)
	default:
		f.Close()
	}
	in.suspect[n] = s
}

// noteDoubt tells the journal of a file that may be a copy, and returns since when that is so, in ns:
// an earlier run may have doubted it before. The caller holds mu.
func (t *Tailer) noteDoubt(in *input, info record.FileInfo) (since int64) {
	if k := in.doubted(inode.Of(info)); k != nil {
		return k.info.Info().Doubted
	}
	info.Doubted = time.Now().UnixNano()
	info.Head = record.Head{} // nothing is compared with it
	k := newKnown()
	k.setFile(in.files, in.newFile(&info))
	k.info = info.Facts()
	in.known.Put(k)
	in.byNode.put(k)
	_ = t.o.Positions.Found(k.file(), k.info) // the journal itself logs that it cannot write
	return info.Doubted
}

// doubted returns what is known of a file that may be a copy and that no reader has; nil: the file is
// none of these. The caller holds mu.
func (in *input) doubted(n inode.Node) *known {
	if k := in.byNode.now.Get(n); k != nil && k.reader == nil && k.info.Info().Doubted != 0 {
		return k
	}
	return nil
}

// endSuspicion forgets that a file may be a copy, and closes it unless a reader has taken it. The
// caller holds mu.
func (t *Tailer) endSuspicion(in *input, n inode.Node, taken *os.File) {
	if s := in.suspect[n]; s.f != nil {
		if s.f != taken {
			s.f.Close()
		}
		t.fds.open.Add(-1)
	}
	delete(in.suspect, n)
}

// vanished returns the files that may be copies, that are held open, and that the scan w did not
// find. Those that are not held open are looked for as lost ones. The caller holds mu.
func (d *discovery) vanished(in *input, w *finder.Walk) (all []suspicion) {
	for n, s := range in.suspect {
		switch {
		case s.scan == d.scans.no || w.Unknown(s.path):
		case s.f != nil:
			all = append(all, s)
		default:
			if k := in.doubted(n); k != nil {
				in.lost = append(in.lost, k)
			}
			d.endSuspicion(in, n, nil)
		}
	}
	return all
}

// departure is how the content of a file came to an end in this run. The zero departure is not
// known: it was in another run, if at all.
type departure struct {
	at    int64 // ns; when it was deleted or found truncated
	there bool  // it has a name that no pattern matches

	deleted  bool
	unwanted bool // its input no longer reads it
	lost     bool // before it was read to its end, and may be found again compressed
	unseen   bool // it was truncated while the agent was stopped
}

// node says whether a file was made before this departure, also if the moment is not known, or
// after it. A coarse clock may give both the same time: a copy is made just before a truncation that
// was seen, a new file just after a deletion, or after the last write to a file that was truncated
// before.
func (d departure) node(s *sample) identity.Node {
	if d.at > 0 && (s.born() > d.at || (d.deleted || d.unseen) && s.born() == d.at) {
		return identity.Younger
	}
	return identity.Older
}

// truncatedUnseen returns how the content of a file with the status st came to its end while nobody
// looked: at the latest when its bytes were changed last. Its ctime is later if it was renamed since.
func truncatedUnseen(st inode.Status) departure {
	return departure{at: min(st.Mtime, st.Ctime), unseen: true}
}

// departureOf returns how the open file of a reader left its path; the zero departure if the file
// is compressed, not open or cannot be examined.
func departureOf(r *reader) departure {
	if r.f == nil || r.z != nil {
		return departure{}
	}
	st, err := inode.In(r.f)
	switch {
	case err != nil:
		return departure{}
	case st.Links == 0:
		return departure{at: st.Ctime, deleted: true}
	}
	return departure{there: true}
}

// candidate is a generation that a file may continue, as it stood when the comparing began: that
// reads files, without Tailer.mu, and counts only if the candidate still stands.
type candidate struct {
	k         *known
	info      record.FileInfo
	truncated time.Time
	left      departure

	in     *input // that it was looked for in; nil: it was not
	latest bool   // no later generation of its file is known

	reached bool // the bytes before the position are in the file compared, whatever size it tells

	// How far it was read, and what it can be compared by.
	position int64
	mark     record.Mark
	ahead    []record.Extent // begun or ended beyond the position
	trail    trail
	late     []byte
	equal    place // so far the file compared was equal to it before the truncation

	owner // who reads it, and how far that is
}

// owner is the reader of a candidate, as it stood when the comparing began.
type owner struct {
	reader  *reader // nil: nobody
	f       *os.File
	path    string
	deleted bool
	resting bool      // at its end, with nothing to do
	turning bool      // a turn of it is under way, or to come
	inTurn  bool      // a worker is reading just now, so that all this is of before
	intact  bool      // found as it was since the scan under way began
	packed  bool      // it is compressed
	missing bool      // it is not where it was
	anew    time.Time // when it was last found truncated or rewritten
}

// candidate copies the state of the generation k and of its reader. scan is the number of the scan
// under way. The caller holds Tailer.mu.
func (k *known) candidate(scan uint64) *candidate {
	c := &candidate{k: k, info: k.info.Info(), truncated: k.truncated, left: k.left, position: k.position, mark: k.mark, ahead: k.ahead}
	if r := k.reader; r != nil {
		c.ahead, c.owner = nil, owner{
			reader: r, f: r.f, path: r.path(), deleted: r.life.IsDeleted(), missing: r.life.IsMissing(), packed: r.z != nil,
			resting: r.atEnd && r.life.Turn() == tracker.Resting, turning: r.life.Turn() == tracker.Queued || r.life.IsRunning(), inTurn: r.life.IsRunning(),
			intact: k.intact == uint32(scan), anew: k.anew,
		}
	} else if !k.truncated.IsZero() {
		c.trail, c.late = k.places(), k.late // by which a copy is recognized that is shorter than what was read
	}
	return c
}

// stands reports whether the generation is still as it was when the candidate was copied. The
// caller holds Tailer.mu.
func (c *candidate) stands() bool {
	r := c.k.reader
	return r == c.reader && c.k.position == c.position && (r == nil || r.life.Turn() == tracker.Resting)
}

// finding is what is known of a file and a candidate.
type finding struct {
	of    *candidate
	facts identity.Facts
	upTo  place // Prefix, Part: the file was compared up to there
}

// found returns the finding about the candidate with these facts.
func (c *candidate) found(n identity.Node, f identity.Fate, x identity.Content) finding {
	return finding{of: c, facts: identity.Facts{Node: n, Fate: f, Content: x}}
}

func (c *candidate) differs() finding { return c.found(identity.Older, c.fate(), identity.Differs) }

// unclear returns the finding that nothing can be decided yet, because the reader of the candidate has
// to read what is new in its file first.
func (c *candidate) unclear() finding {
	return c.found(identity.Older, identity.Changing, identity.Unknown)
}

func (c *candidate) fate() identity.Fate { return fateOf(c.reader, c.left, c.truncated) }

// fateOf returns what happened to the file of a generation. Past: it is gone, and the time is not
// known.
func fateOf(reader *reader, left departure, truncated time.Time) identity.Fate {
	switch {
	case reader != nil:
		return identity.Untouched
	case left.there:
		return identity.Renamed
	case !truncated.IsZero():
		return identity.Truncated
	case left.at > 0:
		return identity.Unlinked
	}
	return identity.Past
}

// isEnough reports whether so much of a candidate was read that a file with the same beginning
// counts as a copy of it: with less, both may only have the same header. Shortly after a
// truncation any length is enough.
func (c *candidate) isEnough() bool {
	return c.end() >= identity.Enough || time.Since(c.truncated) < freshCopy
}

// same compares the open file s with the generation c that was read under the same inode.
func (c *candidate) same(s *sample) finding {
	f := c.found(identity.SameNode, c.fate(), identity.Differs)
	switch {
	case inode.Of(c.info) != s.Node:
		f.facts.Node = identity.HandedOver
	case c.fits(s.f, s.Size) || punched(s.f, s.Size, c.position):
		f.facts.Content = identity.Holds
	}
	return f
}

// compare compares the open file s with the generation c, whose content begins in the same way.
func (c *candidate) compare(s *sample) finding {
	compare := c.compareGone
	if c.reader != nil {
		compare = c.compareRead
	}
	f := compare(s)
	if isStale(s.Status, c.info.Birth) {
		f.facts.Node = identity.Stale
	}
	return f
}

// isStale reports whether a file with the status st was last changed before another was made, at birth,
// so that it has no copy of that. 0: the file system does not tell when.
func isStale(st inode.Status, birth int64) bool { return birth > 0 && st.Ctime < birth }

// compareGone is compare for a candidate that nobody reads.
func (c *candidate) compareGone(s *sample) finding {
	f := c.found(c.left.node(s), c.fate(), identity.Differs)
	if f.facts.Fate == identity.Renamed {
		return f
	}
	at, within := place{}, false
	// A copy from before the last records were written is compared up to an earlier read position.
	if !c.truncated.IsZero() && s.Size < c.position {
		if at, within = c.trail.within(s.f, s.Size); within || at.offset == 0 {
			if end, ok := c.provedEnd(s); ok {
				at, within = end, true
			}
		}
	}
	switch {
	case c.mark == 0 && (c.position > 0 || len(c.ahead) == 0): // there is no hash to compare with
		f.facts.Content = identity.Unknown
	case within && at.offset == s.Size:
		f.facts.Content, f.upTo = identity.Prefix, at
	case within:
		f.facts.Content, f.upTo = identity.Part, at
	case c.fits(s.f, s.Size):
		f.facts.Content = identity.Holds
	case s.Size < c.position: // it begins like c, and there is no hash of c at an offset within it
		f.facts.Content = identity.Unknown
	}
	switch f.facts.Content {
	case identity.Differs, identity.Unknown:
		return f
	}
	if !c.isEnough() {
		f.facts.Content = identity.Little
	}
	unseen := c.left.unseen
	if f.facts.Fate == identity.Past {
		f.facts.Fate, f.facts.Node = c.lookBack(s)
		unseen = f.facts.Fate == identity.Truncated
	} else if c.inPlace() {
		f.facts.Fate = identity.Untouched
	}
	named := isOfStem(s.f.Name(), c.info)
	switch {
	case unseen && (!named || filepath.Base(s.f.Name()) == filepath.Base(c.info.First)):
		f.facts.Content = identity.Little // a copy is named after its original; this may only begin alike
	case f.facts.Fate == identity.Unlinked && !named:
		f.facts.Content = identity.Little
	}
	return f
}

// provedEnd returns the size of s, which is shorter than what was read of c, with the mark there,
// if a comparison before the truncation, or the bytes that were read last, prove that all of s was
// read.
func (c *candidate) provedEnd(s *sample) (place, bool) {
	if c.equal.offset == s.Size {
		if m, err := fingerprint.MarkAt(s.f, s.Size); err == nil && m == c.equal.mark {
			return c.equal, true
		}
	}
	return endsLate(s.f, s.Size, c.late, c.position)
}

// end returns up to which offset the candidate was read: its position, or the end of the last range
// after that, which findSource reads from the copy when it is needed.
func (c *candidate) end() int64 {
	if n := len(c.ahead); n > 0 {
		return max(c.position, c.ahead[n-1].End)
	}
	return c.position
}

// compareRead is compare for a candidate that has a reader.
func (c *candidate) compareRead(s *sample) finding {
	holds := c.found(identity.Older, identity.Untouched, identity.Holds)
	switch {
	case c.packed && (c.mark == 0 || s.Size < c.position || !c.fits(s.f, s.Size)):
		return c.differs()
	case c.packed: // s has the content of the compressed file: somebody has decompressed it
		if c.missing { // the scan did not find it: it may just be replaced by s
			holds.facts.Fate = identity.Changing
		}
	case c.mark == 0 && c.inTurn: // its reader is just reading
		return c.unclear()
	case c.mark == 0: // nothing was read of it that s could have
		return c.differs()
	case s.Size < c.position:
		if !c.isIntact() {
			return c.unclear() // the file of c was truncated or rewritten, and cannot be compared with s
		}
		return c.beginsWith(s)
	case !c.fits(s.f, s.Size):
		return c.differs()
	case !c.isIntact(): // the file of c was truncated or rewritten
		return c.unclear()
	}
	if at, unread := c.unlinked(); at > 0 {
		// The file of c was deleted. If s was made before that, an editor has saved it anew, or it was
		// moved to another file system. Then the rest of the deleted file is read before s.
		holds.facts.Node, holds.facts.Fate = (departure{at: at, deleted: !c.packed}).node(s), identity.Unlinked
		switch {
		case holds.facts.Node == identity.Older && (!c.resting || unread):
			holds.facts.Fate = identity.Changing
		case !c.isEnough() && filepath.Base(s.f.Name()) != filepath.Base(c.path), !isOfStem(s.f.Name(), c.info):
			holds.facts.Content = identity.Little // a file with another name may begin with the same header or banner
		}
	}
	return holds
}

// beginsWith compares the file s with the beginning of the candidate's file, which is longer and is
// being read: s may be a copy that is still being written.
func (c *candidate) beginsWith(s *sample) finding {
	if m, ok := c.holds(s); ok {
		f := c.found(identity.Older, identity.Untouched, identity.Prefix)
		f.upTo = place{s.Size, m}
		return f
	}
	if c.intact = false; !c.isIntact() { // its file was truncated since this scan found it intact
		return c.unclear()
	}
	return c.differs()
}

// holds returns the mark at the end of the file s, and whether the candidate's file, which is being
// read, has the same one there. False also means that one of them could not be read.
func (c *candidate) holds(s *sample) (record.Mark, bool) {
	original, done := c.original()
	if original == nil {
		return 0, false
	}
	defer done()
	m, err := fingerprint.MarkAt(s.f, s.Size)
	if err != nil {
		return 0, false
	}
	o, err := fingerprint.MarkAt(original, s.Size)
	return m, err == nil && m == o
}

// isIntact reports whether the file that is being read still has all that was read of it.
// It returns true if the file cannot be opened. The answer is kept for one scan.
func (c *candidate) isIntact() bool {
	if c.intact {
		return true
	}
	if original, done := c.original(); original != nil {
		defer done()
		if st, err := inode.In(original); err == nil && !c.fits(original, st.Size) {
			return false
		}
	}
	c.intact = true
	return true
}

// original returns the candidate's file, which is being read, and opens it if need be. It returns
// nil twice if that fails or another file is at its path; else the caller calls done.
func (c *candidate) original() (f *os.File, done func()) {
	if c.f != nil {
		return c.f, func() {}
	}
	f, st, err := inode.Open(c.path)
	if err != nil {
		return nil, nil
	}
	if st.Node != inode.Of(c.info) {
		f.Close()
		return nil, nil
	}
	return f, func() { f.Close() }
}

// unlinked returns when the file that is being read was deleted, in ns, and whether it has bytes that
// its reader has not seen yet. 0: it was not deleted, or that cannot be told because it is not open.
func (c *candidate) unlinked() (at int64, unread bool) {
	if !c.deleted || c.f == nil {
		return 0, false
	}
	old, err := inode.In(c.f)
	if err != nil || old.Links > 0 {
		return 0, false
	}
	return old.Ctime, !c.packed && old.Size > c.position
}

// lookBack finds out what became of the file of c if this run has not seen its end, for example
// because the agent was stopped, and whether the file s was made before that (also if nothing is
// known) or after it.
func (c *candidate) lookBack(s *sample) (identity.Fate, identity.Node) {
	if c.inPlace() {
		return identity.Untouched, identity.Older
	}
	if c.latest && c.in != nil && c.info.Packed.Size == 0 { // an older generation is in no file any more
		if path, ok := c.in.folders.findNode(c.info); ok {
			if f, st, err := inode.Open(path); err == nil {
				defer f.Close()
				switch {
				case st.Node != inode.Of(c.info): // replaced since it was found
				case c.fits(f, st.Size):
					return identity.Untouched, identity.Older
				default:
					return identity.Truncated, truncatedUnseen(st).node(s)
				}
			}
		}
	}
	if path := s.f.Name(); path == c.info.Path && inode.IsOverlay(filepath.Dir(path)) {
		return identity.Unlinked, identity.Older // a write on overlayfs has made s, with another inode, from the file
	}
	return identity.Past, identity.Older
}

// inPlace reports whether the file of the candidate, which has no reader, is unchanged at its old path.
// Another file with the same content then counts as compared with an untouched one.
func (c *candidate) inPlace() bool {
	f, st, err := inode.Open(c.info.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	if c.info.Packed.Size > 0 {
		return st.Node == inode.Of(c.info) && st.Size == c.info.Packed.Size && st.Mtime == c.info.Packed.Mtime
	}
	return st.Node == inode.Of(c.info) && c.fits(f, st.Size)
}

// fits reports whether an open file has the content that was read of the candidate, by its hashes.
// Without them it compares the beginning and the size, which is not used otherwise, since network
// file systems report old sizes.
func (c *candidate) fits(f *os.File, size int64) bool {
	switch {
	case c.info.Done && size == c.info.Size && size < c.position: // a copy that is known to end before the position
	case c.mark != 0:
		return c.reaches(f) && holdsAhead(f, c.ahead)
	case size < c.position, !holdsAhead(f, c.ahead): // without a hash of the bytes before the position
		return false
	}
	h, err := fingerprint.HeadOfLen(f, c.info.Head.Len)
	return err == nil && h == c.info.Head
}

// reaches reports whether the bytes before the position are in a file.
func (c *candidate) reaches(f *os.File) bool {
	m, err := fingerprint.MarkAt(f, c.position)
	return c.mark != 0 && err == nil && m == c.mark
}

// noteReached notes whether the file s has the bytes before the position although it tells a
// smaller size.
func (c *candidate) noteReached(s *sample) { c.reached = s.Size < c.position && c.reaches(s.f) }

// mayBeCopy looks at a file that was empty when it was found and now has content: a copy begins as
// an empty file too. If it may be one, its reader has to end, and a scan decides; a compressed file
// is inspected at its path.
func (t *Tailer) mayBeCopy(r *reader, st inode.Status) bool {
	r.empty = false
	packed := r.in.packing(r.f, r.path()) != archive.Plain
	m := match{is: identity.Undecided}
	if !packed {
		m = t.recognise(r.in, newSample(r.f, st, r.info.Handle))
	}
	if m.is == identity.Own {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.in.known.Delete(r.file)
	r.in.byNode.remove(st.Node)
	if !packed {
		r.in.readers.Delete(st.Node)
		info := r.info
		info.Path = r.path()
		t.doubt(r.in, info, m, r.f)
		if r.in.suspect[st.Node].f == r.f {
			t.fds.open.Add(-1) // doubt has counted the file, which was counted for the reader before
			r.f = nil
		}
	}
	t.rescanSoon()
	return true
}

// holdsAhead reports whether the open file still has the ranges in ahead, by the hash of the bytes
// before the end of each; of a range without a hash it only asks whether it is in the file.
func holdsAhead(f *os.File, ahead []record.Extent) bool {
	for _, x := range ahead {
		if m, err := fingerprint.MarkAt(f, x.End); err != nil || x.Mark != 0 && m != x.Mark {
			return false
		}
	}
	return true
}

// A copy is seen too where heads cannot be compared: so little of it is written yet,
// or nothing of the original was read. Then its name has to tell.

// namesakes returns the files being read whose path is the beginning of the path of s, as app.log
// is of app.log.1. The caller holds mu.
func (t *Tailer) namesakes(in *input, s *sample) (all []*candidate) {
	path := s.f.Name()
	for end := len(path) - 1; end > len(filepath.Dir(path))+1; end-- {
		for r := range t.byPath.Get(path[:end]) {
			if r.in.files == in.files && r.f != s.f && r.z == nil {
				all = append(all, r.k.candidate(t.scans.no))
			}
		}
	}
	return all
}

// shortCopy compares the file s with a namesake, if s is too short to be compared by a hash of its
// beginning. For the time quiet after the namesake was found truncated, s may be a copy that is
// still being written.
func (c *candidate) shortCopy(s *sample, quiet time.Duration) finding {
	switch short := s.Size < int64(fingerprint.HeadLens[0]); {
	case short && time.Since(c.anew) < quiet:
		return c.unclear()
	case c.mark == 0 && c.inTurn:
		return c.unclear()
	case c.mark == 0: // nothing was read of it that s could have
		return c.differs()
	case !short || int64(c.info.Head.Len) <= s.Size:
		return c.differs()
	case !c.isIntact():
		return c.unclear()
	}
	return c.beginsWith(s)
}
