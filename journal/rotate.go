package journal

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/record"
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
	w.carry = limit(append(w.carry, w.seg.Unsynced()...))
	w.closed = append(w.closed, segmentFile{name: w.name, size: w.seg.Size(), end: w.j.o.Now()})
	w.record = w.seg.NextRecord()
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
// the current one. On an error there is no segment, the journal is in trouble
// and the next try is due at w.retry.
func (w *writer) rotate() error {
	if w.seg != nil {
		w.retire()
	}
	snapshot := w.snapshot()
	name := fmt.Sprintf("%016x%s", w.next, suffix)
	h := durable.Header{Kind: kind, Major: major, Minor: minor, Seq: w.next, Agent: w.agent, FirstRecord: w.record, Created: w.j.o.Now()}
	err := w.disk(func() (err error) {
		if err = durable.MkdirAll(w.j.o.FS, w.j.dir); err != nil {
			return err
		}
		w.seg, err = durable.Create(w.j.o.FS, filepath.Join(w.j.dir, name), h, w.j.segmentSize(), snapshot...)
		return err
	})
	w.next++ // a name that may be on the disk is not used again
	if err != nil {
		_ = w.disk(func() error {
			w.discard(name)
			return nil
		})
		return w.fail(err)
	}
	w.name, w.room = name, w.seg.Size()+w.j.segmentSize()
	if err := w.repeat(); err != nil {
		w.abandon()
		return w.fail(err)
	}
	w.recovered()
	return w.disk(func() error {
		w.tidy()
		return nil
	})
}

// snapshot returns the state as frames, the first of which says how many
// follow. It has the lock for a moment at a time, and encodes without it: nobody
// waits for the whole of it. No entry is taken in by this goroutine meanwhile. What
// others take in, because the disk did not answer them, is queued and repeated
// behind the snapshot. For that to lead to the same state the batches come first: an
// end that is repeated finds its batch, or the files have what it made safe.
func (w *writer) snapshot() []durable.Frame {
	j := w.j
	j.mu.Lock()
	if j.overflow {
		w.dropQueued()
	}
	now := j.o.Now()
	first := j.state.batches()
	j.mu.Unlock()
	var head, files, last []durable.Frame
	var step []*Entry
	encode := func(to *[]durable.Frame) {
		for _, e := range step {
			if e.At.IsZero() {
				e.At = now
			}
			*to = append(*to, e.frame())
		}
		step = step[:0]
	}
	add := func(e *Entry) { step = append(step, e) }
	inSteps(j, j.state.files, func(name record.File, f *file) { f.entries(name, add) }, func() { encode(&files) })
	inSteps(j, j.state.replays, func(id record.BatchID, n int) { add(&Entry{Kind: Replay, Batch: id, Attempt: n}) }, func() { encode(&last) })
	inSteps(j, j.state.ended, func(id record.BatchID, o record.Outcome) { add(&Entry{Kind: ReplayEnd, Batch: id, Outcome: o}) }, func() { encode(&last) })
	j.mu.Lock()
	for _, in := range slices.Sorted(maps.Keys(j.state.inputs)) {
		add(&Entry{Kind: Input, Input: in})
	}
	j.mu.Unlock()
	var inputs, begun []durable.Frame
	encode(&inputs)
	step = first
	encode(&begun)
	n := len(inputs) + len(files) + len(begun) + len(last)
	head = append(head, (&Entry{Kind: Snapshot, At: now, Count: uint64(n), BootID: j.o.BootID}).frame())
	return slices.Concat(head, inputs, files, begun, last)
}

// inSteps calls take for all of a map, the lock of the journal held, and done
// without it after each few and at the end.
func inSteps[K comparable, V any](j *Journal, m map[K]V, take func(K, V), done func()) {
	const few = 256
	n := 0
	j.mu.Lock()
	for k, v := range m {
		take(k, v)
		if n++; n%few == 0 {
			j.mu.Unlock()
			done()
			j.mu.Lock()
		}
	}
	j.mu.Unlock()
	done()
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
