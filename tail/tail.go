// Package tail promises that every complete record of every file that matches
// is handed over, in whole records, through rotation, truncation and restart,
// and that a file is let go only when all of it is safe. Notifications of the
// kernel are hints; what is true is found by looking.
package tail

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kusto-agent/internal/index"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/recent"
	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tap"
	"kusto-agent/tail/internal/tracker"
)

// State is what is remembered of one generation of a file.
type State struct {
	File     record.File
	Info     record.Facts
	Position int64 // all before it is safe
	Mark     record.Mark
	Ahead    []record.Extent // safe or begun beyond the position, in order
}

// Positions remembers files and how far they are safe.
type Positions interface {
	Files(input string) iter.Seq[State]
	// Found and Forget do not wait until the journal has it; what is told later comes behind it.
	Found(f record.File, info record.Facts) error
	Register(f record.File, info record.Facts) error
	Skip(f record.File, span record.Span, mark record.Mark) error
	Forget(f record.File) error
}

// History remembers which inputs were read before, and what was given up.
type History interface {
	InputKnown(name string) bool
	InputSeen(name string) (known bool, err error)
	// Abandoned notes a range that was given up before it was read. It changes no position, and does not
	// wait for the disk.
	Abandoned(f record.File, span record.Span) error
}

// What records are read with.
type (
	Lease      = records.Lease
	Sink       = records.Sink
	Quarantine = records.Quarantine
	Books      = records.Books
	Contents   = records.Contents
)

// Metrics counts what happens to files.
type Metrics interface {
	Rotation(input string)
	Truncation(input string, unread int64)
	Abandoned(input string, bytes int64)
	Vanished(input string)
}

// Options are what New needs.
type Options struct {
	Inputs     []Input
	Positions  Positions
	History    History
	Sink       Sink
	Quarantine Quarantine
	Books      Books
	Metrics    Metrics
	Contents   Contents
	Logger     *slog.Logger
	Avoid      []string   // folders never read, under whatever name: the agent's own state
	Own        []*os.File // files never read: where the agent's own log goes
	OpenFiles  int        // descriptors to hold at most, if the limit of the process leaves as many
	Once       bool       // read what is there to its end, then return

	// Rescan is the longest time between two scans; 0: as long as events and
	// polling allow.
	Rescan time.Duration

	// Known is called, by one goroutine, with about how many bytes of memory are taken by
	// what is known of files, when that has changed by a MiB or more. Nil: nobody asks.
	Known func(bytes int64)
}

// Tailer reads the files of all inputs. Its methods are safe for concurrent
// use.
type Tailer struct {
	o       Options
	watch   *finder.Watcher
	find    *discovery
	taps    tap.Taps
	recent  recent.Ring // what was read last of all files
	notices *notices.Board
	ports   records.Ports
	size    func(int64) int64 // nil but in tests, see stat

	// mu guards what follows, but for channels and atomic values. The goroutine that discovers alone writes
	// scans.no, and reads it without it.
	mu sync.Mutex
	registry
	turns     turns
	looks     looks
	fds       descriptors
	scans     scans
	news      news
	surveys   surveys
	unpacking archive.Places[*reader]
	lates     []*generation // with what was read last before they were truncated, the oldest first
	reload    reload
	finished  chan struct{} // Once: every reader has come to its end, see noteEnd
}

// registry holds the inputs and their files.
type registry struct {
	configured atomic.Pointer[configured] // replaced only by the goroutine that discovers, which holds mu
	era        uint64                     // how often that was
	byName     map[string]*files          // of every input that there was
	byPath     *index.Groups[string, reader]
}

// configured are the inputs in force. It does not change.
type configured struct {
	inputs []*input
	former map[string]*input // by name: those that are no longer there
}

// inputs are the inputs in force. The caller must not change the list.
func (t *Tailer) inputs() []*input { return t.configured.Load().inputs }

// scans says which scan is under way, and which have ended.
type scans struct {
	no     uint64               // of the scan under way, or of the last one
	began  [mostBegan]time.Time // when the last scans began, by their numbers
	done   atomic.Uint64        // how many were completed; changed by the goroutine that discovers, which holds mu
	wanted chan struct{}        // a scan is wanted before the next periodic one
}

// New returns a tailer that has read what the journal remembers of its inputs. The error is one of
// the settings of an input. Run must be called.
func New(o Options) (*Tailer, error) {
	t := &Tailer{
		o:        o,
		registry: registry{byName: make(map[string]*files), byPath: newPaths()},
		turns:    turns{workers: workers{all: runtime.GOMAXPROCS(0)}},
		looks:    looks{queue: agenda.New(func(r *reader) *agenda.Slot { return &r.polled.Slot }), tick: make(chan struct{}, 1)},
		fds:      descriptors{most: allowed(o.OpenFiles)},
		scans:    scans{wanted: make(chan struct{}, 1)},
		news:     news{crowd: crowd},
		surveys:  surveys{wanted: make(chan struct{}, 1)},
		reload:   reload{changes: make(chan *Change), ended: make(chan struct{})},
		finished: make(chan struct{}, 1),
		notices:  notices.New(o.Logger),
	}
	t.ports = records.Ports{
		Sink: o.Sink, Quarantine: o.Quarantine, Books: o.Books, Contents: o.Contents, Logger: o.Logger,
		Stamp: record.BatchID(uuid.New()), Taps: &t.taps, Recent: &t.recent, Skip: t.skip,
	}
	t.configured.Store(new(configured))
	t.turns.work.L, t.turns.ended.L = &t.mu, &t.mu
	t.watch = finder.NewWatcher(listener{t}, o.Logger)
	t.find = &discovery{t: t, own: finder.NewOwn(o.Avoid, o.Own)}
	for _, i := range o.Inputs {
		in, err := newInput(i)
		if err != nil {
			return nil, err
		}
		t.find.remind(in)
		t.configured.Store(&configured{inputs: append(t.inputs(), in)})
		t.byName[in.Name] = in.files
		t.find.estimate()
		t.find.weigh()
	}
	t.watch.SetPause(lookEvery(t.inputs()))
	return t, nil
}

// Run reads until ctx ends; with Once, until every file was read to its end. Files
// that have no name any more by then cannot be found again: they are read to their
// end, unless drain ends before. When it returns nothing more is handed over.
func (t *Tailer) Run(ctx, drain context.Context) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer t.on(stopped{})
	defer t.taps.End()
	defer t.watch.Close()
	defer all.Wait()
	defer t.on(stopping{})
	defer cancel()
	// All of these are started here, ended by ctx or stopping, and awaited above.
	for range t.turns.workers.all {
		all.Go(t.workLoop)
	}
	all.Go(func() { t.relieve(ctx, &all) })
	all.Go(func() { t.pollLoop(ctx) })
	all.Go(func() { t.watch.Loop(ctx) })
	all.Go(func() { t.surveyLoop(ctx) })
	t.find.discover(ctx)
	close(t.reload.ended)
	if ctx.Err() != nil {
		t.drainDeleted(drain)
	}
}

// event is something that happens to files or to the tailer, or is asked about them: what a worker finds out in the
// middle of a turn, a scan of a single file, what the kernel, a clock or the journal tell, a stop.
type event interface {
	// happen changes the state of the tailer, or gives the answer in the event itself. The caller holds mu.
	happen(t *Tailer)
}

// on has an event happen. The caller does not hold mu.
func (t *Tailer) on(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.happen(t)
}

// stopping ends the workers after their turns.
type stopping struct{}

func (stopping) happen(t *Tailer) {
	t.turns.stopped = true
	t.turns.work.Broadcast()
}

// noteEnd tells discover that a run --once may have nothing left to do. The caller holds
// mu.
func (t *Tailer) noteEnd() {
	if t.o.Once && t.scans.done.Load() > 0 && !t.isBusy() {
		select {
		case t.finished <- struct{}{}:
		default:
		}
	}
}

// isBusy reports whether a run --once has something to read or to look through. The
// caller holds mu.
func (t *Tailer) isBusy() bool { return t.surveys.pending > 0 || t.turns.tracker.Unread() > 0 }

// Resting reports that no reader has a turn or waits for one: all are at the end of their
// files, or wait for room.
func (t *Tailer) Resting() bool {
	var ask restful
	t.on(&ask)
	return ask.is
}

type restful struct{ is bool }

func (e *restful) happen(t *Tailer) {
	if t.scans.done.Load() == 0 || t.surveys.pending > 0 {
		return
	}
	for _, in := range t.inputs() {
		for r := range in.readers.All() {
			if r.life.Turn() != tracker.Resting {
				return
			}
		}
	}
	e.is = true
}

// remember, rememberSoon, forget and skip hand things to the journal. That it cannot write is for the
// journal to tell: it keeps what it was told, and delivery goes on. remember and skip wait for the disk, and
// must not be called with mu held; the others only queue an entry, as lose does.
func (t *Tailer) remember(f record.File, info record.Facts) { _ = t.o.Positions.Register(f, info) }

func (t *Tailer) rememberSoon(f record.File, info record.Facts) { _ = t.o.Positions.Found(f, info) }

func (t *Tailer) forget(f record.File) { _ = t.o.Positions.Forget(f) }

func (t *Tailer) skip(f record.File, span record.Span, mark record.Mark) {
	_ = t.o.Positions.Skip(f, span, mark)
}

// lose counts and logs what is lost of a file because it was never read: its bytes from the offset to its size,
// but for ranges that need no reading (ahead) and for what was counted before (info.Lost). It notes in info that
// they were counted and told, which the caller gives to the journal; the history has the range. about is what the
// log says besides. It reports whether anything is lost.
func (t *Tailer) lose(f record.File, info *record.FileInfo, path string, offset, size int64, ahead []record.Extent, why string, about ...any) bool {
	from := max(offset, info.Lost)
	bytes := size - from
	for _, x := range ahead { // of what was begun, its batch tells
		bytes -= max(min(x.End, size)-max(x.Start, from), 0)
	}
	if bytes <= 0 {
		return false
	}
	t.o.Metrics.Abandoned(f.Input, bytes)
	_ = t.o.History.Abandoned(f, record.Span{Start: from, End: size})
	t.o.Logger.Error(why, append([]any{"input", f.Input, "file", path, "id", f.ID.String(), "offset", from, "bytes", bytes}, about...)...)
	info.Lost, info.Told = size, true
	return true
}

// stopped closes all files, when nothing works with them any more.
type stopped struct{}

func (stopped) happen(t *Tailer) {
	t.loseDeleted()
	for in := range t.everyInput {
		for n := range in.suspect {
			t.endSuspicion(in, n, nil)
		}
		for r := range in.readers.All() {
			t.shut(r)
			t.endUnpacking(r)
		}
	}
}

// About how many bytes of the heap a file takes, measured with 60,000 files of one line
// in one folder, with its place in the journal and in the indexes that find it: one that has a
// reader, and one that has none and is remembered.
const (
	bytesRead       = 430
	bytesRemembered = 300
)

// weighStep is the least change that is told.
const weighStep = 1 << 20

// estimate estimates how much memory the facts about files take. The caller holds mu.
func (d *discovery) estimate() {
	read, all := d.t.files(), 0
	for in := range d.t.everyInput {
		all += in.known.Len()
	}
	d.weight = int64(read)*bytesRead + int64(max(all-read, 0))*bytesRemembered
}

// weigh calls Known if the last estimate differs enough from what was told last.
func (d *discovery) weigh() {
	if change := d.weight - d.weighed; d.t.o.Known != nil && (change >= weighStep || change <= -weighStep) {
		d.weighed = d.weight
		d.t.o.Known(d.weight)
	}
}
