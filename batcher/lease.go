package batcher

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"time"

	"kusto-agent/internal/record"
)

// Lease is room for what a caller is about to read. Every lease ends with
// Seal or Done.
type Lease struct {
	b    *Batcher
	lane *lane
	raw  []byte // nil for a short read
	cost int64
}

// Lease asks for memory to read want bytes of a route. A lease of half a payload or more has a
// Block, a buffer of full size, to read into; a smaller one is a short read. If the route has as
// many payloads as it may have (credit), or there is no memory or no block, it returns nil and no
// error, and calls wake once, from any goroutine, when it makes sense to ask again. An error
// means that the route is not configured.
func (b *Batcher) Lease(r record.Route, want int, wake func()) (*Lease, error) {
	var others []func()
	defer func() { call(others) }()
	b.mu.Lock()
	defer b.mu.Unlock()
	ln := b.lanes[r]
	if ln == nil {
		return nil, fmt.Errorf("lease %v: route is not configured", r)
	}
	credit, served := b.next.Credit(r)
	ln.largest = b.next.Largest(r)
	if ln.held >= credit {
		b.wait(&ln.waiting, wake)
		return nil, nil
	}
	l := &Lease{b: b, lane: ln, cost: 2 * int64(want)}
	full := want >= ln.MaxBytes/2 && want <= b.blockSize // more can be wanted only with settings of before a reload
	if full {
		l.cost = 2 * int64(b.blockSize)
	}
	short := !b.fits(ln, l.cost, served)
	if short { // sealing an open block lets its memory be released sooner
		b.sealFor(ln)
	}
	// Reading is ten times faster than gzip: what is sealed and waits for a
	// compressor is kept to a few blocks too.
	if short || b.busy >= b.mostRaw || !b.hasBlock(full) {
		b.waitForMemory(waiter{ln, l.cost, full, wake})
		return nil, nil
	}
	if full {
		b.rawOut++
		l.raw = b.takeBlock()
	}
	b.take(ln, l.cost)
	others = b.wakeNext(ln) // there may be room for one more reader
	return l, nil
}

// hasBlock reports whether few enough blocks of full size are in use for another lease. full says
// that the lease gets such a block. A short read gets none, but its records may fill one more, so
// it is allowed at the limit too. The caller holds mu.
func (b *Batcher) hasBlock(full bool) bool {
	if full {
		return b.rawOut < b.mostRaw
	}
	return b.rawOut <= b.mostRaw
}

// Block is the buffer to read into: record.MarkLen bytes of headroom, then
// room for one payload, then one byte to spare. It is nil for a short read.
func (l *Lease) Block() []byte { return l.raw }

// Seal makes a payload of the chunk, whose body lies in the lease's block, without copying it.
// The open block with which the chunk could share a body is sealed first, to keep the order. The
// lease is ended, and the block belongs to the batcher.
func (l *Lease) Seal(c *record.Chunk) {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	k := keyOf(c)
	if blk := b.open[k]; blk != nil {
		b.seal(blk)
	}
	blk := &block{key: k, lane: b.lanes[c.Route], raw: l.raw, data: c.Body, pooled: true, out: true, cost: l.cost}
	l.raw, l.cost = nil, 0
	b.begin(blk, c.Prefix)
	blk.note(c)
	b.count(blk, blk.cost+blk.notes())
	b.enqueue(blk)
}

// Append copies the chunk's body to the open block for records that can share a body with it
// (same route, columns and shape), and seals the block if it is full then. The caller may use the
// chunk again at once, and still has to call Done.
func (l *Lease) Append(c *record.Chunk) {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	k := keyOf(c)
	ln := b.lanes[c.Route]
	blk := b.open[k]
	// Before holds the ranges of earlier files in which the first record begins. In a payload of
	// its own no half of a split can be without them.
	alone := len(c.Before) > 0
	if blk != nil && (alone || !blk.takes(c)) {
		b.seal(blk)
		blk = nil
	}
	if blk == nil {
		blk = &block{key: k, lane: ln, due: time.Now().Add(ln.MaxWait)}
		b.begin(blk, c.Prefix)
		b.open[k] = blk
		b.look()
	}
	ln.filling, blk.touched = blk, b.seals
	b.grow(blk, len(c.Body))
	blk.data = append(blk.data, c.Body...)
	blk.note(c)
	b.count(blk, 2*int64(cap(blk.data)+len(blk.prefix))+blk.notes())
	if alone || blk.isFull() {
		b.seal(blk)
	}
	b.boundOpen(blk, len(c.Body))
}

// Done ends the lease: it returns memory that was not used to the budget and wakes waiting
// readers. After Seal it has no effect on that payload, whose memory stays charged until Release.
func (l *Lease) Done() {
	b := l.b
	b.mu.Lock()
	if l.raw != nil {
		b.rawOut--
		b.giveBlock(l.raw)
		l.raw = nil
	}
	b.take(l.lane, -l.cost)
	l.cost = 0
	b.unlock(nil)
}

// keyOf returns the key of the open block to which a chunk can be appended.
func keyOf(c *record.Chunk) key {
	return key{c.Route, c.Shaping, c.Group, c.Lens != nil, c.Stamp}
}

// block is a body in the making.
type block struct {
	key
	lane *lane
	due  time.Time

	prefix []byte // comes before data in the body
	data   []byte // the body, but for its prefix
	raw    []byte // the full-size buffer that data lies in
	pooled bool   // raw goes back to the others
	out    bool   // and is counted in rawOut
	sealed Limits // what held for the lane when it was sealed
	cost   int64  // bytes counted in the budget

	cover   []record.Extent
	last    map[record.File]int // index in cover of a file's last extent
	pieces  []record.Piece
	lens    []byte
	records int
	readAt  time.Time
	touched int // Batcher.seals when records were appended last
}

// begin sets the prefix of a new block, such as an Avro header, and charges its memory twice: for
// the block and for the compressed body. The caller holds mu.
func (b *Batcher) begin(blk *block, prefix []byte) {
	blk.prefix = bytes.Clone(prefix)
	b.count(blk, blk.cost+2*int64(len(prefix)))
}

// size is that of the body.
func (blk *block) size() int { return len(blk.prefix) + len(blk.data) }

// note adds the ranges, record counts and lengths of the chunk to those of the block. A first
// range that continues the last one of the block extends that, unless the lengths of records are
// kept (Lens).
func (blk *block) note(c *record.Chunk) {
	if blk.records == 0 || c.ReadAt.Before(blk.readAt) {
		blk.readAt = c.ReadAt
	}
	blk.records += c.Records
	blk.lens = append(blk.lens, c.Lens...)
	for _, x := range c.Before {
		blk.noteCover(x)
	}
	blk.noteCover(c.Cover)
	pieces := c.Pieces
	if n := len(blk.pieces); n > 0 && len(pieces) > 0 && c.Lens == nil {
		if last := &blk.pieces[n-1]; last.File == pieces[0].File && last.End == pieces[0].Start {
			last.End = pieces[0].End
			last.Records += pieces[0].Records
			pieces = pieces[1:]
		}
	}
	blk.pieces = append(blk.pieces, pieces...)
}

// noteCover adds a range of a file to the block's cover, the ranges that are done with when its
// payload is. A range that continues the last one of its file extends that.
func (blk *block) noteCover(x record.Extent) {
	if i, ok := blk.last[x.File]; ok && blk.cover[i].End == x.Start {
		blk.cover[i].End, blk.cover[i].Mark = x.End, x.Mark
		return
	}
	if blk.last == nil {
		blk.last = make(map[record.File]int)
	}
	blk.last[x.File] = len(blk.cover)
	blk.cover = append(blk.cover, x)
}

// grow makes room for n more bytes in the block: leastStep at first, then four times as much each time, at
// the end a buffer of full size from the pool. Where much comes at once, or came last, the block has
// one from the start, if there is room for it beside the other open blocks: steps would allocate and
// copy a sixth of that again. The caller holds mu.
func (b *Batcher) grow(blk *block, n int) {
	need := len(blk.data) + n
	if need <= cap(blk.data) {
		return
	}
	size := min(stepSize(stepClass(need)), max(blk.lane.most(), need))
	much := b.isMuch(max(need, blk.lane.last)) && b.memory.used+2*int64(b.blockSize) <= b.memory.limit/2 && b.opened+b.blockSize <= b.mostOpen()
	was := blk.data
	if (much || size > b.blockSize/2) && need <= b.blockSize {
		blk.pooled, blk.raw = true, b.takeBlock()
		blk.data = blk.raw[:0]
	} else {
		blk.data = b.takeStep(size)
	}
	b.opened += cap(blk.data) - cap(was)
	blk.data = append(blk.data, was...)
	b.giveStep(was)
}

// count sets how many bytes of memory a block is charged for. The caller holds mu.
func (b *Batcher) count(blk *block, cost int64) {
	b.take(blk.lane, cost-blk.cost)
	blk.cost = cost
}

func (blk *block) notes() int64 { return notes(blk.cover, blk.pieces, blk.lens) }

// enqueue queues a block for compression and counts it as a payload in hand of its route. The caller
// holds mu.
func (b *Batcher) enqueue(blk *block) {
	blk.lane.held++
	b.seals++
	blk.sealed = blk.lane.Limits
	b.busy++
	b.sealed = append(b.sealed, blk)
	b.more.Signal()
}

// Castagnoli is the polynomial of Payload.CRC.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC32C of a body before gzip, as kept in Payload.CRC. The body
// may come in parts.
func Checksum(body ...[]byte) (sum uint32) {
	for _, part := range body {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return sum
}
