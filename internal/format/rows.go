package format

import "math/bits"

// Most delimited records are one line, in which each quote is where RFC 4180 has it. Those are
// recognised without a branch for each field, which walkRow needs and no processor foretells:
// quotes, delimiters and newlines of many lines are found in one go, 64 bytes at a time, and their
// bits are summed up, so that two places tell what is between them. Everything else is for walkRow,
// which knows what is wrong.

// rows is what is known of a part of the data, which begins with a record. The bits of a word are
// those of 64 bytes, in the order of planes.
type rows struct {
	apart [mostStep / 64]uint64 // delimiters outside of quoted fields
	odd   [mostStep / 64]uint64 // where a record cannot go on: see find
	sums  [mostStep/64 + 1]sums // before each word
	ends  [mostEnds + 64]uint16 // newlines outside of quoted fields, which end records

	base  int // where in the data the first bit is
	known int // the bits from here on mean nothing
	count int // of ends
	step  int // how many bytes are looked at beyond what is known

	// Of the next record.
	next   int // where in the data it begins; -1: not known
	end    int // where in ends its own one is
	before int // how many delimiters outside of quoted fields are before it

	// Of the byte before known.
	inside uint64 // all bits are set: in a quoted field
	quote  uint64 // 1: a quote
	bare   uint64 // 1: in a field that is not quoted
}

// mostEnds is how many ends are enough at a time.
const mostEnds = 1 << 10

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
// looked at first.
func (r *rows) begin(base, step int) {
	r.base, r.known, r.count, r.step = base, 0, 0, step
	r.next, r.end, r.before = base, 0, 0
	r.inside, r.quote, r.bare = 0, 0, 0
}

// row returns the length of the record that begins at at in data, with its line end, and the number
// of its fields, if it is valid; 0: nothing is known. beyond says that there may be bytes above
// 127.
func (r *rows) row(data []byte, at int, sep byte) (n, fields int, beyond bool) {
	if r.next != at {
		r.begin(at, leastStep)
	}
	for r.end == r.count {
		if !r.more(data, sep) {
			r.next = -1
			return 0, 0, false
		}
	}
	first, last := at-r.base, int(r.ends[r.end])
	n = last + 1 - first
	found := r.sums[last/64+1] - r.sums[first/64]
	if n > leastTear || data[at] == 0 || n == 1 || n == 2 && data[at] == '\r' || found.odd() > 0 && r.isOdd(first, last) {
		r.next = -1
		return 0, 0, false
	}
	apart := r.sums[last/64].apart() + bits.OnesCount64(r.apart[last/64]&below(last%64))
	fields = 1 + apart - r.before
	r.next, r.end, r.before = at+n, r.end+1, apart
	return n, fields, found >= oneBeyond
}

// isOdd reports whether a byte between first and last is odd.
func (r *rows) isOdd(first, last int) bool {
	for i := first / 64; i <= last/64; i++ {
		odd := r.odd[i]
		if i == first/64 {
			odd &^= below(first % 64)
		}
		if i == last/64 {
			odd &= below(last % 64)
		}
		if odd != 0 {
			return true
		}
	}
	return false
}

// more looks at more of data for the end of the next record. It returns false if that cannot be
// found: the data ends, or the record is longer than leastTear.
func (r *rows) more(data []byte, sep byte) bool {
	if r.base+r.known > r.next+leastTear {
		return false
	}
	if r.known+64 > mostStep {
		r.begin(r.next, r.step)
	}
	b := data[r.base:min(len(data), r.base+mostStep)]
	if r.known >= len(b) {
		return false
	}
	r.end, r.count = 0, 0
	r.find(b, min(r.known+max(r.step, 64), len(b)), sep)
	r.step = min(2*r.step, mostStep)
	return true
}

// find looks at b, which begins with bit 0, from known to n, or to where ends are enough. Odd is a
// byte of a field that is not quoted behind a quote, and a quote behind such a byte: a quoted field
// begins with its record or behind a delimiter, and ends before one or with its record. Two quotes
// within a field close and open it.
func (r *rows) find(b []byte, n int, sep byte) {
	var (
		tail                [64]byte
		inside, quote, bare = r.inside, r.quote, r.bare
		word, count         = r.known / 64, r.count
		sum                 = r.sums[word]

		s0, s1, s2, s3 = allBits(sep), allBits(sep >> 1), allBits(sep >> 2), allBits(sep >> 3)
		s4, s5, s6     = allBits(sep >> 4), allBits(sep >> 5), allBits(sep >> 6)
	)
	for ; word*64 < n && count <= mostEnds; word++ {
		block := &tail
		if i := word * 64; len(b)-i >= 64 {
			block = (*[64]byte)(b[i:])
		} else {
			copy(tail[:], b[i:])
		}
		p0, p1, p2, p3, p4, p5, p6, p7 := planes(block)
		either := (p3 ^ p5) & p1 &^ (p7 | p6 | p4 | p2 | p0) // 0x22 is a quote, 0x0A a newline
		quotes, newlines := either&p5, either&p3
		seps := ^((p0 ^ s0) | (p1 ^ s1) | (p2 ^ s2) | (p3 ^ s3) | (p4 ^ s4) | (p5 ^ s5) | (p6 ^ s6) | p7)

		within := evenOut(quotes) ^ inside // with the opening quotes
		seps, newlines = seps&^within, newlines&^within
		plain := ^(within | quotes | seps | newlines)
		odd := (after(quotes)|quote)&plain | (after(plain)|bare)&quotes
		inside, quote, bare = -(within >> 63), quotes>>63, plain>>63

		sum += (sums(p7|-p7) >> 63) * oneBeyond
		if odd != 0 {
			odd = withoutCRs(odd, b, word*64)
			sum += oneOdd * sums(bits.OnesCount64(odd))
		}
		sum += sums(bits.OnesCount64(seps))
		r.apart[word], r.odd[word], r.sums[word+1] = seps, odd, sum

		if newlines&(newlines-1) == 0 { // one at most
			r.ends[count] = uint16(word*64 + bitOf(bits.TrailingZeros64(newlines)))
			count += int((newlines | -newlines) >> 63)
			continue
		}
		for newlines = inOrder(newlines); newlines != 0; newlines &= newlines - 1 {
			r.ends[count] = uint16(word*64 + bits.TrailingZeros64(newlines))
			count++
		}
	}
	r.known, r.count = word*64, count
	r.inside, r.quote, r.bare = inside, quote, bare
}

// withoutCRs returns odd, of the block at i in b, without the CRs before newlines: those may be
// behind a closing quote.
func withoutCRs(odd uint64, b []byte, i int) uint64 {
	for left := odd; left != 0; left &= left - 1 {
		n := bits.TrailingZeros64(left)
		if j := i + bitOf(n); j+1 < len(b) && b[j] == '\r' && b[j+1] == '\n' {
			odd &^= 1 << n
		}
	}
	return odd
}

// allBits returns a word of the lowest bit of c.
func allBits(c byte) uint64 { return -uint64(c & 1) }
