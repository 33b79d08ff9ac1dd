package tail

import (
	"time"

	"kusto-agent/internal/record"
)

// cursor is where reading of a generation stands, and what was found behind that
// place. Its offset moves by advance alone.
type cursor struct {
	offset int64           // all before it is handed over, or needs no reading
	mark   record.Mark     // of offset; 0: not known
	skips  []record.Extent // beyond the offset, in need of no reading, in order

	stuck   int64     // nothing ends a record between offset and here
	held    time.Time // when a record at offset was first seen to have no end; zero: it was not
	quiet   bool      // what is at the end is not waited for in this turn, see isQuiet
	settled int64     // size up to which it was not
	long    long      // a record at offset that is longer than one read
	nuls    nuls      // found at the end of a read
}

// advance moves the offset to to: the bytes before it were handed to the batcher or need no
// reading. mark is a hash of the bytes before to; 0: not known. What was found out about the record
// at the old offset, and about NUL bytes before to, is forgotten.
func (c *cursor) advance(to int64, mark record.Mark) {
	c.offset, c.mark = to, mark
	c.forgetRecord()
	if 0 <= c.nuls.from && c.nuls.from < to {
		c.nuls = nuls{}
	}
}

// forgetRecord drops what is known of the record at the offset: it is looked at anew.
func (c *cursor) forgetRecord() { c.stuck, c.held, c.long = 0, time.Time{}, long{} }

// noteStuck notes that no record ends between the reader's offset and the offset at, and since when
// the record at the offset has had no end.
func (c *cursor) noteStuck(at int64) {
	if c.stuck = at; c.held.IsZero() {
		c.held = time.Now()
	}
}

// pass moves a reader over the bytes before the offset to, of which nothing is sent. mark is a hash
// of the bytes before to. The journal counts the skipped bytes as safe as soon as everything before
// them is.
func (w *worker) pass(r *reader, to int64, mark record.Mark) {
	w.t.skip(r.file, record.Span{Start: r.offset, End: to}, mark)
	r.advance(to, mark)
}
