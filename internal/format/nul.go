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
// torn, and what follows is another, also where a record can go on in other lines. A
// row that has them in quotes is rejected up to its first line end, an object of
// MultiJSON up to them, but not by a wary scanner: what follows them may lie within it.
// None of this is for Avro, which is no text.

// leastTear is a page of memory and the usual block of a disk: what is missing in a
// line that was torn is more than that, but for the blocks it begins and ends in.
const leastTear = 4096

var tear = make([]byte, leastTear)

// torn returns the index at which NUL bytes, 4096 or more, end the line that is, or begins with, line:
// a crash left them where the rest was not written. 0: there are none. Only what is within the first
// MaxRecord bytes of a record counts, so that it does not depend on how much was read at once.
func torn(line []byte) int {
	if len(line) <= leastTear {
		return 0
	}
	return max(bytes.Index(line, tear), 0)
}

// lineIn returns the length of the line at index i of a record, with its newline, if data, which
// begins with the record, has all of it. ended says that a newline ends it, which NUL bytes may do as
// well; 0: its end is not in data.
func (s *Scanner) lineIn(data []byte, i int) (n int, ended bool) {
	n = bytes.IndexByte(data[i:], '\n') + 1
	end := len(data)
	if n > 0 {
		end = i + n
	}
	if most := min(end, s.opt.MaxRecord); most > i {
		if n := torn(data[i:most]); n > 0 {
			return n, false
		}
	}
	return n, n > 0
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
