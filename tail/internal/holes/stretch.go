package holes

import "io"

// Stretch is a range of a file that held nothing but NULs at the last look.
type Stretch struct {
	From int64 // -1: something was written where it began
	At   int64 // what was looked at ends here; 0: nothing was
	Text bool  // something else is at that place
}

// ToEnd reports whether nothing else follows in a file of a size.
func (s *Stretch) ToEnd(size int64) bool {
	return s.At > 0 && s.From >= 0 && !s.Text && s.At >= size
}

// Review checks whether text was written where the NULs were found, in a file f of this size: a
// program that reserved space fills it from its start, and by mmap without a change of the size.
func (s *Stretch) Review(f io.ReaderAt, size int64) {
	switch {
	case s.At > size:
		*s = Stretch{}
	case s.At > 0 && !s.Text && s.From >= 0:
		b := make([]byte, 4096)
		n, _ := f.ReadAt(b, s.From) // an error comes again at the next read
		if FirstText(b[:n]) >= 0 {
			s.From = -1
		}
	}
}

// Frame decides what to do with all bytes that were read at an offset of a file and that end in NULs
// after the first n: frame is how many are scanned, only n while something may still be written in
// their place. over says that nothing more will be. ok is false if what follows has to be looked at
// first, or if the NULs are to be skipped.
func (s *Stretch) Frame(offset int64, n, all int, size int64, over bool) (frame int, ok bool) {
	if from := offset + int64(n); s.From != from || s.At == 0 {
		if s.Text {
			*s = Stretch{}
		}
		*s = Stretch{From: from, At: max(offset+int64(all), s.At)}
	}
	held := s.ToEnd(size)
	switch {
	case !s.Text && !held, n == 0 && (s.Text || over):
		return 0, false
	case held && !over:
		return n, true
	}
	return all, true
}
