package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"kusto-agent/internal/durable"
)

// replace starts a new segment after cause, an error of the current one. If it returns nil, all
// entries are durable again; otherwise there is no segment, and the error is that of rotate.
func (w *writer) replace(cause error) error {
	w.log.Warn("journal segment is no longer used after a write error; its content goes to a new segment", "file", w.name, "err", cause)
	w.abandon()
	return w.rotate()
}

// abandon stops using the current segment. Entries that it may have lost are repeated in
// the next segment (w.carry), for the history; the state itself is in memory.
func (w *writer) abandon() {
	w.drop()
	w.carry = limit(append(w.carry, w.seg.Unsynced()...))
	w.closed = append(w.closed, segmentFile{name: w.name, size: w.seg.Size(), end: w.j.o.Now()})
	sortClosed(w.closed)
	w.record = max(w.record, w.seg.NextRecord())
	w.seg, w.grown = nil, time.Time{}
}

// limit returns the newest frames, as many as fit into maxQueued bytes, the bound of the queue. Each
// counts with 64 bytes more than its content.
func limit(frames []durable.Frame) []durable.Frame {
	for n, i := 0, len(frames)-1; i >= 0; i-- {
		if n += len(frames[i].Meta) + 64; n > maxQueued {
			return frames[i+1:]
		}
	}
	return frames
}

// rotate starts a segment that opens with a snapshot of the current state, and closes the
// current one. Entries wait meanwhile: the journal does this at the start and after errors
// of the disk. On an error there is no segment, and disk.RetryAt says when to try again.
// Entries that are repeated after the snapshot are synced before the segment gets its
// name: as a whole they change nothing in a newer state, but without the last of them they
// would set it back.
func (w *writer) rotate() error {
	w.drop()
	w.inline = false
	if w.seg != nil {
		w.retire()
	}
	if w.removed && w.j.namesSpooled() {
		w.j.disk.Report(errHistory)
		return errHistory
	}
	d, waiting := w.freezeAll()
	again := slices.Clone(w.carry)
	for _, o := range waiting {
		if o.entry != nil {
			again = append(again, o.frame)
		}
	}
	err := w.disk(func() error {
		if err := d.build(func(f func() error) error { return f() }); err != nil {
			return err
		}
		if err := errors.Join(d.seg.Append(again...), d.seg.Sync()); err != nil {
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
		w.j.disk.Report(err)
		return err
	}
	w.seg, w.name, w.room = d.seg, d.name, d.seg.Size()+w.j.segmentSize()
	w.carry, w.removed = nil, false
	w.durable = w.seg.NextRecord()
	w.written(waiting)
	w.j.disk.Report(nil)
	return w.disk(func() error {
		h := w.history()
		h.tidy()
		w.closed = h.closed
		return nil
	})
}

// errHistory is why a journal that was removed is not begun anew: its state has the records in the
// spool as safe, and the history, which says where they came from if the spool loses them, is gone.
// Without a journal the next start reads all files again, and nothing is lost.
var errHistory = fmt.Errorf("what the journal knew of payloads that wait in the spool is gone: %w", durable.ErrRemoved)

// namesSpooled reports whether payloads wait in the spool, or vanished from it and are looked for.
func (j *Journal) namesSpooled() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.state.spool) > 0 || j.state.replays.len() > 0
}

// freezeAll applies all queued entries and takes a snapshot for the next segment, d. It returns the
// queue: its entries are repeated after the snapshot, and stay queued until they are written.
func (w *writer) freezeAll() (d *draft, waiting []*op) {
	j := w.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.overflow {
		w.dropQueued()
	}
	for _, o := range j.queue {
		j.applyTo(o)
	}
	return w.newDraft(w.record), slices.Clone(j.queue)
}

// written removes the first entries of the queue, as many as in first, which are durable now, and
// wakes their callers.
func (w *writer) written(first []*op) {
	j := w.j
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue, j.given = j.queue[len(first):], max(0, j.given-len(first))
	for _, o := range first {
		if j.queued -= o.size(); o.done != nil {
			o.number = w.durable
			close(o.done)
		}
	}
}

// dropQueued removes the entries from the queue that the next snapshot contains, after the queue was
// too full to take all. They are not repeated in the history, because others of them are missing.
// Needs the journal's mu.
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

// retire syncs and closes the current segment, after which there is none. If that fails, the next
// segment repeats what may be lost.
func (w *writer) retire() {
	err := w.disk(w.seg.Sync)
	if err == nil {
		err = w.disk(w.seg.Close)
	}
	if err != nil {
		w.log.Warn("journal segment is no longer used after a write error; its content goes to a new segment", "file", w.name, "err", err)
	}
	w.abandon()
}
