package tail

import (
	"os"
	"time"
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
}

// likeness compares an open file with a generation that has the same head. The
// caller holds Tailer.mu.
func (k *known) likeness(f *os.File, st status) likeness {
	if k.reader != nil {
		return k.reader.likeness(f, st)
	}
	enough := k.position >= copyEvidence ||
		time.Since(k.truncated) < freshCopy && st.birth <= k.truncated.UnixNano()
	// What was written between copy and truncation was read and is not in it.
	short := !k.truncated.IsZero() && st.size < k.position && k.trail.holds(f, st.size)
	switch {
	case !enough || k.mark == 0 || !short && !k.fits(f, st.size):
		return different
	case k.inPlace():
		return copied
	}
	return successor
}

// likeness compares an open file with one that is being read.
func (r *reader) likeness(f *os.File, st status) likeness {
	at := &known{position: r.shown.offset, mark: r.shown.mark}
	switch {
	case at.mark == 0:
		return different
	case st.size < at.position:
		if r.unlessTruncated(at) == unsettled {
			return unsettled // what is left of it to compare with says nothing
		}
		return r.beginsWith(f, st.size)
	case !at.fits(f, st.size):
		return different
	case !r.replacedBy(st):
		return r.unlessTruncated(at)
	case r.shown.atEnd && r.run == resting:
		return successor
	}
	return unsettled
}

// beginsWith reports whether a file is a copy that is still being made.
func (r *reader) beginsWith(f *os.File, size int64) likeness {
	if r.f == nil {
		return different
	}
	a, err1 := markAt(f, size)
	b, err2 := markAt(r.f, size)
	if err1 != nil || err2 != nil || a != b {
		return different
	}
	return copied
}

// unlessTruncated is for the copy of a file that may have been truncated since
// its reader's last turn.
func (r *reader) unlessTruncated(at *known) likeness {
	if r.f != nil {
		if st, err := statFile(r.f); err == nil && !at.fits(r.f, st.size) {
			return unsettled
		}
	}
	return copied
}

// replacedBy reports whether a file that looks like r's was there before r's
// was deleted: saved by an editor, or moved to another file system. A file that
// was made later is a new one, however alike it begins.
func (r *reader) replacedBy(st status) bool {
	if !r.deleted || r.f == nil {
		return false
	}
	old, err := statFile(r.f)
	return err == nil && old.links == 0 && st.birth < old.ctime
}

// inPlace reports whether the file k was read from is still where it was and as
// it was: then what looks like it is a copy.
func (k *known) inPlace() bool {
	f, st, err := openFile(k.info.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	return st.node == nodeOf(k.info) && k.fits(f, st.size)
}

// mayBeCopy looks at a file that was empty when it was found and has its first
// content now: a copy begins as an empty file too. One that may be a copy is
// let go, to be found again by a scan.
func (t *Tailer) mayBeCopy(r *reader, st status) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.empty = false
	if m := r.in.recognise(r.f, st, r.info.Handle, r.in.RotateQuiet.D()); m.k == nil && !m.wait {
		return false
	}
	delete(r.in.known, r.file)
	delete(r.in.byNode, nodeOf(r.info))
	t.rescanSoon()
	return true
}
