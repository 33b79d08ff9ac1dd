package tail

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tracker"
)

// A read of a disk or a server that does not answer keeps its worker. So that
// others are read meanwhile, a spare worker comes when readers have waited this
// long and no turn was ended; there are so many at most.
const (
	relief    = time.Second
	mostSpare = 32
)

// turns is which readers wait for a turn, and who gives them. Guarded by Tailer.mu.
type turns struct {
	queue   []*reader // that wait for a worker
	work    sync.Cond // notified when there is one
	ended   sync.Cond // notified after every turn and every scan, and when a worker ends
	workers workers
	stopped bool // the workers end after their turns
	tracker tracker.Tracker
	drained chan struct{} // not nil: only deleted files are read, and it is closed when none is left
	deleted []*reader     // of these files
}

// workers counts those who give turns. Guarded by Tailer.mu.
type workers struct {
	all   int
	idle  int
	turns uint64 // that were ended
}

// relieve adds a worker each second, up to a limit, while readers wait and no turn ends, because
// all workers are stuck on file systems that hang. It returns when ctx ends.
func (t *Tailer) relieve(ctx context.Context, all *sync.WaitGroup) {
	tick := time.NewTicker(relief)
	defer tick.Stop()
	check := relieving{all: all}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		t.on(&check)
	}
}

// relieving is that a time of relief has passed. It adds a worker if no turn has ended meanwhile.
type relieving struct {
	all   *sync.WaitGroup
	turns uint64 // that had ended the time before
}

func (e *relieving) happen(t *Tailer) {
	w := &t.turns.workers
	stuck := len(t.turns.queue) > 0 && w.turns == e.turns && w.all < runtime.GOMAXPROCS(0)+mostSpare
	if e.turns = w.turns; stuck {
		w.all++
		e.all.Go(t.workLoop)
	}
}

// workLoop is one worker.
func (t *Tailer) workLoop() {
	w := &worker{t: t, records: records.New(&t.ports)}
	for w.takeJob() {
		w.work()
	}
}

// takeJob reports to the tailer what the turn that has ended led to, and takes the next one. It returns false
// when the tailer stops, or when as many workers as there are cores are idle, so that spare workers end.
func (w *worker) takeJob() bool {
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.job.r != nil {
		t.put(w.job.r, &w.report)
		w.job, w.report, w.at = job{}, report{}, records.File{}
	}
	var r *reader
	for !t.turns.stopped {
		if r = t.nextTurn(); r != nil || t.turns.workers.idle >= runtime.GOMAXPROCS(0) {
			break
		}
		t.turns.workers.idle++
		t.turns.work.Wait()
		t.turns.workers.idle--
	}
	if r == nil || t.turns.stopped {
		t.turns.workers.all--
		t.turns.ended.Broadcast()
		return false
	}
	w.begin(r)
	return true
}

// begin makes the next turn of a reader the job of the worker. The caller holds mu.
func (w *worker) begin(r *reader) {
	t := w.t
	r.wake()
	r.own()
	w.adapt(r)
	_, noted := t.noticeOf(r)
	w.job = job{r: r, life: r.life, path: r.path(), left: r.leftAt, replaced: t.isReplaced(r), asked: t.mayBeAsked(r), succeeded: r.k.reader != r, noted: noted, heard: t.hears(r), safe: r.k.safe}
	w.report.moved = r.life.HasMoved()
	w.job.todo = t.turns.tracker.Apply(&r.life, tracker.Taken{})[0]
}

// work does the job of a turn, and writes the report of it.
func (w *worker) work() {
	r := w.job.r
	switch w.job.todo {
	case tracker.Close:
		w.report.next = w.closeDropped(r)
	case tracker.CloseUnwanted:
		w.report.next = w.closeUnwanted(r)
	case tracker.Read:
		var err error
		if w.report.next, err = w.turn(r); err != nil {
			failed := err.Error()
			w.report.failed = &failed
			if w.report.next != tracker.Finished {
				w.report.next = tracker.Idle
			}
		}
		w.tellRead(r, err)
	}
}

// apply gives an event about the file of a reader to the tracker, and carries out what follows. The
// caller holds mu.
func (t *Tailer) apply(r *reader, e tracker.Event) {
	for _, a := range t.turns.tracker.Apply(&r.life, e) {
		switch a {
		case tracker.Enqueue:
			t.inUse(r)
			t.turns.queue = append(t.turns.queue, r)
			t.turns.work.Signal()
		case tracker.Spare:
			t.atRest(r)
		case tracker.Plan:
			t.poll(r)
		case tracker.Look:
			if !t.o.Once { // it is read to where it ended
				t.lookSoon(r)
			}
		case tracker.Rescan:
			t.rescanSoon()
		case tracker.Announce:
			t.rotatedAway(r)
		case tracker.Close:
			t.closeReader(r)
		case tracker.AllDrained:
			close(t.turns.drained)
		}
	}
}

// readyLocked queues a reader for a turn, because something may have changed in its file. The caller
// holds mu.
func (t *Tailer) readyLocked(r *reader) { t.apply(r, tracker.Wanted{}) }

// ready queues a reader for a turn, because something may have changed in its file. The caller does not hold mu.
func (t *Tailer) ready(r *reader) { t.on(wanted{r}) }

type wanted struct{ r *reader }

func (e wanted) happen(t *Tailer) { t.readyLocked(e.r) }

// put takes a reader back after its turn, of which did is the report. If too many files are open, the file
// is closed until its next turn. The caller holds mu.
func (t *Tailer) put(r *reader, did *report) {
	next := did.next
	defer t.turns.ended.Broadcast()
	t.turns.workers.turns++
	defer t.noteEnd()
	r.failed = did.failed
	if did.grown != nil {
		t.tookShape(r, did.grown)
	}
	if did.left != nil {
		t.retired(r, *did.left)
	}
	for _, o := range did.others {
		o.noteRead()
		t.readyLocked(o)
	}
	wait := r.show(next)
	if next.Closes() || next.Rests() && r.Offset() == r.Size {
		t.endUnpacking(r)
	}
	defer t.endTurn(r.stream, r, did)
	t.apply(r, tracker.Ended{Outcome: next, Wait: wait, Safe: r.k.safe >= r.Offset(), Moved: did.moved})
	if goesOn := r.z != nil && next == tracker.More; !next.Closes() && !t.spareOthers() && !goesOn { // it would decompress its file from the start again
		t.closeIdle(r)
		if r.carry != nil {
			t.closeIdle(r.carry.from)
		}
	}
	r.rest()
}

// closeReader closes a reader and removes it from all indexes. The caller holds mu.
func (t *Tailer) closeReader(r *reader) {
	t.inUse(r)
	t.shut(r)
	if n := r.node(); r.in.readers.Get(n) == r {
		r.in.readers.Delete(n)
	}
	if r.k.reader == r {
		r.k.reader = nil
	}
	t.byPath.Delete(r)
	t.leaveStream(r)
	t.looks.queue.Cancel(r)
}

// Safe tells the tailer that all bytes of these generations before these offsets are safe. The journal
// calls it.
func (t *Tailer) Safe(all iter.Seq2[record.File, int64]) { t.on(saved(all)) }

type saved iter.Seq2[record.File, int64]

func (all saved) happen(t *Tailer) {
	for f, pos := range all {
		k := t.knownOf(f)
		if k == nil {
			continue
		}
		k.safe = max(k.safe, pos)
		if r := k.reader; r != nil {
			r.dropArrivals()
			t.apply(r, tracker.Saved{})
			r.lighten()
		}
	}
}
