// Package holes promises to tell text from NULs that nobody wrote: those of holes, which take
// no room on the disk, and those that another program has left in the place of text.
package holes

import (
	"os"
	"slices"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// FirstText is the index of the first byte that is not NUL, or -1.
func FirstText(b []byte) int { return slices.IndexFunc(b, func(c byte) bool { return c != 0 }) }

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
	return text > 0 && whole > 0 && durable.DataAt(f, 0, size) >= whole
}
