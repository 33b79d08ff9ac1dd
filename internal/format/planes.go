package format

import "encoding/binary"

// The planes of a block of 64 bytes are eight words: the first one holds bit 0 of each byte, the
// last one bit 7. With them a class of bytes, such as the quotes, is a few operations of logic on
// words, which look at all 64 bytes at once, and none of them is a branch.
//
// The bit of byte i is not bit i of the words but i%8*8 + i/8: to have the bits in the order of the
// bytes would cost as much again for each word. The functions below know that order.

// planes returns the planes of b. Its words are an 8 by 8 by 8 cube of bits, of which it swaps two
// sides: first halves, then quarters, then eighths.
func planes(b *[64]byte) (p0, p1, p2, p3, p4, p5, p6, p7 uint64) {
	const (
		nibbles = 0x0f * everyByte
		pairs   = 0x33 * everyByte
		single  = 0x55 * everyByte
	)
	p0, p4 = swapBits(binary.LittleEndian.Uint64(b[0:8]), binary.LittleEndian.Uint64(b[32:40]), 4, nibbles)
	p1, p5 = swapBits(binary.LittleEndian.Uint64(b[8:16]), binary.LittleEndian.Uint64(b[40:48]), 4, nibbles)
	p2, p6 = swapBits(binary.LittleEndian.Uint64(b[16:24]), binary.LittleEndian.Uint64(b[48:56]), 4, nibbles)
	p3, p7 = swapBits(binary.LittleEndian.Uint64(b[24:32]), binary.LittleEndian.Uint64(b[56:64]), 4, nibbles)
	p0, p2 = swapBits(p0, p2, 2, pairs)
	p1, p3 = swapBits(p1, p3, 2, pairs)
	p4, p6 = swapBits(p4, p6, 2, pairs)
	p5, p7 = swapBits(p5, p7, 2, pairs)
	p0, p1 = swapBits(p0, p1, 1, single)
	p2, p3 = swapBits(p2, p3, 1, single)
	p4, p5 = swapBits(p4, p5, 1, single)
	p6, p7 = swapBits(p6, p7, 1, single)
	return p0, p1, p2, p3, p4, p5, p6, p7
}

// swapBits swaps the bits of y that are in mask with those of x that are n bits higher.
func swapBits(x, y uint64, n int, mask uint64) (uint64, uint64) {
	t := (x>>n ^ y) & mask
	return x ^ t<<n, y ^ t
}

// bitOf returns which byte of its block bit n of a plane is of.
func bitOf(n int) int { return n%8*8 + n/8 }

// below has the bits of the first i bytes of a block, of at most 63.
func below(i int) uint64 {
	return everyByte*(1<<(i/8)-1) | everyByte<<(i/8)&(1<<(i%8*8)-1)
}

// after has the bits of the bytes behind those of x, the last one of which is in another block.
func after(x uint64) uint64 { return x<<8 | x>>55&0xfe }

// evenOut has the bit of a byte set if q has an odd number of bits set up to and including it. For
// the bits of quotes these are the bytes from each opening quote to before its closing one.
func evenOut(q uint64) uint64 {
	q ^= q << 8
	q ^= q << 16
	q ^= q << 32
	words := q >> 56 // of each eight bytes whether they have an odd number
	words ^= words << 1
	words ^= words << 2
	words ^= words << 4
	return q ^ words<<1&0xff*everyByte
}

// inOrder puts the bit of byte i where bit i is.
func inOrder(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}
