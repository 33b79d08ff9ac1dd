// Package holes promises to tell text from NULs that nobody wrote: those of holes, which take
// no room on the disk, and those that another program has left in the place of text.
package holes

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// FirstText is the index of the first byte that is not NUL, or -1.
func FirstText(b []byte) int { return slices.IndexFunc(b, func(c byte) bool { return c != 0 }) }

// DataAt returns the first offset from at on that is not in a hole of the file, size if
// there is none, and at if the file system cannot tell.
func DataAt(f *os.File, at, size int64) int64 {
	to, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return at
	}
	return min(max(to, at), size)
}

// Block is the least size of the blocks of a disk.
const Block = 4096

// Punched reports whether the bytes before pos read as NULs because another program punched a hole,
// from the start of the file to a border of disk blocks among the bytes of which a mark of pos is
// made.
func Punched(f *os.File, size, pos int64) bool {
	b := make([]byte, min(pos, record.MarkLen))
	if size < pos {
		return false
	}
	if _, err := fingerprint.ReadFull(f, b, pos-int64(len(b))); err != nil {
		return false
	}
	text := FirstText(b) // the bytes before it are NULs: the end of the hole
	whole := (pos - int64(len(b)) + int64(text)) / Block * Block
	return text > 0 && whole > 0 && DataAt(f, 0, size) >= whole
}
