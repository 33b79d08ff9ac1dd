// Package lineage promises that of the files that were written at one path, one after the other, two count as
// following each other only where what is known of all of them says so: else a message that is open at the end of
// one would go on in a file that has nothing to do with it.
//
// It decides only. Times are in ns.
package lineage

import (
	"cmp"
	"math"
	"regexp"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
)

var rotatedName = regexp.MustCompile(`\.[0-9][0-9-]*$`)

// Home returns the path where a file was written that was first seen at a path, as far as the name tells: runtimes
// put a number or a time behind it.
func Home(path string) string { return rotatedName.ReplaceAllString(path, "") }

// File is one that is being read.
type File struct {
	Info    *record.FileInfo
	Written int64 // when it was written to last
	Left    bool  // another file can be where it was written
}

// Packed is a compressed file.
type Packed struct {
	Home    string // where what it holds was written
	Written int64  // its own time of change, which may be that of what it holds
	Born    int64  // when it was made; 0: the file system does not tell
}

// PackedAt returns what the status of a compressed file tells that was first seen at a path.
func PackedAt(path string, written, born int64) Packed {
	return Packed{Home(compressed.Bare(path)), written, born}
}

// PackedAs returns what is remembered of a compressed file.
func PackedAs(i *record.FileInfo) Packed {
	if !isUndated(i) { // its date is that of a plain file, or of the last write
		return PackedAt(i.First, cmp.Or(i.Dated, i.Packed.Mtime), math.MaxInt64)
	}
	return PackedAt(i.First, i.Packed.Mtime, i.Birth)
}

// keptTime reports whether a compressed file that was made at born has the time of the last write to what is
// in it. gzip and zstd keep that; kubelet and dockerd do not.
func keptTime(written, born int64) bool { return written < born }

// isUndated reports whether a file is compressed and nobody knows when what it holds was begun: no plain file
// of it was seen, and it did not keep the time of the last write.
func isUndated(i *record.FileInfo) bool {
	return i.Packed.Size > 0 && i.Dated == i.Packed.Mtime && !keptTime(i.Packed.Mtime, i.Birth)
}

// begun compares when two files were begun. The birth of a compressed file says nothing of that, and its date is
// kept from when it was a plain one.
func begun(a, b *record.FileInfo) int {
	if a.Packed.Size > 0 || b.Packed.Size > 0 {
		return cmp.Compare(a.Dated, b.Dated)
	}
	return cmp.Compare(a.Birth, b.Birth)
}

// isOlder reports whether a was begun before b; if both were at the same time, the one that has left its path is
// older, of two that have the one that was written to last before the other was, and else found says it.
func isOlder(a, b File, found bool) bool {
	switch {
	case begun(a.Info, b.Info) != 0:
		return begun(a.Info, b.Info) < 0
	case a.Left != b.Left:
		return a.Left
	case a.Left && a.Written != b.Written:
		return a.Written < b.Written
	}
	return found
}

// isOfMoment reports whether nothing tells which of two files was begun first, though the file system tells when.
func isOfMoment(a, b File) bool {
	return a.Info != b.Info && a.Info.Birth != 0 && begun(a.Info, b.Info) == 0 && a.Left && b.Left && a.Written == b.Written
}

// Before returns the number of the file that was begun last before file r, of files that were written at one path
// and are in the order in which they were found. It is -1 if there is none, or if it is not known when r was
// begun, or which of two.
func Before(files []File, r int) int {
	of := -1
	if isUndated(files[r].Info) {
		return of
	}
	for i, o := range files {
		if i != r && !isUndated(o.Info) && isOlder(o, files[r], i < r) && (of < 0 || isOlder(files[of], o, true)) {
			of = i
		}
	}
	for _, o := range files {
		if isOfMoment(o, files[r]) || of >= 0 && isOfMoment(o, files[of]) {
			return -1
		}
	}
	return of
}

// LiesBetween reports whether a file that was read to its end was begun after a and before b, and written where
// they were.
func LiesBetween(is, a, b *record.FileInfo, home string) bool {
	return begun(a, is) < 0 && begun(is, b) < 0 && Home(is.First) == home
}

// MayLieBetween reports whether a compressed file may hold what was written at the path home after the file a and
// before b. One that kept the time of the last write goes by that. Of any other it is only known that what it
// holds is older than it is.
func (p Packed) MayLieBetween(a, b File, home string) bool {
	switch {
	case p.Home != home:
		return false
	case keptTime(p.Written, p.Born):
		return a.Written < p.Written && p.Written <= b.Info.Birth
	}
	return a.Written < cmp.Or(p.Born, p.Written) // what it holds is no later than when it was made, nor than its own time
}

// MayLieBehind reports whether what a compressed file held may have been written after a file.
func (p Packed) MayLieBehind(a File) bool { return a.Written < max(p.Written, p.Born) }
