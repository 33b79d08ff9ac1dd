package compare

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

// compareRead is Compare for an original that has a reader.
func (o *Original) compareRead(s *Sample) Finding {
	holds := o.found(identity.Older, identity.Untouched, o.all(s))
	switch {
	case o.Reader.Packed && (o.Mark == 0 || s.Size < o.Position || !o.Fits(s.File, s.Size)):
		return o.differs()
	case o.Reader.Packed: // s has the content of the compressed file: somebody has decompressed it
		if o.Reader.Missing { // the scan did not find it: it may just be replaced by s
			holds.Facts.Fate = identity.Changing
		}
	case o.Mark == 0 && o.Reader.InTurn: // its reader is just reading
		return o.unclear()
	case o.Mark == 0: // nothing was read of it that s could have
		return o.differs()
	case s.Size < o.Position:
		if !o.isIntact() {
			return o.unclear() // the file of the original was truncated or rewritten, and cannot be compared with s
		}
		return o.beginsWith(s)
	case !o.Fits(s.File, s.Size):
		return o.differs()
	case !o.isIntact(): // the file of the original was truncated or rewritten
		return o.unclear()
	}
	if at, unread := o.unlinked(); at > 0 {
		// The file of the original was deleted. If s was made before that, an editor has saved it anew, or it was
		// moved to another file system. Then the rest of the deleted file is read before s.
		holds.Facts.Node, holds.Facts.Fate = (Departure{At: at, Deleted: !o.Reader.Packed}).node(s), identity.Unlinked
		switch {
		case holds.Facts.Node == identity.Older && (!o.Reader.Resting || unread):
			holds.Facts.Fate = identity.Changing
		case !o.isEnough() && filepath.Base(s.File.Name()) != filepath.Base(o.Reader.Path), !IsOfStem(s.File.Name(), o.Info):
			holds.Facts.Content = identity.Little // a file with another name may begin with the same header or banner
		}
	}
	return holds
}

// beginsWith compares the file s with the beginning of the original's file, which is longer and is
// being read: s may be a copy that is still being written.
func (o *Original) beginsWith(s *Sample) Finding {
	m, holds, err := o.holds(s)
	switch {
	case err != nil: // nothing is known of it
		return o.unclear()
	case holds:
		f := o.found(identity.Older, identity.Untouched, identity.Prefix)
		f.UpTo = Place{s.Size, m}
		return f
	}
	if o.Reader.Intact = false; !o.isIntact() { // its file was truncated since this scan found it intact
		return o.unclear()
	}
	return o.differs()
}

// holds returns the mark at the end of the file s, and whether the original's file, which is being
// read, has the same one there. The error says that one of them could not be read. If s is short, it notes what
// the original's file begins with.
func (o *Original) holds(s *Sample) (m record.Mark, holds bool, err error) {
	original, _, done := o.original()
	if original == nil {
		return 0, false, os.ErrNotExist
	}
	defer done()
	if m, err = fingerprint.MarkAt(s.File, s.Size); err != nil {
		return 0, false, err
	}
	if n := int(min(o.Position, int64(fingerprint.HeadLens[0]))); s.Size <= int64(n) {
		start := make([]byte, n)
		if _, err := fingerprint.ReadFull(original, start, 0); err != nil {
			return m, false, err
		}
		o.Start = start
		return m, fingerprint.MarkOf(start[max(s.Size-record.MarkLen, 0):s.Size]) == m, nil
	}
	was, err := fingerprint.MarkAt(original, s.Size)
	return m, err == nil && m == was, err
}

// isIntact reports whether the file that is being read still has all that was read of it.
// It returns true if the file cannot be opened. The answer is kept for one scan.
func (o *Original) isIntact() bool {
	if o.Reader.Intact {
		return true
	}
	if original, size, done := o.original(); original != nil {
		defer done()
		if !o.Fits(original, size) {
			return false
		}
	}
	o.Reader.Intact = true
	return true
}

// original returns the original's file, which is being read, with its size, and opens it if need be:
// it may be closed at any moment, if too many files are open. It returns no file if nobody reads it,
// that fails, or another file is at its path; else the caller calls done.
func (o *Original) original() (f *os.File, size int64, done func()) {
	if o.Reader == nil {
		return nil, 0, nil
	}
	if f := o.Reader.File; f != nil {
		if st, err := inode.In(f); err == nil {
			return f, st.Size, func() {}
		}
	}
	f, st, err := inode.Open(o.Reader.Path)
	if err != nil {
		return nil, 0, nil
	}
	if st.Node != inode.Of(o.Info) {
		f.Close()
		return nil, 0, nil
	}
	return f, st.Size, func() { f.Close() }
}

// unlinked returns when the file that is being read was deleted, in ns, and whether it has bytes that
// its reader has not seen yet. 0: it was not deleted, or that cannot be told because it is not open.
func (o *Original) unlinked() (at int64, unread bool) {
	if !o.Reader.Deleted || o.Reader.File == nil {
		return 0, false
	}
	old, err := inode.In(o.Reader.File)
	if err != nil || old.Links > 0 {
		return 0, false
	}
	return old.Ctime, !o.Reader.Packed && old.Size > o.Position
}

// ShortCopy compares the file s with a namesake, if s is too short to be compared by a hash of its
// beginning. For the time quiet after the namesake was found truncated, s may be a copy that is
// still being written.
func (o *Original) ShortCopy(s *Sample, quiet time.Duration) Finding {
	switch short := s.Size < int64(fingerprint.HeadLens[0]); {
	case o.Reader == nil: // another reader has taken over what was read of it
		return o.differs()
	case short && time.Since(o.Reader.Anew) < quiet:
		return o.unclear()
	case o.Mark == 0 && o.Reader.InTurn:
		return o.unclear()
	case o.Mark == 0: // nothing was read of it that s could have
		return o.differs()
	case !short || int64(o.Info.Head.Len) <= s.Size:
		return o.differs()
	case !o.isIntact():
		return o.unclear()
	}
	return o.beginsWith(s)
}

// IsShortAs reports whether a file holds just what was read of an original that is too short to be recognized by how
// it begins.
func (o *Original) IsShortAs(s *Sample) bool {
	return o.Info.Head.Len == 0 && o.Position == s.Size && o.Reaches(s.File)
}

// IsUnreadAs reports whether a file begins as an original does of which nothing was read yet.
func (o *Original) IsUnreadAs(s *Sample) bool {
	return o.Position == 0 && o.Mark == 0 && slices.Contains(s.Heads, o.Info.Head)
}

// GoesOnAs reports whether the file s is not empty and seems to be the beginning of the original's
// file, also beyond the offset up to which that was read.
func (o *Original) GoesOnAs(s *Sample) bool {
	_, holds, _ := o.holds(s)
	return holds && s.Size > 0
}
