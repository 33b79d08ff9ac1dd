// Package compare promises that what it says of two files was seen in their bytes: it holds an
// open file against what is known of one that was read, the original, and says how they relate.
// It opens and reads files, decides nothing about them, and changes nothing but what it notes in the
// copy that it was given.
package compare

import (
	"bytes"
	"cmp"
	"os"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/rotation"
)

// Sample is an open file, with what of it finds the originals it may go on from.
type Sample struct {
	File *os.File
	inode.Status
	Handle string
	Heads  []record.Head // over every length it has

	start []byte // the bytes that the heads are of
	marks map[int64]record.Mark
}

// Born is when a file was made, or last written to where that is not known.
func (s *Sample) Born() int64 { return cmp.Or(s.Birth, s.Mtime) }

// Of returns the sample of an open file with this status and handle.
func Of(f *os.File, st inode.Status, handle string) *Sample {
	start := fingerprint.Start(f, st.Size)
	return &Sample{File: f, Status: st, Handle: handle, Heads: fingerprint.HeadsOf(start), start: start}
}

// Differs reports whether the first bytes of a file show that it has other ones before an offset than those of
// which mark is made. It reads nothing.
func (s *Sample) Differs(offset int64, mark record.Mark) bool {
	if mark == 0 || offset > int64(len(s.start)) {
		return false
	}
	m, ok := s.marks[offset]
	if !ok {
		if s.marks == nil { // few files are like others
			s.marks = make(map[int64]record.Mark)
		}
		m = fingerprint.MarkOf(s.start[max(offset-record.MarkLen, 0):offset])
		s.marks[offset] = m
	}
	return m != mark
}

// IsNoBeginning reports whether the first bytes of a file show that it is not the beginning of one that begins
// with start.
func (s *Sample) IsNoBeginning(start []byte) bool {
	n := min(len(s.start), len(start))
	return !bytes.Equal(s.start[:n], start[:n])
}

// Finding is what a comparison has found.
type Finding struct {
	Facts identity.Facts
	UpTo  Place // Prefix, Part, Ends: the file was compared up to there
}

// found returns the finding about the original with these facts.
func (o *Original) found(n identity.Node, f identity.Fate, x identity.Content) Finding {
	return Finding{Facts: identity.Facts{Node: n, Fate: f, Content: x}}
}

// all returns how the file s compares, which has all that was read of the original.
func (o *Original) all(s *Sample) identity.Content {
	if s.Size == o.Position && o.Mark != 0 {
		return identity.Ends
	}
	return identity.Holds
}

func (o *Original) differs() Finding { return o.found(identity.Older, o.fate(), identity.Differs) }

// unclear returns the finding that nothing can be decided yet, because the reader of the original has
// to read what is new in its file first.
func (o *Original) unclear() Finding {
	return o.found(identity.Older, identity.Changing, identity.Unknown)
}

func (o *Original) fate() identity.Fate { return FateOf(o.Reader != nil, o.Left, o.Truncated) }

// FateOf returns what happened to an original, by whether it is read, how it was left, and when
// reading of it ended with a truncation; one that nobody saw (left.Unseen) is a truncation too. Past: it
// is gone, and the time is not known.
func FateOf(isRead bool, left Departure, truncated time.Time) identity.Fate {
	switch {
	case isRead:
		return identity.Untouched
	case left.There:
		return identity.Renamed
	case !truncated.IsZero(), left.Unseen:
		return identity.Truncated
	case left.At > 0:
		return identity.Unlinked
	}
	return identity.Past
}

// isEnough reports whether so much of an original was read that a file with the same beginning
// counts as a copy of it: with less, both may only have the same header. Shortly after a
// truncation any length is enough.
func (o *Original) isEnough() bool {
	return o.End() >= identity.Enough || time.Since(o.Truncated) < FreshCopy
}

// Same compares the open file s with the original that was read under the same inode.
func (o *Original) Same(s *Sample) Finding {
	f := o.found(identity.SameNode, o.fate(), identity.Differs)
	switch {
	case inode.Of(o.Info) != s.Node:
		f.Facts.Node = identity.HandedOver
	case o.Fits(s.File, s.Size) || holes.Punched(s.File, s.Size, o.Position):
		f.Facts.Content = o.all(s)
	}
	return f
}

// Compare compares the open file s with the original, whose content begins in the same way.
func (o *Original) Compare(s *Sample) Finding {
	compare := o.compareGone
	if o.Reader != nil {
		compare = o.compareRead
	}
	f := compare(s)
	if IsStale(s.Status, o.Info.Birth) {
		f.Facts.Node = identity.Stale
	}
	return f
}

// IsStale reports whether all that a file with the status st holds was written before another was made, at
// birth, so that it has no copy of that. A rotation may have renamed it since, which changes its ctime: that
// counts only where the file system does not tell when files were made. birth is 0 if that of the other is not
// known.
func IsStale(st inode.Status, birth int64) bool {
	written := st.Ctime
	if st.Birth != 0 { // a copy is made later, and if it took the place of an older file, written later
		written = max(st.Birth, st.Mtime)
	}
	return birth > 0 && written < birth
}

// IsOlder reports whether a file with the status st is no copy that rotation has left of the original, because it
// was written before: before the original was made or, where no more than a header or banner was read of that,
// before it was seen at its path, as a file of before the agent ran is that was compressed or restored since.
func (o *Original) IsOlder(st inode.Status) bool {
	return IsStale(st, o.Info.Birth) || o.End() < identity.Enough && IsStale(st, o.Info.Seen-rotation.ClockLag)
}

// End returns up to which offset the original was read: its position, or the end of the last range
// after that, which package sources reads from the copy when it is needed.
func (o *Original) End() int64 {
	if n := len(o.Ahead); n > 0 {
		return max(o.Position, o.Ahead[n-1].End)
	}
	return o.Position
}

// Fits reports whether an open file has the content that was read of the original, by its hashes.
// Without them it compares the beginning and the size, which is not used otherwise, since network
// file systems report old sizes.
func (o *Original) Fits(f *os.File, size int64) bool {
	switch {
	case o.Info.Done && size == o.Info.Size && size < o.Position: // a copy that is known to end before the position
	case o.Mark != 0:
		anew, _ := fingerprint.BeginsAnew(f, o.Info.Head, o.Position)
		return !anew && o.Reaches(f) && HoldsAhead(f, o.Ahead)
	case size < o.Position, !HoldsAhead(f, o.Ahead): // without a hash of the bytes before the position
		return false
	}
	h, err := fingerprint.HeadOfLen(f, o.Info.Head.Len)
	return err == nil && h == o.Info.Head
}

// Reaches reports whether the bytes before the position are in a file.
func (o *Original) Reaches(f *os.File) bool {
	m, err := fingerprint.MarkAt(f, o.Position)
	return o.Mark != 0 && err == nil && m == o.Mark
}

// NoteReached notes whether the file s has the bytes before the position although it tells a
// smaller size.
func (o *Original) NoteReached(s *Sample) { o.Reached = s.Size < o.Position && o.Reaches(s.File) }

// HoldsAhead reports whether the open file still has the ranges in ahead, by the hash of the bytes
// before the end of each; of a range without a hash it only asks whether it is in the file.
func HoldsAhead(f *os.File, ahead []record.Extent) bool {
	for _, x := range ahead {
		if m, err := fingerprint.MarkAt(f, x.End); err != nil || x.Mark != 0 && m != x.Mark {
			return false
		}
	}
	return true
}
