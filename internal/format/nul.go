package format

import (
	"bytes"
	"slices"
)

// NULs before a record, or behind the last one, are no part of it: a crash leaves
// them where blocks were never written, a writer that does not append leaves them
// behind a truncation, and one that reserves room has them up to the end of its
// file. They are filtered and counted, and never sent. Within a record they are
// bytes like others, but a line that has leastTear of them ends before them: it was
// torn, and what follows is another. None of this is for Avro, which is no text.

// leastTear is a page of memory and the usual block of a disk: what is missing in a
// line that was torn is more than that, but for the blocks it begins and ends in.
const leastTear = 4096

var tear = make([]byte, leastTear)

// torn returns the index at which NUL bytes, 4096 or more, end the first line of data: a crash
// left them where the rest of the line was not written. 0: there are none. n is the length of the
// line, 0 if its end is not in data.
func (s *Scanner) torn(data []byte, n int) int {
	if n == 0 {
		n = len(data)
	}
	if n <= leastTear {
		return 0
	}
	return max(bytes.Index(data[:min(n, s.opt.MaxRecord)], tear), 0)
}

// leadingNULs returns the number of NUL bytes before the record at the beginning of data.
func leadingNULs(data []byte) int {
	if len(data) == 0 || data[0] != 0 {
		return 0
	}
	n := slices.IndexFunc(data, func(c byte) bool { return c != 0 })
	if n < 0 {
		return len(data)
	}
	return n
}

// withoutNULs returns data, which goes to the end of the file, without the NUL bytes at its end.
// Data of MaxRecord bytes or more keeps them, because it is too long for a record anyway.
func (s *Scanner) withoutNULs(data []byte) []byte {
	if len(data) >= s.opt.MaxRecord {
		return data
	}
	data = bytes.TrimRight(data, "\x00")
	for s.txt { // there CRs at the end are dropped too, and NUL bytes before them are then at the end
		bare := bytes.TrimRight(data, "\r")
		if !bytes.HasSuffix(bare, []byte{0}) {
			break
		}
		data = bytes.TrimRight(bare, "\x00")
	}
	return data
}

// passed counts in c the NUL bytes of text, which are not sent. text begins at c.Consumed.
func (s *Scanner) passed(c *Chunk, text []byte) {
	n := bytes.Count(text, []byte{0})
	if n == 0 {
		return
	}
	if c.NULs == 0 {
		c.NULsAt = s.pos(c.Consumed + bytes.IndexByte(text, 0))
	}
	c.NULs += n * s.opt.Encoding.unit()
}

// TextLen returns the length of data, which lies at offset at of a text file, without the NUL
// bytes at its end. The result is rounded up so that it ends with a whole unit of the encoding e.
func TextLen(data []byte, at int64, e Encoding) int {
	n := len(bytes.TrimRight(data, "\x00"))
	if unit := e.unit(); n > 0 {
		n += int(-(at + int64(n)) & int64(unit-1))
	}
	return min(n, len(data))
}
