// Package cursor promises that the place up to which a generation of a file was read moves by one
// method alone, which forgets what was found out about the bytes that it passes.
package cursor

import (
	"errors"
	"io"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
)

// Cursor is where reading of a generation stands, and what was found behind that place. It belongs to
// the goroutine that reads.
type Cursor struct {
	offset int64       // all before it is handed over, or needs no reading
	mark   record.Mark // of offset; 0: not known

	Skips []record.Extent // beyond the offset, in need of no reading, in order

	Stuck     int64         // nothing ends a record between the offset and here
	OpenSince time.Time     // when a record at the offset was first seen to have no end; zero: it was not
	Quiet     bool          // what is at the end is not waited for in this turn
	Settled   int64         // size up to which it was not
	Long      Long          // a record at the offset that is longer than one read
	NULs      holes.Stretch // found at the end of a read
}

// At returns the cursor of a reader that has read up to an offset, whose mark is mark (0: not known).
func At(offset int64, mark record.Mark) Cursor { return Cursor{offset: offset, mark: mark} }

// Offset is where the next read begins: all before it is handed over, or needs no reading.
func (c *Cursor) Offset() int64 { return c.offset }

// Mark is the mark of the offset, a hash of the bytes before it; 0: it is not known.
func (c *Cursor) Mark() record.Mark { return c.mark }

// Advance moves the offset to to, whose mark is mark (0: not known), and forgets what was found out
// about the record at the old offset, and about NULs before to.
func (c *Cursor) Advance(to int64, mark record.Mark) {
	c.offset, c.mark = to, mark
	c.ForgetRecord()
	if 0 <= c.NULs.From && c.NULs.From < to {
		c.NULs = holes.Stretch{}
	}
}

// Remark notes that the bytes before the offset are others now, and need not be read again.
func (c *Cursor) Remark(mark record.Mark) { c.mark = mark }

// ForgetRecord drops what is known of the record at the offset: it is looked at anew.
func (c *Cursor) ForgetRecord() { c.Stuck, c.OpenSince, c.Long = 0, time.Time{}, Long{} }

// NoteStuck notes that no record ends between the offset and the offset at, and since when the record
// at the offset has had no end.
func (c *Cursor) NoteStuck(at int64, now time.Time) {
	if c.Stuck = at; c.OpenSince.IsZero() {
		c.OpenSince = now
	}
}

// IsOpen reports whether the cursor is at the end of a file of this size, with a record that has no
// end there.
func (c *Cursor) IsOpen(size int64) bool {
	return c.offset < size && c.Stuck == size && c.Long.At == 0
}

// End returns the offset at which reading ends for now: the size of the file, or the start of the NUL
// bytes at its end, in whose place something may still be written. It is never beyond the size, which
// may be less now than when the NULs were found.
func (c *Cursor) End(size int64) int64 {
	if c.NULs.ToEnd(size) {
		return min(c.NULs.From, size)
	}
	return size
}

// ErrChanged says that a file does not hold what earlier runs have read of it.
var ErrChanged = errors.New("content changed")

// SkipDone moves the cursor over ranges at its offset that need no reading, in the content f.
// isRewritten tells whether what lies before the offset has changed. The error is ErrChanged if f does
// not have the bytes of these ranges any more, or one of reading.
func (c *Cursor) SkipDone(f io.ReaderAt, isRewritten func() (bool, error)) error {
	for len(c.Skips) > 0 && c.offset >= c.Skips[0].Start {
		if end := c.Skips[0].End; end > c.offset {
			mark, err := fingerprint.MarkAt(f, end)
			switch {
			case fingerprint.IsShort(err):
				return ErrChanged
			case err != nil:
				return err
			case c.Skips[0].Mark != 0 && mark != c.Skips[0].Mark:
				return ErrChanged
			}
			switch is, err := isRewritten(); { // asked last, or mark could be of content that came after it
			case err != nil:
				return err
			case is:
				return ErrChanged
			}
			c.Advance(end, mark)
		}
		c.Skips = c.Skips[1:]
	}
	return nil
}

// IsRewritten reports whether the bytes before the offset, or, if no hash of them is known or little was read, the
// beginning of the file f have changed, or f ends before that. head is that of the file when it was
// found. The error is one of reading.
func (c *Cursor) IsRewritten(f io.ReaderAt, head record.Head) (is bool, err error) {
	if c.mark != 0 {
		var m record.Mark
		m, err = fingerprint.MarkAt(f, c.offset)
		if is = m != c.mark; !is && err == nil {
			is, err = fingerprint.BeginsAnew(f, head, c.offset)
		}
	} else {
		var h record.Head
		h, err = fingerprint.HeadOfLen(f, head.Len)
		is = h != head
	}
	if fingerprint.IsShort(err) {
		return true, nil
	}
	return is && err == nil, err
}
