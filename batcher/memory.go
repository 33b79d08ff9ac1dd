package batcher

import (
	"unsafe"

	"kusto-agent/internal/record"
)

// budget counts the bytes in hand: raw blocks, open blocks, room kept for the
// output of compression, bodies with what is known of their records, and free
// buffers that are kept for later, and what Options.InHand was told last. Guarded by Batcher.mu.
type budget struct{ limit, used, kept, told int64 }

// take charges a route for n more bytes of memory; a negative n returns them. The caller holds
// mu.
func (b *Batcher) take(ln *lane, n int64) {
	was := ln.isLive()
	ln.used += n
	b.memory.used += n
	switch is := ln.isLive(); { // b.live counts the routes among which memory is divided
	case is && !was:
		b.live++
	case was && !is:
		b.live--
	}
	b.makeRoom()
	if b.memory.isNews() {
		b.look() // see tellInHand
	}
}

// isNews reports whether the bytes in hand differ much from those that Options.InHand was told last.
func (m *budget) isNews() bool {
	const much = 48 << 20
	n := m.used + m.kept
	return n >= m.told+much || m.told >= much && n < m.told/2
}

// tellInHand tells Options.InHand how much is in hand, if that has changed much. Age calls it, since the callee
// may wait for a run of the garbage collector to end.
func (b *Batcher) tellInHand() {
	b.mu.Lock()
	m := &b.memory
	news := m.isNews()
	if news {
		m.told = m.used + m.kept
	}
	told := m.told
	b.mu.Unlock()
	if news && b.onInHand != nil {
		b.onInHand(told)
	}
}

// common returns the bytes of the budget that any route may use, whichever asks first. With
// several routes a quarter of the budget is divided among them instead: a route whose payloads
// are not accepted then cannot use all memory, and the others can still send. The caller holds
// mu.
func (b *Batcher) common() int64 {
	if b.live < 2 {
		return b.memory.limit
	}
	return b.memory.limit - b.memory.limit/4
}

// share returns the bytes of the budget that are reserved for each route. The caller holds mu.
func (b *Batcher) share() int64 {
	return (b.memory.limit - b.common()) / int64(max(b.live, 1))
}

// fits reports whether n more bytes may be charged to a route: to the common part of the budget,
// of which a route that is not served (its sending is paused) leaves half to others, or to the
// share that each route has. Free buffers do not count: makeRoom drops them. The caller holds mu.
func (b *Batcher) fits(ln *lane, n int64, served bool) bool {
	return b.fitsAll(n, served) || ln.used+n <= b.share() && b.memory.used+n <= b.memory.limit
}

// fitsAll reports whether n more bytes fit into the common part of the budget; for a route that
// is not served (its sending is paused), into half of it. The caller holds mu.
func (b *Batcher) fitsAll(n int64, served bool) bool {
	return b.memory.used+n <= b.commonTo(served)
}

// commonTo returns how many bytes of the common part of the budget a route may use: half of it if
// the route is not served (its sending is paused). The caller holds mu.
func (b *Batcher) commonTo(served bool) int64 {
	if !served {
		return b.common() / 2
	}
	return b.common()
}

// leastRead is how much it always makes sense to read, in bytes.
const leastRead = 4 << 10

// Most returns how many bytes a reader of the route should ask for in its next lease: a whole payload, or
// what an open one that is half full has room for; while others use the common memory, what the share of
// the route has room for.
func (b *Batcher) Most(r record.Route) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ln := b.lane(r)
	_, served := b.next.Credit(r)
	ln.largest = b.next.Largest(r)
	most := ln.most()
	if blk := ln.filling; blk != nil && blk.size() >= most/2 {
		most = max(blk.room(), most/32)
	}
	if b.live < 2 {
		return most // no other route needs memory
	}
	room := max(b.commonTo(served)-b.memory.used, b.share()-ln.used)
	if room >= 2*int64(b.blockSize) {
		return most
	}
	some := int(max(room/2, b.share()/4, leastRead)) // half, since a lease charges twice its bytes
	return min(some, most, max(ln.MaxBytes/2-1, 1))  // more would ask for a whole block
}

// makeRoom drops free buffers until those that are left fit into the budget beside the memory in
// use. The caller holds mu.
func (b *Batcher) makeRoom() {
	m := &b.memory
	for m.used+m.kept > m.limit && m.kept > 0 {
		switch {
		case len(b.bodies) > 0:
			b.pop(&b.bodies)
		case len(b.blocks) > 0:
			b.pop(&b.blocks)
		default:
			largest := stepClasses - 1
			for len(b.steps[largest]) == 0 {
				largest--
			}
			b.pop(&b.steps[largest])
		}
	}
}

// pop removes a free buffer from a pool that has one, and returns it. The caller holds mu.
func (b *Batcher) pop(pool *[][]byte) []byte {
	last := len(*pool) - 1
	buf := (*pool)[last]
	(*pool)[last] = nil
	*pool = (*pool)[:last]
	b.memory.kept -= int64(cap(buf))
	return buf
}

// keep adds a free buffer to a pool, as far as the budget has room for it. The caller holds mu.
func (b *Batcher) keep(pool *[][]byte, buf []byte) {
	*pool = append(*pool, buf)
	b.memory.kept += int64(cap(buf))
	b.makeRoom()
}

// Reserve charges the budget with a block of full size, for a payload that is about to be read
// from the spool. It returns false if there is no room and must is not set. After true the caller
// must call Unreserve, once it has called Adopt for the payload or has found none.
func (b *Batcher) Reserve(must bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := int64(b.blockSize)
	if !must && !b.fitsAll(n, true) {
		return false
	}
	b.memory.used += n
	b.reserved++
	b.makeRoom()
	return true
}

// Unreserve returns to the budget what Reserve charged, and wakes readers that wait for memory.
func (b *Batcher) Unreserve() {
	b.mu.Lock()
	b.memory.used -= int64(b.blockSize)
	b.reserved--
	b.unlock(nil)
}

// Output buffers that are kept for the next payload instead of being given to
// the garbage collector; in bytes, so that a burst does not stay for ever.
const keptBodies = 16 << 20

// takeBlock returns a buffer of full size, from the pool or new. The caller holds mu.
func (b *Batcher) takeBlock() []byte {
	if len(b.blocks) > 0 {
		return b.pop(&b.blocks)
	}
	return make([]byte, record.MarkLen+b.blockSize+1)
}

// giveBlock returns a buffer to the pool. The pool keeps it only if its size is still right, and keeps
// no more buffers than may be asked for next: as many as there are open blocks, whose successors will
// need as much, and as many as can be in use at a time. The caller holds mu.
func (b *Batcher) giveBlock(buf []byte) {
	most := b.mostRaw + 1 + max(len(b.open), 1) // 1: short reads may add one
	if len(buf) == record.MarkLen+b.blockSize+1 {
		b.keep(&b.blocks, buf)
	}
	for len(b.blocks) > most {
		b.pop(&b.blocks)
	}
}

// Buffers below full size have leastStep bytes, or four times that and so on: these are their classes, from
// 0. Free ones of the first few classes are kept, up to keptSteps bytes in all.
const (
	leastStep   = 8 << 10
	stepClasses = 5
	keptSteps   = 8 << 20
)

// stepClass returns the class of the smallest buffer that has room for n bytes.
func stepClass(n int) (class int) {
	for stepSize(class) < n {
		class++
	}
	return class
}

func stepSize(class int) int { return leastStep << (2 * class) }

// takeStep returns an empty buffer of size bytes, from the pool or new. The caller holds mu.
func (b *Batcher) takeStep(size int) []byte {
	if i := stepClass(size); i < stepClasses && stepSize(i) == size && len(b.steps[i]) > 0 {
		return b.pop(&b.steps[i])[:0]
	}
	return make([]byte, 0, size)
}

// giveStep returns a buffer to the pool, unless that has enough or no block asks for its size. The caller
// holds mu.
func (b *Batcher) giveStep(buf []byte) {
	kept := cap(buf)
	for i, pool := range b.steps {
		kept += len(pool) * stepSize(i)
	}
	if i := stepClass(cap(buf)); i < stepClasses && stepSize(i) == cap(buf) && kept <= keptSteps {
		b.keep(&b.steps[i], buf)
	}
}

// takeBody returns an empty buffer for the compressed form of n bytes, for large n the smallest of the
// pool that is likely to be enough. The caller holds mu.
func (b *Batcher) takeBody(n int) []byte {
	best, want := -1, n/4+n/32
	for i, buf := range b.bodies {
		if cap(buf) >= want && (best < 0 || cap(buf) < cap(b.bodies[best])) {
			best = i
		}
	}
	if best < 0 || n <= 256<<10 {
		return make([]byte, 0, n/3+512)
	}
	last := len(b.bodies) - 1
	b.bodies[best], b.bodies[last] = b.bodies[last], b.bodies[best]
	return b.pop(&b.bodies)[:0]
}

// keepBody returns a buffer to the pool, unless it is small or the pool is full. The caller holds mu.
func (b *Batcher) keepBody(body []byte) {
	kept := cap(body)
	if kept < 64<<10 {
		return
	}
	for _, k := range b.bodies {
		kept += cap(k)
	}
	if kept <= keptBodies {
		b.keep(&b.bodies, body)
	}
}

// weight returns how many bytes a payload is charged for: its body, and the notes on its records.
func weight(p *record.Payload) int64 {
	return int64(cap(p.Body)) + notes(p.Cover, p.Pieces, p.Lens)
}

// notes returns the size in memory of what is kept about the records of a payload: ranges of
// files (cover and pieces) and lengths.
func notes(cover []record.Extent, pieces []record.Piece, lens []byte) int64 {
	const extent, piece = int64(unsafe.Sizeof(record.Extent{})), int64(unsafe.Sizeof(record.Piece{}))
	return extent*int64(len(cover)) + piece*int64(len(pieces)) + int64(len(lens))
}
