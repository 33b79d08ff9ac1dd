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
	data = data[:n+quickRoom] // a number is not read further than this
	ok = s.closing.find(data, n) && s.closing.fit(data, n)
	return ok, s.closing.high&eighthBits != 0
}

// closing is where the strings of a record of n bytes end: the bit of each quote
// that closes one is set. Bits n and n+1 are set too, so that a search ends, and
// all from n on mean nothing.
type closing struct {
	bits [quickMost/64 + 1]uint64
	high uint64 // eighth bits: there may be bytes above 127
}

// find marks where the strings in the first n bytes of b end, 64 bytes at a time. It
// returns false if a backslash begins no valid escape. It takes control characters for
// quotes, so that fit rejects them.
func (c *closing) find(b []byte, n int) bool {
	// escaped is 1 if the first byte of the block is escaped; inside has all bits set if the block
	// begins within a string. A bit of plain is set where a byte is neither a quote nor a control character.
	var high, escaped, inside uint64
	for i := 0; i < n; i += 64 {
		block := (*[64]byte)(b[i:])
		w0, w1 := binary.LittleEndian.Uint64(block[0:8]), binary.LittleEndian.Uint64(block[8:16])
		w2, w3 := binary.LittleEndian.Uint64(block[16:24]), binary.LittleEndian.Uint64(block[24:32])
		high |= w0 | w1 | w2 | w3
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
				return false
			}
		}
		in := evenOut(quotes) ^ inside // the bytes in strings, with the opening quotes
		inside = -(in >> 63)
		c.bits[i/64] = quotes &^ in
	}
	// Two bits behind the record end every search for the next bit.
	c.bits[n/64] |= 1 << (n % 64)
	c.bits[(n+1)/64] |= 1 << ((n + 1) % 64)
	c.high = high
	return true
}

// from returns word, or if it is zero the next word of c.bits that is not. begin is the index in all
// bits of the first bit of word, and the second result is that of the returned word. The caller makes
// sure that a bit is set from begin on.
func (c *closing) from(word uint64, begin int) (uint64, int) {
	for word == 0 {
		begin += 64
		word = c.bits[begin/64]
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

// fit reports whether the first n bytes of b are one JSON object with white
// space around it. The strings that it goes over are all that find saw: between
// them it takes no byte that find takes for a quote, and of white space only
// spaces. So the next bit is that of the quote that closes the string at i, or of
// a control character in it. What it looks at behind n can only make it say no.
func (c *closing) fit(b []byte, n int) bool {
	var (
		arrays [MaxDepth / 64]uint64 // as in strictObject
		depth  = 0
		closer = byte('}')
		i      = overSpaces(b, 0, n)

		word, begin = c.bits[0], 0 // bits not yet used
	)
	if b[i] != '{' {
		return false
	}
	for i < n {
		// A value begins at i, in an object behind its name.
		if depth > 0 && closer == '}' {
			if b[i] != '"' {
				return false
			}
			word, begin = c.from(word, begin)
			j := begin + bits.TrailingZeros64(word)
			word &= word - 1
			v := binary.LittleEndian.Uint64(b[j:])
			if v&threeBytes == stringNext || v&fourBytes == stringBehindSpace { // as most values are
				word, begin = c.from(word, begin)
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
					return false
				}
				i++
				goto behind
			}
			if i = j; v&0xffff != '"'|':'<<8 {
				if b[i] != '"' {
					return false
				}
				if i = overSpaces(b, i+1, n) - 1; b[i+1] != ':' {
					return false
				}
			}
			if i += 2; b[i] == ' ' {
				i = overSpaces(b, i, n)
			}
		}
		switch v := b[i]; v {
		case '"':
			word, begin = c.from(word, begin)
			i = begin + bits.TrailingZeros64(word)
			if word &= word - 1; b[i] != '"' {
				return false
			}
			i++
		case '{', '[':
			if depth == MaxDepth {
				return false
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
			if i = scalarEnd(b, i); i < 0 {
				return false
			}
		default:
			if i = quickNumber(b, i); i < 0 {
				return false
			}
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
				return false
			}
			i++
			if depth--; depth == 0 {
				return skipSpace(b[:n], i) == n
			}
			closer = '}'
			if arrays[(depth-1)/64]>>((depth-1)%64)&1 != 0 {
				closer = ']'
			}
		}
	}
	return false
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
