package format

import (
	"encoding/binary"
	"math/bits"
)

// Most delimited records that begin with a quote are one line in which most
// fields have quotes and each is where RFC 4180 has it. Those are recognised 64
// bytes at a time, without a branch for each field, which walkRow needs and no
// processor foretells. Everything else is for walkRow, which knows what is wrong.

// quotedRow counts the fields of the line of n bytes, newline included, that
// data begins with. It reports false where it is not one whole sound record:
// quotes are left open, or a quote is where it should not be.
func quotedRow(data []byte, n int, sep byte) (fields int, ok bool) {
	var (
		inside  uint64      // all bits: a quoted field is open
		before  = uint64(1) // bit 0: a quote may open a field here
		behind  uint64      // bit 0: a quote was closed before this
		bad     uint64
		tail    [64]byte
		quotes  = uint64('"') * everyByte
		seps    = uint64(sep) * everyByte
		lineEnd = n - 1
	)
	if n > 1 && data[n-2] == '\r' {
		lineEnd--
	}
	fields = 1
	for i := 0; i < n; i += 64 {
		block := tail[:]
		if len(data)-i >= 64 {
			block = data[i : i+64]
		} else {
			copy(block, data[i:])
		}
		q, d := equalBits(block, quotes, seps)
		ends := uint64(0)
		if left := n - i; left <= 64 {
			q, d = q&(^uint64(0)>>(64-left)), d&(^uint64(0)>>(64-left))
		}
		if at := lineEnd - i; at < 64 {
			ends = ^uint64(0) << max(at, 0)
		}
		in := evenOut(q) ^ inside
		opens, closes := q&in, q&^in
		bad |= opens &^ ((d|closes)<<1 | before)
		bad |= (closes<<1 | behind) &^ (d | opens | ends)
		before, behind = (d|closes)>>63, closes>>63
		inside = -(in >> 63)
		fields += bits.OnesCount64(d &^ in)
	}
	return fields, bad|inside == 0
}

// equalBits has a bit set for each of 64 bytes that is a, and for each that is
// b; both are given eight times over.
func equalBits(block []byte, a, b uint64) (isA, isB uint64) {
	block = block[:64]
	for i := 0; i < 64; i += 8 {
		w := binary.LittleEndian.Uint64(block[i:])
		isA |= zeroBytes(w^a) << i
		isB |= zeroBytes(w^b) << i
	}
	return isA, isB
}

// zeroBytes has a bit set for each of eight bytes that is zero.
func zeroBytes(w uint64) uint64 {
	const low = 0x7f * everyByte
	hit := ^((w&low + low) | w | low) // the eighth bit of those bytes
	return hit * 0x0002040810204081 >> 56
}

// evenOut has each bit set that has an odd number of bits of q up to and with
// its own: with quotes, what is inside of them.
func evenOut(q uint64) uint64 {
	q ^= q << 1
	q ^= q << 2
	q ^= q << 4
	q ^= q << 8
	q ^= q << 16
	q ^= q << 32
	return q
}
