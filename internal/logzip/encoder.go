// Package logzip compresses streams of text records to gzip, in one pass, and
// promises that every payload is a gzip member any decoder reads by itself, that
// none is larger than its bytes stored plainly would be, and that compressing one
// allocates nothing where the caller's buffer has room.
package logzip

import (
	"encoding/binary"
)

const (
	chunkSize   = mostStored - longest // between looks at how large the output became
	mostStored  = 65535                // bytes of a stored block
	checkEvery  = 256 << 10            // bytes between looks at whether the tables fit, where the output changes
	checkAlways = 4 * checkEvery       // where it does not
	sampleSize  = 16 << 10             // bytes of such a look
	smallSize   = 4 << 10              // bytes of a payload that is worth two passes

	gzipHeader = 10
	gzipEnd    = 8
	outMargin  = 64  // bytes that writing symbols may need beyond 2 for each of input
	headerRoom = 512 // bytes for the end of a block and the beginning of another
)

// Tables are the Huffman tables of a stream, which one payload leaves for the
// next. They only say what is likely: a payload of other text becomes larger,
// never wrong. The zero value is that of a stream that begins. Copies are
// independent.
type Tables struct {
	lengths lengths
	known   bool
	since   int32 // bytes since the tables were last held against the text
	rate    int32 // bits for 1024 bytes when they were; 0: not known
	moved   int32 // by how many bits the last chunk differs from that
	waste   int32 // bits of 1024 that a sample took too many when no better tables were found; 0: not known
	first   int32 // bits for 1024 bytes of what the last payload began with
}

// Encoder compresses one payload at a time. It may serve any number of streams by
// turns, each with Tables of its own. The zero value is ready; it is not safe for
// concurrent use. It takes 28 KiB.
type Encoder struct {
	// Each, if it is set, is called with the bytes of the payload, each once and in
	// their order, while they are in the cache: for a sum of the caller's own.
	Each func([]byte)

	head [1 << hashBits]uint16 // position of the last six bytes with a hash, modulo 1<<16

	// What is in use, as the matchers need it: bits | code<<8, where the code of a
	// length has its extra bits in it. That of a distance has all bits, those
	// without extra bits, the code, and a mask of the extra bits, in fields of
	// 8, 8, 16 and 32 bits.
	lit   [literals]uint32
	lens  [256]uint32
	dist  [64]uint64
	coded lengths // what they were made from

	// The output: dst to its capacity, of which o bytes are written, and held
	// bits more.
	dst  []byte
	o    int
	bits uint64
	held uint
	base int    // o when the payload began
	most int    // o when it ends, at the worst
	raw  int    // bytes of the payload
	sum  uint32 // the CRC32 of those that were gone through
	open bool
	last int // where the header of the last block is, in bits

	counts counts
	header header
	build  builder
	fresh  lengths
}

// MaxLen is the most bytes that Append adds for n bytes of payload in one part;
// each further part can add 5 more.
func MaxLen(n int) int {
	return gzipHeader + gzipEnd + n + 5*(n/chunkSize+1) + 8
}

// Append compresses a payload, given in parts, as one gzip member behind dst, and
// returns the longer slice, as append does. It uses the tables of the stream, and
// leaves there what the next payload should use. The parts are only read, and
// not kept.
func (e *Encoder) Append(dst []byte, t *Tables, parts ...[]byte) []byte {
	e.raw, e.sum = 0, 0
	for _, p := range parts {
		e.raw += len(p)
	}
	e.dst, e.o, e.base = dst, len(dst), len(dst)
	e.bits, e.held, e.open = 0, 0, false
	e.most = e.base + MaxLen(e.raw) + 5*len(parts)
	e.reserve(headerRoom)
	e.o += copy(e.dst[e.o:cap(e.dst)], "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff")
	switch {
	case e.raw == 0:
		e.openFixed()
	case e.raw <= smallSize:
		e.small(parts)
	default:
		for _, p := range parts {
			e.part(t, p)
		}
	}
	e.endBlock()
	// Only now it is known which block is the last one: set its first bit.
	e.align()
	e.dst[:cap(e.dst)][e.last>>3] |= 1 << (e.last & 7)
	e.reserve(headerRoom)
	out := e.dst[:e.o]
	out = binary.LittleEndian.AppendUint32(out, e.sum)
	out = binary.LittleEndian.AppendUint32(out, uint32(e.raw))
	e.dst = nil
	return out
}

// reserve makes room for n more bytes of output. It is the only function here that allocates.
func (e *Encoder) reserve(n int) {
	if cap(e.dst)-e.o >= n {
		return
	}
	// Growing by half of the input keeps the buffer smaller than the input in most cases.
	size := max(min(cap(e.dst)+e.raw/2, e.most+headerRoom), e.o+n)
	e.dst = append(make([]byte, 0, size), e.dst[:e.o]...)
}

// place is where a chunk began, to go back to.
type place struct {
	o, last int
	bits    uint64
	held    uint
	open    bool
	coded   lengths
}

func (e *Encoder) here() place { return place{e.o, e.last, e.bits, e.held, e.open, e.coded} }

// rewind takes back all output since the place p, and the codes in use there. It also forgets all
// input for which matches could be found: fast relies on that.
func (e *Encoder) rewind(p place) {
	e.o, e.last, e.bits, e.held, e.open = p.o, p.last, p.bits, p.held, p.open
	e.use(&p.coded)
	clear(e.head[:])
}

// total is the bits that were written up to there.
func (p place) total() int { return p.o*8 + int(p.held) }
