package format

import (
	"encoding/binary"
	"math/bits"
)

// Nearly all records of JSON are sound, and most of their bytes are in strings.
// quickJSON recognises such a record in two passes in which the processor seldom
// mispredicts: the first finds the quotes of strings, 64 bytes at a time and
// whatever the text means, the second hops from string to string and looks
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
	m := &s.borders
	defer m.begin(0) // soundObject counts from another place
	m.begin(0)
	if !m.find(data, n) {
		return false, false
	}
	end, ok := m.fit(data[:n+quickRoom], 0) // a number is not read further than this
	if ok = ok && end <= n && skipSpace(data[:n], end) == n; ok {
		s.step = max(s.step, leastStep)
	}
	return ok, m.isBeyond(0, n)
}

// borders are where strings begin and end in data of known bytes: the bit of each quote is set that
// no backslash escapes. Control characters count as quotes: in a string one stands where its end
// should be, elsewhere it is white space or an error. Whether a quote opens or closes a string
// is for fit to tell, for any object in the data.
type borders struct {
	bits   [quickMost/64 + 2]uint64 // of each byte, and at least 64 that are set behind known: see mark
	beyond [quickMost / 64]int32    // of each block: where the last one up to it ends that has bytes above 127; 0: there is none

	known   int    // the bits from here on mean nothing
	last    int32  // the last one of beyond
	escaped uint64 // 1: the byte at known is escaped

	base  int  // where in the data bit 0 is
	stuck bool // there is no valid escape behind known
	lines bool // a newline is white space: a record may span lines
}

// begin forgets what is known; the next record begins at base in the data.
func (m *borders) begin(base int) {
	m.known, m.last, m.escaped = 0, 0, 0
	m.base, m.stuck = base, false
}

// isBeyond reports whether there may be bytes above 127 between i and end.
func (m *borders) isBeyond(i, end int) bool {
	return end > 0 && int(m.beyond[(end-1)/64]) > i
}

// find marks where strings begin and end in the first n bytes of b, from the last block known on, 64
// bytes at a time. It returns false if a backslash begins no valid escape; what precedes its
// block is known then. n may be no multiple of 64 only at the end.
func (m *borders) find(b []byte, n int) bool {
	// A bit of plain is set where a byte is neither a quote nor a control character.
	escaped, last := m.escaped, m.last
	for i := m.known; i < n; i += 64 {
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
				m.mark(i)
				return false
			}
		}
		if high&eighthBits != 0 {
			last = int32(i + 64) // so little that the compiler takes no branch
		}
		m.beyond[i/64] = last
		m.bits[i/64] = quotes
	}
	m.escaped, m.last = escaped, last
	m.mark(n)
	return true
}

// mark notes that n bits are known. Those behind them are set, so that every search for the next one
// ends, before fit sees that it is behind what is known.
func (m *borders) mark(n int) {
	m.bits[n/64] |= ^uint64(0) << (n % 64)
	m.bits[n/64+1] = ^uint64(0)
	m.known = n
}

// at returns the bits from i on of the word that i is in, and the index of its first bit.
func (m *borders) at(i int) (word uint64, begin int) {
	return m.bits[i/64] >> (i % 64) << (i % 64), i &^ 63
}

// second returns word without its first bit, or if nothing is left the next word that has a bit, counted
// from that bit on if word is zero. begin is the index of the first bit of word, and the second result
// is that of the returned word.
func (m *borders) second(word uint64, begin int) (uint64, int) {
	if w := word & (word - 1); w != 0 {
		return w, begin
	}
	for word == 0 {
		begin += 64
		word = m.bits[begin/64]
	}
	for word &= word - 1; word == 0; {
		begin += 64
		word = m.bits[begin/64]
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

// zeroBytes has a bit set for each of eight bytes that is zero.
func zeroBytes(w uint64) uint64 {
	hit := ^((w&sevenBits + sevenBits) | w | sevenBits) // the eighth bit of those bytes
	return gather(hit)
}

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
// It goes over all bits that are set from i on: word has those that are left of 64, and begin is the
// index of the first of these 64. Between strings it takes no byte that has a bit but white space, of
// which it goes over the bits too. So the first bit of word is that of the quote at i where a string
// begins, and the next one is that of the quote behind it, or of a control character in the string.
func (m *borders) fit(b []byte, i int) (end int, ok bool) {
	var (
		arrays [MaxDepth / 64]uint64 // as in strictObject
		depth  = uint(0)
		closer = byte('}')
		n      = m.known

		word, begin = m.at(i)
		j           int
		v           uint64
	)
	i = overSpaces(b, i, n)
	if b[i] != '{' {
		return i, false
	}
	for i < n {
		// A value begins at i, in an object behind its name.
		if depth == 0 || closer != '}' {
			goto value
		}
	name:
		if b[i] != '"' || i >= n {
			return i, false
		}
		word, begin = m.second(word, begin)
		j = begin + bits.TrailingZeros64(word)
		word &= word - 1
		v = binary.LittleEndian.Uint64(b[j : j+8])
		if v&threeBytes == stringNext || v&fourBytes == stringBehindSpace { // as most values are
			word, begin = m.second(word, begin)
			i = begin + bits.TrailingZeros64(word)
			word &= word - 1
			switch v = binary.LittleEndian.Uint64(b[i : i+8]); {
			case v&threeBytes == nameNext:
				i += 2
				goto name
			case v&fourBytes == nameBehindSpace:
				i += 3
				goto name
			case v&threeBytes == lineNext && m.lines:
				// The next bits are those of the newline, of tabs and of the quote of a name.
				word, begin = m.second(word, begin)
				for i += 3; i < n && b[i] == '\t'; i++ {
					word, begin = m.second(word, begin)
				}
				j = begin + bits.TrailingZeros64(word)
				if spaces := j - i; b[j] == '"' && spaces <= 8 && (binary.LittleEndian.Uint64(b[i:i+8])^' '*everyByte)<<(64-8*spaces) == 0 {
					i = j
				} else {
					i, word, begin = m.overSpace(b, i)
				}
				goto name
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
	value:
		switch c := b[i]; c {
		case '"':
			word, begin = m.second(word, begin)
			i = begin + bits.TrailingZeros64(word)
			if word &= word - 1; b[i] != '"' {
				return i, false
			}
			i++
		case '{', '[':
			if depth == MaxDepth {
				return i, false
			}
			if c == '[' {
				arrays[depth/64] |= 1 << (depth % 64)
			} else {
				arrays[depth/64] &^= 1 << (depth % 64)
			}
			depth++
			closer = c + 2
			if i++; b[i] <= ' ' {
				i, word, begin = m.overSpace(b, i)
			}
			if b[i] != closer {
				continue
			}
		case 't', 'f', 'n':
			if end = scalarEnd(b, i); end < 0 {
				return i, false
			}
			i = end
		default:
			// Most numbers are a few digits and a comma.
			if k := digits(binary.LittleEndian.Uint64(b[i : i+8])); (c != '0' && k > 0 || k == 1) && b[i+k] == ',' {
				if i += k; closer == '}' && b[i+1] == '"' {
					i++
					goto name
				}
				goto behind
			}
			if end = quickNumber(b, i); end < 0 {
				if i, word, begin = m.overSpace(b, i); c > ' ' || b[i] <= ' ' || i >= n {
					return i, false
				}
				goto value // on a line of its own
			}
			i = end
		}
	behind:
		// Behind a value: containers end, or another value follows.
		for {
			if b[i] <= ' ' {
				i, word, begin = m.overSpace(b, i)
			}
			if b[i] == ',' {
				if i++; b[i] <= ' ' {
					i, word, begin = m.overSpace(b, i)
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
	lineNext          = '"' | ','<<8 | '\n'<<16
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

// overSpace returns the first index from i on that is no white space, or n, and the bits from there
// on, as at does.
func (m *borders) overSpace(b []byte, i int) (next int, word uint64, begin int) {
	for i < m.known && (b[i] == ' ' || b[i] == '\n' && m.lines || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	word, begin = m.at(i)
	return i, word, begin
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

// digits returns how many digits the eight bytes of w begin with.
func digits(w uint64) int {
	w ^= '0' * everyByte
	return bits.TrailingZeros64((w&sevenBits+0x76*everyByte|w)&eighthBits) / 8 // the first byte of 10 and more
}

// overDigits returns the first index from i on that is no digit. It stops at the latest where
// fewer than 16 bytes of b are left.
func overDigits(b []byte, i int) int {
	for ; i+16 <= len(b); i += 8 {
		if k := digits(binary.LittleEndian.Uint64(b[i : i+8])); k < 8 {
			return i + k
		}
	}
	return i
}
