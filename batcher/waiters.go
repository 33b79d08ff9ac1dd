package batcher

import "time"

// waiters are the wake-ups of callers who were refused a lease for want of credit,
// the first first. Guarded by Batcher.mu.
type waiters []func()

// Waking all of a thousand callers for room that one of them takes would make
// them spin. A few are woken at a time; should none of them still want the
// room, the others are looked after once in a while.
const (
	wokenAtOnce = 4
	forgotten   = time.Second
)

// wait keeps a wake-up. The caller holds mu.
func (b *Batcher) wait(w *waiters, wake func()) {
	*w = append(*w, wake)
	if len(*w) > 1 {
		return
	}
	select {
	case b.kick <- struct{}{}: // so that age looks after it
	default:
	}
}

func (w *waiters) some() []func() { return w.take(wokenAtOnce) }

func (w *waiters) take(n int) []func() {
	n = min(len(*w), n)
	woken := append([]func(){}, (*w)[:n]...)
	clear((*w)[:n])
	*w = (*w)[n:]
	return woken
}

// waiter was refused a lease for want of memory or of a block.
type waiter struct {
	lane *lane
	cost int64
	full bool
	wake func()
}

// waitForMemory keeps a wake-up. The caller holds mu.
func (b *Batcher) waitForMemory(w waiter) {
	b.waiting = append(b.waiting, w)
	if len(b.waiting) > 1 {
		return
	}
	select {
	case b.kick <- struct{}{}: // so that age looks after it
	default:
	}
}

// wakeFitting takes the wake-ups of the first n of those who wait for memory and
// would get it now. The others keep their places. The caller holds mu.
func (b *Batcher) wakeFitting(n int) (wake []func()) {
	if b.busy >= b.mostRaw {
		return nil
	}
	served := make(map[*lane]bool)
	kept := b.waiting[:0]
	for _, w := range b.waiting {
		if len(wake) < n && b.wouldFit(w, served) {
			wake = append(wake, w.wake)
		} else {
			kept = append(kept, w)
		}
	}
	clear(b.waiting[len(kept):])
	b.waiting = kept
	return wake
}

// wouldFit says whether a lease makes sense now: the one that was refused, or a
// smaller one out of the share of its route.
func (b *Batcher) wouldFit(w waiter, served map[*lane]bool) bool {
	is, known := served[w.lane]
	if !known {
		_, is = b.next.Credit(w.lane.route)
		served[w.lane] = is
	}
	if b.fits(w.lane, w.cost, is) {
		return !w.full || b.rawOut < b.mostRaw
	}
	return b.fits(w.lane, max(2*leastRead, b.share()/2), is)
}

// wakeSome returns wake-ups to be called after mu is let go: of those who wait
// for the lane, if it is not nil, and of those who wait for memory.
func (b *Batcher) wakeSome(ln *lane) []func() {
	var wake []func()
	if ln != nil {
		wake = ln.waiting.some()
	}
	return append(wake, b.wakeFitting(wokenAtOnce)...)
}

// wakeNext returns one wake-up each of those who wait for the lane and of those
// who wait for memory.
func (b *Batcher) wakeNext(ln *lane) []func() {
	if !ln.waiting.left() && len(b.waiting) == 0 {
		return nil
	}
	return append(ln.waiting.take(1), b.wakeFitting(1)...)
}

// wakeForgotten returns, once in a while, wake-ups of those who may get a lease
// now, though nothing was given back since they were refused, and how long
// until it wants to be asked again. The caller holds mu.
func (b *Batcher) wakeForgotten(now time.Time) (next time.Duration, wake []func()) {
	due := now.Sub(b.rescued) >= forgotten
	left := len(b.waiting) > 0
	if due {
		wake = b.wakeFitting(wokenAtOnce)
	}
	for r, ln := range b.lanes {
		left = left || ln.waiting.left()
		if credit, _ := b.next.Credit(r); due && ln.held < credit {
			wake = append(wake, ln.waiting.some()...)
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

func (w *waiters) left() bool { return len(*w) > 0 }

func call(wake []func()) {
	for _, f := range wake {
		f()
	}
}
