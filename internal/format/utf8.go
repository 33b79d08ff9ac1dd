package format

import (
	"encoding/binary"
	"math/bits"
)

// validUTF8 is utf8.Valid, but faster for text that is mostly ASCII, and for text that is not.
// Behind a first character above 127 it takes eight bytes at a time through a machine that has no
// branch for any of them, for as long as there are others: of what lengths the characters of a
// text are, and where its words end, no processor foretells. A character that stands alone costs
// less by itself.
func validUTF8(b []byte) bool {
	i, state := 0, uint64(between)
	for i+8 <= len(b) {
		if i+32 <= len(b) {
			p := (*[32]byte)(b[i:])
			if (binary.LittleEndian.Uint64(p[0:8])|binary.LittleEndian.Uint64(p[8:16])|
				binary.LittleEndian.Uint64(p[16:24])|binary.LittleEndian.Uint64(p[24:32]))&eighthBits == 0 {
				i += 32
				continue
			}
		}
		beyond := binary.LittleEndian.Uint64(b[i:]) & eighthBits
		if beyond == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(beyond) / 8; i+4 > len(b) {
			break
		}
		n := charLen(binary.LittleEndian.Uint32(b[i:]))
		if n == 0 {
			return false
		}
		for i += n; i+8 <= len(b); i += 8 {
			p := (*[8]byte)(b[i:])
			if binary.LittleEndian.Uint64(p[:])&eighthBits|state&63 == between {
				break
			}
			state = utf8States[p[0]] >> (state & 63)
			state = utf8States[p[1]] >> (state & 63)
			state = utf8States[p[2]] >> (state & 63)
			state = utf8States[p[3]] >> (state & 63)
			state = utf8States[p[4]] >> (state & 63)
			state = utf8States[p[5]] >> (state & 63)
			state = utf8States[p[6]] >> (state & 63)
			state = utf8States[p[7]] >> (state & 63)
		}
	}
	for ; i < len(b); i++ {
		state = utf8States[b[i]] >> (state & 63)
	}
	return state&63 == between
}

// charLen returns the length of the UTF-8 character above 127 that the four bytes of w begin
// with, the first byte lowest; 0: no valid character. Invalid are characters that could be
// written shorter, halves of UTF-16 pairs (0xD800 to 0xDFFF), and what is beyond 0x10FFFF.
func charLen(w uint32) int {
	switch {
	case w&0xC0E0 == 0x80C0: // 110xxxxx 10xxxxxx
		if w&0x1E != 0 {
			return 2
		}
	case w&0xC0C0F0 == 0x8080E0: // 1110xxxx 10xxxxxx 10xxxxxx
		if upper := w & 0x200F; upper != 0 && upper != 0x200D {
			return 3
		}
	case w&0xC0C0C0F8 == 0x808080F0: // 11110xxx 10xxxxxx 10xxxxxx 10xxxxxx
		if upper := w&7<<2 | w>>12&3; upper > 0 && upper <= 0x10 {
			return 4
		}
	}
	return 0
}

// The states of the machine, each as how far a word of utf8States is shifted for what follows: the
// next byte begins a character, some are missing to one, or it is behind a byte that not all may
// follow.
const (
	between = 6 * iota
	invalid
	missing1
	missing2
	missing3
	behindE0
	behindED
	behindF0
	behindF4
)

// utf8States has a word for each byte: the states that follow each state, of six bits.
var utf8States = func() (of [256]uint64) {
	for c := range of {
		for state := between; state <= behindF4; state += 6 {
			of[c] |= invalid << state
		}
	}
	for _, step := range []struct{ state, first, last, next uint64 }{
		{between, 0x00, 0x7F, between}, {between, 0xC2, 0xDF, missing1}, {between, 0xE1, 0xEF, missing2}, {between, 0xF1, 0xF3, missing3},
		{missing3, 0x80, 0xBF, missing2}, {missing2, 0x80, 0xBF, missing1}, {missing1, 0x80, 0xBF, between},
		// As in charLen, and in place of some of the above: nothing that could be written shorter, no halves of pairs, nothing beyond 0x10FFFF.
		{between, 0xE0, 0xE0, behindE0}, {behindE0, 0xA0, 0xBF, missing1}, {between, 0xED, 0xED, behindED}, {behindED, 0x80, 0x9F, missing1},
		{between, 0xF0, 0xF0, behindF0}, {behindF0, 0x90, 0xBF, missing2}, {between, 0xF4, 0xF4, behindF4}, {behindF4, 0x80, 0x8F, missing2},
	} {
		for c := step.first; c <= step.last; c++ {
			of[c] = of[c]&^(63<<step.state) | step.next<<step.state
		}
	}
	return of
}()
