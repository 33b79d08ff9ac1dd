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

// torn returns where the line that data begins with is torn, within what a record
// may be; 0: it is not. Its n bytes, or all, are at hand.
func (s *Scanner) torn(data []byte, n int) int {
	if n == 0 {
		n = len(data)
	}
	if n <= leastTear {
		return 0
	}
	return max(bytes.Index(data[:min(n, s.opt.MaxRecord)], tear), 0)
}

// leadingNULs is how many NULs come before the record that data begins with.
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

// withoutNULs is what a file ends with without the NULs behind it, also before a
// CR that TXT loses. What is as long as a record may be keeps them: it is too long
// however it ends.
func (s *Scanner) withoutNULs(data []byte) []byte {
	if len(data) >= s.opt.MaxRecord {
		return data
	}
	data = bytes.TrimRight(data, "\x00")
	for s.txt {
		bare := bytes.TrimRight(data, "\r")
		if !bytes.HasSuffix(bare, []byte{0}) {
			break
		}
		data = bytes.TrimRight(bare, "\x00")
	}
	return data
}

// passed notes NULs that are filtered, from a place of the scanned text on.
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

// TextLen is the length of data, which lies at an offset of a file of text in an
// encoding, without the NULs that it ends with.
func TextLen(data []byte, at int64, e Encoding) int {
	n := len(bytes.TrimRight(data, "\x00"))
	if unit := e.unit(); n > 0 {
		n += int(-(at + int64(n)) & int64(unit-1))
	}
	return min(n, len(data))
}
