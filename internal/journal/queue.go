package journal

import (
	"fmt"

	"kusto-agent/internal/diskwriter"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// maxQueued is how many bytes of entries wait while the disk cannot be
// written. Above it all that waits is left to the next snapshot, and is not in the
// history.
const maxQueued = 4 << 20

// op is an entry on its way to the disk, or a wish for a sync.
type op struct {
	entry *Entry // nil: sync
	frame durable.Frame

	// Guarded by the journal's mu until done is closed.
	applied bool
	moved   []moved
	err     error
	number  uint64 // of a sync: that of the entry behind the last that is durable
	done    chan struct{}
}

func (o *op) size() int { return len(o.frame.Meta) + 64 }

// tell writes an entry and then applies it to the state; it waits until both are done. If the disk
// fails or hangs, the entry is applied, tell returns the error, and the entry is written later.
func (j *Journal) tell(e *Entry) error {
	e.At = j.o.Now()
	f := e.frame()
	if len(f.Meta) > durable.MaxFrame {
		return fmt.Errorf("write %s entry of %d bytes: %w", e.Kind, len(f.Meta), durable.ErrTooLarge)
	}
	return j.submit(&op{entry: e, frame: f, done: make(chan struct{})})
}

// later queues an entry, which changes the state once it is written, and does not wait for that. The
// error is ErrClosed.
func (j *Journal) later(e *Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.disk.Closed() {
		return ErrClosed
	}
	e.At = j.o.Now()
	j.put(&op{entry: e, frame: e.frame()})
	return nil
}

// put queues an op that nobody waits for, and wakes the writer. Needs mu.
func (j *Journal) put(o *op) {
	bad := j.badDisk() != nil
	if j.enqueue(o, bad); bad {
		j.applyTo(o)
	}
	j.disk.Wake()
}

// Sync makes all entries durable that were written before. The error is that of the disk.
func (j *Journal) Sync() error {
	return j.submit(&op{done: make(chan struct{})})
}

// submit gives o (an entry, or the request for a sync) to the writer and waits, at most
// Options.Stall, until o is done. If the
// disk is known to fail, or does not answer in time, submit applies o in memory, leaves
// the write to the writer, and returns the error.
func (j *Journal) submit(o *op) error {
	j.mu.Lock()
	if j.disk.Closed() {
		j.mu.Unlock()
		return ErrClosed
	}
	bad := j.badDisk()
	j.enqueue(o, bad != nil)
	if bad != nil {
		j.applyTo(o)
		j.mu.Unlock()
		j.disk.Wake()
		j.announce(o.moved)
		return bad
	}
	j.mu.Unlock()
	j.disk.Wake()

	if _, ok := diskwriter.Wait(o.done, j.o.Stall); ok {
		j.announce(o.moved)
		return o.err
	}
	j.mu.Lock()
	j.applyTo(o)
	j.mu.Unlock()
	j.announce(o.moved)
	return record.ErrStalled
}

// enqueue appends o to the queue of the writer. bad says that the disk fails or hangs, so that nobody
// waits for o: then a sync is left out, and entries are queued only up to maxQueued bytes. What does
// not fit is not in the history, only in the next snapshot. Needs mu.
func (j *Journal) enqueue(o *op, bad bool) {
	if o.entry != nil && !o.applied {
		j.unapplied = append(j.unapplied, o)
	}
	switch {
	case bad && o.entry == nil:
		return
	case bad && j.queued+o.size() > maxQueued:
		j.overflow = true
		return
	}
	j.queue = append(j.queue, o)
	j.queued += o.size()
}

// applyTo applies the entry of o to the state, unless that was done, after all entries that were told
// before it: the state follows the history. It stores in the ops which checkpoints advanced. Needs mu.
func (j *Journal) applyTo(o *op) {
	for o.entry != nil && !o.applied && len(j.unapplied) > 0 {
		next := j.unapplied[0]
		j.unapplied[0] = nil
		j.unapplied = j.unapplied[1:]
		next.moved, next.applied = j.state.apply(next.entry), true
	}
	o.applied = true // also if it is the request for a sync
}

// announce calls the functions of OnSafe with ms, the checkpoints that advanced. The caller
// holds no lock.
func (j *Journal) announce(ms []moved) {
	if len(ms) == 0 {
		return
	}
	j.mu.Lock()
	listeners := j.listeners
	j.mu.Unlock()
	all := func(yield func(record.File, int64) bool) {
		for _, m := range ms {
			if !yield(m.file, m.position) {
				return
			}
		}
	}
	for _, fn := range listeners {
		fn(all)
	}
}

// Close makes all entries durable, marks a clean stop and ends the
// writer. If the disk does not answer, Close returns record.ErrStalled at the latest Options.Stall
// after the disk stopped answering. A second Close does nothing.
func (j *Journal) Close() error { return j.disk.Close(j.beside) }
