package format

import (
	"encoding/binary"
	"math/bits"
)

// Most delimited records that begin with a quote are one line in which most
// fields have quotes and each is where RFC 4180 has it. Those are recognised 64
// bytes at a time, without a branch for each field, which walkRow needs and no
// processor foretells. Everything else is for walkRow, which knows what is wrong.

// quotedRow counts the fields of the first line of data, which has n bytes with its newline. ok
// is false if the line is not one complete valid record: a quote is left open, or is where none
// may be. The eighth bits of high tell whether there are bytes above 127 in the line, or perhaps
// just after it.
func quotedRow(data []byte, n int, sep byte) (fields int, high uint64, ok bool) {
	var (
		inside  uint64      // all bits are set: a quoted field is open
		before  = uint64(1) // bit 0: a quote may open a field here
		behind  uint64      // bit 0: a quote was closed before this
		bad     uint64
		tail    [64]byte
		seps    = uint64(sep) * everyByte
		lineEnd = n - 1
	)
	if n > 1 && data[n-2] == '\r' {
		lineEnd--
	}
	fields = 1
	for i := 0; i < n; i += 64 {
		block := &tail
		if len(data)-i >= 64 {
			block = (*[64]byte)(data[i:])
		} else {
			copy(tail[:], data[i:])
		}
		w0, w1 := binary.LittleEndian.Uint64(block[0:8]), binary.LittleEndian.Uint64(block[8:16])
		w2, w3 := binary.LittleEndian.Uint64(block[16:24]), binary.LittleEndian.Uint64(block[24:32])
		high |= w0 | w1 | w2 | w3
		q := elsewhere(w0, quotes) | elsewhere(w1, quotes)<<8 | elsewhere(w2, quotes)<<16 | elsewhere(w3, quotes)<<24
		d := elsewhere(w0, seps) | elsewhere(w1, seps)<<8 | elsewhere(w2, seps)<<16 | elsewhere(w3, seps)<<24
		w0, w1 = binary.LittleEndian.Uint64(block[32:40]), binary.LittleEndian.Uint64(block[40:48])
		w2, w3 = binary.LittleEndian.Uint64(block[48:56]), binary.LittleEndian.Uint64(block[56:64])
		high |= w0 | w1 | w2 | w3
		q |= elsewhere(w0, quotes)<<32 | elsewhere(w1, quotes)<<40 | elsewhere(w2, quotes)<<48 | elsewhere(w3, quotes)<<56
		d |= elsewhere(w0, seps)<<32 | elsewhere(w1, seps)<<40 | elsewhere(w2, seps)<<48 | elsewhere(w3, seps)<<56

		q, d = ^q, ^d
		ends := uint64(0)
		if left := n - i; left < 64 {
			q, d = q&(1<<left-1), d&(1<<left-1)
		}
		if at := lineEnd - i; at < 64 {
			ends = ^uint64(0) << max(at, 0)
		}
		in := evenOut(q) ^ inside // the bytes in quoted fields, with the opening quotes
		opens, closes := q&in, q&^in
		bad |= opens &^ ((d|closes)<<1 | before)
		bad |= (closes<<1 | behind) &^ (d | opens | ends)
		before, behind = (d|closes)>>63, closes>>63
		inside = -(in >> 63)
		fields += bits.OnesCount64(d &^ in)
	}
	return fields, high, bad|inside == 0
}

const quotes = '"' * everyByte

// elsewhere has a bit set for each of eight bytes that is not c, which is below
// 128 and given eight times over. See json_quick.go.
func elsewhere(w, c uint64) uint64 {
	return gather(((w&sevenBits ^ c) + sevenBits | w) & eighthBits)
}

// zeroBytes has a bit set for each of eight bytes that is zero.
func zeroBytes(w uint64) uint64 {
	const low = 0x7f * everyByte
	hit := ^((w&low + low) | w | low) // the eighth bit of those bytes
	return hit * 0x0002040810204081 >> 56
}

// evenOut returns a word in which a bit is set if q has an odd number of bits set up to and
// including it. For the bits of quotes these are the bytes from each opening quote to before its
// closing one.
func evenOut(q uint64) uint64 {
	q ^= q << 1
	q ^= q << 2
	q ^= q << 4
	q ^= q << 8
	q ^= q << 16
	q ^= q << 32
	return q
}
