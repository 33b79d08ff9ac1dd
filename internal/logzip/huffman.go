package logzip

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
)

// The alphabets of deflate (RFC 1951).
const (
	literals   = 288 // 256 bytes, the end of a block, 29 codes of lengths, 2 that never occur
	distances  = 30
	endOfBlock = 256
	codeLimit  = 15 // bits of the longest code
)

// lengths are the bits of each symbol's code: those of literals and lengths
// first, then those of distances. They are all that a table is made from.
type lengths [literals + distances]uint8

// counts are how often each symbol occurs, in the same order.
type counts [literals + distances]uint32

// fixed are the lengths of blocks of type 1.
var fixed = lengths(slices.Concat(
	bytes.Repeat([]byte{8}, 144), bytes.Repeat([]byte{9}, 256-144), bytes.Repeat([]byte{7}, 280-256), bytes.Repeat([]byte{8}, literals-280),
	bytes.Repeat([]byte{5}, distances),
))

// cost returns how many bits the counted symbols take with codes of the lengths l, without the
// extra bits of match lengths and distances, which are the same with any code.
func (c *counts) cost(l *lengths) (bits int) {
	for i, n := range c {
		bits += int(n) * int(l[i])
	}
	return bits
}

// least returns about how many bits the counted symbols take with the best codes there are, or a
// little fewer: their entropy.
func (c *counts) least() int {
	return entropy(c[:literals]) + entropy(c[literals:])
}

// entropy returns how many bits symbols with these frequencies need at least.
func entropy(freq []uint32) int {
	var total, sum uint64
	for _, n := range freq {
		total += uint64(n)
		sum += uint64(n) * log2(n)
	}
	return int((total*log2(uint32(total)) - sum) >> 8) // log2 counts in 1/256
}

// logs are the logarithms of 1 to 2, in steps of 1/256 both ways.
var logs = func() (t [256]uint64) {
	for i := range t {
		t[i] = uint64(math.Round(256 * math.Log2(1+float64(i)/256)))
	}
	return t
}()

// log2 returns the binary logarithm of n in units of 1/256, for 0 it returns 0. It uses integers
// only, so that it is the same on every processor.
func log2(n uint32) uint64 {
	if n == 0 {
		return 0
	}
	k := bits.Len32(n) - 1
	return uint64(k)<<8 + logs[(uint64(n)<<8>>k)&255]
}

// builder has the scratch space for making codes.
type builder struct {
	order  [literals]uint64 // count<<16 | symbol, the rarest first
	weight [2 * literals]uint32
	parent [2 * literals]uint16
	depth  [2 * literals]uint8
}

// build makes a Huffman code for symbols with the frequencies freq, and sets out to the number of
// bits of each symbol's code: at most limit, 0 for a symbol that does not occur. At least two
// symbols get a code, so that the code is complete.
func (b *builder) build(freq []uint32, out []uint8, limit int) {
	n := 0
	for i, f := range freq {
		out[i] = 0
		if f > 0 {
			b.order[n] = uint64(f)<<16 | uint64(i)
			n++
		}
	}
	for i := 0; n < 2; i++ {
		if freq[i] == 0 {
			b.order[n] = 1<<16 | uint64(i)
			n++
		}
	}
	slices.Sort(b.order[:n])

	// Leaves come first, sorted, and joined pairs behind them in rising order
	// too: the two rarest are always at the front of one of the two.
	for i, k := range b.order[:n] {
		b.weight[i] = uint32(k >> 16)
	}
	leaf, pair := 0, n
	for next := n; next < 2*n-1; next++ {
		b.weight[next] = 0
		for range 2 {
			rarest := &leaf
			if leaf == n || pair < next && b.weight[pair] < b.weight[leaf] {
				rarest = &pair
			}
			b.weight[next] += b.weight[*rarest]
			b.parent[*rarest] = uint16(next)
			*rarest++
		}
	}
	var count [codeLimit + 1]int
	b.depth[2*n-2] = 0
	over := -1 << limit // above 0: more codes than fit, in units of the longest code
	for i := 2*n - 3; i >= 0; i-- {
		b.depth[i] = b.depth[b.parent[i]] + 1
		if i < n {
			d := min(int(b.depth[i]), limit)
			count[d]++
			over += 1 << (limit - d)
		}
	}
	// Where codes were cut to the limit there are too many of them: each turn
	// makes one symbol of a shorter code and one of the longest neighbours.
	for ; over > 0; over-- {
		d := limit - 1
		for count[d] == 0 {
			d--
		}
		count[d]--
		count[d+1] += 2
		count[limit]--
	}
	i := 0
	for d := limit; d > 0; d-- {
		for range count[d] {
			out[uint16(b.order[i])] = uint8(d)
			i++
		}
	}
}

// assign makes the canonical Huffman code for the lengths l, and calls set for each symbol that
// has a code: with the symbol, the code in the bit order of the stream (its first bit lowest),
// and its length n.
func assign(l []uint8, set func(symbol int, code uint32, n uint8)) {
	var next [codeLimit + 2]uint32
	for _, n := range l {
		if n > 0 {
			next[n+1]++
		}
	}
	for n := 1; n < len(next); n++ {
		next[n] = (next[n-1] + next[n]) << 1
	}
	for i, n := range l {
		if n > 0 {
			set(i, uint32(bits.Reverse16(uint16(next[n]))>>(16-n)), n)
			next[n]++
		}
	}
}
