package logzip

// codeOrder is the order in which the lengths of the code of lengths are written
// (RFC 1951, 3.2.7).
var codeOrder = [...]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// header is how a block of type 2 tells its tables: their lengths, of which runs
// are written as one symbol, in a code of its own.
type header struct {
	runs  [literals + distances]run
	n     int // of runs
	hlit  int
	hdist int
	hclen int
	freq  [19]uint32
	code  [19]uint8 // lengths of the code of lengths
}

// run is a length, or a symbol that repeats some, and its extra bits.
type run struct{ symbol, extra, bits uint8 }

// describe works out the header of a dynamic block with the code lengths l: how many codes it
// has, and their lengths in run-length form and with a Huffman code of their own (RFC 1951,
// section 3.2.7). b has the memory to make that code.
func (h *header) describe(l *lengths, b *builder) {
	h.hlit, h.hdist = literals-2, distances
	for h.hlit > 257 && l[h.hlit-1] == 0 {
		h.hlit--
	}
	for h.hdist > 1 && l[literals+h.hdist-1] == 0 {
		h.hdist--
	}
	h.n, h.freq = 0, [19]uint32{}
	h.rle(l[:h.hlit])
	h.rle(l[literals : literals+h.hdist])
	b.build(h.freq[:], h.code[:], 7)
	h.hclen = len(codeOrder)
	for h.code[codeOrder[h.hclen-1]] == 0 {
		h.hclen--
	}
}

// rle adds the code lengths l to the header, in the run-length form of RFC 1951, section
// 3.2.7: symbol 16 repeats the length before it 3 to 6 times, 17 repeats zero 3 to 10
// times, and 18 repeats zero 11 to 138 times.
func (h *header) rle(l []uint8) {
	for len(l) > 0 {
		n := 1
		for n < len(l) && l[n] == l[0] {
			n++
		}
		same := l[0]
		l = l[n:]
		if same > 0 {
			h.add(run{symbol: same})
			n--
		}
		for n > 0 {
			switch {
			case n < 3:
				h.add(run{symbol: same})
				n--
			case same > 0:
				k := min(n, 6)
				h.add(run{16, uint8(k - 3), 2})
				n -= k
			case n <= 10:
				h.add(run{17, uint8(n - 3), 3})
				n = 0
			default:
				k := min(n, 138)
				h.add(run{18, uint8(k - 11), 7})
				n -= k
			}
		}
	}
}

func (h *header) add(r run) {
	h.runs[h.n] = r
	h.n++
	h.freq[r.symbol]++
}

// size returns the length of the header in bits, with the three that every block begins with.
func (h *header) size() int {
	n := 3 + 5 + 5 + 4 + 3*h.hclen // type, hlit, hdist, hclen, and the lengths of the code of lengths
	for _, r := range h.runs[:h.n] {
		n += int(h.code[r.symbol] + r.bits)
	}
	return n
}

// openFixed begins a block of type 1: with the fixed Huffman codes of deflate.
func (e *Encoder) openFixed() {
	e.reserve(headerRoom)
	e.use(&fixed)
	e.last, e.open = e.bitsOut(), true // where the bit is that marks the last block
	e.put(1<<1, 3)
}

// openDynamic begins a block of type 2, with its own Huffman codes: l has their lengths, and
// e.header describes them.
func (e *Encoder) openDynamic(l *lengths) {
	e.reserve(headerRoom)
	e.use(l)
	e.last, e.open = e.bitsOut(), true // where the bit is that marks the last block
	h := &e.header
	e.put(2<<1, 3)
	e.put(uint64(h.hlit-257), 5)
	e.put(uint64(h.hdist-1), 5)
	e.put(uint64(h.hclen-4), 4)
	for _, s := range codeOrder[:h.hclen] {
		e.put(uint64(h.code[s]), 3)
	}
	var codes [19]uint32
	assign(h.code[:], func(s int, code uint32, _ uint8) { codes[s] = code })
	for _, r := range h.runs[:h.n] {
		n := h.code[r.symbol]
		e.put(uint64(codes[r.symbol])|uint64(r.extra)<<n, uint(n+r.bits))
	}
}

// endBlock writes the symbol for the end of a block, if a block is open.
func (e *Encoder) endBlock() {
	if e.open {
		e.reserve(headerRoom)
		end := e.lit[endOfBlock] // code<<8 | number of bits
		e.put(uint64(end>>8), uint(end&63))
		e.open = false
	}
}

// stored writes a block of type 0, data as it is, after the end of the open block. data has at
// most mostStored bytes.
func (e *Encoder) stored(data []byte) {
	e.endBlock()
	e.reserve(len(data) + headerRoom)
	e.last = e.bitsOut()
	e.put(0, 3)
	e.align()
	n := uint64(len(data))
	e.put(n|(^n&0xffff)<<16, 32)
	e.o += copy(e.dst[e.o:cap(e.dst)], data)
}

// put appends the n lowest bits of v, at most 32, to the output; the other bits of v are 0. The
// caller has reserved room for eight bytes.
func (e *Encoder) put(v uint64, n uint) {
	e.bits |= v << (e.held & 63)
	e.held += n
	store64(e.dst[:cap(e.dst)], e.o, e.bits)
	whole := e.held >> 3 // complete bytes; the bits after them are held back
	e.o += int(whole)
	e.bits >>= whole * 8 & 63
	e.held &= 7
}

// align fills the last byte of the output with zero bits, if it is not complete.
func (e *Encoder) align() {
	if e.held > 0 {
		e.put(0, 8-e.held)
	}
}

// bitsOut is how many bits of dst are written.
func (e *Encoder) bitsOut() int { return e.o*8 + int(e.held) }

// use makes the Huffman codes for the given code lengths, unless they are in use already. Each entry of
// lit, lens and dist packs a code, already in the bit order of the stream, with its number of bits. An
// entry for a match length also has its extra bits, and one for a distance the mask of its extra bits,
// so that a matcher writes a length or a distance at once.
func (e *Encoder) use(l *lengths) {
	if e.coded == *l {
		return
	}
	e.coded = *l
	clear(e.lit[:])
	assign(l[:literals], func(s int, code uint32, n uint8) { e.lit[s] = code<<8 | uint32(n) })
	for i := range e.lens {
		s := lengthSymbols[i]
		code := e.lit[s.symbol]
		n := code & 63
		e.lens[i] = (code>>8|uint32(s.extra)<<n)<<8 | n + uint32(s.bits)
	}
	clear(e.dist[:])
	assign(l[literals:], func(s int, code uint32, n uint8) {
		extra := uint64(max(s/2-1, 0))
		e.dist[slotOfSymbol(s)] = (1<<extra-1)<<32 | uint64(code)<<16 | uint64(n)<<8 | uint64(n) + extra
	})
}

// lengthSymbols tells how each length of a match is written, from 3 on.
var lengthSymbols = func() (t [256]struct {
	symbol      uint16
	extra, bits uint8
}) {
	symbol, length := uint16(endOfBlock+1), 0
	for length < 255 {
		bits := uint8(0)
		if symbol >= 265 {
			bits = uint8(symbol-261) / 4
		}
		for x := range 1 << bits {
			t[length].symbol, t[length].extra, t[length].bits = symbol, uint8(x), bits
			length++
		}
		symbol++
	}
	t[255].symbol, t[255].extra, t[255].bits = 285, 0, 0 // 258 has a symbol of its own
	return t
}()
