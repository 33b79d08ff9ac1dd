package format

import "encoding/binary"

// validUTF8 is utf8.Valid, but faster. Blocks of 64 bytes that are ASCII are passed. Of others their
// planes tell, without a branch for any character: of what lengths the characters of a text are, and
// where its words end, no processor foretells.
func validUTF8(b []byte) bool {
	var (
		tail [64]byte
		last [6]uint64 // 1: of the byte before the block the word below is true
	)
	for i := 0; i < len(b); i += 64 {
		block := &tail
		if len(b)-i >= 64 {
			block = (*[64]byte)(b[i:])
		} else {
			copy(tail[:], b[i:])
		}
		if isASCII(block) && last[0] == 0 {
			continue
		}
		p0, p1, p2, p3, p4, p5, p6, p7 := planes(block)

		// The first bytes of characters of two bytes and more, of three and more, of four.
		of2 := p7 & p6
		of3 := of2 & p5
		of4 := of3 & p4
		// Behind these so many more bytes of the character follow, or more.
		need2 := of3 | after(of4) | last[2]
		need1 := of2 | after(need2) | last[1]
		wrong := (after(need1) | last[0]) ^ p7&^p6
		// Nothing may be written longer than it has to be, be half of a UTF-16 pair (0xD800 to 0xDFFF),
		// or be beyond 0x10FFFF: no character begins with 0xC0 or 0xC1, or with 0xF5 and above, and what
		// follows is at least 0xA0 behind 0xE0, below that behind 0xED, at least 0x90 behind 0xF0, below
		// that behind 0xF4.
		wrong |= of2&^(p5|p4|p3|p2|p1) | of4&(p3|p2&(p1|p0))
		bounds := of3&^p4&(p3&p2&p0&^p1|^(p3|p2|p1|p0)) | of4&(p2|^(p3|p1|p0))
		bounds4, upper := bounds&p4, bounds&p2
		wrong |= (after(bounds) | last[3]) &^ ((p5 | p4&(after(bounds4)|last[4])) ^ (after(upper) | last[5]))
		if wrong != 0 {
			return false
		}
		last = [6]uint64{need1 >> 63, need2 >> 63, of4 >> 63, bounds >> 63, bounds4 >> 63, upper >> 63}
	}
	return last[0] == 0
}

// isASCII reports whether all bytes of b are below 128.
func isASCII(b *[64]byte) bool {
	return (binary.LittleEndian.Uint64(b[0:8])|binary.LittleEndian.Uint64(b[8:16])|
		binary.LittleEndian.Uint64(b[16:24])|binary.LittleEndian.Uint64(b[24:32])|
		binary.LittleEndian.Uint64(b[32:40])|binary.LittleEndian.Uint64(b[40:48])|
		binary.LittleEndian.Uint64(b[48:56])|binary.LittleEndian.Uint64(b[56:64]))&eighthBits == 0
}
