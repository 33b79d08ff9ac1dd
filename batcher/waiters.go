package batcher

import (
	"slices"
	"time"
)

// waiters are the wake-up functions of readers that got no lease because their route had no credit, in
// the order in which they asked. Guarded by Batcher.mu.
type waiters []func()

// Waking all of a thousand callers for room that one of them takes would make
// them spin. A few are woken at a time; should none of them still want the
// room, the others are looked after once in a while.
const (
	wokenAtOnce = 4
	forgotten   = time.Second
)

// wait appends a wake-up function to w. The first one also starts the check for forgotten waiters
// in age. The caller holds mu.
func (b *Batcher) wait(w *waiters, wake func()) {
	if *w = append(*w, wake); len(*w) == 1 {
		b.look()
	}
}

// look makes age look at once at what waits.
func (b *Batcher) look() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// take removes and returns the first n wake-up functions.
func (w *waiters) take(n int) []func() {
	n = min(len(*w), n)
	woken := slices.Clone((*w)[:n])
	clear((*w)[:n])
	*w = (*w)[n:]
	return woken
}

// waiter is a reader that got no lease because there was no memory or no block of full size.
type waiter struct {
	lane *lane
	cost int64
	full bool
	wake func()
}

// waitForMemory appends a waiter, a reader that gets no lease for lack of memory. The first one
// also starts the check for forgotten waiters in age. The caller holds mu.
func (b *Batcher) waitForMemory(w waiter) {
	b.waited = b.seals
	if b.waiting = append(b.waiting, w); len(b.waiting) == 1 {
		b.look()
	}
}

// wakeFitting removes and returns the wake-up functions of up to n waiters that would get their lease
// now: those first who add to a payload in the making, so that few are at a time, then the others, in
// the order in which they asked. The caller holds mu.
func (b *Batcher) wakeFitting(n int) (wake []func()) {
	if b.busy >= b.mostRaw { // enough blocks wait for compression
		return nil
	}
	served := make(map[*lane]bool)
	for _, adding := range []bool{true, false} {
		kept := b.waiting[:0]
		for _, w := range b.waiting {
			if len(wake) < n && w.lane.isFilling() == adding && b.wouldFit(w, served) {
				wake = append(wake, w.wake)
			} else {
				kept = append(kept, w)
			}
		}
		clear(b.waiting[len(kept):])
		b.waiting = kept
	}
	return wake
}

// isFilling reports whether the route has an open payload in a buffer of full size. The caller holds mu.
func (ln *lane) isFilling() bool { return ln.filling != nil && ln.filling.pooled }

// wouldFit reports whether the waiter would get a lease now: the one that it asked for, or a
// smaller one from the share of its route. served caches, for each route, whether Next sends for
// it at present. The caller holds mu.
func (b *Batcher) wouldFit(w waiter, served map[*lane]bool) bool {
	is, known := served[w.lane]
	if !known {
		_, is = b.next.Credit(w.lane.route)
		served[w.lane] = is
	}
	if b.fits(w.lane, w.cost, is) {
		return b.hasBlock(w.full)
	}
	return b.hasBlock(false) && b.fits(w.lane, max(2*leastRead, b.share()/2), is)
}

// wakeSome removes and returns the wake-up functions of some readers: of those that wait because
// their route, ln, has too many payloads in hand, if ln is not nil, and of those that wait for
// memory. The caller holds mu, and calls the functions after it has released mu.
func (b *Batcher) wakeSome(ln *lane) []func() {
	var wake []func()
	if ln != nil {
		wake = ln.waiting.take(wokenAtOnce)
	}
	return append(wake, b.wakeFitting(wokenAtOnce)...)
}

// unlock releases mu and then wakes some readers, as wakeSome has it.
func (b *Batcher) unlock(ln *lane) {
	wake := b.wakeSome(ln)
	b.mu.Unlock()
	call(wake)
}

// wakeNext removes and returns the wake-up function of one reader that waits because its route,
// ln, has too many payloads in hand, and of one that waits for memory. The caller holds mu, and
// calls the functions after it has released mu.
func (b *Batcher) wakeNext(ln *lane) []func() {
	if len(ln.waiting) == 0 && len(b.waiting) == 0 {
		return nil
	}
	return append(ln.waiting.take(1), b.wakeFitting(1)...)
}

// wakeForgotten returns wake-up functions of readers that would get a lease now although nothing
// was released since they asked; at most once a second. next is how long it is until it should be
// called again. The caller holds mu, and calls the functions after it has released mu.
func (b *Batcher) wakeForgotten(now time.Time) (next time.Duration, wake []func()) {
	due := now.Sub(b.rescued) >= forgotten
	left := len(b.waiting) > 0
	if due {
		wake = b.wakeFitting(wokenAtOnce)
	}
	for r, ln := range b.lanes {
		left = left || len(ln.waiting) > 0
		if credit, _ := b.next.Credit(r); due && ln.held < credit {
			wake = append(wake, ln.waiting.take(wokenAtOnce)...)
		}
	}
	if !left {
		return time.Hour, nil
	}
	if due {
		b.rescued = now
	}
	return forgotten, wake
}

func call(wake []func()) {
	for _, f := range wake {
		f()
	}
}
