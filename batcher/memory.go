package batcher

import "kusto-agent/record"

// budget counts the bytes in hand: raw blocks, open blocks, room kept for the
// output of compression, and bodies. Guarded by Batcher.mu.
type budget struct{ limit, used int64 }

// fits reports whether n more bytes may be taken for a route. A route that is
// not served leaves half to the others.
func (m budget) fits(n int64, served bool) bool {
	limit := m.limit
	if !served {
		limit /= 2
	}
	return m.used+n <= limit
}

// Output buffers that are kept for the next payload instead of being given to
// the garbage collector; in bytes, so that a burst does not stay for ever.
const keptBodies = 24 << 20

// takeBlock returns a full-size buffer.
func (b *Batcher) takeBlock() []byte {
	if n := len(b.blocks); n > 0 {
		blk := b.blocks[n-1]
		b.blocks = b.blocks[:n-1]
		return blk
	}
	return make([]byte, record.MarkLen+b.blockSize+1)
}

func (b *Batcher) giveBlock(buf []byte) {
	if len(buf) == record.MarkLen+b.blockSize+1 && len(b.blocks) < b.mostRaw {
		b.blocks = append(b.blocks, buf)
	}
}

// takeBody returns an empty buffer for the output of n bytes of input.
func (b *Batcher) takeBody(n int) []byte {
	if k := len(b.bodies); k > 0 && n > 256<<10 {
		body := b.bodies[k-1]
		b.bodies = b.bodies[:k-1]
		return body[:0]
	}
	return make([]byte, 0, n/3+512)
}

func (b *Batcher) keepBody(body []byte) {
	kept := cap(body)
	if kept < 64<<10 {
		return
	}
	for _, k := range b.bodies {
		kept += cap(k)
	}
	if kept <= keptBodies {
		b.bodies = append(b.bodies, body)
	}
}
