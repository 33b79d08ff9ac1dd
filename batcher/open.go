package batcher

// Where more is read than is sent, hundreds of routes can each have a payload in the making. Few are
// kept open: readers that add to one get room first (see wakeFitting), what was read last is read up to
// the end of the payload (see Most), and while readers wait for room the payload to which nothing came
// for longest leaves when the open ones take too much memory. Where none waits, payloads stay open for
// MaxWait: to have few requests is what a long one is for.

// mostOpen is the most bytes of memory that open blocks have while readers wait: those of some payloads,
// however many routes have records. The caller holds mu.
func (b *Batcher) mostOpen() int { return max(24<<20, 4*b.blockSize) }

// waitedLately is for how many sealed blocks after a reader had to wait more is taken to be read than sent.
const waitedLately = 16

// boundOpen seals open blocks other than blk, those first to which nothing came for longest, until
// mostOpen is kept, if readers wait for room or did so lately. The caller holds mu.
func (b *Batcher) boundOpen(blk *block) {
	if len(b.waiting) == 0 && b.seals-b.waited >= waitedLately {
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
