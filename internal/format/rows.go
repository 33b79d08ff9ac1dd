package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Most delimited records are one line, in which each quote is where RFC 4180 has it. Those are
// recognised without a branch for each field, which walkRow needs and no processor foretells:
// quotes and delimiters of many lines are found in one go, 64 bytes at a time, and the bits are
// summed up, so that two places tell what is between them. Everything else is for walkRow, which
// knows what is wrong.

// rows is what is known of a part of the data, which begins with a record. The bits of a word are
// those of 64 bytes, the first one lowest.
type rows struct {
	apart  [mostStep / 64]uint64 // delimiters outside of quoted fields
	odd    [mostStep / 64]uint64 // where a record cannot go on: see find
	within [mostStep / 64]uint64 // bytes in quoted fields, with the opening quotes
	sums   [mostStep/64 + 1]sums // before each word

	base  int // where in the data the first bit is
	known int // the bits from here on mean nothing
	next  int // where in the data the next record begins; -1: not known
	step  int // how many bytes are looked at beyond what is known

	// Of the byte before known.
	inside  uint64 // all bits are set: in a quoted field
	before  uint64 // 1: a delimiter or a closing quote
	closing uint64 // 1: a closing quote
}

// upTo returns the sums of the bits below i, which is known.
func (r *rows) upTo(i int) sums {
	w, before := i/64, uint64(1)<<(i%64)-1
	return r.sums[w] + sums(bits.OnesCount64(r.apart[w]&before)) + oneOdd*sums(bits.OnesCount64(r.odd[w]&before))
}

// sums are three counts that do not run over: of delimiters outside of quoted fields, of odd places,
// and of words with bytes above 127.
type sums uint64

const (
	oneOdd    = 1 << 16
	oneBeyond = 1 << 32
	oneCount  = 1<<16 - 1
)

func (s sums) apart() int { return int(s & oneCount) }
func (s sums) odd() int   { return int(s / oneOdd & oneCount) }

// begin forgets what is known; the next record begins at base in the data. step is how many bytes are
// looked at first; 0: only those of the record.
func (r *rows) begin(base, step int) {
	r.base, r.next, r.known, r.step = base, base, 0, step
	r.inside, r.before, r.closing = 0, 0, 0
}

// row returns the length of the record that begins at at in data, with its line end, and the number
// of its fields, if it is valid; 0: nothing is known. beyond says that there may be bytes above
// 127.
func (r *rows) row(data []byte, at int, sep byte) (n, fields int, beyond bool) {
	if r.next != at {
		r.begin(at, leastStep)
	}
	for data[at] != 0 {
		line := bytes.IndexByte(data[at+n:], '\n') + 1
		if n += line; line == 0 || n > leastTear {
			break
		}
		if at+n > r.base+r.known {
			if at+n > r.base+mostStep { // a record has less than that
				r.begin(at, r.step)
			}
			b := data[r.base:min(len(data), r.base+mostStep)]
			r.find(b, max(at+n-r.base, r.known+r.step), sep)
			r.step = min(2*r.step, mostStep)
		}
		first, last := at-r.base, at+n-1-r.base
		end := last // of the last field
		if n > 1 && data[at+n-2] == '\r' {
			end--
		}
		// A record is odd nowhere but at its first byte, where a quote may open a field, and at its end.
		if end == first || r.upTo(end).odd() != r.upTo(first+1).odd() {
			break
		}
		if r.within[last/64]>>(last%64)&1 != 0 {
			continue // the line ends in a quoted field
		}
		r.next = at + n
		return n, 1 + (r.upTo(last) - r.upTo(first)).apart(), r.sums[last/64+1]-r.sums[first/64] >= oneBeyond
	}
	r.next = -1
	return 0, 0, false
}

// find looks at b, which begins with bit 0, from known to at least n, or to the end of b. A byte is
// odd that opens a quoted field but follows neither a delimiter nor a closing quote, and one
// that follows a closing quote but is neither a delimiter nor another quote: two quotes within
// a field close and open it.
func (r *rows) find(b []byte, n int, sep byte) {
	var (
		tail                    [64]byte
		seps                    = uint64(sep) * everyByte
		inside, before, closing = r.inside, r.before, r.closing
		sum                     = r.sums[r.known/64]
		i                       = r.known
	)
	for ; i < min(n, len(b)); i += 64 {
		block := &tail
		if len(b)-i >= 64 {
			block = (*[64]byte)(b[i:])
		} else {
			copy(tail[:], b[i:])
		}
		w0, w1 := binary.LittleEndian.Uint64(block[0:8]), binary.LittleEndian.Uint64(block[8:16])
		w2, w3 := binary.LittleEndian.Uint64(block[16:24]), binary.LittleEndian.Uint64(block[24:32])
		w4, w5 := binary.LittleEndian.Uint64(block[32:40]), binary.LittleEndian.Uint64(block[40:48])
		w6, w7 := binary.LittleEndian.Uint64(block[48:56]), binary.LittleEndian.Uint64(block[56:64])
		if (w0|w1|w2|w3|w4|w5|w6|w7)&eighthBits != 0 { // a byte above 127 is neither, and becomes a NUL
			w0, w1, w2, w3 = ascii(w0), ascii(w1), ascii(w2), ascii(w3)
			w4, w5, w6, w7 = ascii(w4), ascii(w5), ascii(w6), ascii(w7)
			sum += oneBeyond
		}
		q := ^(other(w0, quotes) | other(w1, quotes)<<8 | other(w2, quotes)<<16 | other(w3, quotes)<<24 |
			other(w4, quotes)<<32 | other(w5, quotes)<<40 | other(w6, quotes)<<48 | other(w7, quotes)<<56)
		d := ^(other(w0, seps) | other(w1, seps)<<8 | other(w2, seps)<<16 | other(w3, seps)<<24 |
			other(w4, seps)<<32 | other(w5, seps)<<40 | other(w6, seps)<<48 | other(w7, seps)<<56)

		within := evenOut(q) ^ inside
		opens, closes := q&within, q&^within
		odd := opens&^((d|closes)<<1|before) | (closes<<1|closing)&^(d|opens)
		inside, before, closing = -(within >> 63), (d|closes)>>63, closes>>63
		d &^= within
		w := i / 64
		r.within[w], r.odd[w], r.apart[w] = within, odd, d
		sum += sums(bits.OnesCount64(d)) + oneOdd*sums(bits.OnesCount64(odd))
		r.sums[w+1] = sum
	}
	r.known = i
	r.inside, r.before, r.closing = inside, before, closing
}

const quotes = '"' * everyByte

// ascii makes NULs of the bytes above 127 among eight.
func ascii(w uint64) uint64 {
	high := w & eighthBits
	return w &^ (high<<1 - high>>7)
}

// other has a bit set for each of eight bytes, all below 128, that is not c, which is given eight
// times over. See json_quick.go.
func other(w, c uint64) uint64 { return gather((w ^ c + sevenBits) & eighthBits) }

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
