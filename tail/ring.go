package tail

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// A read of a disk or a server that does not answer keeps its worker. So that
// others are read meanwhile, a spare worker comes when readers have waited this
// long and no turn was ended; there are so many at most.
const (
	relief    = time.Second
	mostSpare = 32
)

// workers counts those who give turns. Guarded by Tailer.mu.
type workers struct {
	all   int
	idle  int
	turns uint64 // that were ended
}

// addWorker starts a worker, for whose end all waits.
func (t *Tailer) addWorker(all *sync.WaitGroup) {
	t.mu.Lock()
	t.workers.all++
	t.mu.Unlock()
	all.Go(t.workLoop)
}

// relieve adds workers while all are stuck on file systems that hang, until ctx ends.
func (t *Tailer) relieve(ctx context.Context, all *sync.WaitGroup) {
	tick := time.NewTicker(relief)
	defer tick.Stop()
	var turns uint64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		stuck := len(t.ring) > 0 && t.workers.turns == turns && t.workers.all < runtime.GOMAXPROCS(0)+mostSpare
		turns = t.workers.turns
		t.mu.Unlock()
		if stuck {
			t.addWorker(all)
		}
	}
}

// workLoop gives turns to ready readers until the tailer stops, or until there are as many
// idle workers as cores.
func (t *Tailer) workLoop() {
	w := &worker{t: t, scanners: make(map[*input]*format.Scanner)}
	for {
		t.mu.Lock()
		var r *reader
		for !t.stopped {
			if r = t.nextTurn(); r != nil || t.workers.idle >= runtime.GOMAXPROCS(0) {
				break
			}
			t.workers.idle++
			t.work.Wait()
			t.workers.idle--
		}
		if r == nil || t.stopped {
			t.workers.all--
			t.turned.Broadcast()
			t.mu.Unlock()
			return
		}
		r.run = running
		drop, leave := r.drop, r.leave
		w.adapt(r)
		w.job = t.jobOf(r)
		t.mu.Unlock()
		next, failed := closed, ""
		switch {
		case drop:
		case leave:
			next = w.leave(r)
		default:
			var err error
			if next, err = w.turn(r); err != nil {
				next, failed = idle, err.Error()
			}
			w.tellRead(r, err)
		}
		t.put(r, next, failed)
	}
}

// runState is where a reader stands between two turns.
type runState uint8

const (
	resting runState = iota
	queued           // in the ring
	running          // a worker has it
	dirty            // a worker has it, and it is wanted again
	ended            // let go
)

// readyLocked queues a reader for a turn, or has it take another turn after the one under
// way. The caller holds mu.
func (t *Tailer) readyLocked(r *reader) {
	if t.rests != nil && !r.rest {
		return
	}
	switch r.run {
	case resting:
		r.run = queued
		t.inUse(r)
		t.ring = append(t.ring, r)
		t.work.Signal()
	case running:
		r.run = dirty
	}
}

// put takes a reader back after its turn and does what next asks for. failed is the reason
// if the turn failed.
func (t *Tailer) put(r *reader, next after, failed string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.turned.Broadcast()
	t.workers.turns++
	defer t.noteEnd()
	r.shown.failed = failed
	r.show(next)
	if next == closed || next == idle && r.offset == r.size {
		t.endUnpacking(r)
	}
	defer t.endTurn(r.stream, r, next)
	if next == closed {
		t.endRest(r)
		t.letGo(r)
		return
	}
	wanted := next == again || r.run == dirty
	if next == idle && !wanted {
		t.endRest(r)
	}
	r.run = resting
	if next == idle && !wanted {
		t.atRest(r)
	}
	if !t.spareOthers() {
		t.closeIdle(r)
		if r.carry != nil {
			t.closeIdle(r.carry.from)
		}
	}
	switch {
	case wanted:
		t.readyLocked(r)
	case next == idle:
		t.poll(r)
	}
}

// letGo closes a reader and removes it from all indexes. The caller holds mu.
func (t *Tailer) letGo(r *reader) {
	r.run = ended
	t.inUse(r)
	if r.f != nil {
		r.f.Close()
		r.f = nil
		t.open.Add(-1)
	}
	if t.byFile[r.file] == r {
		delete(t.byFile, r.file)
	}
	if n := nodeOf(r.info); r.in.readers[n] == r {
		delete(r.in.readers, n)
	}
	if r.k.reader == r {
		r.k.reader = nil
	}
	t.unpath(r)
	t.leaveStream(r)
	t.poll(r)
}

// hold gives an open file to a reader and counts it.
func (t *Tailer) hold(r *reader, f *os.File) {
	t.mu.Lock()
	r.f = f
	t.mu.Unlock()
	t.open.Add(1)
}

// Safe tells the tailer that all bytes of a generation before pos are safe. The journal
// calls it.
func (t *Tailer) Safe(f record.File, pos int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.byFile[f]; r != nil {
		if pos > r.safe {
			r.safe = pos
			t.readyIfWaiting(r)
		}
		return
	}
	for in := range t.everyInput {
		if k := in.known[f]; k != nil {
			k.safe = max(k.safe, pos) // for whoever goes on in the file
		}
	}
}

// readyIfWaiting gives a turn to a reader that waits for its bytes to be safe. The caller
// holds mu.
func (t *Tailer) readyIfWaiting(r *reader) {
	if r.polled.safe {
		r.polled.safe = false
		t.readyLocked(r)
	}
}

// waitSafe asks for a turn when more bytes of the file are safe. It returns false if all
// that were handed over are safe already.
func (t *Tailer) waitSafe(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.polled.safe = r.safe < r.offset
	return r.polled.safe
}

// hasMoved reports, once, that the journal has to record a new path of the file.
func (t *Tailer) hasMoved(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved := r.moved
	r.moved = false
	return moved
}
