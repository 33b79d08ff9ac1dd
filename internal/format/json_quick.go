package format

import (
	"encoding/binary"
	"math/bits"
)

// Nearly all records of JSON are sound, and most of their bytes are in strings.
// quickJSON recognises such a record in two passes in which the processor seldom
// mispredicts: the first finds the quotes that close strings, 64 bytes at a time
// and whatever the text means, the second hops from string to string and looks
// only at what is between them. It knows yes, and nothing else: a record that it
// does not take is for strictObject, which knows what is wrong and where.
//
// How eight bytes are looked at together (SWAR, SIMD within a register): they
// are one word of 64 bits, and arithmetic on the word is arithmetic on each byte
// as long as no byte carries into the next. With its eighth bit cleared a byte is
// at most 0x7f, so that 0x80-n can be added to each: the eighth bit of the sum
// tells that the byte was n or more. To tell one value from all others each byte
// is xored with it first, which makes that one zero, and n is 1. Bytes above 127
// had their eighth bit set: or puts it back, so that they never count as found.
// Here the control characters (below 0x20) and the quote (0x22) take one test, as
// xor with 2 turns both together into 0 to 0x20. What comes out is one bit in
// eight; a multiplication adds up eight shifted copies of the word, such that the
// eight bits come to lie next to each other, and eight words give the 64 bits of
// a block.

const (
	// quickMost is how long a record may be, in bytes, to be tried the quick
	// way. It limits the memory that this takes, and the time lost on a record
	// that is not sound.
	quickMost = 64 << 10
	// quickRoom is how many bytes, of whatever kind, have to follow a record:
	// blocks and words are loaded whole.
	quickRoom = 64

	sevenBits = 0x7f * everyByte
)

// quickJSON is a fast check that accepts most valid objects: true means that the first n
// bytes of data are one JSON object; false means that nothing is known. beyond says that
// there may be bytes above 127.
func (s *Scanner) quickJSON(data []byte, n int) (ok, beyond bool) {
	if n > quickMost {
		return false, false
	}
	if len(data) < n+quickRoom {
		s.padded = append(s.padded[:0], data[:n]...)
		s.padded = append(s.padded, make([]byte, quickRoom)...)
		data = s.padded
	}
	c := &s.closing
	c.begin(0)
	if !c.find(data, n) {
		return false, false
	}
	end, ok := c.fit(data[:n+quickRoom], 0) // a number is not read further than this
	if ok = ok && end <= n && skipSpace(data[:n], end) == n; ok {
		s.step = max(s.step, leastStep)
	}
	return ok, c.isBeyond(0, n)
}

// bitmap has a bit for each byte of data, and room for those that mark takes.
type bitmap [quickMost/64 + 2]uint64

// closing is where strings end in data of known bytes, which begins with a record: the bit of
// each quote that closes one is set. Control characters count as quotes. So the newline behind
// a record swaps what is inside of strings and what is outside, for all records up to the next
// newline. That is why there are two maps: those of a record are in bits[0] if an even number
// of quotes and control characters precedes it, else in bits[1].
type closing struct {
	bits   [2]bitmap
	beyond [quickMost / 64]uint16 // of each block: one more than the last one up to it with bytes above 127; 0: none

	known   int    // the bits from here on mean nothing
	last    uint16 // the last one of beyond
	escaped uint64 // 1: the byte at known is escaped
	inside  uint64 // all bits are set: an odd number of quotes precedes known

	// Of a run of lines, see json_lines.go.
	base  int  // where in the data bit 0 is
	next  int  // where in the data the next record begins; -1: not known
	odd   int  // the map of that record
	stuck bool // there is no valid escape behind known
}

// begin forgets what is known; the next record begins at base in the data.
func (c *closing) begin(base int) {
	c.known, c.last, c.escaped, c.inside = 0, 0, 0, 0
	c.base, c.next, c.odd, c.stuck = base, -1, 0, false
}

// isBeyond reports whether there may be bytes above 127 between i and end.
func (c *closing) isBeyond(i, end int) bool {
	return end > 0 && int(c.beyond[(end-1)/64]) > i/64
}

// find marks where strings end in the first n bytes of b, from the last block known on, 64
// bytes at a time. It returns false if a backslash begins no valid escape; what precedes its
// block is known then. n may be no multiple of 64 only at the end.
func (c *closing) find(b []byte, n int) bool {
	// A bit of plain is set where a byte is neither a quote nor a control character.
	escaped, inside, last := c.escaped, c.inside, c.last
	for i := c.known; i < n; i += 64 {
		block := (*[64]byte)(b[i:])
		w0, w1 := binary.LittleEndian.Uint64(block[0:8]), binary.LittleEndian.Uint64(block[8:16])
		w2, w3 := binary.LittleEndian.Uint64(block[16:24]), binary.LittleEndian.Uint64(block[24:32])
		high := w0 | w1 | w2 | w3
		plain := unquoted(w0) | unquoted(w1)<<8 | unquoted(w2)<<16 | unquoted(w3)<<24
		slashless := notSlash(w0) & notSlash(w1) & notSlash(w2) & notSlash(w3)
		w0, w1 = binary.LittleEndian.Uint64(block[32:40]), binary.LittleEndian.Uint64(block[40:48])
		w2, w3 = binary.LittleEndian.Uint64(block[48:56]), binary.LittleEndian.Uint64(block[56:64])
		high |= w0 | w1 | w2 | w3
		plain |= unquoted(w0)<<32 | unquoted(w1)<<40 | unquoted(w2)<<48 | unquoted(w3)<<56
		slashless &= notSlash(w0) & notSlash(w1) & notSlash(w2) & notSlash(w3)

		quotes := ^plain
		if ^slashless&eighthBits|escaped != 0 {
			var ok bool
			if quotes, escaped, ok = unescaped(b, i, n, quotes, escaped); !ok {
				c.mark(i)
				return false
			}
		}
		if high&eighthBits != 0 {
			last = uint16(i/64 + 1)
		}
		c.beyond[i/64] = last
		in := evenOut(quotes) ^ inside // the bytes with an odd number of quotes up to them: in strings, with the opening quotes
		inside = -(in >> 63)
		c.bits[0][i/64], c.bits[1][i/64] = quotes&^in, quotes&in
	}
	c.escaped, c.inside, c.last = escaped, inside, last
	c.mark(n)
	return true
}

// mark notes that n bits are known. The two behind them end every search for the next bit.
func (c *closing) mark(n int) {
	for m := range c.bits {
		marks := &c.bits[m]
		if n%64 == 0 {
			marks[n/64] = 0
		}
		marks[n/64] |= 1 << (n % 64)
		marks[(n+1)/64] |= 1 << ((n + 1) % 64)
	}
	c.known = n
}

// from returns word, or if it is zero the next word of the map that is not. begin is the index in all
// bits of the first bit of word, and the second result is that of the returned word. The caller makes
// sure that a bit is set from begin on.
func (marks *bitmap) from(word uint64, begin int) (uint64, int) {
	for word == 0 {
		begin += 64
		word = marks[begin/64]
	}
	return word, begin
}

// unquoted has a bit set for each of eight bytes that is neither a quote nor a
// control character.
func unquoted(w uint64) uint64 {
	return gather(((w&sevenBits ^ 2*everyByte) + 0x5f*everyByte | w) & eighthBits)
}

// notSlash has the eighth bit of each byte set that is no backslash, but for
// bytes above 127, which it may take for one.
func notSlash(w uint64) uint64 { return (w&sevenBits ^ '\\'*everyByte) + sevenBits }

// gather brings the eighth bits of eight bytes together in the lowest byte.
func gather(eighths uint64) uint64 { return eighths * 0x0002040810204081 >> 56 }

// unescaped removes from quotes, a bit for each quote among the 64 bytes of b from i on, those
// that a backslash escapes. Bit 0 of escaped says that the first byte of the block is escaped;
// the second result says so of the next block. n is the length of the record. It returns false if
// a backslash begins no valid escape.
func unescaped(b []byte, i, n int, quotes, escaped uint64) (uint64, uint64, bool) {
	var slashes uint64
	block := (*[64]byte)(b[i:])
	for j := 0; j < 64; j += 8 {
		slashes |= zeroBytes(binary.LittleEndian.Uint64(block[j:j+8])^'\\'*everyByte) << j
	}
	quotes, slashes = quotes&^escaped, slashes&^escaped
	for slashes != 0 {
		j := bits.TrailingZeros64(slashes)
		at := i + j
		if at >= n {
			break
		}
		switch b[at+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if !isHex(b[at+2]) || !isHex(b[at+3]) || !isHex(b[at+4]) || !isHex(b[at+5]) {
				return 0, 0, false
			}
		default:
			return 0, 0, false
		}
		if j == 63 { // it escapes the first byte of the next block
			return quotes, 1, true
		}
		slashes &^= 3 << j
		quotes &^= 2 << j
	}
	return quotes, 0, true
}

// fit reports whether an object of JSON begins at i in b, with spaces before it, and returns
// the index behind it. Where there is none, end is the index up to which it was sound. If end is
// not below known it tells nothing: the object was not all in what is known.
//
// The strings that it goes over are all that find saw: between them it takes no byte that find
// takes for a quote, and of white space only spaces. So the next bit is that of the quote that
// closes the string at i, or of a control character in it.
func (c *closing) fit(b []byte, i int) (end int, ok bool) {
	var (
		arrays [MaxDepth / 64]uint64 // as in strictObject
		depth  = 0
		closer = byte('}')
		n      = c.known

		marks = &c.bits[c.odd]
		begin = i &^ 63
		word  = marks[begin/64] >> (i % 64) << (i % 64) // bits not yet used
	)
	i = overSpaces(b, i, n)
	if b[i] != '{' {
		return i, false
	}
	for i < n {
		// A value begins at i, in an object behind its name.
		if depth > 0 && closer == '}' {
			if b[i] != '"' {
				return i, false
			}
			word, begin = marks.from(word, begin)
			j := begin + bits.TrailingZeros64(word)
			word &= word - 1
			v := binary.LittleEndian.Uint64(b[j:])
			if v&threeBytes == stringNext || v&fourBytes == stringBehindSpace { // as most values are
				word, begin = marks.from(word, begin)
				i = begin + bits.TrailingZeros64(word)
				word &= word - 1
				switch v = binary.LittleEndian.Uint64(b[i:]); {
				case v&threeBytes == nameNext:
					i += 2
					continue
				case v&fourBytes == nameBehindSpace:
					i += 3
					continue
				case v&0xff != '"':
					return i, false
				}
				i++
				goto behind
			}
			if i = j; v&0xffff != '"'|':'<<8 {
				if b[i] != '"' {
					return i, false
				}
				if i = overSpaces(b, i+1, n) - 1; b[i+1] != ':' {
					return i, false
				}
			}
			if i += 2; b[i] == ' ' {
				i = overSpaces(b, i, n)
			}
		}
		switch v := b[i]; v {
		case '"':
			word, begin = marks.from(word, begin)
			i = begin + bits.TrailingZeros64(word)
			if word &= word - 1; b[i] != '"' {
				return i, false
			}
			i++
		case '{', '[':
			if depth == MaxDepth {
				return i, false
			}
			if v == '[' {
				arrays[depth/64] |= 1 << (depth % 64)
			} else {
				arrays[depth/64] &^= 1 << (depth % 64)
			}
			depth++
			closer = v + 2
			if i = overSpaces(b, i+1, n); b[i] != closer {
				continue
			}
		case 't', 'f', 'n':
			if end = scalarEnd(b, i); end < 0 {
				return i, false
			}
			i = end
		default:
			if end = quickNumber(b, i); end < 0 {
				return i, false
			}
			i = end
		}
	behind:
		// Behind a value: containers end, or another value follows.
		for {
			if b[i] == ' ' {
				i = overSpaces(b, i, n)
			}
			if b[i] == ',' {
				if i++; b[i] == ' ' {
					i = overSpaces(b, i, n)
				}
				break
			}
			if b[i] != closer || i >= n {
				return i, false
			}
			i++
			if depth--; depth == 0 {
				return i, true
			}
			closer = '}'
			if arrays[(depth-1)/64]>>((depth-1)%64)&1 != 0 {
				closer = ']'
			}
		}
	}
	return i, false
}

// What follows the name of most members and a value that is a string, as words.
const (
	stringNext        = '"' | ':'<<8 | '"'<<16
	stringBehindSpace = '"' | ':'<<8 | ' '<<16 | '"'<<24
	nameNext          = '"' | ','<<8 | '"'<<16
	nameBehindSpace   = '"' | ','<<8 | ' '<<16 | '"'<<24

	threeBytes = 1<<24 - 1
	fourBytes  = 1<<32 - 1
)

// overSpaces returns the first index from i on that is no space, or n.
func overSpaces(b []byte, i, n int) int {
	for i < n && b[i] == ' ' {
		i++
	}
	return i
}

// quickNumber returns the index behind the number at i, or -1 where there is
// none. What follows the record may be taken for a part of the number.
func quickNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	begin := i
	if i = overDigits(b, i); i == begin || b[begin] == '0' && i > begin+1 {
		return -1
	}
	if b[i] == '.' {
		begin = i + 1
		if i = overDigits(b, begin); i == begin {
			return -1
		}
	}
	if b[i]|0x20 == 'e' {
		if i++; b[i] == '+' || b[i] == '-' {
			i++
		}
		begin = i
		if i = overDigits(b, begin); i == begin {
			return -1
		}
	}
	return i
}

// overDigits returns the first index from i on that is no digit. It stops at the latest where
// fewer than 16 bytes of b are left.
func overDigits(b []byte, i int) int {
	for ; i+16 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:]) ^ '0'*everyByte
		if others := (w&sevenBits + 0x76*everyByte | w) & eighthBits; others != 0 { // 10 and more
			return i + bits.TrailingZeros64(others)/8
		}
	}
	return i
}
