package spool

import (
	"encoding/binary"
	"iter"
	bits64 "math/bits"

	"kusto-agent/internal/record"
)

// bloom is a Bloom filter of batch ids: it says for sure that an id was not added, and is wrong about
// one of a few hundred ids that were not. All bits of an id are in one line of the processor's cache.
type bloom struct {
	lines [][8]uint64
}

// newBloom returns an empty filter for n ids. With more ids it gives more wrong answers.
func newBloom(n int) *bloom {
	const each = 16 // bits
	return &bloom{make([][8]uint64, max(n, 64)*each/512+1)}
}

// bloomOf returns a Bloom filter that holds ids, nil if there are none. It iterates over
// ids twice.
func bloomOf(ids iter.Seq[record.BatchID]) *bloom {
	n := 0
	for range ids {
		n++
	}
	if n == 0 {
		return nil
	}
	b := newBloom(n)
	for id := range ids {
		b.add(&id)
	}
	return b
}

// place hashes an id to a line of the filter (512 bits) and to a number: each nine bits of the number
// name one bit in that line.
func (b *bloom) place(id *record.BatchID) (line *[8]uint64, at uint64) {
	le := binary.LittleEndian
	h := (le.Uint64(id[:]) ^ bits64.RotateLeft64(le.Uint64(id[8:]), 29)) * 0x9e3779b97f4a7c15
	h ^= h >> 31
	h *= 0xbf58476d1ce4e5b9
	i, _ := bits64.Mul64(h, uint64(len(b.lines)))
	return &b.lines[i], (h ^ h>>29) * 0x94d049bb133111eb >> 28
}

// bloomBits is how many bits an id has.
const bloomBits = 4

// add adds an id to the filter. It returns false if the id was certainly not added before.
func (b *bloom) add(id *record.BatchID) (maybe bool) {
	line, at := b.place(id)
	return set(line, at)
}

// set sets the bits of an id in its line, and returns true if all of them were set before. at is the
// number that place returned: each nine bits of it name one bit.
func set(line *[8]uint64, at uint64) (all bool) {
	all = true
	for range bloomBits {
		word, bit := &line[at>>6&7], uint64(1)<<(at&63)
		all = all && *word&bit != 0
		*word |= bit
		at >>= 9
	}
	return all
}

// crowd collects ids and adds 64 of them to a filter at a time, so that the processor fetches their
// cache lines from memory at the same time.
type crowd struct {
	b     *bloom
	ids   [64]record.BatchID
	n     int
	maybe func(id *record.BatchID) // gets those that may have been added before
	lines [64]*[8]uint64
	sum   uint64
}

// add puts an id into the batch of ids, which flush adds to the filter together once it is full.
func (c *crowd) add(id *record.BatchID) {
	c.ids[c.n] = *id
	if c.n++; c.n == len(c.ids) {
		c.flush()
	}
}

// flush adds the ids of the batch to the filter, and calls maybe with each id that may
// have been added before.
func (c *crowd) flush() {
	var at [len(c.ids)]uint64
	for i := range c.n {
		c.lines[i], at[i] = c.b.place(&c.ids[i])
	}
	for _, line := range c.lines[:c.n] { // reads each line, so that the processor fetches all at once
		c.sum += line[0]
	}
	for i := range c.n {
		if set(c.lines[i], at[i]) {
			c.maybe(&c.ids[i])
		}
	}
	c.n = 0
}

// has reports whether the id may have been added; false is certain.
func (b *bloom) has(id *record.BatchID) bool {
	line, at := b.place(id)
	for range bloomBits {
		if line[at>>6&7]>>(at&63)&1 == 0 {
			return false
		}
		at >>= 9
	}
	return true
}
