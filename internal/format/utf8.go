package format

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// validUTF8 is utf8.Valid, but faster for text that is mostly ASCII: after each character above
// 127 it looks at eight bytes together again, where the library continues byte by byte to the
// end.
func validUTF8(b []byte) bool {
	i := 0
	for i+8 <= len(b) {
		if i+32 <= len(b) {
			p := (*[32]byte)(b[i:])
			if (binary.LittleEndian.Uint64(p[0:8])|binary.LittleEndian.Uint64(p[8:16])|
				binary.LittleEndian.Uint64(p[16:24])|binary.LittleEndian.Uint64(p[24:32]))&eighthBits == 0 {
				i += 32
				continue
			}
		}
		w := binary.LittleEndian.Uint64(b[i:])
		beyond := w & eighthBits
		if beyond == 0 {
			i += 8
			continue
		}
		// The first byte above 127 begins a character, which may be followed by
		// others: as long as there are, they are taken apart one by one.
		i += bits.TrailingZeros64(beyond) / 8
		for i+4 <= len(b) && b[i] >= utf8.RuneSelf {
			n := charLen(binary.LittleEndian.Uint32(b[i:]))
			if n == 0 {
				return false
			}
			i += n
		}
	}
	return utf8.Valid(b[i:])
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
