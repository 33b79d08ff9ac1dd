package tail

import (
	"os"
	"time"

	"kusto-agent/record"
)

// What a truncated file held is recognised in another for this long with little
// evidence: a copy made at the truncation shows up at once.
const freshCopy = 10 * time.Minute

// Later, or in another run, at least this much must have been read of it: two
// files may well begin with the same banner.
const copyEvidence = 1024

// likeness is what a file may be that begins like one that is known. A copy
// made before a truncation continues the old generation once the truncation is
// seen; a copy that stays one is a file of its own.
type likeness uint8

const (
	different likeness = iota
	copied             // a copy, at least so far
	unsettled          // a copy, and what it was made of is about to change
	successor          // it goes on where the known one ended
)

// suspicion is that a file is a copy of one that is being read.
type suspicion struct {
	since int64  // ns
	scan  uint64 // number of the last scan that had it
	path  string
	f     *os.File // holds it open, in case it is deleted or renamed meanwhile; nil: there are too few descriptors
	more  bool     // it holds more than was read of the other
}

// holdSuspect keeps a file open that may be a copy, if it is not, or closes it. The
// caller holds mu.
func (t *Tailer) holdSuspect(s *suspicion, f *os.File) {
	switch {
	case s.f == f:
	case s.f == nil && int(t.open.Load()) < t.most:
		s.f = f
		t.open.Add(1)
	default:
		f.Close()
	}
}

// endSuspicion forgets that a file may be a copy; taken is the descriptor of it that
// is in use from now on. The caller holds mu.
func (t *Tailer) endSuspicion(in *input, n node, taken *os.File) {
	if s := in.suspect[n]; s.f != nil {
		if s.f != taken {
			s.f.Close()
		}
		t.open.Add(-1)
	}
	delete(in.suspect, n)
}

// meetVanished goes on with files that may be copies and that the scan did not find.
// One that holds more than was read of the other is asked about as before, by its
// descriptor, and then read. What the others hold was read.
func (t *Tailer) meetVanished(in *input, w *walk) {
	t.mu.Lock()
	var vanished []suspicion
	for n, s := range in.suspect {
		switch {
		case s.scan == t.scanNo || w.unknown(s.path):
		case s.f != nil && s.more:
			vanished = append(vanished, s)
		default:
			t.endSuspicion(in, n, nil)
		}
	}
	t.mu.Unlock()
	for _, s := range vanished {
		if st, err := statFile(s.f); err == nil {
			t.adoptOpen(in, s.path, s.f, st, true)
		}
	}
}

// departure is how the content of a file came to an end in this run: the file was
// truncated, or read to its end and let go. The zero departure is not known: it was in
// another run, if at all.
type departure struct {
	at    int64 // ns; when it was deleted or found truncated
	there bool  // it has a name that no pattern matches
}

// explains reports whether a file of the given birth can hold what the file that
// departed held: it was copied before that came to its end. A file that was made later
// begins like it and is another; so is one beside a file that is there.
func (d departure) explains(birth int64) bool {
	switch {
	case d.there:
		return false
	case d.at == 0 || birth == 0:
		return true
	}
	return birth <= d.at
}

// departureOf is how the open file of a reader that is let go left its path.
func departureOf(f *os.File) departure {
	if f == nil {
		return departure{}
	}
	st, err := statFile(f)
	switch {
	case err != nil:
		return departure{}
	case st.links == 0:
		return departure{at: st.ctime}
	}
	return departure{there: true}
}

// candidate is a generation that a file may continue, as it stood when the
// comparing began. Comparing reads files, which can take long, so it is done
// without Tailer.mu; what came of it counts only if the candidate still stands.
type candidate struct {
	k         *known
	info      record.FileInfo
	position  int64 // it was read so far
	mark      record.Mark
	ahead     []record.Extent // begun or ended beyond the position
	trail     trail
	truncated time.Time
	left      departure

	reader  *reader // who reads it; nil: nobody
	f       *os.File
	path    string
	deleted bool
	resting bool      // at its end, with nothing to do
	inTurn  bool      // a worker is reading just now, so that all this is of before
	intact  bool      // found as it was since the scan under way began
	packed  bool      // it is compressed
	missing bool      // it is not where it was
	anew    time.Time // when it was last found truncated or rewritten

	reached bool // the bytes before the position are in the file compared, whatever size it tells
}

// candidate takes down how a generation stands. The caller holds Tailer.mu.
func (k *known) candidate(scan uint64) *candidate {
	c := &candidate{k: k, info: k.info, position: k.position, mark: k.mark, ahead: k.ahead, truncated: k.truncated, left: k.left}
	if r := k.reader; r != nil {
		c.position, c.mark = r.shown.offset, r.shown.mark
		c.reader, c.f, c.path, c.deleted, c.ahead = r, r.f, r.path, r.deleted, nil
		c.resting, c.inTurn, c.anew = r.shown.atEnd && r.run == resting, r.run == running || r.run == dirty, r.anew
		c.intact = k.intact == scan
		c.packed, c.missing = r.z != nil, r.missed || r.gone
	} else if !k.truncated.IsZero() {
		c.trail = append(trail(nil), k.trail...)
	}
	return c
}

// stands reports whether nothing was read since of what was compared, and nobody
// else reads it. The caller holds Tailer.mu.
func (c *candidate) stands() bool {
	switch {
	case c.k.reader != c.reader:
		return false
	case c.reader == nil:
		return c.k.position == c.position
	}
	return c.reader.run == resting && c.reader.shown.offset == c.position
}

// likeness compares a file with a generation that has the same head.
func (c *candidate) likeness(s *sample) likeness {
	if c.reader != nil {
		return c.likenessOfRead(s)
	}
	enough := c.end() >= copyEvidence || time.Since(c.truncated) < freshCopy
	// What was written between copy and truncation was read and is not in it.
	short := !c.truncated.IsZero() && s.size < c.position && c.trail.holds(s.f, s.size)
	switch {
	case !c.left.explains(s.birth):
		return different
	case !enough || c.mark == 0 && (c.position > 0 || len(c.ahead) == 0) || !short && !c.fits(s.f, s.size):
		return different
	case c.inPlace():
		return copied
	}
	return successor
}

// end is where all ends that needs no reading. What was begun there by an earlier run
// is made again from the copy, see findSource.
func (c *candidate) end() int64 {
	if n := len(c.ahead); n > 0 {
		return max(c.position, c.ahead[n-1].End)
	}
	return c.position
}

// likenessOfRead compares a file with one that is being read.
func (c *candidate) likenessOfRead(s *sample) likeness {
	switch {
	case c.packed: // what was unpacked beside it, or in its place
		switch {
		case c.mark == 0 || s.size < c.position || !c.fits(s.f, s.size):
			return different
		case c.missing:
			return unsettled
		}
		return copied
	case c.mark == 0 && c.inTurn:
		return unsettled
	case c.mark == 0:
		return different
	case s.size < c.position:
		if !c.isIntact() {
			return unsettled // what is left of it to compare with says nothing
		}
		return c.beginsWith(s)
	case !c.fits(s.f, s.size):
		return different
	case !c.isIntact(): // also one that was deleted since
		return unsettled
	case !c.replacedBy(s):
		return copied
	case c.resting:
		return successor
	}
	return unsettled
}

// beginsWith compares a file with the beginning of one that is being read: it
// may be a copy that is still being made.
func (c *candidate) beginsWith(s *sample) likeness {
	original, done := c.original()
	if original == nil {
		return different
	}
	defer done()
	a, err1 := markAt(s.f, s.size)
	b, err2 := markAt(original, s.size)
	if err1 == nil && err2 == nil && a == b {
		return copied
	}
	if c.intact = false; !c.isIntact() { // truncated since it was last looked at
		return unsettled
	}
	return different
}

// isIntact reports that a file that is being read was not truncated since its
// reader's last turn. One scan asks once.
func (c *candidate) isIntact() bool {
	if c.intact {
		return true
	}
	if original, done := c.original(); original != nil {
		defer done()
		if st, err := statFile(original); err == nil && !c.fits(original, st.size) {
			return false
		}
	}
	c.intact = true
	return true
}

// original is the file that is being read, opened anew if its descriptor was given
// back; nil: it is not where it was. done must be called.
func (c *candidate) original() (f *os.File, done func()) {
	if c.f != nil {
		return c.f, func() {}
	}
	f, st, err := openFile(c.path)
	if err != nil {
		return nil, nil
	}
	if st.node != nodeOf(c.info) {
		f.Close()
		return nil, nil
	}
	return f, func() { f.Close() }
}

// replacedBy reports whether a file that looks like the one that is being read
// was there before that was deleted: saved by an editor, or moved to another file
// system. A file that was made later is a new one, however alike it begins.
func (c *candidate) replacedBy(s *sample) bool {
	if !c.deleted || c.f == nil {
		return false
	}
	old, err := statFile(c.f)
	return err == nil && old.links == 0 && s.birth < old.ctime
}

// inPlace reports whether the file that was read is still where it was and as it
// was: then what looks like it is a copy.
func (c *candidate) inPlace() bool {
	f, st, err := openFile(c.info.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	if c.info.Packed.Size > 0 {
		return st.node == nodeOf(c.info) && st.size == c.info.Packed.Size && st.mtime == c.info.Packed.Mtime
	}
	return st.node == nodeOf(c.info) && c.fits(f, st.size)
}

// fits reports whether a file holds what was read of the candidate. The size that
// is told counts only where nothing else does: network file systems tell old ones.
func (c *candidate) fits(f *os.File, size int64) bool {
	switch {
	case c.info.Done && size == c.info.Size && size < c.position: // a short copy, see trail
	case c.mark != 0:
		return c.reaches(f) && holdsAhead(f, c.ahead)
	case size < c.position, !holdsAhead(f, c.ahead): // of the bytes before the position nothing is known
		return false
	}
	h, err := headOfLen(f, c.info.Head.Len)
	return err == nil && h == c.info.Head
}

// reaches reports whether the bytes before the position are in a file.
func (c *candidate) reaches(f *os.File) bool {
	m, err := markAt(f, c.position)
	return c.mark != 0 && err == nil && m == c.mark
}

// noteReached notes whether the candidate reaches into a file that is to be gone on in.
func (c *candidate) noteReached(s *sample) { c.reached = s.size < c.position && c.reaches(s.f) }

// mayBeCopy looks at a file that was empty when it was found and has its first
// content now: a copy begins as an empty file too. One that may be a copy is
// let go, to be found again by a scan.
func (t *Tailer) mayBeCopy(r *reader, st status) bool {
	r.empty = false
	if r.in.packing(r.f, r.path) != plain {
		t.forgetReader(r)
		return true
	}
	m := t.recognise(r.in, newSample(r.f, st, r.info.Handle), r.in.RotateQuiet.D())
	if m.of == nil && !m.wait {
		return false
	}
	t.forgetReader(r)
	return true
}

// forgetReader forgets that a file was found, so that the next scan finds it again.
func (t *Tailer) forgetReader(r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(r.in.known, r.file)
	delete(r.in.byNode, nodeOf(r.info))
	t.rescanSoon()
}
