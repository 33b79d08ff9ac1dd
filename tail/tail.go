// Package tail promises that every complete record of every file that matches
// is handed over, in whole records, through rotation, truncation and restart,
// and that a file is let go only when all of it is safe. Notifications of the
// kernel are hints; what is true is found by looking.
package tail

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"kusto-agent/format"
	"kusto-agent/record"
)

// State is what is remembered of one generation of a file.
type State struct {
	File     record.File
	Info     record.FileInfo
	Position int64 // all before it is safe
	Mark     record.Mark
	Ahead    []record.Span // safe or begun beyond the position, in order
}

// Positions remembers files and how far they are safe.
type Positions interface {
	Files(input string) []State
	InputSeen(name string) (known bool, err error)
	Register(f record.File, info record.FileInfo) error
	Skip(f record.File, span record.Span, mark record.Mark) error
	Forget(f record.File) error
}

// Lease is room for one read. Its methods are those of the batcher's.
type Lease interface {
	Block() []byte
	Seal(*record.Chunk)
	Append(*record.Chunk)
	Done()
}

// Sink takes chunks. Lease returns nil when there is no room, and calls wake
// once when it makes sense to ask again.
type Sink interface {
	Lease(r record.Route, want int, wake func()) (Lease, error)
}

// Quarantine keeps refused records. Put returns after they are durable.
type Quarantine interface {
	Put(recs []record.Rejected) error
}

// Books count what is read.
type Books interface {
	Read(input string, records int, bytes int64)
	Filtered(input, reason string, records int)
	Rejected(input string, reason record.Reason, n int)
}

// Metrics are told what happens to files.
type Metrics interface {
	Rotation(input string)
	Truncation(input string, unread int64)
	Abandoned(input string, bytes int64)
	InvalidUTF8(input string, records int)
}

// Options are what New needs.
type Options struct {
	Inputs     []Input
	Positions  Positions
	Sink       Sink
	Quarantine Quarantine
	Books      Books
	Metrics    Metrics
	Logger     *slog.Logger
	Avoid      []string // folders never read: the agent's own state
	OpenFiles  int      // descriptors to hold at most
	Once       bool     // read what is there to its end, then return
}

// Tailer reads the files of all inputs. Its methods are safe for concurrent
// use.
type Tailer struct {
	o     Options
	sink  Sink
	watch *watcher
	open  atomic.Int64 // descriptors held

	mu      sync.Mutex
	inputs  []*input
	byFile  map[record.File]*reader
	byPath  map[string][]*reader
	ring    []*reader // readers that wait for a worker
	work    sync.Cond
	stopped bool
	polls   pollQueue
	unread  int // readers of a run --once that have not come to their end
	told    map[string]complaint
	scanNo  uint64    // of the scan under way, or of the last one
	scans   uint64    // that were completed
	turned  sync.Cond // told after every turn and every scan

	tick chan struct{} // the poll queue has a new first
	scan chan struct{} // a rescan is wanted
	done chan struct{} // Once: every reader has come to its end
}

// New prepares reading; what the journal remembers is read here. Run must be
// called.
func New(o Options) (*Tailer, error) {
	t := &Tailer{
		o: o, sink: o.Sink,
		byFile: make(map[record.File]*reader),
		byPath: make(map[string][]*reader),
		told:   make(map[string]complaint),
		tick:   make(chan struct{}, 1),
		scan:   make(chan struct{}, 1),
		done:   make(chan struct{}, 1),
	}
	t.work.L, t.turned.L = &t.mu, &t.mu
	for _, i := range o.Inputs {
		in, err := newInput(i)
		if err != nil {
			return nil, err
		}
		seen, err := o.Positions.InputSeen(in.Name)
		if err != nil {
			return nil, err
		}
		in.isNew = !seen
		in.recall(o.Positions.Files(in.Name))
		t.inputs = append(t.inputs, in)
	}
	return t, nil
}

// Run reads until ctx ends; with Once, until every file was read to its end.
// When it returns nothing more is handed over.
func (t *Tailer) Run(ctx context.Context) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer t.closeFiles()
	defer all.Wait()
	defer cancel()
	t.watch = newWatcher(t)
	// All of these are started here, ended by ctx, and awaited above.
	for range runtime.GOMAXPROCS(0) {
		all.Go(t.workLoop)
	}
	all.Go(func() {
		<-ctx.Done()
		t.mu.Lock()
		t.stopped = true
		t.mu.Unlock()
		t.work.Broadcast()
	})
	all.Go(func() { t.pollLoop(ctx) })
	all.Go(func() { t.watch.loop(ctx) })
	t.discover(ctx)
}

// workLoop gives turns to readers that are ready, until the tailer stops.
func (t *Tailer) workLoop() {
	w := &worker{t: t, scanners: make(map[*input]*format.Scanner)}
	for {
		t.mu.Lock()
		for len(t.ring) == 0 && !t.stopped {
			t.work.Wait()
		}
		if t.stopped {
			t.mu.Unlock()
			return
		}
		r := t.ring[0]
		t.ring[0] = nil
		t.ring = t.ring[1:]
		r.run = running
		drop := r.drop
		t.mu.Unlock()
		next := closed
		if !drop {
			var err error
			if next, err = w.turn(r); err != nil {
				next = idle
			}
			t.tellRead(r, err)
		}
		t.put(r, next)
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

// readyLocked gives a reader a turn. The caller holds mu.
func (t *Tailer) readyLocked(r *reader) {
	switch r.run {
	case resting:
		r.run = queued
		t.ring = append(t.ring, r)
		t.work.Signal()
	case running:
		r.run = dirty
	}
}

// put takes a reader back after its turn.
func (t *Tailer) put(r *reader, next after) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.turned.Broadcast()
	r.show(next)
	if next == closed {
		t.letGo(r)
		return
	}
	wanted := next == again || r.run == dirty
	r.run = resting
	if wanted {
		t.readyLocked(r)
		return
	}
	if int(t.open.Load()) > t.o.OpenFiles {
		t.closeIdle(r)
	}
	if next == idle {
		t.poll(r)
	}
}

// letGo closes a reader for good. The caller holds mu.
func (t *Tailer) letGo(r *reader) {
	r.run = ended
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
	t.poll(r)
}

// hold keeps a descriptor for a reader.
func (t *Tailer) hold(r *reader, f *os.File) {
	t.mu.Lock()
	r.f = f
	t.mu.Unlock()
	t.open.Add(1)
}

func (t *Tailer) pathOf(r *reader) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.path
}

// Safe tells that everything of a generation before pos is safe. It is called
// by the journal.
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
	for _, in := range t.inputs {
		if k := in.known[f]; k != nil {
			k.safe = max(k.safe, pos) // for whoever goes on in the file
		}
	}
}

func (t *Tailer) readyIfWaiting(r *reader) {
	if r.polled.safe {
		r.polled.safe = false
		t.readyLocked(r)
	}
}

func (t *Tailer) safeOf(r *reader) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.safe
}

// waitSafe asks for a turn when more of the file is safe. It is false when all
// that was handed over is safe already.
func (t *Tailer) waitSafe(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.polled.safe = r.safe < r.offset
	return r.polled.safe
}

// hasMoved reports, once, that the journal is to be told of a new name.
func (t *Tailer) hasMoved(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved := r.moved
	r.moved = false
	return moved
}

func (t *Tailer) isGone(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.gone
}

// finish counts the readers of a run --once that have come to their end.
func (t *Tailer) finish(r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.finished {
		r.finished = true
		t.unread--
	}
	t.finishIfAll()
}

func (t *Tailer) finishIfAll() {
	if t.o.Once && t.scans > 0 && t.unread == 0 {
		select {
		case t.done <- struct{}{}:
		default:
		}
	}
}

// Resting reports that no reader has a turn or waits for one: all have come to
// their end, or wait for room.
func (t *Tailer) Resting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scans == 0 {
		return false
	}
	for _, in := range t.inputs {
		for _, r := range in.readers {
			if r.run != resting {
				return false
			}
		}
	}
	return true
}

// remember and skip hand things to the journal. That it can not write is for
// the journal to tell: it keeps what it was told, and delivery goes on.
func (t *Tailer) remember(f record.File, info record.FileInfo) { _ = t.o.Positions.Register(f, info) }

func (t *Tailer) skip(f record.File, span record.Span, mark record.Mark) {
	_ = t.o.Positions.Skip(f, span, mark)
}

func (t *Tailer) closeFiles() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.inputs {
		for _, r := range in.readers {
			if r.f != nil {
				r.f.Close()
				r.f = nil
			}
		}
	}
}

// tellRead logs why a file is not being read, once, and that it is again.
func (t *Tailer) tellRead(r *reader, err error) {
	t.mu.Lock()
	path := r.path
	r.shown.failed = ""
	if err != nil {
		r.shown.failed = err.Error()
	}
	t.mu.Unlock()
	t.tell(path, err)
}

// complaint is what was last told of a path.
type complaint struct {
	why  string
	scan uint64 // number of the scan it was told in
}

// forgive drops complaints about paths that are no longer there to complain
// about. The caller holds mu.
func (t *Tailer) forgive() {
	for path, c := range t.told {
		if c.scan < t.scanNo && t.byPath[path] == nil {
			delete(t.told, path)
		}
	}
}

// tell logs what is wrong with a path when that changes.
func (t *Tailer) tell(path string, err error) {
	t.mu.Lock()
	was := t.told[path].why
	now := ""
	if err != nil {
		now = err.Error()
		t.told[path] = complaint{now, t.scanNo}
	} else {
		delete(t.told, path)
	}
	t.mu.Unlock()
	if now == was {
		return
	}
	if err != nil {
		t.o.Logger.Warn("file is not being read, trying again", "file", path, "err", err, "fix", fixOf(err))
	} else {
		t.o.Logger.Info("file is being read again", "file", path)
	}
}

// How long a rescan waits: it alone must be enough, events or not.
const (
	rescanHealthy = 10 * time.Second
	rescanPolling = 2 * time.Second
)
