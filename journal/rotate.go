package journal

import (
	"slices"
	"time"

	"kusto-agent/internal/durable"
)

// replace goes on with a new segment after an error of the current one. It
// returns nil if that could be done: then all is durable again.
func (w *writer) replace(cause error) error {
	w.log.Warn("journal segment abandoned", "file", w.name, "err", cause)
	w.abandon()
	return w.rotate()
}

// abandon leaves the segment as it is. What it may have lost is repeated in
// the next one, for the history: the state itself is in memory.
func (w *writer) abandon() {
	w.drop()
	w.carry = limit(append(w.carry, w.seg.Unsynced()...))
	w.closed = append(w.closed, segmentFile{name: w.name, size: w.seg.Size(), end: w.j.o.Now()})
	sortClosed(w.closed)
	w.record = max(w.record, w.seg.NextRecord())
	w.seg, w.grown = nil, time.Time{}
}

// limit keeps the newest frames, up to the bound of the queue.
func limit(frames []durable.Frame) []durable.Frame {
	for n, i := 0, len(frames)-1; i >= 0; i-- {
		if n += len(frames[i].Meta) + 64; n > maxQueued {
			return frames[i+1:]
		}
	}
	return frames
}

// rotate begins a segment that opens with the state as it is now, and closes
// the current one. Nothing is written meanwhile: it is what is done at the start, and
// where the disk fails. On an error there is no segment, the journal is in trouble
// and the next try is due at w.retry.
func (w *writer) rotate() error {
	w.drop()
	w.inline = false
	if w.seg != nil {
		w.retire()
	}
	w.j.mu.Lock()
	if w.j.overflow {
		w.dropQueued()
	}
	w.j.mu.Unlock()
	d := w.newDraft(w.record)
	err := w.disk(func() error {
		if err := d.build(func(f func() error) error { return f() }); err != nil {
			return err
		}
		size := d.seg.Size()
		if err := d.seg.Name(); err != nil {
			return err
		}
		d.seg.Named(size)
		return nil
	})
	if err != nil {
		_ = w.disk(func() error {
			if d.seg != nil {
				_ = d.seg.Close() // it is removed
			}
			w.discard(d.name)
			return nil
		})
		return w.fail(err)
	}
	w.seg, w.name, w.room = d.seg, d.name, d.seg.Size()+w.j.segmentSize()
	if err := w.repeat(); err != nil {
		w.abandon()
		return w.fail(err)
	}
	w.recovered()
	return w.disk(func() error {
		h := w.history()
		h.tidy()
		w.closed = h.closed
		return nil
	})
}

// dropQueued leaves to the snapshot what waits to be repeated behind it. Entries
// from some moment on, in their order, change nothing in a newer state; without
// the last of them they would take it back. Needs the journal's mu.
func (w *writer) dropQueued() {
	j := w.j
	j.queue = slices.DeleteFunc(j.queue, func(o *op) bool {
		drop := o.applied && o.entry != nil
		if drop {
			j.queued -= o.size()
		}
		return drop
	})
	j.given, j.overflow, w.carry = 0, false, nil
}

// repeat writes what an abandoned segment may have lost.
func (w *writer) repeat() error {
	if len(w.carry) == 0 {
		return nil
	}
	carry := w.carry
	w.carry = nil
	err := w.disk(func() error {
		if err := w.seg.Append(carry...); err != nil {
			return err
		}
		return w.seg.Sync()
	})
	return err
}

// retire closes a segment that is full. Its end must be durable before the
// next one stands on it as its past; where that fails the next one carries it.
func (w *writer) retire() {
	err := w.disk(w.seg.Sync)
	if err == nil {
		err = w.disk(w.seg.Close)
	}
	if err != nil {
		w.log.Warn("journal segment abandoned", "file", w.name, "err", err)
	}
	w.abandon()
}

// fail notes that no segment can be written and when to try again.
func (w *writer) fail(err error) error {
	w.backoff = min(max(2*w.backoff, firstRetry), lastRetry)
	w.retry = time.Now().Add(w.backoff)
	w.j.mu.Lock()
	first := w.j.trouble == nil
	if w.j.trouble = err; first {
		w.j.since = time.Now()
	}
	w.j.mu.Unlock()
	if first {
		w.j.tellTrouble(err)
	}
	return err
}

func (w *writer) recovered() {
	w.j.mu.Lock()
	was, since := w.j.trouble, w.j.since
	w.j.trouble = nil
	w.j.mu.Unlock()
	w.backoff = 0
	if was != nil {
		w.j.tellWell(since)
	}
}

func (j *Journal) currentTrouble() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.trouble
}
