package compare

import (
	"path/filepath"

	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

// compareGone is Compare for an original that nobody reads.
func (o *Original) compareGone(s *Sample) Finding {
	f := o.found(o.Left.node(s), o.fate(), identity.Differs)
	if f.Facts.Fate == identity.Renamed {
		return f
	}
	at, within := Place{}, false
	// A copy from before the last records were written is compared up to an earlier read position.
	if !o.Truncated.IsZero() && s.Size < o.Position {
		if at, within = o.Trail.within(s.File, s.Size); within || at.Offset == 0 {
			if end, ok := o.provedEnd(s); ok {
				at, within = end, true
			}
		}
	}
	switch {
	case o.Mark == 0 && (o.Position > 0 || len(o.Ahead) == 0): // there is no hash to compare with
		f.Facts.Content = identity.Unknown
	case within && at.Offset == s.Size:
		f.Facts.Content, f.UpTo = identity.Prefix, at
	case within:
		f.Facts.Content, f.UpTo = identity.Part, at
	case o.Fits(s.File, s.Size):
		f.Facts.Content, f.UpTo = o.all(s), Place{o.Position, o.Mark}
	case s.Size < o.Position: // it begins like the original, and there is no hash of that at an offset within it
		f.Facts.Content = identity.Unknown
	}
	switch f.Facts.Content {
	case identity.Differs, identity.Unknown:
		return f
	}
	if !o.isEnough() {
		f.Facts.Content = identity.Little
	}
	unseen := o.Left.Unseen
	if f.Facts.Fate == identity.Past {
		f.Facts.Fate, f.Facts.Node = o.lookBack(s)
		unseen = f.Facts.Fate == identity.Truncated
	} else if o.inPlace() {
		f.Facts.Fate = identity.Untouched
	}
	named := IsOfStem(s.File.Name(), o.Info)
	if f.Facts.Fate == identity.Unlinked && !named || unseen && (!named || filepath.Base(s.File.Name()) == filepath.Base(o.Info.First)) {
		f.Facts.Content = identity.Little // a copy is named after its original; this may only begin alike
	}
	return f
}

// provedEnd returns the size of s, which is shorter than what was read of the original, with the mark there,
// if a comparison before the truncation, or the bytes that were read last, prove that all of s was
// read.
func (o *Original) provedEnd(s *Sample) (Place, bool) {
	if o.Equal.Offset == s.Size {
		if m, err := fingerprint.MarkAt(s.File, s.Size); err == nil && m == o.Equal.Mark {
			return o.Equal, true
		}
	}
	return endsLate(s.File, s.Size, o.Late, o.Position)
}

// lookBack finds out what became of the file of the original if this run has not seen its end, for example
// because the agent was stopped, and whether the file s was made before that (also if nothing is
// known) or after it.
func (o *Original) lookBack(s *Sample) (identity.Fate, identity.Node) {
	if o.inPlace() {
		return identity.Untouched, identity.Older
	}
	if o.Latest && o.Find != nil && o.Info.Packed.Size == 0 { // an older generation is in no file any more
		if path, ok := o.Find(o.Info); ok {
			if f, st, err := inode.Open(path); err == nil {
				defer f.Close()
				switch {
				case st.Node != inode.Of(o.Info): // replaced since it was found
				case o.Fits(f, st.Size):
					return identity.Untouched, identity.Older
				default:
					return identity.Truncated, TruncatedUnseen(st).node(s)
				}
			}
		}
	}
	if path := s.File.Name(); path == o.Info.Path && inode.IsOverlay(filepath.Dir(path)) {
		return identity.Unlinked, identity.Older // a write on overlayfs has made s, with another inode, from the file
	}
	return identity.Past, identity.Older
}

// inPlace reports whether the file of the original, which has no reader, is unchanged at its old path.
// Another file with the same content then counts as compared with an untouched one.
func (o *Original) inPlace() bool {
	f, st, err := inode.Open(o.Info.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	if o.Info.Packed.Size > 0 {
		return st.Node == inode.Of(o.Info) && st.Size == o.Info.Packed.Size && st.Mtime == o.Info.Packed.Mtime
	}
	return st.Node == inode.Of(o.Info) && o.Fits(f, st.Size)
}

// IsCopiedAs reports whether a file holds what was read of an original that was let go and has another name,
// and no more.
func (o *Original) IsCopiedAs(s *Sample) bool {
	return o.Left.There && s.Size <= o.End() && o.Fits(s.File, s.Size)
}

// HeldAll reports whether all bytes of a file were read from the original. That only its
// first bytes were proves nothing: most files of an application begin alike.
func (o *Original) HeldAll(s *Sample) bool {
	if at, holds := o.Trail.within(s.File, s.Size); holds && at.Offset == s.Size {
		return true
	}
	_, proved := o.provedEnd(s)
	return proved
}
