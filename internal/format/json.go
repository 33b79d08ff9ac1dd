package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deeply the containers of a JSON record may nest.
const MaxDepth = 512

// checkJSON reports whether the first n bytes of data are one JSON object; if not, s.fault
// says why. A record that RFC 8259 rejects is checked again with the leniencies of the
// service (comments, single quotes). Bytes that are not UTF-8 are allowed in strings and
// comments, as in the service; beyond says that there are bytes above 127.
func (s *Scanner) checkJSON(data []byte, n int) (ok, beyond bool) {
	if ok, beyond = s.quickJSON(data, n); ok {
		return true, beyond
	}
	rec := data[:n]
	beyond, f := strictJSON(rec) // in JSON a line end is white space
	if f.text == "" {
		return true, beyond
	}
	rec = bytes.TrimRight(rec, "\r\n") // so that a fault names no place behind the text
	_, f = strictJSON(rec)
	if plain := relax(s.relaxed[:0], rec); plain != nil {
		s.relaxed = plain
		_, f = strictJSON(plain)
	}
	s.fault = f
	return f.text == "", true
}

// strictJSON checks that b is one JSON object with optional white space around it, by RFC
// 8259, except that it need not be UTF-8. beyond says that it has bytes above 127.
func strictJSON(b []byte) (beyond bool, f fault) {
	end, unicode, f := strictObject(b, skipSpace(b, 0))
	if f.text != "" {
		return false, f
	}
	if end = skipSpace(b, end); end < len(b) {
		return false, unexpected(end, "behind the object")
	}
	return unicode&eighthBits != 0, fault{}
}

// strictObject goes through the object at i, by RFC 8259, and returns the
// index behind it. It does so once, without recursion: the containers that are
// open are a bit each. A fault at len(b) means that no fault came before the
// data ended. Eighth bits of unicode tell that strings may not be plain ASCII;
// whether they are UTF-8 is not looked at.
func strictObject(b []byte, i int) (end int, unicode uint64, f fault) {
	var (
		arrays [MaxDepth / 64]uint64 // bit d: the container at depth d is an array
		depth  = 0
		closer = byte('}')
		high   uint64
	)
	if i == len(b) || b[i] != '{' {
		return 0, 0, expected(b, i, "where an object must begin")
	}
	for {
		// A value begins at i, in an object behind its name.
		if depth > 0 {
			if closer == '}' {
				if i == len(b) || b[i] != '"' {
					return 0, 0, expected(b, i, "where a name must begin")
				}
				if i, high = stringEnd(b, i+1); i < 0 {
					return 0, 0, stringFault(b, ^i)
				}
				unicode |= high
				if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
					return 0, 0, expected(b, i, "where a colon must follow a name")
				}
				i = skipSpace(b, i+1)
			}
			if i == len(b) {
				return 0, 0, expected(b, i, "where a value must begin")
			}
		}
		switch c := b[i]; c {
		case '"':
			if i, high = stringEnd(b, i+1); i < 0 {
				return 0, 0, stringFault(b, ^i)
			}
			unicode |= high
		case '{', '[':
			if depth == MaxDepth {
				return 0, 0, malformed(i, "nested too deeply")
			}
			if c == '[' {
				arrays[depth/64] |= 1 << (depth % 64)
			} else {
				arrays[depth/64] &^= 1 << (depth % 64)
			}
			depth++
			closer = c + 2
			if i = skipSpace(b, i+1); i == len(b) || b[i] != closer {
				continue
			}
		default:
			if i = scalarEnd(b, i); i < 0 {
				return 0, 0, expected(b, ^i, "in or instead of a value")
			}
		}
		// Behind a value: containers end, or another value follows.
		for {
			i = skipSpace(b, i)
			if i < len(b) && b[i] == ',' {
				i = skipSpace(b, i+1)
				break
			}
			if i == len(b) || b[i] != closer {
				return 0, 0, expected(b, i, "where a comma or an end must follow a value")
			}
			i++
			if depth--; depth == 0 {
				return i, unicode, fault{}
			}
			closer = '}'
			if arrays[(depth-1)/64]>>((depth-1)%64)&1 != 0 {
				closer = ']'
			}
		}
	}
}

// expected returns the fault for the unexpected byte b[i], or for b ending at i. where says what
// should be there, such as "where a value must begin".
func expected(b []byte, i int, where string) fault {
	if i >= len(b) {
		return malformed(i, "the record ends "+where)
	}
	return unexpected(i, where)
}

func stringFault(b []byte, i int) fault { return expected(b, i, "in a string") }

// skipSpace returns the first index from i on that is not white space to JSON.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

const (
	everyByte  = 0x0101010101010101
	eighthBits = 0x80 * everyByte
)

// stringEnd returns the index after the string whose content begins at i. If the string is not
// closed or not valid, it returns ^j, where j is the index of the offending byte. Eighth bits of
// high that are set mean that there are bytes above 127 in the string, or perhaps just after it.
//
// Eight bytes are looked at together: a byte of hit has its eighth bit set where b has a quote, a
// backslash or a control character. Borrows can set more bits only above the first true one, and
// the first is all that is used.
func stringEnd(b []byte, i int) (end int, high uint64) {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		low := (w ^ 2*everyByte) - '!'*everyByte // a control character or, with one bit turned, the quote
		slash := (w ^ '\\'*everyByte) - everyByte
		hit := (low | slash) &^ w & eighthBits
		high |= w
		if hit == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(hit) / 8
		if b[i] == '"' {
			return i + 1, high
		}
		if i = behindEscape(b, i); i < 0 {
			return i, high
		}
	}
	for i < len(b) {
		high |= uint64(b[i])
		if b[i] == '"' {
			return i + 1, high
		}
		if b[i] != '\\' && b[i] >= ' ' {
			i++
		} else if i = behindEscape(b, i); i < 0 {
			return i, high
		}
	}
	return ^i, high
}

// behindEscape returns the index after the JSON escape at b[i]. If there is no valid escape, it
// returns ^j, where j is the index of the offending byte; for a control character at b[i] that is
// i.
func behindEscape(b []byte, i int) int {
	if b[i] != '\\' {
		return ^i
	}
	if i++; i == len(b) {
		return ^i
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for n := 0; n < 4; n++ {
			if i++; i == len(b) || !isHex(b[i]) {
				return ^i
			}
		}
		return i + 1
	}
	return ^i
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func isDigit(c byte) bool { return c-'0' <= 9 }
