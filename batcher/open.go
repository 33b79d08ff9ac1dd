package batcher

import (
	"bytes"
	"time"

	"kusto-agent/internal/record"
)

// An open block is sealed, and leaves, for one of these reasons:
//
//	full     it has what a payload may have (isFull), or its record must be alone (Append)
//	passed   what comes next cannot be added (takes), or comes in a block of its own (Seal)
//	old      a record in it has waited for MaxWait (sealOld)
//	crowded  more is read than sent, and the open ones take much memory (boundOpen)
//	needed   a reader found no memory, and this is the one to release (sealFor)
//	ended    its settings change (SetRoutes), or no more records come (Flush)
//
// Where more is read than is sent, hundreds of routes can each have a payload in the making. Few are
// kept open: readers that add to one get room first (see wakeFitting), what was read last is read up to
// the end of the payload (see Most), and the payload to which nothing came for longest leaves when the open
// ones take too much memory (see boundOpen). Where no more is read than sent, payloads stay open for MaxWait:
// to have few requests is what a long one is for.

// mostOpen is the most bytes of memory that open blocks have while more is read than sent: those of some
// payloads, however many routes have records. The caller holds mu.
func (b *Batcher) mostOpen() int { return max(16<<20, 4*b.blockSize) }

// waitedLately is for how many sealed blocks after a reader had to wait more is taken to be read than sent.
const waitedLately = 16

// boundOpen seals open blocks other than blk, to which n bytes came, those first to which nothing came for
// longest, until mostOpen is kept, if more is read than sent: readers wait for room or did so lately, or so much
// came at once as only a reader finds that is behind. The caller holds mu.
func (b *Batcher) boundOpen(blk *block, n int) {
	if len(b.waiting) == 0 && b.seals-b.waited >= waitedLately && !b.isMuch(n) {
		return
	}
	for b.opened > b.mostOpen() {
		old := b.longestUntouched(blk)
		if old == nil {
			return
		}
		b.seal(old)
	}
}

// isMuch reports whether n bytes at once are much for a payload. The caller holds mu.
func (b *Batcher) isMuch(n int) bool { return n >= b.blockSize/16 }

// longestUntouched returns the open block other than blk to which nothing came for longest; nil: there
// is none. The caller holds mu.
func (b *Batcher) longestUntouched(blk *block) (old *block) {
	for _, o := range b.open {
		if o != blk && (old == nil || o.touched < old.touched) {
			old = o
		}
	}
	return old
}

// room returns how many more bytes make the block full: 0 or less if it is, but for so little that a
// read of it would cost more than it brings.
func (blk *block) room() int {
	most := blk.lane.most()
	return most - most/32 - blk.size()
}

// isFull reports whether no more records are added to the block.
func (blk *block) isFull() bool {
	return blk.room() <= 0 || blk.lane.MaxRecords > 0 && blk.records >= blk.lane.MaxRecords
}

// takes reports whether a chunk can be appended to the block: it fits, has the same prefix (such
// as an Avro header), and no count exceeds its limit.
func (blk *block) takes(c *record.Chunk) bool {
	ln := blk.lane
	return blk.size()+len(c.Body) <= ln.most() &&
		bytes.Equal(blk.prefix, c.Prefix) &&
		(ln.MaxRecords == 0 || blk.records+c.Records <= ln.MaxRecords) &&
		len(blk.pieces)+len(c.Pieces) <= record.MaxPieces
}

// sealOld seals the blocks in which a record has waited for MaxWait, and wakes readers that would
// get a lease now. It returns how long it is until it should be called again.
func (b *Batcher) sealOld() time.Duration {
	b.mu.Lock()
	now := time.Now()
	wait, wake := b.wakeForgotten(now)
	defer call(wake)
	defer b.mu.Unlock()
	for _, blk := range b.open {
		if left := blk.due.Sub(now); left <= 0 {
			b.seal(blk)
		} else if left < wait {
			wait = left
		}
	}
	return wait
}

// sealFor seals one open block to make room for a route when memory is short: the largest of all if
// the open blocks hold much of the memory, otherwise the largest of this route. To seal a foreign
// block each time would make all bodies small when many routes want memory. The caller holds mu.
func (b *Batcher) sealFor(ln *lane) {
	var largest, own *block
	open := int64(0) // memory of all open blocks
	for _, blk := range b.open {
		open += blk.cost
		if largest == nil || len(blk.data) > len(largest.data) {
			largest = blk
		}
		if blk.lane == ln && (own == nil || len(blk.data) > len(own.data)) {
			own = blk
		}
	}
	switch {
	case largest == nil:
	case open > b.memory.limit/4 || b.live < 2:
		b.seal(largest)
	case own != nil:
		b.seal(own)
	}
}

// seal removes a block from the open ones and queues it for compression. The caller holds mu.
func (b *Batcher) seal(blk *block) {
	delete(b.open, blk.key)
	b.opened -= cap(blk.data)
	blk.lane.last = len(blk.data)
	if blk.lane.filling == blk {
		blk.lane.filling = nil
	}
	if blk.pooled { // a buffer of full size, which counts as in use until it is compressed
		blk.out = true
		b.rawOut++
	}
	b.enqueue(blk)
}
