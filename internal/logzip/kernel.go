package logzip

import "math/bits"

const (
	hashBits = 13 // 16 KiB of positions: with the window that is what a first-level cache holds
	window   = 32 << 10
	least    = 6   // bytes of the shortest match
	longest  = 258 // and of the longest
	prime    = 0x9E3779B185EBCA87

	// margin is how far fast reads beyond its limit: the longest match, and the
	// 32 bytes at once in which it is measured.
	margin = longest + 32 + 8
)

// hash is that of the six highest bytes of x.
func hash(x uint64) uint64 { return x * prime >> (64 - hashBits) }

// beyond returns 0 for a distance that deflate can express, 1 to window. It is for one branch where
// a comparison would take two.
func beyond(distance uint64) uint64 { return (distance - 1) &^ (window - 1) }

// fast writes src from s to limit, or up to longest bytes further, with the codes
// in use, and returns where it ended. It finds matches in one pass and writes at
// once: no tokens are kept.
//
// Three things make its loads and stores safe, which are not checked:
//   - limit+margin <= len(src).
//   - dst has room for 2*(limit-s)+outMargin bytes from e.o on: two literals take at
//     most 30 bits, a match of 6 bytes or more at most 48.
//   - Every entry of head is the position of bytes before s, or 0, modulo 1<<16. So
//     the distance to it is at most s as long as s < 1<<16, and at most 1<<16 after.
//     A rewind therefore clears head.
func (e *Encoder) fast(src []byte, s, limit int) int {
	dst, o, held, out := e.dst[:cap(e.dst)], e.o, e.held, e.bits
	for s < limit {
		x := load64(src, s)
		h := hash(x << 16)
		distance := uint64(uint16(s) - e.head[h])
		e.head[h] = uint16(s)
		e.head[hash(x>>8<<16)] = uint16(s + 1)
		y := load64(src, s-int(distance))
		differ := x ^ y
		if differ<<16|beyond(distance) != 0 {
			a, b := uint64(e.lit[uint8(x)]), uint64(e.lit[uint8(x>>8)])
			out |= (a>>8 | b>>8<<(a&63)) << (held & 63)
			held += uint(a&63 + b&63)
			store64(dst, o, out)
			o += int(held >> 3)
			out >>= held & 56
			held &= 7
			s += 2
			continue
		}
		e.head[hash(x>>16<<16)] = uint16(s + 2)

		// Equal bytes, 32 at a time: each eight count only if those before are
		// equal, by masks and not by branches.
		n := 0
		for {
			k := bits.TrailingZeros64(differ) >> 3
			k1 := bits.TrailingZeros64(load64(src, s+n+8)^load64(src, s+n+8-int(distance))) >> 3
			k2 := bits.TrailingZeros64(load64(src, s+n+16)^load64(src, s+n+16-int(distance))) >> 3
			k3 := bits.TrailingZeros64(load64(src, s+n+24)^load64(src, s+n+24-int(distance))) >> 3
			k += (k1 + (k2+k3&-(k2>>3))&-(k1>>3)) & -(k >> 3)
			n += k
			if k < 32 || n >= longest {
				break
			}
			differ = load64(src, s+n) ^ load64(src, s+n-int(distance))
		}
		n = min(n, longest)
		s += n
		e.head[hash(load64(src, s-1)<<16)] = uint16(s - 1)

		l := uint64(e.lens[uint8(n-3)])
		d := e.dist[slotOf(distance-1)&63]
		v := (distance-1)&(d>>32)<<(d>>8&63) | d>>16&0xffff
		out |= (l>>8 | v<<(l&63)) << (held & 63)
		held += uint(l&63 + d&63)
		store64(dst, o, out)
		o += int(held >> 3)
		out >>= held & 56
		held &= 7
	}
	e.o, e.held, e.bits = o, held, out
	return s
}

// slotOf returns the index in e.dist of the code for the distance x+1. It is made of the position
// of the highest bit of x, and of the bit below that.
func slotOf(x uint64) uint64 {
	top := uint64(bits.Len32(uint32(x)))
	return top<<1 | (x<<1|1)>>((top-1)&63)&1
}

// slotOfSymbol returns the index in e.dist of the code for a distance symbol of deflate (0 to
// 29).
func slotOfSymbol(symbol int) int {
	if symbol < 2 {
		return 3 * symbol
	}
	return symbol + 2
}

// symbolOfSlot returns the distance symbol of deflate whose code is at an index of e.dist. It is
// the reverse of slotOfSymbol.
func symbolOfSlot(slot uint64) uint64 {
	if slot < 4 {
		return slot / 3
	}
	return slot - 2
}

// careful compresses src from s to limit as fast does, or to the end of the symbol that is there,
// and returns where it ended. Unlike fast it never reads beyond the end of src, and it counts the
// symbols: it is for the ends of payloads and for samples. A call that begins where another ended
// writes what one call would have written.
func (e *Encoder) careful(src []byte, s, limit int) int {
	dst, o, held, out := e.dst[:cap(e.dst)], e.o, e.held, e.bits
	for s < limit {
		var v uint64        // what to write
		var n uint          // and how many bits of it
		if s+8 > len(src) { // too few bytes to look for a match
			a := uint64(e.lit[src[s]])
			e.counts[src[s]]++
			v, n = a>>8, uint(a&63)
			s++
		} else {
			x := load64(src, s)
			h := hash(x << 16)
			distance := uint64(uint16(s) - e.head[h])
			e.head[h] = uint16(s)
			e.head[hash(x>>8<<16)] = uint16(s + 1)
			differ := x ^ load64(src, s-int(distance))
			if differ<<16|beyond(distance) != 0 { // no match of 6 bytes
				a, b := uint64(e.lit[uint8(x)]), uint64(e.lit[uint8(x>>8)])
				e.counts[uint8(x)]++
				e.counts[uint8(x>>8)]++
				v, n = a>>8|b>>8<<(a&63), uint(a&63+b&63)
				s += 2
			} else {
				e.head[hash(x>>16<<16)] = uint16(s + 2)
				most := min(longest, len(src)-s)
				length := bits.TrailingZeros64(differ) >> 3
				for length&7 == 0 && length+8 <= most {
					more := bits.TrailingZeros64(load64(src, s+length)^load64(src, s+length-int(distance))) >> 3
					length += more
					if more < 8 {
						break
					}
				}
				for length < most && src[s+length] == src[s+length-int(distance)] {
					length++
				}
				s += length
				slot := slotOf(distance - 1)
				l, d := uint64(e.lens[length-3]), e.dist[slot&63]
				e.counts[lengthSymbols[length-3].symbol]++
				e.counts[literals+symbolOfSlot(slot)]++
				v = l>>8 | ((distance-1)&(d>>32)<<(d>>8&63)|d>>16&0xffff)<<(l&63)
				n = uint(l&63 + d&63)
			}
		}
		out |= v << (held & 63)
		held += n
		store64(dst, o, out)
		o += int(held >> 3)
		out >>= held & 56
		held &= 7
	}
	e.o, e.held, e.bits = o, held, out
	return s
}
